"""From the snapshot's Arrow tables to the view's columns, one cluster's rows of each."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from featurestore.snapshot import Snapshot
from pipeline.mangling import Index, mangled
from pipeline.records import Node, Taint, Workflow
from rules.candidates import Ids
from rules.functions import (
    HIGH,
    LEVELS,
    LOW,
    MEDIUM,
    NEVER,
    RESOURCES,
    Floats,
    Functions,
    Latencies,
    Pairs,
    Rows,
    action_of,
)  # fmt: skip
from rules.nodes import Nodes
from rules.running import Seen

_LABELS = msgspec.json.Decoder(dict[str, str])
_AMOUNTS = msgspec.json.Decoder(dict[str, float])
_TAINTS = msgspec.json.Decoder(tuple[Taint, ...])
_IMPORTANCE = {"high": HIGH, "medium": MEDIUM, "low": LOW}
_USABLE = ("observed", "predicted")


def importance(level: str) -> int:
    """Return 3, 2 or 1 for high, medium or low in any case; absent or unknown is medium."""
    return _IMPORTANCE.get(level.lower(), MEDIUM)


def of_cluster(snapshot: Snapshot, cluster: str) -> dict[str, pa.Table]:
    """Return every table's rows of *cluster*."""
    found = {}
    for name, table in snapshot.tables.items():
        column = table["cluster"].cast(pa.string())
        found[name] = table.filter(pc.equal(column, cluster)) if len(table) else table
    return found


def nodes(table: pa.Table) -> list[Node]:
    """Read nodes as the snapshot saw them; addresses, conditions and capacity are not kept there."""
    read = []
    for row in table.to_pylist():
        allocatable = _AMOUNTS.decode(row["allocatable"] or "{}")
        read.append(
            Node(
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
        )
    return read


def used(table: pa.Table) -> dict[str, tuple[float, float]]:
    """Return the cores and bytes in use by node name, NaN where not known."""
    columns = (table[name].to_pylist() for name in ("node", "cpu_used_cores", "memory_used_bytes"))
    return {
        node: (np.nan if cpu is None else cpu, np.nan if memory is None else memory)
        for node, cpu, memory in zip(*columns, strict=True)
    }


def placed(table: pa.Table) -> Seen:
    """Return the pods that the snapshot saw holding a node; their extended resources are not kept there."""
    phase = pc.fill_null(table["phase"].cast(pa.string()), "")
    table = table.filter(pc.invert(pc.is_in(phase, pa.array(["Succeeded", "Failed"]))))
    everyone = range(len(table))
    return Seen(
        nodes=[node or "" for node in table["node"].to_pylist()],
        functions=[function or "" for function in table["function"].to_pylist()],
        requests={
            "cpu": (everyone, [amount or 0.0 for amount in table["cpu_request_cores"].to_pylist()]),
            "memory": (everyone, [amount or 0.0 for amount in table["memory_request_bytes"].to_pylist()]),
        },
    )


def busyness(table: pa.Table) -> dict[tuple[str, str], float] | None:
    """Return the mean number of running activations by (node, function), None where nothing was measured."""
    if not len(table):
        return None
    columns = (table[name].to_pylist() for name in ("node", "function", "running"))
    return {(node, function): running for node, function, running in zip(*columns, strict=True)}


def function_names(tables: Mapping[str, pa.Table]) -> set[str]:
    """Return every function that any table speaks of."""
    places = (
        ("functions", "function"), ("pairs", "victim"), ("pairs", "aggressor"), ("placements", "function"),
        ("busyness", "function"), ("latencies", "function"),
    )  # fmt: skip
    return {name for table, column in places for name in pc.unique(tables[table][column]).to_pylist() if name}


def functions(table: pa.Table, names: set[str], workflows: Mapping[tuple[str, str], Workflow]) -> Functions:
    """Lay out all *names*; where a function has rows by node type, the row for all types counts, else the first."""
    ordered = tuple(sorted(names))
    index = {name: number for number, name in enumerate(ordered)}
    size = len(ordered)
    levels = np.full((size, len(RESOURCES)), -1, dtype=np.int8)
    dominant, source = [""] * size, [""] * size
    runs, p50 = np.zeros(size, dtype=np.int64), np.full(size, np.nan)
    done: set[int] = set()
    rows = table.select(
        ["function", "node_type", "dominant", "source", "activations", "p50_ms", *RESOURCES]
    ).to_pylist()
    for row in sorted(rows, key=lambda each: (each["function"], each["node_type"] or "")):
        number = index[row["function"]]
        if number in done:
            continue
        done.add(number)
        levels[number] = [LEVELS.index(row[name]) if row[name] in LEVELS else -1 for name in RESOURCES]
        dominant[number], source[number] = row["dominant"] or "", row["source"] or ""
        runs[number] = row["activations"] or 0
        p50[number] = np.nan if row["p50_ms"] is None else row["p50_ms"]
    actions: dict[str, list[int]] = {}
    bare: dict[str, list[int]] = {}
    for number, name in enumerate(ordered):
        actions.setdefault(action_of(name), []).append(number)
        if "/" not in name:
            bare.setdefault(mangled(name), []).append(number)
    weight, strict = np.full(size, MEDIUM, dtype=np.int8), np.zeros(size, dtype=np.bool_)
    for workflow in workflows.values():
        for action in workflow.actions:
            numbers = actions.get(action_of(action.name), [])
            if len(numbers) == 1:  # two functions of one action name: which is meant is not guessed
                level = importance(action.importance)
                weight[numbers[0]] = level
                strict[numbers[0]] = level == HIGH and action.optimization_goal.lower() == "performance"
    return Functions(
        names=ordered,
        index=MappingProxyType(index),
        mangled=Index(ordered),
        actions=MappingProxyType({action: tuple(numbers) for action, numbers in actions.items()}),
        bare=MappingProxyType({spoken: tuple(numbers) for spoken, numbers in bare.items()}),
        levels=levels,
        dominant=tuple(dominant),
        source=tuple(source),
        runs=runs,
        p50=p50,
        importance=weight,
        strict=strict,
    )


def latencies(table: pa.Table, functions: Mapping[str, int], nodes: Nodes) -> Latencies:
    """Sort the past medians by function; a node that is gone has no row."""
    function = _codes(table["function"], functions)
    named = pc.not_equal(pc.fill_null(table["node"].cast(pa.string()), ""), "").to_numpy(zero_copy_only=False)
    node = _codes(table["node"], nodes.index)
    types = {name: number for number, name in enumerate(nodes.types)}
    keep = np.flatnonzero(~named.astype(np.bool_) | (node >= 0))
    order = keep[np.argsort(function[keep], kind="stable")]
    return Latencies(
        start=np.searchsorted(function[order], np.arange(len(functions) + 1)),
        node=node[order],
        type_of=_codes(table["node_type"], types)[order],
        runs=_counts(table["activations"])[order],
        p50=_numbers(table["p50_ms"])[order],
    )


def pairs(table: pa.Table, functions: Mapping[str, int], types: Sequence[str]) -> Pairs:
    """Sort the learned pairs by victim, and index them by aggressor."""
    victim, aggressor = _codes(table["victim"], functions), _codes(table["aggressor"], functions)
    order = np.lexsort((aggressor, victim))
    victim, aggressor = victim[order], aggressor[order]
    type_names, type_name = _interned(table["node_type"])
    statuses, status_of = _interned(table["status"])
    number = {name: code for code, name in enumerate(types)}
    codes = np.array([-1 if name == "" else number.get(name, -2) for name in type_names], dtype=np.int32)
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
        type_of=codes[type_name] if len(codes) else type_name,
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
        by_aggressor=by_aggressor,
    )


