"""From the snapshot's tables of the cluster to the view's columns, one cluster's rows of each."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from featurestore.columnar import codes as codes_of
from featurestore.snapshot import Snapshot
from featurestore.snapshot import rows as rows_of
from pipeline.lookup import Numbered
from pipeline.records import Node, Taint
from pipeline.texts import Texts
from pipeline.texts import column as column_of
from rules.arrays import dictionary, encoded, floats, numbered, turned
from rules.functions import Floats, Rows
from rules.running import Busyness, Seen, units
from rules.standing import Standing, rows

_LABELS = msgspec.json.Decoder(dict[str, str])
_AMOUNTS = msgspec.json.Decoder(dict[str, float])
_TAINTS = msgspec.json.Decoder(tuple[Taint, ...])
_NODE: Final = (
    *("node", "node_type", "labels", "taints", "allocatable", "schedulable", "ready"),
    *("gpu_count", "gpu_model", "disk_type", "network_bytes_per_s"),
)
_OVER: Final = ("Succeeded", "Failed")


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


def node_names(table: pa.Table) -> Texts | None:
    """Return the names of the nodes as they lie in a published table, None where they are not in order there."""
    if table["node"].num_chunks != 1 or table["node"].null_count:
        return None
    names = table["node"].chunk(0)
    return Texts(names) if pc.all(pc.less(names[:-1], names[1:]), min_count=0).as_py() else None


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
    cores, memory = (floats(table[name]).tolist() for name in ("cpu_used_cores", "memory_used_bytes"))
    return dict(zip(table["node"].to_pylist(), zip(cores, memory, strict=True), strict=True))


def owned(table: pa.Table, labelled: Callable[[Mapping[str, str], str], str | None]) -> pa.Table:
    """Return placements, those without a function with the one that their labels say, in their namespace.

    The history knows pods by OpenWhisk's labels and by name; one's own label may be all that a pod carries yet.
    """
    nameless = pc.equal(pc.fill_null(table["function"].cast(pa.string()), ""), "")
    if not pc.any(nameless).as_py():
        return table
    said, codes = encoded(table["labels"])
    namespaces, where = encoded(table["namespace"])
    row = np.flatnonzero(nameless.to_numpy())
    carried, cell = np.unique(codes[row].astype(np.int64) * len(namespaces) + where[row], return_inverse=True)
    names = np.array(
        [
            labelled(_LABELS.decode(said[label] or "{}"), namespaces[namespace] or "") or ""
            for label, namespace in zip(*(each.tolist() for each in np.divmod(carried, len(namespaces))), strict=True)
        ],
        dtype=np.object_,
    )
    if not names.any():  # as of pods of no function at all: what is published stays as it lies
        return table
    found = np.full(len(table), "", dtype=np.object_)
    found[row] = names[cell]
    functions = pc.if_else(nameless, pa.array(found, pa.string()), table["function"].cast(pa.string()))
    return table.set_column(table.column_names.index("function"), "function", functions)


def placed(table: pa.Table, nodes: Mapping[str, int], functions: Mapping[str, int]) -> Seen:
    """Return the pods that the snapshot saw holding a node."""
    table = _holding(table)
    everyone = np.arange(len(table))
    requests = {
        "cpu": np.ceil(np.nan_to_num(floats(table["cpu_request_cores"])) * 1000.0 - 1e-6),
        "memory": np.ceil(np.nan_to_num(floats(table["memory_request_bytes"])) - 1e-6),
    }
    each = {name: (everyone, counted) for name, counted in requests.items()}
    return Seen(
        numbered(table["node"], nodes),
        numbered(table["function"], functions),
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
    phases, codes = encoded(table["phase"])
    over = np.array([phase in _OVER for phase in phases], dtype=np.bool_)[codes]
    return table.filter(pa.array(~over)) if over.any() else table  # what is not filtered is not copied


def standing(table: pa.Table, nodes: Mapping[str, int]) -> Standing:
    """Return what selectors see of the pods that `placed` counts; whom these shun themselves is not kept there."""
    table = _holding(table)
    said, codes = encoded(table["labels"])
    labels = [_LABELS.decode(each or "{}") for each in said]
    return rows(encoded(table["namespace"]), (labels, codes), numbered(table["node"], nodes))


def busyness(table: pa.Table, nodes: Mapping[str, int], functions: Mapping[str, int]) -> Busyness | None:
    """Sort the mean numbers of running activations by function and node, None where nothing was measured."""
    if not len(table):
        return None
    node, function = numbered(table["node"], nodes), numbered(table["function"], functions)
    known = np.flatnonzero((node >= 0) & (function >= 0))
    order = turned(known[np.lexsort((node[known], function[known]))], table)
    start = np.searchsorted(function[order], np.arange(len(functions) + 1))
    return Busyness(start, node[order], floats(table["running"])[order], floats(table["pods"])[order])


def unlearned(table: pa.Table, functions: Numbered) -> list[str]:
    """Return the functions of placements that are not among *functions*, each once."""
    placed = dictionary(table["function"])
    known = pc.is_in(placed.dictionary, value_set=column_of(functions.names)).to_numpy(zero_copy_only=False)
    there = np.zeros(len(known), dtype=np.bool_)
    there[placed.indices.to_numpy(zero_copy_only=False)] = True
    return [name for name in placed.dictionary.filter(pa.array(there & ~known)).to_pylist() if name]
