"""What runs in the workers: some functions, nodes or victims, or a block of days at a time, as parcels of bytes.

It knows the kernels and nothing of Spark. What is not rows goes to the driver pickled, as Spark itself
sends what it runs.
"""

import os
import pickle
import resource
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar
from zipimport import zipimporter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from threadpoolctl import threadpool_limits

from featurestore import answers, details, node_kernels, profiles, unmeasured
from featurestore.attribution.attribute import attribute
from featurestore.chronological import by_start
from featurestore.columnar import codes, distinct, floats, integers
from featurestore.designs import expose, pressed
from featurestore.engines.beginning import renewed
from featurestore.engines.candidate import Options
from featurestore.engines.folding import DAY, HOUR, block
from featurestore.engines.spark.rows import bodies, joined, parcels, records, table
from featurestore.engines.victims import said, shared
from featurestore.exported import TABLES
from featurestore.exposure.kernels import Floats, Ints
from featurestore.exposure.sweep import OPEN, group
from featurestore.held import set_aside
from featurestore.interference.blocks import Linearisation
from featurestore.interference.concurrency import SHORTEST, Events
from featurestore.interference.evidence import Told
from featurestore.runs import read
from featurestore.states import pack_blocks

T = TypeVar("T")

#: Records that are packed together, and victims whose blocks are.
_RECORDS, _VICTIMS = 300_000, 40

#: The columns of activations whose values have codes.
NAMES = ("function", "node", "node_type")

#: Parcels of runs, of what a step says to the driver, and of the blocks of victims.
RUNS, TOLD, BLOCKS = "runs", "told", "blocks"


@dataclass(frozen=True, slots=True)
class Given:
    """What every step is given: the cluster's names, the nodes' specifications, the window, the options, and into
    how many groups nodes are put (*swept*)."""

    functions: pa.Array
    nodes: pa.Array
    node_types: pa.Array
    specs: pa.Table
    since: int
    until: int
    options: Options
    swept: int


@dataclass(frozen=True, slots=True)
class Placed:
    """What attribution and the series of the pods of some functions [k] say beside their runs.

    *functions* [k] are their codes, *runs* [k] how many each has, *start* and *end* (microseconds) those of all
    runs, function by function in order; *hours* [h] those in which runs that are fitted ended, *ended* [h] how many,
    *begun* [h] when the first of them started. *first*, *last*: the span of what is fitted, None where nothing is.
    """

    where: Mapping[str, Any]
    functions: Ints
    runs: Ints
    start: Ints
    end: Ints
    hours: Ints
    ended: Ints
    begun: Ints
    first: int | None
    last: int | None
    several: set[int]
    methods: Mapping[str, int]
    skew: Floats
    known: Floats
    counted: answers.Answered
    latencies: pa.Table
    busyness: pa.Table
    measured: profiles.Profiles
    most: Floats


