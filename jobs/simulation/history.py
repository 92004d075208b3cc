"""From two windows of a history to a `World`: learned from the first, replayed is the second.

Advice is judged by slowdowns that it was not made from: those of a given truth, else those learned from the replayed
part alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from featurestore.answers import HOUR
from featurestore.columnar import codes, distinct, floats
from featurestore.engines.candidate import Learned
from featurestore.exposure.sweep import Exposure, sweep
from featurestore.replay.kernel import Floats, Ints, Load
from featurestore.replay.naive import naive_pairs
from featurestore.snapshot import TABLES, Snapshot
from jobs.simulation.pods import Lives, Runs, lives, pod_names, runs
from jobs.simulation.policies.predecessor import THRESHOLD
from jobs.simulation.world import Nodes, Pods, World, by_victim, hardware
from pipeline.errors import BadInput
from pipeline.records import Window

_AMOUNTS: Final = msgspec.json.Decoder(dict[str, float])
_SECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One window of a cluster's history: the copied *tables* of the store, and what was learned of them."""

    window: Window
    tables: Mapping[str, pa.Table]
    learned: Learned


def world(cluster: str, earlier: Part, later: Part, truth: pa.Table | None = None) -> World:
    """Lay *later* out to be replayed, with what is known from *earlier*.

    *truth* has victim, aggressor and slowdown (fraction); None: what was learned of *later*. Raises `BadInput` where
    nothing can be replayed.
    """
    nodes = _nodes(later)
    node_names = pa.array(nodes["node"].to_pylist(), pa.string())
    functions = distinct(*(part.learned.used["function"] for part in (earlier, later)),
                         *(part.tables["placements"]["function"] for part in (earlier, later)))  # fmt: skip
    names = pod_names(
        *(table for part in (earlier, later) for table in (part.learned.used, part.tables["placements"]))
    )
    run, before = (runs(part.learned.used, functions, node_names, names) for part in (later, earlier))
    if not len(run.start):
        raise BadInput(
            f"cluster {cluster!r}: no run from {later.window.since:%Y-%m-%d %H:%M} UTC on has a certain node"
        )
    there = lives(later.tables["placements"], run, functions, node_names, names)
    past = lives(earlier.tables["placements"], before, functions, node_names, names)
    size = len(functions)
    slowdowns = by_victim(*_slowdowns(later.learned.tables["pairs"] if truth is None else truth, functions), size)
    types = tuple(dict.fromkeys(nodes["node_type"].to_pylist())) or ("",)
    type_of = np.array([types.index(each) for each in nodes["node_type"].to_pylist()], np.int64)
    names_of = tuple(functions.to_pylist())
    apart = _apart(run, slowdowns, size)
    speed = hardware(run.function, type_of[run.node], apart, (size, len(types)))
    origin = _micros(later.window.since)
    length = (max(_micros(later.window.until), int(run.end.max())) - origin) / _SECOND
    laid = _laid(nodes)
    pods, kept = _pods(there, origin, length, laid)
    cpu, memory = _appetites(later.learned.tables["functions"], functions)
    return World(
        cluster=cluster,
        since=later.window.since,
        length=length,
        functions=names_of,
        nodes=laid,
        pods=pods,
        load=Load(
            function=run.function,
            pod=kept[there.served],
            arrival=(run.start - origin) / _SECOND,
            work=apart / speed[run.function, type_of[run.node]],
            owner=pods.function,
            node_type=type_of,
            speed=speed,
            first=slowdowns[0],
            aggressor=slowdowns[1],
            slowdown=slowdowns[2],
            cpu=cpu,
            memory=memory,
        ),
        known=_known(cluster, earlier, nodes, _busyness(past, before, earlier.window, functions, node_names)),
        naive=naive_pairs(
            _exposure(before, size),
            before.function,
            (before.end - before.start) / _SECOND,
            size,
            THRESHOLD,
        ),
        told=truth is not None,
    )


def _nodes(part: Part) -> pa.Table:
    """Return the nodes as they were last, and behind them those that only runs and pods speak of, without amounts."""
    specs = part.tables["nodes"]
    latest = {row["node"]: row for row in specs.sort_by("valid_from").to_pylist()}
    named = distinct(specs["node"], part.tables["placements"]["node"], part.learned.used["node"]).to_pylist()
    kinds = {row["node"]: row["node_type"] for row in _imported_types(part.tables["activations"])}
    unknown = {"ready": not latest, "schedulable": True, "labels": "{}", "taints": "[]", "allocatable": "{}"}
    rows = [latest.get(name, {"node": name, "node_type": kinds.get(name, ""), **unknown}) for name in named]
    schema = TABLES["nodes"]
    return pa.Table.from_pylist([{field: row.get(field) for field in schema.names} for row in rows], schema)


def _imported_types(activations: pa.Table) -> list[dict[str, Any]]:
    stated = activations.select(["node", "node_type"]).filter(pc.is_valid(activations["node_type"]))
    plain = stated.cast(pa.schema([("node", pa.string()), ("node_type", pa.string())]))
    found: list[dict[str, Any]] = plain.group_by(["node", "node_type"]).aggregate([]).to_pylist()
    return found


def _laid(nodes: pa.Table) -> Nodes:
    amounts = [_AMOUNTS.decode(text or "{}") for text in nodes["allocatable"].to_pylist()]
    allocatable = np.array([[each.get(name, np.inf) for name in ("cpu", "memory", "pods")] for each in amounts])
    usable = pc.and_(pc.fill_null(nodes["ready"], True), pc.fill_null(nodes["schedulable"], True))
    return Nodes(tuple(nodes["node"].to_pylist()), allocatable.reshape(-1, 3), np.array(usable.to_pylist(), np.bool_))


