"""The conditions of the transition table; each is asked only in the states and of the events of its rows."""

from collections.abc import Callable
from typing import Any, NamedTuple

from rules.regions.region import Mark, Region

_DRAINED = (Mark.CHECKPOINT_DONE, Mark.BLOCKING_CHECKPOINT_DONE)

#: Holds or not; the event's type is that of the row, which a table cannot tell the type checker.
Condition = Callable[[Region, Any], bool]


class Guard(NamedTuple):
    """A condition and how the table words it."""

    words: str
    holds: Condition


def _clean(region: Region, event: Any) -> bool:
    return bool(event.clean) and not event.restarted and not region.status.must_reset


def _asked(region: Region, event: Any) -> bool:
    return not region.spec.periodic and region.spec.operators_to_trigger_map.get(event.operator, False)


def _asked_now(region: Region, event: Any) -> bool:
    return _asked(region, event) and event.seq == region.status.current_seq_id


def _fresh(region: Region, event: Any) -> bool:
    return bool(event.timer == region.status.current_timer_seq_id)


def _news(region: Region, event: Any, mark: Mark, seq: int) -> bool:
    """Whether a member's report is about *seq* and says more than what it said before."""
    known = region.status.pe_to_completion.get(event.pe)
    if known is None or known is mark or event.seq != seq:
        return False
    return not (mark is Mark.BLOCKING_CHECKPOINT_DONE and known is Mark.CHECKPOINT_DONE)


def _others(region: Region, event: Any, *marks: Mark) -> bool:
    """Whether every PE but the one that reports has one of *marks*; counted, which takes a microsecond."""
    known = list(region.status.pe_to_completion.values())
    have = sum(map(known.count, marks)) - (region.status.pe_to_completion[event.pe] in marks)
    return have == len(known) - 1


def _checkpoint(region: Region, event: Any) -> bool:
    return _news(region, event, Mark.CHECKPOINT_DONE, region.status.current_seq_id)


def _all_checkpointed(region: Region, event: Any) -> bool:
    return _checkpoint(region, event) and _others(region, event, Mark.CHECKPOINT_DONE)


def _checkpoint_leaves_blocking(region: Region, event: Any) -> bool:
    return _checkpoint(region, event) and _others(region, event, *_DRAINED)


def _blocking(region: Region, event: Any) -> bool:
    return _news(region, event, Mark.BLOCKING_CHECKPOINT_DONE, region.status.current_seq_id)


def _all_drained(region: Region, event: Any) -> bool:
    return _blocking(region, event) and _others(region, event, *_DRAINED)


def _pending(region: Region, event: Any) -> bool:
    return _news(region, event, Mark.CHECKPOINT_DONE, region.status.pending_seq_id)


def _all_pending(region: Region, event: Any) -> bool:
    return _pending(region, event) and _others(region, event, Mark.CHECKPOINT_DONE)


def _reset(region: Region, event: Any) -> bool:
    expected = region.status.current_reset_attempt - 1
    return event.attempt == expected and _news(region, event, Mark.RESET_DONE, region.status.last_completed_seq_id)


def _all_reset(region: Region, event: Any) -> bool:
    return _reset(region, event) and _others(region, event, Mark.RESET_DONE)


ALWAYS = Guard("-", lambda region, event: True)
CLEAN = Guard("clean, the controller not restarted, no reset asked for", _clean)
FORCED = Guard("force", lambda region, event: bool(event.force))
FORCED_HEALTHY = Guard("force, healthy", lambda region, event: bool(event.force) and event.healthy is True)
ASKED = Guard("a trigger operator of an operator-driven region", _asked)
ASKED_NOW = Guard("a trigger operator of an operator-driven region, the current id", _asked_now)
FRESH = Guard("the timer is not stale", _fresh)
CHECKPOINT = Guard("a PE of the region, the current id, not reported before", _checkpoint)
ALL_CHECKPOINTED = Guard("the last PE, all others CheckpointDone", _all_checkpointed)
CHECKPOINT_LEAVES_BLOCKING = Guard("the last PE, another one is still blocking", _checkpoint_leaves_blocking)
BLOCKING = Guard("a PE of the region, the current id, nothing reported before", _blocking)
ALL_DRAINED = Guard("the last PE, all others CheckpointDone or BlockingCheckpointDone", _all_drained)
PENDING = Guard("a PE of the region, the pending id, not reported before", _pending)
ALL_PENDING = Guard("the last PE, all others CheckpointDone", _all_pending)
RESET = Guard("a PE of the region, the last completed id, the attempt announced, not reported before", _reset)
ALL_RESET = Guard("the last PE, all others ResetDone", _all_reset)
