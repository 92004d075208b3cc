"""From the snapshot's Arrow tables to the view's columns, one cluster's rows of each."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from featurestore.columnar import codes as codes_of
from featurestore.snapshot import FUNCTIONS, Snapshot
from featurestore.snapshot import rows as rows_of
from pipeline.mangling import Index
from pipeline.records import Node, Taint, Workflow
from rules.bases import Bases, drawn
from rules.candidates import Ids
from rules.functions import (
    LEVELS,
    NEVER,
    RESOURCES,
    CompanyMedians,
    Floats,
    Functions,
    Latencies,
    Pairs,
    Rows,
    lay,
)  # fmt: skip
from rules.memo import Memo
from rules.nodes import Nodes
from rules.running import Busyness, Seen, units
from rules.standing import Standing, rows

_LABELS = msgspec.json.Decoder(dict[str, str])
_AMOUNTS = msgspec.json.Decoder(dict[str, float])
_TAINTS = msgspec.json.Decoder(tuple[Taint, ...])
_USABLE = ("observed", "predicted")
_NODE: Final = (
    *("node", "node_type", "labels", "taints", "allocatable", "schedulable", "ready"),
    *("gpu_count", "gpu_model", "disk_type", "network_bytes_per_s"),
)
_PART: Final = 250
_V = TypeVar("_V", bound=np.generic)


def of_cluster(snapshot: Snapshot, cluster: str) -> dict[str, pa.Table]:
    """Return every table's rows of *cluster*, without copying them where they stand together, as they are published.

    What is not copied stays in the snapshot's file, which all processes that answer map.
    """
    wanted = pa.array([cluster])
    return {name: _of(table, codes_of(table["cluster"], wanted) == 0) for name, table in snapshot.tables.items()}


def _of(table: pa.Table, mine: npt.NDArray[np.bool_]) -> pa.Table:
    count = int(np.count_nonzero(mine))
    first = int(np.argmax(mine)) if count else 0
    together = bool(mine[first : first + count].all())
    return table.slice(first, count) if together else table.filter(pa.array(mine))


def nodes(table: pa.Table) -> Iterator[Node]:
    """Yield nodes as the snapshot saw them, by name; addresses, conditions and capacity are not kept there."""
    # In the order of code points, as Python sorts texts; published tables are in it already.
    order = pc.sort_indices(table["node"]).to_numpy()
    ordered = table if np.array_equal(order, np.arange(len(table))) else table.take(order)
    return map(_node, rows_of(ordered, _NODE))


def _node(row: Mapping[str, Any]) -> Node:
    allocatable = _AMOUNTS.decode(row["allocatable"] or "{}")
    return Node(
        name=row["node"],
        uid="",
        node_type=row["node_type"] or "",
        labels=_LABELS.decode(row["labels"] or "{}"),
        taints=_TAINTS.decode(row["taints"] or "[]"),
        addresses={},
        conditions={},
        capacity=allocatable,
        allocatable=allocatable,
        schedulable=bool(row["schedulable"]),
        ready=bool(row["ready"]),
        gpu_count=row["gpu_count"] or 0,
        gpu_model=row["gpu_model"] or "",
        disk_type=row["disk_type"] or "",
        network_bytes_per_s=row["network_bytes_per_s"],
    )


def used(table: pa.Table) -> dict[str, tuple[float, float]]:
    """Return the cores and bytes in use by node name, NaN where not known."""
    cores, memory = (_numbers(table[name]).tolist() for name in ("cpu_used_cores", "memory_used_bytes"))
    return dict(zip(table["node"].to_pylist(), zip(cores, memory, strict=True), strict=True))


def owned(table: pa.Table, labelled: Callable[[Mapping[str, str], str], str | None]) -> pa.Table:
    """Return placements, those without a function with the one that their labels say, in their namespace.

    The history knows pods by OpenWhisk's labels and by name; one's own label may be all that a pod carries yet.
    """
    nameless = pc.equal(pc.fill_null(table["function"].cast(pa.string()), ""), "")
    if not pc.any(nameless).as_py():
        return table
    said, codes = _encoded(table["labels"])
    namespaces, where = _encoded(table["namespace"])
    row = np.flatnonzero(nameless.to_numpy())
    carried, cell = np.unique(codes[row].astype(np.int64) * len(namespaces) + where[row], return_inverse=True)
    names = np.array(
        [
            labelled(_LABELS.decode(said[label] or "{}"), namespaces[namespace] or "") or ""
            for label, namespace in zip(*(each.tolist() for each in np.divmod(carried, len(namespaces))), strict=True)
        ],
        dtype=np.object_,
    )
    found = np.full(len(table), "", dtype=np.object_)
    found[row] = names[cell]
    functions = pc.if_else(nameless, pa.array(found, pa.string()), table["function"].cast(pa.string()))
    return table.set_column(table.column_names.index("function"), "function", functions)


def placed(table: pa.Table, nodes: Mapping[str, int], functions: Mapping[str, int]) -> Seen:
    """Return the pods that the snapshot saw holding a node."""
    table = _holding(table)
    everyone = np.arange(len(table))
    requests = {
        "cpu": np.ceil(np.nan_to_num(_numbers(table["cpu_request_cores"])) * 1000.0 - 1e-6),
        "memory": np.ceil(np.nan_to_num(_numbers(table["memory_request_bytes"])) - 1e-6),
    }
    each = {name: (everyone, counted) for name, counted in requests.items()}
    return Seen(
        _codes(table["node"], nodes),
        _codes(table["function"], functions),
        each | other_requests(table["other_requests"]),
        np.zeros(len(table), dtype=np.bool_),
    )


def other_requests(column: pa.ChunkedArray) -> dict[str, tuple[Rows, Floats]]:
    """Return by resource which rows request it beside cpu and memory, and how much, in `units`."""
    encoded = pc.fill_null(column, "").combine_chunks().dictionary_encode()
    of = encoded.indices.to_numpy(zero_copy_only=False)
    stated = [_AMOUNTS.decode(each or "{}") for each in encoded.dictionary.to_pylist()]
    found = {}
    for name in sorted({name for each in stated for name in each}):
        asked = np.array([units(name, each.get(name, 0.0)) for each in stated])[of]
        rows = np.flatnonzero(asked)
        found[name] = (rows, asked[rows])
    return found


def _holding(table: pa.Table) -> pa.Table:
    phase = pc.fill_null(table["phase"].cast(pa.string()), "")
    return table.filter(pc.invert(pc.is_in(phase, pa.array(["Succeeded", "Failed"]))))


def standing(table: pa.Table, nodes: Mapping[str, int]) -> Standing:
    """Return what selectors see of the pods that `placed` counts; whom these shun themselves is not kept there."""
    table = _holding(table)
    said, codes = _encoded(table["labels"])
    labels = [_LABELS.decode(each or "{}") for each in said]
    return rows(_encoded(table["namespace"]), (labels, codes), _codes(table["node"], nodes))


def busyness(table: pa.Table, nodes: Mapping[str, int], functions: Mapping[str, int]) -> Busyness | None:
    """Sort the mean numbers of running activations by function and node, None where nothing was measured."""
    if not len(table):
        return None
    node, function = _codes(table["node"], nodes), _codes(table["function"], functions)
    known = np.flatnonzero((node >= 0) & (function >= 0))
    order = _turned(known[np.lexsort((node[known], function[known]))], table)
    start = np.searchsorted(function[order], np.arange(len(functions) + 1))
    return Busyness(start, node[order], _numbers(table["running"])[order], _numbers(table["pods"])[order])


def placed_functions(table: pa.Table) -> list[str]:
    """Return the functions of placements, each once."""
    names, codes = _encoded(table["function"])
    return [name for code in np.unique(codes).tolist() if (name := names[code])]


def function_names(tables: Mapping[str, pa.Table]) -> set[str]:
    """Return every function that any table speaks of."""
    every = pa.chunked_array([pc.unique(tables[table][column].cast(pa.string())) for table, column in FUNCTIONS])
    names = pc.unique(every)
    parts = (names.slice(first, _PART) for first in range(0, len(names), _PART))
    return {name for part in parts for name in part.to_pylist() if name}


def functions(table: pa.Table, names: set[str], workflows: Iterable[Workflow]) -> Functions:
    """Lay out all *names*; where a function has rows by node type, the row for all types counts, else the first."""
    ordered = tuple(sorted(names))
    index = {name: number for number, name in enumerate(ordered)}
    size = len(ordered)
    function, kind = _codes(table["function"], index), _ranks(table["node_type"])
    order = np.lexsort((kind, function))
    first = order[np.flatnonzero(np.diff(function[order], prepend=-2))]
    first = first[function[first] >= 0]
    at = function[first]
    levels = np.full((size, len(RESOURCES)), -1, dtype=np.int8)
    for column, resource in enumerate(RESOURCES):
        said = {name: number for number, name in enumerate(LEVELS)}
        levels[at, column] = _codes(table[resource], said)[first]
    dominant, source = ([""] * size for _ in range(2))
    for texts, column_name in ((dominant, "dominant"), (source, "source")):
        words, codes = _encoded(table[column_name])
        for number, code in zip(at.tolist(), codes[first].tolist(), strict=True):
            texts[number] = words[code]
    runs, p50 = np.zeros(size, dtype=np.int64), np.full(size, np.nan)
    runs[at], p50[at] = _counts(table["activations"])[first], _numbers(table["p50_ms"])[first]
    return lay(ordered, Index(ordered), levels, tuple(dominant), tuple(source), runs, p50, workflows)


def _ranks(column: pa.ChunkedArray) -> Ids:
    """Return a number for each text of *column* that sorts as the texts do; null is ""."""
    words, codes = _encoded(column)
    rank = np.empty(len(words), dtype=np.int32)
    rank[sorted(range(len(words)), key=words.__getitem__)] = np.arange(len(words), dtype=np.int32)
    return _pick(rank, codes)


def latencies(table: pa.Table, functions: Mapping[str, int], nodes: Nodes) -> Latencies:
    """Sort the past medians by function; a node that is gone has no row."""
    function = _codes(table["function"], functions)
    named = pc.not_equal(pc.fill_null(table["node"].cast(pa.string()), ""), "").to_numpy(zero_copy_only=False)
    node = _codes(table["node"], nodes.index)
    types = {name: number for number, name in enumerate(nodes.types)}
    keep = np.flatnonzero(~named.astype(np.bool_) | (node >= 0))
    order = _turned(keep[np.argsort(function[keep], kind="stable")], table)
    return Latencies(
        start=np.searchsorted(function[order], np.arange(len(functions) + 1)),
        node=node[order],
        type_of=_codes(table["node_type"], types)[order],
        runs=_counts(table["activations"])[order],
        p50=_numbers(table["p50_ms"])[order],
    )


def bases(table: pa.Table, lived: Latencies, functions: Mapping[str, int], nodes: Nodes) -> Bases:
    """Lay out the times alone, weighed by the runs that *lived* counts on each type; one that is gone has no row."""
    kinds = len(nodes.types)
    function = _codes(table["function"], functions)
    kind = _codes(table["node_type"], {name: number for number, name in enumerate(nodes.types)})
    alone = _numbers(table["base_ms"])
    keep = np.flatnonzero((function >= 0) & (kind >= 0) & (alone > 0))
    order = keep[np.argsort(function[keep], kind="stable")]
    function, kind = function[order], kind[order]
    of = np.repeat(np.arange(len(lived.start) - 1), np.diff(lived.start))
    whole = np.flatnonzero((lived.node < 0) & (lived.type_of >= 0))
    cells, row = np.unique(of[whole] * kinds + lived.type_of[whole], return_inverse=True)
    counts = np.append(np.bincount(row, lived.runs[whole], len(cells)), 0.0)
    wanted = function.astype(np.int64) * kinds + kind
    found = np.searchsorted(cells, wanted)
    runs = np.where(np.append(cells, -1)[found] == wanted, counts[found], 0.0)
    return drawn(function, kind, alone[order], runs, len(functions), kinds)


def company(table: pa.Table, functions: Mapping[str, int], nodes: Nodes) -> CompanyMedians:
    """Sort the medians by company by function; a node or node type that is gone has no row."""
    function = _codes(table["function"], functions)
    named = pc.not_equal(pc.fill_null(table["node"].cast(pa.string()), ""), "").to_numpy(zero_copy_only=False)
    node = _codes(table["node"], nodes.index)
    kind = _codes(table["node_type"], {name: number for number, name in enumerate(nodes.types)})
    keep = np.flatnonzero(np.where(named.astype(np.bool_), node >= 0, kind >= 0) & (function >= 0))
    order = _turned(keep[np.argsort(function[keep], kind="stable")], table)
    return CompanyMedians(
        start=np.searchsorted(function[order], np.arange(len(functions) + 1)),
        node=node[order],
        type_of=kind[order],
        company=_counts(table["company"])[order],
        p50=_numbers(table["p50_ms"])[order],
    )


def pairs(table: pa.Table, functions: Mapping[str, int]) -> Pairs:
    """Sort the learned pairs by victim, and index them by aggressor; no node's type is known yet."""
    victim, aggressor = _codes(table["victim"], functions), _codes(table["aggressor"], functions)
    order = _turned(np.lexsort((aggressor, victim)), table)
    victim, aggressor = victim[order], aggressor[order]
    type_names, type_name = _interned(table["node_type"])
    statuses, status_of = _interned(table["status"])
    slowdown = _numbers(table["slowdown"])[order]
    probability = _numbers(table["probability"])[order]
    usable = np.array([status in _USABLE for status in statuses], dtype=np.bool_)
    observed = np.array([status == "observed" for status in statuses], dtype=np.bool_)
    status_of, type_name = status_of[order], type_name[order]
    by_aggressor = np.argsort(aggressor, kind="stable")
    every = np.arange(len(functions) + 1)
    return Pairs(
        names=tuple(functions),
        type_names=type_names,
        victim=victim,
        aggressor=aggressor,
        type_of=np.broadcast_to(np.int32(-2), victim.shape),
        type_name=type_name,
        status=statuses,
        status_of=status_of,
        slowdown=slowdown,
        low=_numbers(table["low"])[order],
        high=_numbers(table["high"])[order],
        probability=probability,
        overlaps=_numbers(table["effective_overlaps"])[order],
        window_start=_counts(table["window_start"], NEVER)[order],
        window_end=_counts(table["window_end"], NEVER)[order],
        known=_pick(usable, status_of) & np.isfinite(slowdown) & np.isfinite(probability),
        observed=_pick(observed, status_of),
        victim_start=np.searchsorted(victim, every),
        aggressor_start=np.searchsorted(aggressor[by_aggressor], every),
        by_aggressor=by_aggressor.astype(np.int32),
    )


