"""A full fit in this process, over Arrow tables: no database, no clock, nothing written.

Attribution, then the sweep of each node, then one joint fit a victim, then the decision over all pairs. The fits are
the points of a new state, into which the days of the window are folded: these are reduced victim by victim, each
after its fit. Activations are only ever handled as columns; the evidence of few victims at a time is copied.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from featurestore import answers, details, profiles, unmeasured
from featurestore.designs import expose
from featurestore.engines.beginning import points_of, renewed
from featurestore.engines.candidate import Inputs, Learned, Options, prepare
from featurestore.engines.concluding import Found, conclude
from featurestore.engines.folding import blocks, edges
from featurestore.engines.past import Past, recall
from featurestore.engines.victims import Days, Said, Share, apart, firsts, placed, said, shared, steps
from featurestore.exposure.sweep import OPEN, Exposure
from featurestore.interference.evidence import Told
from featurestore.runs import Runs
from featurestore.states import State


def learn(
    inputs: Inputs,
    options: Options,
    progress: Callable[[int, int], None] = lambda done, of: None,
    before: State | None = None,
    keep: Callable[[pa.Table], pa.Table] = lambda used: used,
    told: Callable[[State], None] = lambda state: None,
) -> Learned:
    """Learn from *inputs* in full; where nothing can be said the tables say unknown or are empty, never an error.

    *before* is the state so far with all its steps: what it knows from before the window, or of activations that are
    gone, stays known. *progress* is told after each victim how many of how many are done; *keep* is given what
    activations used, before anything is fitted, and returns what of it the candidate still has to have; *told* the
    state, before pairs are decided.
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
            fits, days = _fitted(ready.runs, exposure, past, inputs.until, options, progress)
            compared = beside.submit(details.compared, ready.runs, exposure, fits)
            seen = ready.runs.evidence
            found = Found(
                fits=fits,
                days=days,
                several=renewed(ready.runs),
                measured=measured,
                known=known.result(),
                counted=counted.result(),
                tables={
                    "latencies": latencies.result(),
                    "company": company.result(),
                    "busyness": answers.busyness(runs, inputs.until, inputs.placements),
                },
                compared=compared.result,
                ran=int(np.count_nonzero(np.bincount(runs.function))),
                exposures=exposures,
                first=int(runs.start[seen].min()) if seen.any() else None,
                last=int(runs.end[seen].max()) if seen.any() else None,
            )
            return conclude(found, ready, inputs, options, past, before, told)


def _fitted(
    runs: Runs, exposure: Exposure, past: Past, until: int, options: Options, progress: Callable[[int, int], None]
) -> tuple[list[Told], Days]:
    """Return the fits of all victims in order, and the days of their *runs*, reduced; the last has no end."""
    start, end = runs.start[runs.evidence], runs.end[runs.evidence]
    cuts = np.array([*edges(end, past.since, until, options.most)[:-1], OPEN])
    left = apart(runs.start, runs.end, cuts, firsts(start, end, cuts))

    def counted() -> Iterator[Said]:
        for done, each in enumerate(said(runs, exposure, cuts, left, past.points, options), 1):
            progress(done, len(runs.functions))
            yield each

    fits, shares = list[Told](), list[Share]()
    for own, share in shared(counted()):
        fits += own
        shares.append(share)
    counts = np.bincount(placed(end, cuts), minlength=len(cuts) - 1)
    days = Days(steps(counts, cuts, runs.kernels, shares), shares)
    if len(left):
        asked = [(int(cuts[day]), int(cuts[day + 1])) for day in left]
        others = blocks(runs, asked, points_of(fits, past), options)
        days = days.beside({day: found.step for day, found in zip(left.tolist(), others, strict=True)})
    return fits, days
