"""What the transitions do: each takes a region, the event and the moment, and returns the outcome."""

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from rules.regions import notifications
from rules.regions.events import Outcome, Timer, TimerKind
from rules.regions.region import SAMPLES, Average, Mark, Region, RegionStatus, Span, State, unmarked

#: The event's type is that of the row, which a table cannot tell the type checker; *now* in epoch milliseconds.
Effect = Callable[[Region, Any, int], Outcome]


class Action(NamedTuple):
    """An effect, how the table words it, and the notifications (type, message) and timers that it may give."""

    words: str
    apply: Effect
    tells: tuple[tuple[str, str], ...] = ()
    starts: tuple[TimerKind, ...] = ()


def _with(region: Region, **changes: Any) -> Region:
    return Region(region.spec, replace(region.status, **changes))


def next_drain(region: Region) -> Timer | None:
    """The timer of the next drain, where drains are periodic."""
    if not region.spec.periodic or region.spec.period is None:
        return None
    return Timer(TimerKind.DRAIN_PERIOD, region.spec.period, region.status.current_timer_seq_id)


def _drain_limit(region: Region) -> Timer:
    return Timer(TimerKind.DRAIN_TIMEOUT, region.spec.drain_timeout, region.status.current_timer_seq_id)


def _averaged(average: Average, milliseconds: int) -> Average:
    samples = (*average.samples, milliseconds)[-SAMPLES:]
    return Average(samples, SAMPLES, sum(samples))


def _kept(spans: tuple[Span, ...], span: Span) -> tuple[Span, ...]:
    return (*spans, span)[-SAMPLES:]


def _start(region: Region, event: Any, now: int) -> Outcome:
    started = _with(
        region,
        state=State.PROCESSING,
        region_healthy=True,
        clean_start=event.clean,
        healthy_first_time=True,
    )
    return Outcome(started, timer=next_drain(started))


def _start_by_reset(region: Region, event: Any, now: int) -> Outcome:
    known = _with(region, region_healthy=True, clean_start=event.clean, healthy_first_time=True, must_reset=False)
    return _reset(known, event, now)


def _reset(region: Region, event: Any, now: int) -> Outcome:
    """The reset procedure: back to the last completed checkpoint, unless the attempts are used up."""
    status = region.status
    marks = unmarked(region.spec.pes_in_region)
    timer = status.current_timer_seq_id + 1
    if status.current_reset_attempt >= status.current_max_reset_attempts:
        given_up = _with(
            region,
            state=State.MAXIMUM_RESET_ATTEMPTS_REACHED,
            pe_to_completion=marks,
            current_timer_seq_id=timer,
        )
        return Outcome(given_up, notifications.reset_failed(given_up.status))
    resetting = _with(
        region,
        state=State.RESETTING,
        pe_to_completion=marks,
        current_reset_attempt=status.current_reset_attempt + 1,
        reset_start_timestamp=now,
        current_timer_seq_id=timer,
    )
    limit = Timer(TimerKind.RESET_TIMEOUT, region.spec.reset_timeout, timer)
    return Outcome(resetting, notifications.trigger_reset(resetting.status), limit)


def _reset_healthy(region: Region, event: Any, now: int) -> Outcome:
    return _reset(_with(region, region_healthy=True, clean_start=event.clean), event, now)


def _more_attempts(region: Region) -> Region:
    limit = region.status.current_reset_attempt + region.spec.max_consecutive_reset_attempts
    return _with(region, current_max_reset_attempts=limit)


def _forced_reset(region: Region, event: Any, now: int) -> Outcome:
    return _reset(_more_attempts(region), event, now)


def _forced_reset_of_exhausted(region: Region, event: Any, now: int) -> Outcome:
    return _reset(_with(_more_attempts(region), region_healthy=True), event, now)


def _wait_for_health(region: Region, event: Any, now: int) -> Outcome:
    """The stored health is unhealthy now, whatever it was: the next healthy moment has to be a change."""
    return Outcome(_with(_more_attempts(region), state=State.UNHEALTHY, region_healthy=False))


def _allow_more(region: Region, event: Any, now: int) -> Outcome:
    return Outcome(_more_attempts(region))


def _must_reset(region: Region, event: Any, now: int) -> Outcome:
    return Outcome(_with(region, must_reset=True))


def _must_reset_forced(region: Region, event: Any, now: int) -> Outcome:
    return Outcome(_with(_more_attempts(region), must_reset=True))