def here(step: str, parts: int = 1) -> dict[str, Any]:
    """Return who runs *step*, and how many parts of it: the host, the process, and its peak of memory so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"step": step, "parts": parts, "host": socket.gethostname(), "pid": os.getpid(), "peak_mb": round(peak, 1)}


def pack(batches: Iterator[pa.RecordBatch], part: str) -> Iterator[pa.RecordBatch]:
    """Yield the records of one of `exported.TABLES` as parcels by their *key*, a column beside its own.

    Activations of composites are left out; how many there are of both, and whom the others name, is told as well.
    """
    waiting, count = list[pa.RecordBatch](), 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count >= _RECORDS:
            yield from _packed(waiting, part)
            waiting, count = [], 0
    if count:
        yield from _packed(waiting, part)


def place(table_: pa.Table, given: Given) -> pa.Table:
    """Attribute the runs of some functions, and measure what their pods used: the runs by node, and a `Placed`."""
    options = given.options
    parts = {part: records(bodies(table_, part), TABLES[part]) for part in ("activations", "placements", "usage")}
    activations = by_start(parts["activations"])
    if activations.num_rows == 0:
        return table(())
    placements = parts["placements"].sort_by([("started", "ascending"), ("uid", "ascending")])
    usage = parts["usage"].filter(pc.is_finite(parts["usage"]["value"]))
    cpu = usage.filter(pc.equal(usage["metric"], "cpu_cores"))
    attributed = attribute(activations, placements, cpu, skew_us=options.skew_us, step_us=options.step_us)
    kinds, nodes = given.node_types.to_pylist(), given.nodes.to_pylist()
    runs = read(activations, attributed, given.specs, placements, given.until, (), kinds, nodes)
    runs = pressed(runs, usage, options.step_us)
    runs = replace(runs, evidence=runs.evidence & (runs.end >= given.since))
    fitted = runs.evidence & ~set_aside(runs) if options.holdout else runs.evidence
    measured, most = profiles.amounts(runs, placements, usage, options.step_us)
    skew = floats(attributed["skew_us"])
    own = codes(pa.chunked_array([runs.functions]), given.functions).astype(np.int64)
    rows, offsets = group(runs.function)
    row = np.empty(len(runs), np.int32)
    row[rows] = np.arange(len(runs)) - np.repeat(offsets[:-1], np.diff(offsets))
    seen = replace(runs, evidence=fitted)
    hours, hour = np.unique(runs.end[fitted] // HOUR, return_inverse=True)
    begun = np.full(len(hours), OPEN)
    np.minimum.at(begun, hour, runs.start[fitted])
    found = Placed(
        where=here("attribution", len(own)),
        functions=own,
        runs=np.diff(offsets),
        start=runs.start[rows],
        end=runs.end[rows],
        hours=hours,
        ended=np.bincount(hour, minlength=len(hours)),
        begun=begun,
        first=int(runs.start[fitted].min()) if fitted.any() else None,
        last=int(runs.end[fitted].max()) if fitted.any() else None,
        several={int(own[code]) for code in renewed(seen)},
        methods=_counted(attributed["method"]),
        skew=skew[skew > 0],
        known=unmeasured.facts(runs, activations),
        counted=answers.answered(runs),
        latencies=answers.latencies(runs),
        busyness=answers.busyness(runs, given.until, placements),
        measured=replace(measured, function=own[measured.function]),
        most=most,
    )
    runs = replace(runs, function=own[runs.function].astype(np.int32), functions=given.functions)
    # Runs on no known node meet nobody; they are kept apart, for the blocks of days count them as they are.
    to = np.where(runs.node >= 0, runs.node % given.swept, given.swept).astype(np.int64)
    return table(
        [
            (0, TOLD, pickle.dumps(found)),
            *((key, RUNS, body) for key, body in parcels(to, runs, row, fitted)),
        ]
    )


def beside(table_: pa.Table, given: Given, chunks: Ints) -> pa.Table:
    """Sweep some nodes: their runs with their exposures, by the *chunks* [F] that victims are put into."""
    runs, row, fitted, _ = joined(bodies(table_, RUNS), given.functions, given.nodes, given.node_types)
    found = parcels(np.where(runs.node >= 0, chunks[runs.function], -1), runs, row, fitted, expose(runs))
    return table((key, RUNS, body) for key, body in found)


def fit(
    table_: pa.Table, given: Given, events: Callable[[], tuple[Events, Ints]], edges: Ints, left: Ints
) -> pa.Table:
    """Fit some victims, reduce their blocks between *edges* but those that are *left*, and compare their runs.

    The fits, tables and counts, and the blocks of some victims at a time: their key is the first one's code times the
    number of blocks, plus the block's. *events* gives those of the whole cluster, function by function, and where
    each function's begin.
    """
    [key] = set(table_["key"].to_pylist())
    runs, row, seen, exposure = joined(bodies(table_, RUNS), given.functions, given.nodes, given.node_types)
    assert exposure is not None
    fitted = replace(runs, evidence=seen, kernels=node_kernels.read(given.specs, given.nodes))
    every, offsets = events()
    among, options = (every, offsets[runs.function] + row), replace(given.options, threads=1)
    fits, blocks = list[Told](), list[tuple[int, str, bytes]]()
    with threadpool_limits(1, "blas"):
        for own, share in shared(said(fitted, exposure, edges, left, {}, options, False, among), _VICTIMS):
            first = own[0].victim * (len(edges) - 1)
            blocks += [(first + day, BLOCKS, part) for day, parts in share.items() for part in parts]
            fits += own
        company, compared = answers.company(runs, exposure), details.compared(fitted, exposure, fits)
    told = (fits, company, compared, len(exposure.values), here("fit", len(fits)))
    return table([(key, TOLD, pickle.dumps(told)), *blocks])


def fold(
    table_: pa.Table,
    given: Given,
    edges: Ints,
    points: Mapping[int, Linearisation],
) -> pa.Table:
    """Reduce one block of days of all victims by itself: the step, and the blocks of some victims at a time."""
    [key] = set(table_["key"].to_pylist())
    runs, _, fitted, _ = joined(bodies(table_, RUNS), given.functions, given.nodes, given.node_types)
    runs = replace(runs, evidence=fitted, kernels=node_kernels.read(given.specs, given.nodes))
    with threadpool_limits(1, "blas"):
        step = block(runs, int(edges[key]), int(edges[key + 1]), points, replace(given.options, threads=1)).step
    rows = sorted(step.blocks.items())
    parts = [pack_blocks(dict(rows[at : at + _VICTIMS])) for at in range(0, len(rows), _VICTIMS)]
    head = (key, TOLD, pickle.dumps((replace(step, blocks={}), here("fold"))))
    return table([head, *((key, BLOCKS, body) for part in parts for body in part)])


def near(batches: Iterator[pa.RecordBatch], given: Given, edges: Ints, firsts: Ints) -> Iterator[pa.RecordBatch]:
    """Yield each run once for every block that `folding.block` would look at it for; *firsts* [blocks] are the starts
    of the blocks' first runs that are fitted, `OPEN` where a block has none."""
    for batch in batches:
        for body in bodies(batch, RUNS):
            runs, row, fitted, _ = joined([body], given.functions, given.nodes, given.node_types)
            which, to = reached(runs.start, runs.end, edges, firsts)
            found = parcels(to, runs.take(which), row[which], fitted[which])
            yield from table((key, RUNS, sent) for key, sent in found).to_batches()