def _pods(there: Lives, origin: int, length: float, nodes: Nodes) -> tuple[Pods, Ints]:
    """Return the pods that stood somewhere in the replayed time, by their coming, and the number of each of *there*.

    What no node is known to have cannot be requested of it.
    """
    came = np.maximum(there.started - origin, 0) / _SECOND
    went = np.where(there.ended < _FAR, (there.ended - origin) / _SECOND, np.inf)
    served = np.zeros(len(came), np.bool_)
    served[there.served] = True
    stood = (there.node >= 0) & ((went > came) | served) & (came <= length)
    order = np.flatnonzero(stood)[np.lexsort((np.arange(len(came))[stood], there.started[stood]))]
    number: Ints = np.full(len(came), -1, np.int64)
    number[order] = np.arange(len(order))
    asked = np.where(np.isfinite(nodes.allocatable[:, :2]).any(axis=0), there.requests[order], 0.0)
    return Pods(
        names=tuple(there.names[row] for row in order.tolist()),
        function=there.function[order],
        node=there.node[order],
        came=came[order],
        went=np.maximum(went[order], came[order] + 1e-6),
        requests=np.column_stack((asked, np.ones(len(order)))),
    ), number


_FAR: Final = int(np.iinfo(np.int64).max) // 2


def _slowdowns(pairs: pa.Table, functions: pa.Array) -> tuple[Ints, Ints, Floats]:
    """Return victims, aggressors and the slowdowns to be expected; learned ones by their chance."""
    if "probability" in pairs.column_names:
        pairs = pairs.filter(pc.equal(pairs["node_type"].cast(pa.string()), ""))
        status = pairs["status"].cast(pa.string())
        pairs = pairs.filter(pc.or_(pc.equal(status, "observed"), pc.equal(status, "predicted")))
        expected = floats(pairs["slowdown"]) * floats(pairs["probability"])
    else:
        expected = floats(pairs["slowdown"])
    victim, aggressor = (codes(pairs[name], functions).astype(np.int64) for name in ("victim", "aggressor"))
    known = (victim >= 0) & (aggressor >= 0)
    return victim[known], aggressor[known], expected[known]


def _exposure(run: Runs, functions: int) -> Exposure:
    return sweep(run.node.astype(np.int32), run.start, run.end, run.function.astype(np.int32), functions=functions)


def _apart(run: Runs, slowdowns: tuple[Ints, Ints, Floats], functions: int) -> Floats:
    """Return what each run would have taken there without company: its time less what its company explains."""
    matrix = sparse.csr_matrix((slowdowns[2], slowdowns[1], slowdowns[0]), shape=(functions, functions))
    met = _exposure(run, functions)
    victim = np.repeat(run.function[met.rows], np.diff(met.indptr))
    added = np.asarray(matrix[victim, met.indices]).ravel() * met.values if len(met.values) else met.values
    slow = np.ones(len(run.start))
    row = np.repeat(met.rows, np.diff(met.indptr))
    slow += np.bincount(row, added, len(slow))
    apart: Floats = run.execution / slow
    return apart


def _appetites(table: pa.Table, functions: pa.Array) -> tuple[Floats, Floats]:
    """Return the cores that a run and the bytes that a pod of each function uses, 0 where it is not known."""
    general = table.filter(pc.equal(table["node_type"].cast(pa.string()), ""))
    row = codes(general["function"], functions)
    found = np.zeros((2, len(functions)))
    for at, name in enumerate(("cpu_cores", "memory_bytes")):
        found[at, row[row >= 0]] = np.nan_to_num(floats(general[name]))[row >= 0]
    return found[0], found[1]


def _known(cluster: str, part: Part, nodes: pa.Table, busyness: pa.Table) -> Snapshot:
    """Return the snapshot that would have been published after *part*, with the nodes as they are."""
    given = {**part.learned.details, **part.learned.tables, "nodes": nodes, "workflows": part.tables["workflows"]}
    given["busyness"] = busyness
    tables = {}
    for name, schema in TABLES.items():
        rows = given.get(name)
        if rows is None:
            tables[name] = schema.empty_table()
            continue
        columns = {
            field: pa.repeat(pa.scalar(cluster), rows.num_rows) if field == "cluster" else rows[field]
            for field in schema.names
        }
        tables[name] = pa.table(columns).cast(schema)
    return Snapshot("replayed", part.window.until, (cluster,), {}, {}, tables)


def _busyness(past: Lives, before: Runs, window: Window, functions: pa.Array, nodes: pa.Array) -> pa.Table:
    """Return what ran at once in the last hour of *window*, and in how many pods, unlisted ones among them."""
    until = _micros(window.until)
    since = max(_micros(window.since), until - HOUR)
    cells, sums = len(functions) * len(nodes), []
    for of, node, start, end in (
        (before.function, before.node, before.start, before.end),
        (past.function, past.node, past.started, past.ended),
    ):
        lasted = np.minimum(end, until) - np.maximum(start, since)
        own = (of >= 0) & (node >= 0) & (lasted > 0)
        sums.append(np.bincount(of[own] * len(nodes) + node[own], lasted[own], cells) / HOUR)
    ran = np.flatnonzero(sums[0])
    function, node = np.divmod(ran, len(nodes))
    return pa.table(
        {
            "node": nodes.take(node),
            "function": functions.take(function),
            "running": sums[0][ran],
            "pods": sums[1][ran],
        }
    )


def _micros(at: datetime) -> int:
    return round(at.timestamp() * _SECOND)
