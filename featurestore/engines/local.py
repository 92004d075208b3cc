"""One learning run in this process, over Arrow tables: no database, no clock, nothing written.

Attribution, then the sweep of each node, then one joint fit a victim, then the decision over all pairs. Activations
are only ever handled as columns; the evidence of one victim at a time is copied.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from threadpoolctl import threadpool_limits

from featurestore import answers, profiles
from featurestore.attribution import use
from featurestore.attribution.attribute import DEFAULT_STEP, attribute, counts
from featurestore.columnar import codes, flags
from featurestore.designs import designs, expose
from featurestore.exposure.kernels import Floats
from featurestore.interference import pairs, victim
from featurestore.interference.concurrency import Concurrency, build
from featurestore.interference.evidence import Options as Estimation
from featurestore.interference.evidence import VictimDesign, VictimFit
from featurestore.runs import Runs, read
from pipeline.records import Workflow


@dataclass(frozen=True, slots=True)
class Inputs:
    """Copies of one cluster's window [*since*, *until*) (microseconds): the columns of the store's tables.

    *usage* are pods' samples (namespace, name, metric, at, value); *nodes* the specifications with their validity.
    """

    activations: pa.Table
    placements: pa.Table
    nodes: pa.Table
    usage: pa.Table
    declared: pa.Table
    workflows: pa.Table
    since: int
    until: int


@dataclass(frozen=True, slots=True)
class Options:
    """*skew_us*: tolerated difference between clocks; *step_us*: how much time a usage sample speaks of;
    *use_since_us*: the use of activations that ended before is known already (microseconds, None: of none);
    *threads*: victims fitted at once."""

    skew_us: int = 1_000_000
    step_us: int = DEFAULT_STEP
    use_since_us: int | None = None
    threads: int = min(4, os.cpu_count() or 1)
    estimation: Estimation = field(default_factory=Estimation)


@dataclass(frozen=True, slots=True)
class Learned:
    """What one run learned: *tables* pairs, functions, latencies, busyness (`featurestore.snapshot.TABLES` less the
    cluster), what activations *used* (`attribution.use.USE`), counts by method of *attribution*, and *metrics* for
    the model's record (JSON values)."""

    tables: Mapping[str, pa.Table]
    used: pa.Table
    attribution: Mapping[str, float]
    metrics: Mapping[str, Any]


def learn(inputs: Inputs, options: Options, progress: Callable[[int, int], None] = lambda done, of: None) -> Learned:
    """Learn from *inputs*; where nothing can be said the tables say unknown or are empty, never an error.

    *progress* is told after each victim how many of how many are done. Deterministic, independent of the rows' order.
    """
    activations = inputs.activations.sort_by([("start", "ascending"), ("activation_id", "ascending")])
    usage = inputs.usage.filter(pc.is_finite(inputs.usage["value"]))
    cpu = usage.filter(pc.equal(usage["metric"], "cpu_cores"))
    attributed = attribute(activations, inputs.placements, cpu, skew_us=options.skew_us, step_us=options.step_us)
    attribution = counts(attributed)
    used = use.measure(
        activations,
        attributed,
        inputs.placements,
        usage,
        step_us=options.step_us,
        since_us=options.use_since_us,
    )
    runs = read(activations, attributed, inputs.nodes, inputs.until)
    exposure = expose(runs)
    everywhere = build(runs.function.astype(np.int64), runs.start / 1e6, runs.end / 1e6, len(runs.functions))
    measured = profiles.measure(runs, inputs.placements, usage, inputs.nodes, options.step_us)
    known = _profile_matrix(runs, measured, inputs.declared)
    # Small matrices, many times: BLAS threads that wait for each other on a busy machine take 30 times as long.
    with threadpool_limits(1, "blas"):
        fits = _fitted(designs(runs, exposure, usage), everywhere, options, len(runs.functions), progress)
        table = pairs.learn(fits, known, options.estimation)
    functions, limits = answers.functions(runs, measured, inputs.declared, _levels(inputs.workflows, runs))
    tables = {
        "pairs": answers.pairs(runs, table),
        "functions": functions,
        "latencies": answers.latencies(runs),
        "company": answers.company(runs, exposure),
        "busyness": answers.busyness(runs, inputs.since, inputs.until),
    }
    status = pc.value_counts(tables["pairs"]["status"].cast(pa.string())).to_pylist()
    metrics = {
        "attribution": dict(attribution),
        "activations": len(activations),
        "composites": int(flags(activations["composite"]).sum()),
        "placed": int((runs.node >= 0).sum()),
        "evidence": int(runs.evidence.sum()),
        "functions": len(runs.functions),
        "exposures": len(exposure.values),
        "pairs": {row["values"]: row["counts"] for row in status},
        "unfitted": _reasons(fits),
        "drift": {
            runs.functions[fit.victim].as_py(): round(float(fit.drift), 3) for fit in fits if np.isfinite(fit.drift)
        },
        "class_limits": {name: [float(limit) for limit in limits[r]] for r, name in enumerate(profiles.RESOURCES)},
    }
    return Learned(tables, used, attribution, metrics)


def _fitted(
    evidence: Iterator[VictimDesign],
    everywhere: Concurrency,
    options: Options,
    victims: int,
    progress: Callable[[int, int], None],
) -> list[VictimFit]:
    """Fit the victims on a few threads, in order; only as many designs exist at once as are being fitted."""
    fits: list[VictimFit] = []
    workers = min(options.threads, victims) or 1
    waiting: deque[Future[VictimFit]] = deque()

    def take() -> None:
        fits.append(waiting.popleft().result())
        progress(len(fits), victims)

    with ThreadPoolExecutor(workers) as pool:
        for design in evidence:
            waiting.append(pool.submit(victim.fit_victim, design, everywhere, options.estimation))
            if len(waiting) > workers:
                take()
        while waiting:
            take()
    return fits


def _reasons(fits: list[VictimFit]) -> dict[str, int]:
    found: dict[str, int] = {}
    for fit in fits:
        if fit.reason:
            found[fit.reason] = found.get(fit.reason, 0) + 1
    return found


def _profile_matrix(runs: Runs, measured: profiles.Profiles, declared: pa.Table) -> Floats:
    """Return the amounts of each function over all node types (F, 4): measured, else declared, else NaN."""
    found = np.full((len(runs.functions), len(profiles.AMOUNTS)), np.nan)
    for row, code in enumerate(codes(declared["function"], runs.functions)):
        if code >= 0:
            for r, name in enumerate(profiles.AMOUNTS):
                value = declared[name][row].as_py()
                found[code, r] = np.nan if value is None else value
    everywhere = measured.node_type < 0
    own = measured.p50[everywhere]
    rows = measured.function[everywhere]
    found[rows] = np.where(np.isfinite(own), own, found[rows])
    return found


def _levels(workflows: pa.Table, runs: Runs) -> dict[str, dict[str, str]]:
    """Return the classes that workflows declare for functions that ran: an action is known by its last name."""
    by_action: dict[str, list[str]] = {}
    for name in runs.functions.to_pylist():
        by_action.setdefault(name.rpartition("/")[2], []).append(name)
    found: dict[str, dict[str, str]] = {}
    for document in workflows["document"].to_pylist():
        for action in msgspec.json.decode(document, type=Workflow).actions:
            if action.performance_profile:
                found |= dict.fromkeys(by_action.get(action.name, ()), action.performance_profile)
    return found
