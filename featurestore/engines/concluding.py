"""The end of a full fit, the same for every engine: from what victims, nodes and functions said to a candidate model.

What comes in here is small: a few rows a function, a node or a pair. All that needs runs was done where they are.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from featurestore import answers, declared, profiles, unmeasured
from featurestore.columnar import codes
from featurestore.engines.beginning import Begun, begin
from featurestore.engines.candidate import Inputs, Known, Learned, Options, Prepared, basis, candidate, outside
from featurestore.engines.past import Past
from featurestore.engines.victims import Days
from featurestore.exposure.kernels import Floats
from featurestore.interference import pairs, solution
from featurestore.interference.evidence import OF_AGGRESSORS, Bools, Predictions, Told
from featurestore.states import Head, State


@dataclass(frozen=True, slots=True)
class Found:
    """What an engine found in the runs of a window.

    *fits* of all functions in order; *days* reduced at their points, *several* the victims that ran in several
    versions; *measured* profiles; *known* the `unmeasured.facts`, *counted* the `answers.answered`; the
    *tables* latencies, company, busyness; *compared* waits for the details of that name. *ran* functions have runs,
    *exposures* counts pairs of runs and functions that met; *first* and *last* (microseconds) are the start of the
    first and the end of the last run that was fitted, None where there is none.
    """

    fits: Sequence[Told]
    days: Days
    several: Set[int]
    measured: profiles.Profiles
    known: Floats
    counted: answers.Answered
    tables: Mapping[str, pa.Table]
    compared: Callable[[], Mapping[str, pa.Table]]
    ran: int
    exposures: int
    first: int | None
    last: int | None


def conclude(
    found: Found,
    ready: Prepared,
    inputs: Inputs,
    options: Options,
    past: Past,
    before: State | None,
    told: Callable[[State], None] = lambda state: None,
) -> Learned:
    """Return the candidate: the state begun, pairs predicted and decided, classes told.

    Of *ready* only names and counts are read, of *inputs* what is declared, and until when. *told* is given the state
    before pairs are decided.
    """
    names, kinds = ready.runs.functions.to_pylist(), ready.runs.node_types.to_pylist()
    begun = begin(found.fits, found.days, found.several, past, inputs.settled, options)
    profile = _profile_matrix(names, found.measured, inputs.declared)
    prior = pairs.predictions(begun.fits, profile, options.estimation)
    prior = None if prior is None else prior.among(_known(names, found.counted, begun.fits, profile, options))
    limits = profiles.thresholds(found.measured.share[found.measured.node_type < 0])
    guessed = unmeasured.predicted(found.known, found.measured, limits, found.fits)
    stated = declared.levels(inputs.workflows, names)
    functions, _ = answers.functions(
        names, kinds, found.counted, found.measured, inputs.declared, stated, guessed.predicted
    )
    state = _state(begun, found, ready, inputs, options, past, prior, before)
    told(state)
    metrics = {
        "functions": found.ran,
        "evidence": begun.rows,
        "seen": [begun.rows, found.last or 0],
        "exposures": found.exposures,
        "class_limits": {name: [float(limit) for limit in limits[r]] for r, name in enumerate(profiles.RESOURCES)},
        "classes": {name: dict(score) for name, score in guessed.scores.items()},
        "disagreements": declared.disagreements(ready.runs.functions, found.measured, limits, stated),
        "distance": {**begun.distance, **_strayed(before, begun, state)},
    }
    first = state.head.since if past.aged or found.last is not None else None
    weighed = pairs.weigh(begun.fits, options.estimation, prior)
    kept = pairs.reliability(found.fits, options.estimation, prior, weighed)
    known = Known(begun.fits, prior, first, found.last, kept, weighed)
    learned = candidate(ready, known, options, {"functions": functions, **found.tables}, metrics)
    return replace(learned, state=state, details={**learned.details, **found.compared()})


def _known(
    names: Sequence[str], counted: answers.Answered, fits: Sequence[Told], profile: Floats, options: Options
) -> Bools:
    """Return of which functions enough is known to predict anything: those with a profile, or that ran often enough
    to be fitted. What one ran once beside says nothing of it, however little that says of the others."""
    number = np.array([counted[name, ""][0] if (name, "") in counted else 0 for name in names], np.int64)
    fitted = np.array([fit.rows for fit in fits])
    found: Bools = np.isfinite(profile).any(axis=1) | (np.maximum(number, fitted) >= options.estimation.min_rows)
    return found


def _state(
    begun: Begun,
    found: Found,
    ready: Prepared,
    inputs: Inputs,
    options: Options,
    past: Past,
    prior: Predictions | None,
    before: State | None,
) -> State:
    runs = ready.runs
    since = found.first if found.first is not None else past.since
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
        aged=past.since if past.aged else 0,
        past=past.rows if past.aged else 0.0,
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
        if name not in place or victim not in before.points or block.information <= 0:
            continue
        old = solution.solve(block, before.points[victim], len(before.head.names))
        now = np.array([place.get(before.head.names[code], -1) for code in old.met.tolist()], np.int64)
        kept = np.argsort(now)[int((now < 0).sum()) :]
        same = {each: getattr(old, each)[kept] for each in OF_AGGRESSORS}
        gap = solution.gaps(replace(old, met=now[kept], **same), begun.fits[place[name]])
        found.append(float(gap.max(initial=0.0)))
    return {"before": round(max(found), 3)} if found else {}


def _profile_matrix(names: Sequence[str], measured: profiles.Profiles, declared: pa.Table) -> Floats:
    """Return the amounts of each function over all node types (F, 4): measured, else declared, else NaN."""
    found = np.full((len(names), len(profiles.AMOUNTS)), np.nan)
    for row, code in enumerate(codes(declared["function"], pa.array(names, pa.string()))):
        if code >= 0:
            for r, name in enumerate(profiles.AMOUNTS):
                value = declared[name][row].as_py()
                found[code, r] = np.nan if value is None else value
    everywhere = measured.node_type < 0
    own = measured.p50[everywhere]
    rows = measured.function[everywhere]
    found[rows] = np.where(np.isfinite(own), own, found[rows])
    return found