def typed(pairs: Pairs, types: Sequence[str]) -> Pairs:
    """Return *pairs* with the numbers that their node types have among *types*."""
    number = {name: code for code, name in enumerate(types)}
    codes = np.array([-1 if name == "" else number.get(name, -2) for name in pairs.type_names], dtype=np.int32)
    return replace(pairs, type_of=_pick(codes, pairs.type_name), memo=Memo())


def _turned(order: Rows, table: pa.Table) -> Rows | slice:
    """Return what puts columns of *table* in *order*: none where they stand so already, as published.

    What lies in the snapshot's file is then not copied.
    """
    return slice(None) if np.array_equal(order, np.arange(len(table))) else order


def _pick(values: npt.NDArray[_V], codes: Ids) -> npt.NDArray[_V]:
    if len(values) == 1:  # as of pairs that speak for all node types: one value takes no room
        return np.broadcast_to(values[0], codes.shape)
    return values[codes] if len(values) else np.zeros(len(codes), dtype=values.dtype)


def _encoded(column: pa.ChunkedArray) -> tuple[list[str], Ids]:
    """Return the texts of *column*, each once, and the code of each row; null is "".

    The codes of a dictionary column without nulls are read where they lie; some of its texts may then have no row.
    """
    whole = _dictionary(column)
    return whole.dictionary.to_pylist(), whole.indices.to_numpy(zero_copy_only=False)


