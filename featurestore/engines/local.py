"""A full fit in this process, over Arrow tables: no database, no clock, nothing written.

Attribution, then the sweep of each node, then one joint fit a victim, then the decision over all pairs. The fits are
the points of a new state, into which the days of the window are folded. Activations are only ever handled as
columns; the evidence of one victim at a time is copied.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from featurestore import answers, details, profiles, unmeasured
from featurestore.columnar import codes
from featurestore.designs import designs, expose
from featurestore.engines.beginning import Begun, begin
from featurestore.engines.candidate import (
    Inputs,
    Known,
    Learned,
    Options,
    Prepared,
    basis,
    candidate,
    outside,
    prepare,
)
from featurestore.engines.folding import in_turn
from featurestore.engines.past import Past, recall
from featurestore.exposure.kernels import Floats
from featurestore.exposure.sweep import Exposure
from featurestore.interference import fold, pairs
from featurestore.interference.concurrency import build
from featurestore.interference.evidence import Bools, Predictions, Told, told
from featurestore.interference.victim import fit_victim
from featurestore.runs import Runs
from featurestore.states import Head, State


def learn(
    inputs: Inputs,
    options: Options,
    progress: Callable[[int, int], None] = lambda done, of: None,
    before: State | None = None,
) -> Learned:
    """Learn from *inputs* in full; where nothing can be said the tables say unknown or are empty, never an error.

    *before* is the state so far with all its steps: what it knows from before the window, or of activations that are
    gone, stays known. *progress* is told after each victim how many of how many are done. Deterministic, independent
    of the rows' order.
    """
    ready = prepare(inputs, options)
    past, runs = recall(before, ready.runs, inputs.since, options.memory)
    ready = replace(ready, runs=replace(runs, evidence=runs.evidence & (runs.end >= past.since)))
    runs, ready = ready.runs, ready.fitted
    measured = profiles.measure(runs, inputs.placements, ready.usage, inputs.nodes, options.step_us)
    # Small matrices, many times: BLAS threads that wait for each other on a busy machine take 30 times as long.
    with threadpool_limits(1, "blas"):
        exposure = expose(runs)
        fits = _fitted(ready, exposure, options, progress)
        company, exposures = answers.company(runs, exposure), len(exposure.values)
        compared = details.compared(ready.runs, exposure, fits)
        del exposure
        begun = begin(ready.runs, ready.usage, past, fits, inputs.settled, inputs.until, options)
        profile = _profile_matrix(runs, measured, inputs.declared)
        prior = pairs.predictions(begun.fits, profile, options.estimation)
        prior = None if prior is None else prior.among(_known(runs, begun.fits, profile, options))
        limits = profiles.thresholds(measured.share[measured.node_type < 0])
        guessed = unmeasured.predicted(runs, inputs.activations, measured, limits, fits)
        declared = unmeasured.declared_levels(inputs.workflows, runs.functions.to_pylist())
        functions, _ = answers.functions(runs, measured, inputs.declared, declared, guessed.predicted)
        tables = {
            "functions": functions,
            "latencies": answers.latencies(runs),
            "company": company,
            "busyness": answers.busyness(runs, inputs.until),
        }
        state = _state(begun, ready, inputs, options, past, prior, before)
        seen = ready.runs.evidence
        last = int(runs.end[seen].max()) if seen.any() else None
        metrics = {
            "functions": len(np.unique(runs.function)),
            "evidence": begun.rows,
            "seen": [begun.rows, last or 0],
            "exposures": exposures,
            "class_limits": {
                name: [float(limit) for limit in limits[r]] for r, name in enumerate(profiles.RESOURCES)
            },
            "classes": {name: dict(score) for name, score in guessed.scores.items()},
            "disagreements": unmeasured.disagreements(runs.functions, measured, limits, declared),
            "distance": {**begun.distance, **_strayed(before, begun, state)},
        }
        first = state.head.since if past.aged or last is not None else None
        weighed = pairs.weigh(begun.fits, options.estimation, prior)
        kept = pairs.reliability(fits, options.estimation, prior, weighed)
        found = candidate(ready, Known(begun.fits, prior, first, last, kept, weighed), options, tables, metrics)
        return replace(found, state=state, details={**found.details, **compared})


def _fitted(
    ready: Prepared, exposure: Exposure, options: Options, progress: Callable[[int, int], None]
) -> list[Told]:
    """Return the fits of all victims in order."""
    runs = ready.runs
    everywhere = build(runs.function.astype(np.int64), runs.start / 1e6, runs.end / 1e6, len(runs.functions))
    fits: list[Told] = []
    for fit in in_turn(
        lambda design: told(fit_victim(design, everywhere, options.estimation)),
        designs(runs, exposure, ready.usage, options.step_us),
        min(options.threads, len(runs.functions)) or 1,
    ):
        fits.append(fit)
        progress(len(fits), len(runs.functions))
    return fits


def _known(runs: Runs, fits: Sequence[Told], profile: Floats, options: Options) -> Bools:
    """Return of which functions enough is known to predict anything: those with a profile, or that ran often enough
    to be fitted. What one ran once beside says nothing of it, however little that says of the others."""
    number = np.bincount(runs.function, minlength=len(runs.functions))
    fitted = np.array([fit.rows for fit in fits])
    found: Bools = np.isfinite(profile).any(axis=1) | (np.maximum(number, fitted) >= options.estimation.min_rows)
    return found


def _state(
    begun: Begun,
    ready: Prepared,
    inputs: Inputs,
    options: Options,
    past: Past,
    prior: Predictions | None,
    before: State | None,
) -> State:
    runs = ready.runs
    since = int(runs.start[runs.evidence].min()) if begun.rows else past.since
    head = Head(
        model=options.model,
        made=inputs.until,
        since=min(since, before.head.since) if before is not None and past.aged else since,
        closed=begun.closed,
        code_version=options.code_version,
        basis=basis(options),
        outside=outside(inputs),
        names=tuple(runs.functions.to_pylist()),
        node_types=tuple(runs.node_types.to_pylist()),
        rows=sum(step.rows for step in begun.steps),
        fitted=float(begun.rows),
        drift={runs.functions[fit.victim].as_py(): fit.drift for fit in begun.fits if np.isfinite(fit.drift)},
    )
    return State(head, begun.points, begun.current, prior, begun.steps, past.aged)


def _strayed(before: State | None, begun: Begun, state: State) -> dict[str, float]:
    """Return how far the state that was before lies from what is known now, in standard errors (the largest)."""
    if before is None:
        return {}
    place = {name: code for code, name in enumerate(state.head.names)}
    found = []
    for victim, block in before.current.items():
        name = before.head.names[victim]
        if name not in place or victim not in before.points:
            continue
        old = fold.solve(block, before.points[victim], len(before.head.names))
        known = np.full(len(place), np.nan)
        for code in np.flatnonzero(np.isfinite(old.slowdown)):
            if before.head.names[code] in place:
                known[place[before.head.names[code]]] = old.slowdown[code]
        gap = fold.gaps(replace(old, slowdown=known), begun.fits[place[name]].whole())
        found.append(float(gap.max(initial=0.0)))
    return {"before": round(max(found), 3)} if found else {}


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
