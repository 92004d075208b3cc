"""No event in any state is an error, and what may never happen does not; tried out one by one."""

import functools
from collections.abc import Iterator
from itertools import product

from rules.regions.events import Event, Outcome
from rules.regions.machine import TABLE, row_of, step
from rules.regions.region import Mark, Region, State
from tests.support.regions import (
    NOON,
    BecameHealthy,
    BecameUnhealthy,
    BlockingCheckpointDone,
    CheckpointDone,
    DrainPeriod,
    DrainTimeout,
    OperatorDrain,
    OperatorReset,
    ResetDone,
    ResetTimeout,
    driven,
    periodic,
    with_status,
)

#: Ids of the regions that are tried: current 6, last completed 4, pending 5, attempt 1.
CURRENT, LAST, PENDING = 6, 4, 5
TIMER = 3


def regions() -> Iterator[Region]:
    """Every state, health, must-reset, two marks and both ends of the attempts."""
    marks = list(product(Mark, Mark))
    for base in (periodic(), driven(Src=True, Mid=False)):
        for state, (one, two), healthy, must, attempt in product(State, marks, (True, False), (True, False), (1, 5)):
            yield with_status(
                base,
                state=state,
                pe_to_completion={0: one, 1: two},
                region_healthy=healthy,
                must_reset=must,
                current_reset_attempt=attempt,
                current_seq_id=CURRENT,
                last_completed_seq_id=LAST,
                pending_seq_id=PENDING,
                to_retire_seq_id=3,
                current_timer_seq_id=TIMER,
            )


def events() -> Iterator[Event]:
    """Every event, with right and wrong ids, members and strangers, stale and running timers."""
    yield from (BecameHealthy(clean, restarted) for clean, restarted in product((True, False), repeat=2))
    yield BecameUnhealthy(True)
    seqs, pes = (0, LAST, PENDING, CURRENT, CURRENT + 1), (0, 1, 2)
    yield from (CheckpointDone(pe, seq) for pe, seq in product(pes, seqs))
    yield from (BlockingCheckpointDone(pe, seq) for pe, seq in product(pes, seqs))
    yield from (ResetDone(pe, seq, attempt) for pe, seq, attempt in product(pes, seqs, (0, 1, 4, 5)))
    yield from (OperatorDrain(name, seq) for name, seq in product(("Src", "Mid", "Nobody"), (CURRENT, 7)))
    yield from (
        OperatorReset("Src", force, healthy) for force, healthy in product((True, False), (True, False, None))
    )
    for timer in (TIMER - 1, TIMER, TIMER + 1):
        yield from (DrainPeriod(timer), DrainTimeout(timer), ResetTimeout(timer))


@functools.cache
def tried() -> list[tuple[Region, Event, Outcome]]:
    """What every event does to every region."""
    return [(region, event, step(region, event, NOON)) for region, event in product(list(regions()), list(events()))]


def test_sequence_ids_never_go_back_and_completed_is_below_current() -> None:
    for region, event, outcome in tried():
        before, after = region.status, outcome.region.status
        assert after.current_seq_id >= before.current_seq_id, (before, event)
        assert after.last_completed_seq_id >= before.last_completed_seq_id, (before, event)
        assert after.to_retire_seq_id >= before.to_retire_seq_id, (before, event)
        assert after.last_completed_seq_id < after.current_seq_id, (before, event)
        assert after.current_timer_seq_id >= before.current_timer_seq_id, (before, event)


def test_what_is_ignored_changes_nothing_and_asks_for_nothing() -> None:
    ignored = [each for each in tried() if each[2].ignored]
    assert ignored
    for region, _, outcome in ignored:
        assert outcome.region is region
        assert (outcome.notification, outcome.timer, outcome.clear_board) == (None, None, False)


def test_a_wrong_id_a_stranger_and_a_stale_timer_are_ignored() -> None:
    for _, event, outcome in tried():
        stranger = isinstance(event, CheckpointDone | BlockingCheckpointDone | ResetDone) and event.pe == 2
        wrong = isinstance(event, CheckpointDone | BlockingCheckpointDone) and event.seq not in (CURRENT, PENDING)
        wrong = wrong or (isinstance(event, ResetDone) and event.seq != LAST)
        stale = isinstance(event, DrainPeriod | DrainTimeout | ResetTimeout) and event.timer != TIMER
        if stranger or wrong or stale:
            assert outcome.ignored, event