def _still_unhealthy(region: Region, event: Any, now: int) -> Outcome:
    return Outcome(_with(region, region_healthy=False, clean_start=event.clean), clear_board=True)


def _store_healthy(region: Region, event: Any, now: int) -> Outcome:
    return Outcome(_with(region, region_healthy=True, clean_start=event.clean))


def _store_unhealthy(region: Region, event: Any, now: int) -> Outcome:
    return Outcome(_with(region, region_healthy=False, clean_start=event.clean))


def _lose(region: Region, event: Any, now: int) -> Outcome:
    lost = _with(
        region,
        state=State.UNHEALTHY,
        region_healthy=False,
        clean_start=event.clean,
        current_timer_seq_id=region.status.current_timer_seq_id + 1,
    )
    return Outcome(lost, clear_board=True)


def _drain(region: Region, event: Any, now: int) -> Outcome:
    draining = _with(region, state=State.DRAINING, drain_start_timestamp=now)
    return Outcome(draining, notifications.trigger_drain(draining.status), _drain_limit(draining))


def _drain_asked(region: Region, event: Any, now: int) -> Outcome:
    draining = _with(region, state=State.DRAINING, drain_start_timestamp=now)
    return Outcome(draining, timer=_drain_limit(draining))


def _marked(region: Region, pe: int, mark: Mark) -> Region:
    return _with(region, pe_to_completion={**region.status.pe_to_completion, pe: mark})


def _mark_checkpoint(region: Region, event: Any, now: int) -> Outcome:
    return Outcome(_marked(region, event.pe, Mark.CHECKPOINT_DONE))


def _mark_blocking(region: Region, event: Any, now: int) -> Outcome:
    return Outcome(_marked(region, event.pe, Mark.BLOCKING_CHECKPOINT_DONE))


def _mark_reset(region: Region, event: Any, now: int) -> Outcome:
    return Outcome(_marked(region, event.pe, Mark.RESET_DONE))


def _completed(region: Region, completed: int, current: int, now: int) -> Region:
    """The region after the checkpoint *completed*, with *current* as the next id and no attempt used."""
    status: RegionStatus = region.status
    took = max(0, now - status.drain_start_timestamp)
    average = _averaged(status.avg_drain_time, took)
    return _with(
        region,
        state=State.PROCESSING,
        to_retire_seq_id=status.last_completed_seq_id,
        last_completed_seq_id=completed,
        current_seq_id=current,
        pending_seq_id=current,
        current_reset_attempt=0,
        current_max_reset_attempts=region.spec.max_consecutive_reset_attempts,
        current_timer_seq_id=status.current_timer_seq_id + 1,
        pe_to_completion=unmarked(region.spec.pes_in_region),
        avg_drain_time=average,
        avg_drain_time_metric=average.mean,
        last_consistent_state_time=now,
        last_completed_drain=completed,
        recent_drains=_kept(status.recent_drains, Span(completed, status.drain_start_timestamp, took)),
    )


def _complete(region: Region, event: Any, now: int) -> Outcome:
    current = region.status.current_seq_id
    done = _completed(region, current, current + 1, now)
    return Outcome(done, notifications.resume(done.status, pending=False), next_drain(done))


def _complete_pending(region: Region, event: Any, now: int) -> Outcome:
    done = _completed(region, region.status.pending_seq_id, region.status.current_seq_id, now)
    return Outcome(done, notifications.drained(done.status), next_drain(done))


def _go_on(region: Region, mark: Mark, event: Any) -> Outcome:
    """The PEs may go on while some still write their checkpoint; the limit of the drain goes on too."""
    current = region.status.current_seq_id
    waiting = _with(
        _marked(region, event.pe, mark),
        state=State.CHECKPOINT_PENDING,
        pending_seq_id=current,
        current_seq_id=current + 1,
    )
    return Outcome(waiting, notifications.resume(waiting.status, pending=True))


def _go_on_after_checkpoint(region: Region, event: Any, now: int) -> Outcome:
    return _go_on(region, Mark.CHECKPOINT_DONE, event)


def _go_on_after_blocking(region: Region, event: Any, now: int) -> Outcome:
    return _go_on(region, Mark.BLOCKING_CHECKPOINT_DONE, event)


