"""What runs in the workers: one function, node, victim or block of days at a time, over Arrow tables.

It knows the kernels and nothing of Spark. What is not rows goes to the driver pickled, as Spark itself
sends what it runs.
"""

import os
import pickle
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from threadpoolctl import threadpool_limits

from featurestore import answers, details, node_kernels, profiles, unmeasured
from featurestore.attribution.attribute import attribute
from featurestore.chronological import by_start
from featurestore.columnar import codes, floats
from featurestore.designs import design, expose, in_order, pressed
from featurestore.engines.candidate import Options
from featurestore.engines.folding import DAY, block
from featurestore.engines.spark.rows import ROWS, exposed, exposure_of, rows_of, runs_of, schema
from featurestore.exported import TABLES
from featurestore.exposure.kernels import Ints
from featurestore.exposure.sweep import OPEN
from featurestore.held import set_aside
from featurestore.interference.blocks import Linearisation
from featurestore.interference.concurrency import Concurrency
from featurestore.interference.evidence import told
from featurestore.interference.victim import fit_victim
from featurestore.runs import read

T = TypeVar("T")

#: What of the runs is carried to the blocks of days.
CARRIED: Mapping[str, str] = {name: kind for name, kind in ROWS.items() if name not in ("indices", "values", "body")}

#: What a step gives back that gives no rows.
ANSWER: Mapping[str, str] = {"key": "long", "body": "binary"}


@dataclass(frozen=True, slots=True)
class Given:
    """What every step is given: the cluster's names, the nodes' specifications, the window, and the options."""

    functions: pa.Array
    nodes: pa.Array
    node_types: pa.Array
    specs: pa.Table
    since: int
    until: int
    options: Options


@dataclass(frozen=True, slots=True)
class Placed:
    """What attribution and the series of one function's pods say beside its runs."""

    function: int
    where: Mapping[str, Any]
    methods: Mapping[str, int]
    skew: np.ndarray[tuple[int], np.dtype[np.float64]]
    known: np.ndarray[tuple[int], np.dtype[np.float64]]
    counted: answers.Answered
    latencies: pa.Table
    busyness: pa.Table
    measured: profiles.Profiles
    most: np.ndarray[tuple[int], np.dtype[np.float64]]


def here(step: str) -> dict[str, Any]:
    """Return who runs *step*: the host and the process."""
    return {"step": step, "host": socket.gethostname(), "pid": os.getpid()}


def place(key: tuple[Any, ...], table: pa.Table, given: Given) -> pa.Table:
    """Attribute one function's runs, and measure what its pods used: `rows_of` and a `Placed`."""
    [name] = [value.as_py() for value in key]
    options, parts = given.options, {part: _part(table, part) for part in ("activations", "placements", "usage")}
    activations = by_start(parts["activations"])
    if activations.num_rows == 0:
        return schema(ROWS).empty_table()
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
    function = int(codes(pa.chunked_array([[name]]), given.functions)[0])
    skew = floats(attributed["skew_us"])
    method = pc.value_counts(attributed["method"].cast(pa.string())).to_pylist()
    found = Placed(
        function=function,
        where=here("attribution"),
        methods={each["values"]: each["counts"] for each in method},
        skew=skew[skew > 0],
        known=unmeasured.facts(runs, activations)[0],
        counted=answers.answered(runs),
        latencies=answers.latencies(runs),
        busyness=answers.busyness(runs, given.until, placements),
        measured=replace(measured, function=np.full_like(measured.function, function)),
        most=most,
    )
    return rows_of(runs, function, fitted, pickle.dumps(found))


def beside(table: pa.Table, given: Given) -> pa.Table:
    """Sweep one node: its runs with their exposures."""
    runs, table = runs_of(table, given.functions, given.nodes, given.node_types)
    return exposed(table, expose(runs))