def _interned(column: pa.ChunkedArray) -> tuple[tuple[str, ...], Ids]:
    names, codes = _encoded(column)
    return tuple(names), codes


def _codes(column: pa.ChunkedArray, index: Mapping[str, int]) -> Ids:
    """Return for each row the number that *index*, which counts its texts from 0, gives to its text, -1 for none.

    Where the dictionary of *column* begins with just these texts, as functions are published, the codes are read
    where they lie.
    """
    whole = _dictionary(column)
    found = pc.fill_null(pc.index_in(whole.dictionary, value_set=pa.array(list(index), pa.string())), -1)
    numbers: Ids = found.to_numpy(zero_copy_only=False)
    codes: Ids = whole.indices.to_numpy(zero_copy_only=False)
    first = np.count_nonzero(numbers >= 0)
    same = np.array_equal(numbers[:first], np.arange(first)) and codes.max(initial=-1) < first
    return codes if same else numbers[codes]


def _dictionary(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return the texts of *column*, null as "", each once, with the code of each row; as it lies where it does."""
    whole = _whole(column)
    if pa.types.is_dictionary(whole.type) and not whole.null_count:
        return whole
    return pc.fill_null(whole.cast(pa.string()), "").dictionary_encode()


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """Return *column* in one piece, as it lies where it does."""
    if column.num_chunks == 1:
        return column.chunk(0)
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.unify_dictionaries().chunks) if whole.num_chunks else pa.array([], column.type)
    return whole


def _numbers(column: pa.ChunkedArray) -> Floats:
    """Return *column* as floats; null is NaN."""
    numbers: Floats = _plain(column.cast(pa.float64()))
    return numbers


def _counts(column: pa.ChunkedArray, missing: int = 0) -> Rows:
    """Return *column* (integers or times) as integers; null is *missing*."""
    whole = column.cast(pa.int64())
    counts: Rows = _plain(pc.fill_null(whole, missing) if whole.null_count else whole)
    return counts


def _plain(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return the numbers of *column*, read only; where they lie in one piece without nulls, as they lie there."""
    whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    numbers: npt.NDArray[Any] = whole.to_numpy(zero_copy_only=False)
    return numbers
