"""The worked cases of consistent regions, one test each."""

from rules.regions.region import restarted
from tests.support.regions import (
    BecameHealthy,
    BlockingCheckpointDone,
    CheckpointDone,
    DrainPeriod,
    DrainTimeout,
    Mark,
    OperatorDrain,
    Played,
    ResetDone,
    State,
    TimerKind,
    attempts,
    driven,
    ids,
    periodic,
    with_status,
)

NOTHING = {0: Mark.NONE, 1: Mark.NONE}


def draining() -> Played:
    """Case 14 up to the trigger of its first drain."""
    play = Played(periodic())
    play(BecameHealthy(clean=True))
    play.over()
    return play


def test_case_14_clean_start_and_one_periodic_drain() -> None:
    play = Played(periodic())
    assert (play.state, ids(play.region), attempts(play.region)) == (State.STARTED, (1, 0, 0, 0), (0, 5))
    play(BecameHealthy(clean=True))
    assert (play.state, ids(play.region)) == (State.PROCESSING, (1, 0, 0, 0))
    assert (play.told, play.timer) == (None, (TimerKind.DRAIN_PERIOD, 5.0))
    first = play.outcome.timer
    play.over()
    assert play.state is State.DRAINING
    assert (play.told, play.timer) == (("triggerDrain", "seqId=1"), (TimerKind.DRAIN_TIMEOUT, 180.0))
    play(CheckpointDone(0, 1))
    assert (play.state, play.marks) == (State.DRAINING, {0: Mark.CHECKPOINT_DONE, 1: Mark.NONE})
    assert (play.told, play.timer) == (None, None)
    play(CheckpointDone(1, 1))
    assert (play.state, ids(play.region), play.marks) == (State.PROCESSING, (2, 1, 2, 0), NOTHING)
    assert play.told == ("resumeSubmission", "seqId=2;retId=0;pendCkpt=0")
    assert play.timer == (TimerKind.DRAIN_PERIOD, 5.0)
    assert first is not None and play.outcome.timer is not None
    assert play.outcome.timer.seq == first.seq + 1
    assert play.region.status.last_completed_drain == 1
    play.over()
    assert play.told == ("triggerDrain", "seqId=2")
    play(CheckpointDone(0, 2))
    play(CheckpointDone(1, 2))
    assert (play.state, ids(play.region)) == (State.PROCESSING, (3, 2, 3, 1))
    assert play.told == ("resumeSubmission", "seqId=3;retId=1;pendCkpt=0")


def test_case_15_first_health_not_clean() -> None:
    play = Played(periodic())
    play(BecameHealthy(clean=False))
    assert (play.state, attempts(play.region)) == (State.RESETTING, (1, 5))
    assert (play.told, play.timer) == (
        ("triggerReset", "seqId=0;resetAttempt=0"),
        (TimerKind.RESET_TIMEOUT, 180.0),
    )
    assert play(ResetDone(0, 0, 1)).ignored
    assert play.marks == NOTHING
    play(ResetDone(0, 0, 0))
    play(ResetDone(1, 0, 0))
    assert (play.state, ids(play.region), attempts(play.region)) == (State.PROCESSING, (2, 0, 0, 0), (1, 5))
    assert play.told == ("resumeSubmission", "seqId=2;retId=0;pendCkpt=0")
    assert play.timer == (TimerKind.DRAIN_PERIOD, 5.0)
    assert play.region.status.last_completed_reset == 0


def checkpoint_pending() -> Played:
    play = draining()
    play(BlockingCheckpointDone(0, 1))
    play(CheckpointDone(1, 1))
    return play


def test_case_16_blocking_then_final_checkpoint() -> None:
    play = draining()
    timer = play.region.status.current_timer_seq_id
    play(BlockingCheckpointDone(0, 1))
    assert (play.state, play.marks[0]) == (State.DRAINING, Mark.BLOCKING_CHECKPOINT_DONE)
    play(CheckpointDone(1, 1))
    assert (play.state, ids(play.region)) == (State.CHECKPOINT_PENDING, (2, 0, 1, 0))
    assert play.told == ("resumeSubmission", "seqId=2;retId=0;pendCkpt=1")
    assert play.region.status.current_timer_seq_id == timer
    play(CheckpointDone(0, 1))
    assert (play.state, ids(play.region)) == (State.PROCESSING, (2, 1, 2, 0))
    assert play.told == ("drained", "seqId=1")


