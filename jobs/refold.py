"""The stored days folded again: what is in the store, reduced and folded from the beginning, beside the state."""

from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from featurestore.engines.candidate import Inputs, prepare
from featurestore.engines.folding import block
from featurestore.states import Blocks, Step, folded
from featurestore.store import states, windows
from featurestore.store.duck import Store
from jobs.config import Settings
from jobs.planning import micros, options, time
from pipeline.records import Window

#: Days that are folded again give the same but for rounding: no larger a difference than this.
AGREES = 1e-9


def again(settings: Settings, store: Store, cluster: str) -> float:
    """Return the largest difference between the state of *cluster* and its stored days folded again, in order.

    Relative to the largest number of each victim's sums; 0 where there is no state, infinite where a victim lacks.
    What is older than the window is taken as it is stored, and so is the correction to the full fit.
    """
    state = store.read(lambda con: states.whole(con, cluster))
    if state is None:
        return 0.0
    given = options(settings, holdout=state.head.basis.get("holdout") == "True")
    steps: list[Step] = []
    for step in state.steps:
        if step.since == step.until:
            steps.append(step)
            continue
        since, until = time(step.since), time(step.until)
        first = store.read(lambda con, since=since: states.reach(con, cluster, since)) - 2 * settings.schedule.step  # type: ignore[misc]
        last = until + 2 * settings.schedule.step
        tables = windows.copy(store, cluster, Window(first, last))
        inputs = Inputs(**tables, since=step.since, until=micros(last))
        whole = prepare(inputs, replace(given, use_since_us=step.until), state.head.names, state.head.node_types)
        ready = whole.fitted
        with threadpool_limits(1, "blas"):
            found = block(ready.runs, step.since, step.until, state.points_of(step.since), given)
        steps.append(found.step)
    return _difference(folded(state.aged, steps, given.memory), dict(state.current.items()))


def _difference(one: Blocks, other: Blocks) -> float:
    if one.keys() != other.keys():
        return float("inf")
    found = 0.0
    for victim, own in one.items():
        known = other[victim]
        if not (np.array_equal(own.types, known.types) and np.array_equal(own.columns, known.columns)):
            return float("inf")
        if own.kernels != known.kernels:
            return float("inf")
        for name in ("gram", "pull", "overlaps", "under"):
            mine, stored = getattr(own, name), getattr(known, name)
            size = max(float(np.abs(stored).max(initial=0.0)), 1e-300)
            found = max(found, float(np.abs(mine - stored).max(initial=0.0)) / size)
    return found
