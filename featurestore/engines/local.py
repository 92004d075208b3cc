"""A full fit in this process, over Arrow tables: no database, no clock, nothing written.

Attribution, then the sweep of each node, then one joint fit a victim, then the decision over all pairs. The fits are
the points of a new state, into which the days of the window are folded. Activations are only ever handled as
columns; the evidence of one victim at a time is copied.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from featurestore import answers, details, profiles, unmeasured
from featurestore.designs import designs, expose
from featurestore.engines.beginning import points_of, renewed
from featurestore.engines.candidate import Inputs, Learned, Options, Prepared, prepare
from featurestore.engines.concluding import Found, conclude
from featurestore.engines.folding import blocks, edges, in_turn
from featurestore.engines.past import recall
from featurestore.exposure.sweep import OPEN, Exposure
from featurestore.interference.blocks import Linearisation
from featurestore.interference.evidence import Told, told
from featurestore.interference.victim import fit_victim
from featurestore.runs import Runs
from featurestore.states import State, Step

#: So many victims are fitted ahead of the one that is told next: the largest takes a second, most a fiftieth of that.
_AHEAD = 16


def learn(
    inputs: Inputs,
    options: Options,
    progress: Callable[[int, int], None] = lambda done, of: None,
    before: State | None = None,
    keep: Callable[[pa.Table], pa.Table] = lambda used: used,
) -> Learned:
    """Learn from *inputs* in full; where nothing can be said the tables say unknown or are empty, never an error.

    *before* is the state so far with all its steps: what it knows from before the window, or of activations that are
    gone, stays known. *progress* is told after each victim how many of how many are done; *keep* is given what
    activations used, before anything is fitted, and returns what of it the candidate still has to have.
    Deterministic, independent of the rows' order.
    """
    ready = prepare(inputs, options)
    ready = replace(ready, used=keep(ready.used))
    past, runs = recall(before, ready.runs, inputs.since, options.memory)
    ready = replace(ready, runs=replace(runs, evidence=runs.evidence & (runs.end >= past.since)))
    runs, ready = ready.runs, ready.fitted
    measured = profiles.measure(runs, inputs.placements, ready.usage, inputs.nodes, options.step_us)
    # Small matrices, many times: BLAS threads that wait for each other on a busy machine take 30 times as long.
    with threadpool_limits(1, "blas"):
        exposure = expose(runs, options.threads)
        exposures = len(exposure.values)
        with ThreadPoolExecutor(1) as beside:  # what no fit decides; most of each holds no lock
            company = beside.submit(answers.company, runs, exposure)
            latencies = beside.submit(answers.latencies, runs)
            counted = beside.submit(answers.answered, runs)
            known = beside.submit(unmeasured.facts, runs, inputs.activations)
            fits = _fitted(ready, exposure, options, progress)
            compared = details.compared(ready.runs, exposure, fits, options.threads)
        seen = ready.runs.evidence
        found = Found(
            fits=fits,
            days=_days(ready.runs, exposure, past.since, inputs.until, points_of(fits, past), options),
            several=renewed(ready.runs),
            measured=measured,
            known=known.result(),
            counted=counted.result(),
            tables={
                "latencies": latencies.result(),
                "company": company.result(),
                "busyness": answers.busyness(runs, inputs.until, inputs.placements),
            },
            compared=compared,
            ran=int(np.count_nonzero(np.bincount(runs.function))),
            exposures=exposures,
            first=int(runs.start[seen].min()) if seen.any() else None,
            last=int(runs.end[seen].max()) if seen.any() else None,
        )
        return conclude(found, ready, inputs, options, past, before)


def _fitted(
    ready: Prepared, exposure: Exposure, options: Options, progress: Callable[[int, int], None]
) -> list[Told]:
    """Return the fits of all victims in order."""
    runs = ready.runs
    fits: list[Told] = []
    for fit in in_turn(
        lambda design: told(fit_victim(design, options.estimation)),
        designs(runs, exposure, options.estimation.column_overlaps),
        min(options.threads, len(runs.functions)) or 1,
        _AHEAD,
    ):
        fits.append(fit)
        progress(len(fits), len(runs.functions))
    return fits


def _days(
    runs: Runs, exposure: Exposure, since: int, until: int, points: Mapping[int, Linearisation], options: Options
) -> Iterator[Step]:
    """Yield the days of *runs* from *since* on, in order, reduced; the last has no end."""
    cuts = pairwise(edges(runs.end[runs.evidence], since, until, options.most))
    days = blocks(runs, [(first, last if last < until else OPEN) for first, last in cuts], points, options, exposure)
    return (day.step for day in days)