def test_the_states_that_expect_no_report_ignore_it() -> None:
    expected = {
        CheckpointDone: {State.DRAINING, State.CHECKPOINT_PENDING},
        BlockingCheckpointDone: {State.DRAINING},
        ResetDone: {State.RESETTING},
        DrainPeriod: {State.PROCESSING},
        DrainTimeout: {State.DRAINING, State.CHECKPOINT_PENDING},
        ResetTimeout: {State.RESETTING},
    }
    for kind, states in expected.items():
        acted = {
            region.status.state for region, event, outcome in tried() if type(event) is kind and not outcome.ignored
        }
        assert acted == states, kind


def test_a_region_at_its_attempt_limit_sends_no_reset() -> None:
    seen = 0
    for region, event, outcome in tried():
        at_limit = region.status.current_reset_attempt >= region.status.current_max_reset_attempts
        forced = isinstance(event, OperatorReset) and event.force
        if at_limit and not forced:
            seen += 1
            assert outcome.notification is None or outcome.notification.type != "triggerReset", event
            assert outcome.region.status.state is not State.RESETTING or region.status.state is State.RESETTING
    assert seen


def test_a_blocking_report_never_takes_a_checkpoint_back() -> None:
    for region, event, outcome in tried():
        if isinstance(event, BlockingCheckpointDone):
            for pe, mark in region.status.pe_to_completion.items():
                if mark is Mark.CHECKPOINT_DONE:
                    assert outcome.region.status.pe_to_completion[pe] is Mark.CHECKPOINT_DONE


def test_a_report_that_comes_twice_counts_once() -> None:
    for _, event, outcome in tried():
        if isinstance(event, CheckpointDone | BlockingCheckpointDone | ResetDone) and not outcome.ignored:
            assert step(outcome.region, event, NOON + 1).ignored, event


def test_each_row_leads_only_where_it_says_and_tells_only_what_it_says() -> None:
    reached: dict[int, set[State]] = {number: set() for number in range(len(TABLE))}
    told: dict[int, set[str]] = {number: set() for number in range(len(TABLE))}
    for region, event, outcome in tried():
        row = row_of(region, event)
        if row is not None:
            number = TABLE.index(row)
            if row.next:
                reached[number].add(outcome.region.status.state)
            else:
                assert outcome.region.status.state is region.status.state, row
            if outcome.notification is not None:
                told[number].add(outcome.notification.type)
    for number, row in enumerate(TABLE):
        assert reached[number] == set(row.next), row
        assert told[number] == {kind for kind, _ in row.action.tells}, row


def test_exhausted_with_force_and_unknown_health_waits_for_health_to_come() -> None:
    base = with_status(
        periodic(), state=State.MAXIMUM_RESET_ATTEMPTS_REACHED, region_healthy=True, current_reset_attempt=5
    )
    waiting = step(base, OperatorReset("person", True, None), NOON).region
    assert (waiting.status.state, waiting.status.region_healthy) == (State.UNHEALTHY, False)
    assert waiting.status.current_max_reset_attempts == 10
    again = step(waiting, BecameHealthy(clean=True), NOON)
    assert again.region.status.state is State.RESETTING
    assert again.notification == ("triggerReset", "seqId=0;resetAttempt=5")


def test_the_last_report_blocking_leaves_the_checkpoint_pending() -> None:
    region = with_status(periodic(), state=State.DRAINING, pe_to_completion={0: Mark.CHECKPOINT_DONE, 1: Mark.NONE})
    outcome = step(region, BlockingCheckpointDone(1, 1), NOON)
    assert outcome.region.status.state is State.CHECKPOINT_PENDING
    assert outcome.notification == ("resumeSubmission", "seqId=2;retId=0;pendCkpt=1")


def test_a_mean_looks_back_ten_drains_and_is_cut_to_milliseconds() -> None:
    region = with_status(periodic(pes=(0,)), state=State.PROCESSING, region_healthy=True)
    durations = [1000 + 7 * number for number in range(13)]
    for number, milliseconds in enumerate(durations, start=1):
        region = step(region, DrainPeriod(region.status.current_timer_seq_id), NOON).region
        region = step(region, CheckpointDone(0, number), NOON + milliseconds).region
    status = region.status
    assert status.avg_drain_time.samples == tuple(durations[-10:])
    assert status.avg_drain_time_metric == sum(durations[-10:]) // 10
    assert [(span.seq_id, span.started_at, span.milliseconds) for span in status.recent_drains] == [
        (number, NOON, milliseconds) for number, milliseconds in list(enumerate(durations, start=1))[-10:]
    ]


def test_a_clock_that_was_put_back_gives_no_negative_time() -> None:
    region = with_status(periodic(pes=(0,)), state=State.PROCESSING, region_healthy=True)
    region = step(region, DrainPeriod(0), NOON).region
    region = step(region, CheckpointDone(0, 1), NOON - 5000).region
    assert region.status.avg_drain_time_metric == 0