def reached(start: Ints, end: Ints, edges: Ints, firsts: Ints) -> tuple[Ints, Ints]:
    """Return which of the runs from *start* to *end* [n] go to which block, see `near`."""
    before = np.minimum.accumulate(firsts[::-1])[::-1]
    low = np.searchsorted(edges[1:], start - SHORTEST, side="right")
    width = np.maximum(0, np.searchsorted(before, end, side="right") - low)
    row = np.repeat(np.arange(len(start)), width)
    block = np.arange(len(row)) - np.repeat(np.cumsum(width) - width, width) + low[row]
    kept = (end[row] >= firsts[block]) & (start[row] >= edges[block] - DAY)
    return row[kept], block[kept]


def bound(function: Callable[..., T], **given: object) -> Callable[[Any], T]:
    """Return *function* of one thing alone, a table or batches, with all else given, as Spark calls it."""
    work = partial(function, **given)

    def called(alone: Any) -> T:
        _keep_archives()
        return work(alone)

    return called


def _keep_archives() -> None:
    """Let the archives that modules come from be known as they are: before each task Spark asks Python to look for
    new modules, and it reads the directory of an archive anew each time, for longer than many a task takes."""
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]  # found again by what was read of it, when something is imported


def _packed(batches: list[pa.RecordBatch], part: str) -> Iterator[pa.RecordBatch]:
    rows = pa.Table.from_batches(batches).combine_chunks()
    if part == "activations":
        single = pc.invert(pc.fill_null(rows["composite"], False))
        names = {
            "count": rows.num_rows,
            "composites": rows.num_rows - int(pc.sum(single.cast(pa.int64())).as_py() or 0),
        }
        rows = rows.filter(single)
        yield from table(
            [(-1, TOLD, pickle.dumps({**names, **{name: distinct(rows[name]) for name in NAMES}}))]
        ).to_batches()
    key = integers(rows["key"], 0)
    order = np.argsort(key, kind="stable")
    rows, key = rows.drop_columns("key").take(pa.array(order)), key[order]
    edges = [0, *(np.flatnonzero(np.diff(key)) + 1).tolist(), len(key)] if len(key) else []
    for first, last in pairwise(edges):
        sink = pa.BufferOutputStream()
        own = rows.slice(first, last - first).combine_chunks()
        with pa.ipc.new_stream(sink, own.schema) as stream:
            stream.write_table(own)
        yield from table([(int(key[first]), part, sink.getvalue().to_pybytes())]).to_batches()


def _counted(method: pa.ChunkedArray) -> Mapping[str, int]:
    return {each["values"]: each["counts"] for each in pc.value_counts(method.cast(pa.string())).to_pylist()}