def test_case_16_variant_drain_timeout_while_pending() -> None:
    play = checkpoint_pending()
    play(DrainTimeout(play.region.status.current_timer_seq_id))
    assert (play.state, ids(play.region)) == (State.RESETTING, (2, 0, 1, 0))
    assert play.told == ("triggerReset", "seqId=0;resetAttempt=0")


def test_case_16_variant_drain_period_while_pending() -> None:
    play = checkpoint_pending()
    before = play.region
    assert play(DrainPeriod(play.region.status.current_timer_seq_id)).ignored
    assert play.region == before


def test_case_18_operator_driven() -> None:
    play = Played(driven(Src=True, Mid=False))
    play(OperatorDrain("Src", 1))
    assert (play.state, play.region.status.must_reset) == (State.STARTED, True)
    play(BecameHealthy(clean=True))
    assert (play.state, play.told) == (State.RESETTING, ("triggerReset", "seqId=0;resetAttempt=0"))
    play(ResetDone(0, 0, 0))
    play(ResetDone(1, 0, 0))
    assert (play.state, play.region.status.current_seq_id, play.timer) == (State.PROCESSING, 2, None)
    assert play(OperatorDrain("Mid", 2)).ignored
    assert play(OperatorDrain("Nobody", 2)).ignored
    assert play.state is State.PROCESSING
    play(OperatorDrain("Src", 2))
    assert (play.state, play.told) == (State.DRAINING, None)
    assert play.timer == (TimerKind.DRAIN_TIMEOUT, 180.0)
    play(CheckpointDone(0, 2))
    play(CheckpointDone(1, 2))
    assert (play.state, ids(play.region)) == (State.PROCESSING, (3, 2, 3, 0))
    assert play.told == ("resumeSubmission", "seqId=3;retId=0;pendCkpt=0")
    before = play.region
    assert play(OperatorDrain("Src", 7)).ignored
    assert play.region == before


def test_case_18_any_drain_on_a_periodic_region() -> None:
    play = Played(with_status(periodic(operators_to_trigger_map={"Src": True}), region_healthy=False))
    assert play(OperatorDrain("Src", 1)).ignored
    play(BecameHealthy(clean=True))
    assert play(OperatorDrain("Src", 1)).ignored
    assert play.state is State.PROCESSING


def saved(limit: int) -> Played:
    """The saved region of case 20, taken up by a controller that starts again."""
    before = with_status(
        periodic(),
        state=State.PROCESSING,
        region_healthy=True,
        current_seq_id=6,
        last_completed_seq_id=4,
        pending_seq_id=5,
        to_retire_seq_id=3,
        current_reset_attempt=1,
        current_max_reset_attempts=limit,
    )
    play = Played(restarted(before))
    assert (play.state, play.region.status.region_healthy) == (State.STARTED, False)
    assert (ids(play.region), attempts(play.region)) == ((6, 4, 5, 3), (1, limit))
    return play


def test_case_20_controller_restart() -> None:
    for clean in (True, False):
        play = saved(limit=5)
        play(BecameHealthy(clean=clean, restarted=True))
        assert (play.state, attempts(play.region)) == (State.RESETTING, (2, 5))
        assert play.told == ("triggerReset", "seqId=4;resetAttempt=1")
        play(ResetDone(0, 4, 1))
        play(ResetDone(1, 4, 1))
        assert (play.state, ids(play.region)) == (State.PROCESSING, (7, 4, 5, 3))
        assert play.told == ("resumeSubmission", "seqId=7;retId=3;pendCkpt=0")
        assert play.region.status.last_completed_reset == 4


def test_case_20_attempts_used_up() -> None:
    play = saved(limit=1)
    play(BecameHealthy(clean=True, restarted=True))
    assert (play.state, play.told) == (State.MAXIMUM_RESET_ATTEMPTS_REACHED, ("resetFailed", "seqId=4"))