def _pick(flags: npt.NDArray[np.bool_], codes: Ids) -> npt.NDArray[np.bool_]:
    return flags[codes] if len(flags) else np.zeros(len(codes), dtype=np.bool_)


def _encoded(column: pa.ChunkedArray) -> tuple[list[str], Ids]:
    """Return the distinct texts of *column* and the code of each row; null is ""."""
    encoded = pc.fill_null(column.cast(pa.string()), "").dictionary_encode().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = pa.concat_arrays(encoded.chunks) if encoded.num_chunks else pa.array([], encoded.type)
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int32)


def _interned(column: pa.ChunkedArray) -> tuple[tuple[str, ...], Ids]:
    names, codes = _encoded(column)
    return tuple(names), codes


def _codes(column: pa.ChunkedArray, index: Mapping[str, int]) -> Ids:
    """Return for each row the number that *index* gives to its text, -1 for none."""
    names, codes = _encoded(column)
    numbers = np.array([index.get(name, -1) for name in names], dtype=np.int32)
    return numbers[codes] if len(numbers) else codes


def _numbers(column: pa.ChunkedArray) -> Floats:
    """Return *column* as floats; null is NaN."""
    numbers: Floats = column.cast(pa.float64()).to_numpy()
    return numbers


def _counts(column: pa.ChunkedArray, missing: int = 0) -> Rows:
    """Return *column* (integers or times) as integers; null is *missing*."""
    counts: Rows = pc.fill_null(column.cast(pa.int64()), missing).to_numpy()
    return counts
