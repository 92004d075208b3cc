"""The state machine of a region: a table of transitions and the one function that looks it up.

No event in any state is an error: what the table does not expect is ignored.
"""

from collections import defaultdict
from typing import Any, NamedTuple

from rules.regions import actions, guards
from rules.regions.actions import Action
from rules.regions.events import (
    BecameHealthy,
    BecameUnhealthy,
    BlockingCheckpointDone,
    CheckpointDone,
    DrainPeriod,
    DrainTimeout,
    Event,
    OperatorDrain,
    OperatorReset,
    Outcome,
    ResetDone,
    ResetTimeout,
)
from rules.regions.guards import Guard
from rules.regions.region import Region, State

STARTED, PROCESSING, UNHEALTHY = State.STARTED, State.PROCESSING, State.UNHEALTHY
DRAINING, RESETTING = State.DRAINING, State.RESETTING
MAX, PENDING = State.MAXIMUM_RESET_ATTEMPTS_REACHED, State.CHECKPOINT_PENDING

_BUSY = (PROCESSING, DRAINING, PENDING, RESETTING)
_RESET = (RESETTING, MAX)


class Row(NamedTuple):
    """One line of the table: in any of *states* an *event* for which *guard* holds leads to one of *next*.

    The first row that holds counts; no *next* means that the state stays.
    """

    states: tuple[State, ...]
    event: type[Any]
    guard: Guard
    action: Action
    next: tuple[State, ...] = ()


TABLE: tuple[Row, ...] = (
    Row((STARTED,), BecameHealthy, guards.CLEAN, actions.START, (PROCESSING,)),
    Row((STARTED,), BecameHealthy, guards.ALWAYS, actions.START_BY_RESET, _RESET),
    Row((STARTED,), BecameUnhealthy, guards.ALWAYS, actions.STILL_UNHEALTHY),
    Row((STARTED,), OperatorDrain, guards.ASKED, actions.MUST_RESET),
    Row((STARTED,), OperatorReset, guards.FORCED, actions.MUST_RESET_FORCED),
    Row((STARTED,), OperatorReset, guards.ALWAYS, actions.MUST_RESET),
    Row((PROCESSING,), DrainPeriod, guards.FRESH, actions.DRAIN, (DRAINING,)),
    Row((PROCESSING,), OperatorDrain, guards.ASKED_NOW, actions.DRAIN_ASKED, (DRAINING,)),
    Row((DRAINING,), CheckpointDone, guards.ALL_CHECKPOINTED, actions.COMPLETE, (PROCESSING,)),
    Row(
        (DRAINING,),
        CheckpointDone,
        guards.CHECKPOINT_LEAVES_BLOCKING,
        actions.GO_ON_AFTER_CHECKPOINT,
        (PENDING,),
    ),
    Row((DRAINING,), CheckpointDone, guards.CHECKPOINT, actions.MARK_CHECKPOINT),
    Row((DRAINING,), BlockingCheckpointDone, guards.ALL_DRAINED, actions.GO_ON_AFTER_BLOCKING, (PENDING,)),
    Row((DRAINING,), BlockingCheckpointDone, guards.BLOCKING, actions.MARK_BLOCKING),
    Row((PENDING,), CheckpointDone, guards.ALL_PENDING, actions.COMPLETE_PENDING, (PROCESSING,)),
    Row((PENDING,), CheckpointDone, guards.PENDING, actions.MARK_CHECKPOINT),
    Row((DRAINING, PENDING), DrainTimeout, guards.FRESH, actions.RESET, _RESET),
    Row((RESETTING,), ResetDone, guards.ALL_RESET, actions.COMPLETE_RESET, (PROCESSING,)),
    Row((RESETTING,), ResetDone, guards.RESET, actions.MARK_RESET),
    Row((RESETTING,), ResetTimeout, guards.FRESH, actions.RESET, _RESET),
    Row(_BUSY, OperatorReset, guards.FORCED, actions.FORCED_RESET, (RESETTING,)),
    Row(_BUSY, OperatorReset, guards.ALWAYS, actions.RESET, _RESET),
    Row(_BUSY, BecameUnhealthy, guards.ALWAYS, actions.LOSE, (UNHEALTHY,)),
    Row((UNHEALTHY,), BecameHealthy, guards.ALWAYS, actions.RESET_HEALTHY, _RESET),
    Row((UNHEALTHY,), OperatorReset, guards.FORCED, actions.ALLOW_MORE),
    Row((MAX,), BecameHealthy, guards.ALWAYS, actions.STORE_HEALTHY),
    Row((MAX,), BecameUnhealthy, guards.ALWAYS, actions.STORE_UNHEALTHY),
    Row((MAX,), OperatorReset, guards.FORCED_HEALTHY, actions.FORCED_RESET_OF_EXHAUSTED, (RESETTING,)),
    Row((MAX,), OperatorReset, guards.FORCED, actions.WAIT_FOR_HEALTH, (UNHEALTHY,)),
)


def _indexed() -> dict[tuple[State, type[Any]], tuple[Row, ...]]:
    found: dict[tuple[State, type[Any]], list[Row]] = defaultdict(list)
    for row in TABLE:
        for state in row.states:
            found[state, row.event].append(row)
    return {key: tuple(rows) for key, rows in found.items()}


_ROWS = _indexed()


def row_of(region: Region, event: Event) -> Row | None:
    """The row that *event* falls under, None where the table expects nothing of it."""
    if type(event) in _BECAME and _BECAME[type(event)] is region.status.region_healthy:
        return None  # the health that is known already
    for row in _ROWS.get((region.status.state, type(event)), ()):
        if row.guard.holds(region, event):
            return row
    return None


_BECAME: dict[type[Any], bool] = {BecameHealthy: True, BecameUnhealthy: False}


def step(region: Region, event: Event, now: int) -> Outcome:
    """Return what follows from *event* at *now* (epoch milliseconds)."""
    row = row_of(region, event)
    return Outcome(region, ignored=True) if row is None else row.action.apply(region, event, now)