def fit(key: tuple[Any, ...], table: pa.Table, given: Given, concurrency: Callable[[], Concurrency]) -> pa.Table:
    """Fit one victim, and compare its runs: an `ANSWER` with the fit, tables and counts."""
    [victim] = [value.as_py() for value in key]
    runs, table = runs_of(table, given.functions, given.nodes, given.node_types)
    exposure = exposure_of(table)
    fitted = replace(runs, evidence=table["fitted"].to_numpy(zero_copy_only=False))
    rows = in_order(exposure, np.flatnonzero(fitted.evidence[exposure.rows]).astype(np.int32))
    with threadpool_limits(1, "blas"):
        found = told(fit_victim(design(victim, fitted, exposure, rows), concurrency(), given.options.estimation))
        company, compared = answers.company(runs, exposure), details.compared(fitted, exposure, [found])
    return _answer(victim, (found, company, compared, len(exposure.values), here("fit")))


def fold(
    key: tuple[Any, ...],
    table: pa.Table,
    given: Given,
    edges: Ints,
    points: Mapping[int, Linearisation],
) -> pa.Table:
    """Reduce one block of days of all victims: an `ANSWER` with the step."""
    [number] = [value.as_py() for value in key]
    runs, table = runs_of(table, given.functions, given.nodes, given.node_types)
    kernels = node_kernels.read(given.specs, given.nodes)
    runs = replace(runs, evidence=table["fitted"].to_numpy(zero_copy_only=False), kernels=kernels)
    with threadpool_limits(1, "blas"):
        step = block(runs, int(edges[number]), int(edges[number + 1]), points, replace(given.options, threads=1)).step
    return _answer(number, (step, here("fold")))


def begins(batches: Iterator[pa.RecordBatch], edges: Ints) -> Iterator[pa.RecordBatch]:
    """Yield the start of the first run that is fitted of each block between *edges*, batch by batch."""
    for batch in batches:
        fitted = batch.column("fitted").to_numpy(zero_copy_only=False)
        start, until = (batch.column(name).to_numpy()[fitted] for name in ("start", "until"))
        first = np.full(len(edges) - 1, OPEN)
        np.minimum.at(first, np.searchsorted(edges[1:-1], until, side="right"), start)
        [blocks] = np.nonzero(first < OPEN)
        yield pa.RecordBatch.from_pydict({"block": blocks.astype(np.int32), "start": first[blocks]})


def near(batches: Iterator[pa.RecordBatch], edges: Ints, firsts: Ints) -> Iterator[pa.RecordBatch]:
    """Yield each run once for every block that `folding.block` would look at it for; *firsts* [blocks] are the starts
    of the blocks' first runs, `OPEN` where a block has none."""
    reached = np.minimum.accumulate(firsts[::-1])[::-1]
    for batch in batches:
        start, until = (batch.column(name).to_numpy() for name in ("start", "until"))
        low = np.searchsorted(edges[1:], start, side="right")
        width = np.maximum(0, np.searchsorted(reached, until, side="right") - low)
        row = np.repeat(np.arange(len(start)), width)
        block = np.arange(len(row)) - np.repeat(np.cumsum(width) - width, width) + low[row]
        kept = (until[row] >= firsts[block]) & (start[row] >= edges[block] - DAY)
        found = batch.select(list(CARRIED)).take(pa.array(row[kept]))
        yield found.append_column("block", pa.array(block[kept].astype(np.int32)))


def bound(function: Callable[..., pa.Table], **given: object) -> Callable[..., pa.Table]:
    """Return *function* of a key and a table, or of a table alone, with all else given, as Spark calls it."""
    work = partial(function, **given)
    if "key" in function.__annotations__:
        return lambda key, table: work(key, table)
    return lambda table: work(table)


def _part(table: pa.Table, part: str) -> pa.Table:
    """Return the rows of one table of those that came together."""
    return table.filter(pc.equal(table["part"], part)).select(TABLES[part].names)


def _answer(key: int, body: object) -> pa.Table:
    return pa.table({"key": [key], "body": [pickle.dumps(body)]}, schema=schema(ANSWER))