def _reset_completed(region: Region, event: Any, now: int) -> Outcome:
    """Attempts stay counted: only a completed drain shows that the region is well again."""
    status = region.status
    took = max(0, now - status.reset_start_timestamp)
    average = _averaged(status.avg_reset_time, took)
    done = _with(
        region,
        state=State.PROCESSING,
        pe_to_completion=unmarked(region.spec.pes_in_region),
        current_seq_id=status.current_seq_id + 1,
        current_timer_seq_id=status.current_timer_seq_id + 1,
        avg_reset_time=average,
        avg_reset_time_metric=average.mean,
        last_reset_time=now,
        last_completed_reset=status.last_completed_seq_id,
        recent_resets=_kept(
            status.recent_resets, Span(status.last_completed_seq_id, status.reset_start_timestamp, took)
        ),
    )
    return Outcome(done, notifications.resume(done.status, pending=False), next_drain(done))


_R_TELLS = (
    ("triggerReset", "seqId=<last>;resetAttempt=<attempt before +1>"),
    ("resetFailed", "seqId=<last>"),
)
_R_STARTS = (TimerKind.RESET_TIMEOUT,)
_RESUME = ("resumeSubmission", "seqId=<cur>;retId=<retire>;pendCkpt=0")
_RESUME_PENDING = ("resumeSubmission", "seqId=<cur>;retId=<retire>;pendCkpt=1")
_NEXT_DRAIN = (TimerKind.DRAIN_PERIOD,)

START = Action("first healthy", _start, starts=_NEXT_DRAIN)
START_BY_RESET = Action("first healthy, no reset asked for any more, R", _start_by_reset, _R_TELLS, _R_STARTS)
RESET = Action("R", _reset, _R_TELLS, _R_STARTS)
RESET_HEALTHY = Action("store health, R", _reset_healthy, _R_TELLS, _R_STARTS)
FORCED_RESET = Action("limit = attempt + max, R", _forced_reset, _R_TELLS[:1], _R_STARTS)
FORCED_RESET_OF_EXHAUSTED = Action(
    "limit = attempt + max, store healthy, R", _forced_reset_of_exhausted, _R_TELLS[:1], _R_STARTS
)
WAIT_FOR_HEALTH = Action("limit = attempt + max, store unhealthy", _wait_for_health)
ALLOW_MORE = Action("limit = attempt + max", _allow_more)
MUST_RESET = Action("a reset is asked for", _must_reset)
MUST_RESET_FORCED = Action("a reset is asked for, limit = attempt + max", _must_reset_forced)
STILL_UNHEALTHY = Action("store health, clear the region's board", _still_unhealthy)
STORE_HEALTHY = Action("store health", _store_healthy)
STORE_UNHEALTHY = Action("store health", _store_unhealthy)
LOSE = Action("store health, clear the region's board, cancel timers", _lose)
DRAIN = Action("stamp the drain's start", _drain, (("triggerDrain", "seqId=<cur>"),), (TimerKind.DRAIN_TIMEOUT,))
DRAIN_ASKED = Action("stamp the drain's start", _drain_asked, starts=(TimerKind.DRAIN_TIMEOUT,))
MARK_CHECKPOINT = Action("mark the PE", _mark_checkpoint)
MARK_BLOCKING = Action("mark the PE", _mark_blocking)
MARK_RESET = Action("mark the PE", _mark_reset)
COMPLETE = Action(
    "retire = last, last = cur, cur + 1, attempt = 0, limit = max, pending = cur, cancel timers, marks off, metrics",
    _complete,
    (_RESUME,),
    _NEXT_DRAIN,
)
COMPLETE_PENDING = Action(
    "retire = last, last = pending, attempt = 0, limit = max, pending = cur, cancel timers, marks off, metrics",
    _complete_pending,
    (("drained", "seqId=<pending>"),),
    _NEXT_DRAIN,
)
_GOES_ON = "mark the PE, pending = cur, cur + 1, timers and marks stay"
GO_ON_AFTER_CHECKPOINT = Action(_GOES_ON, _go_on_after_checkpoint, (_RESUME_PENDING,))
GO_ON_AFTER_BLOCKING = Action(_GOES_ON, _go_on_after_blocking, (_RESUME_PENDING,))
COMPLETE_RESET = Action(
    "cur + 1, cancel timers, marks off, attempts stay counted, metrics", _reset_completed, (_RESUME,), _NEXT_DRAIN
)
