"""Whatever happens to a region in whatever order: what has to hold does."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rules.regions.events import Event, Notification, Outcome, Timer, over
from rules.regions.machine import step
from rules.regions.notifications import read
from rules.regions.region import Mark, Region, RegionStatus, State, restarted
from tests.support.regions import (
    NOON,
    BecameHealthy,
    BecameUnhealthy,
    BlockingCheckpointDone,
    CheckpointDone,
    OperatorDrain,
    OperatorReset,
    ResetDone,
    driven,
    periodic,
)

PES = st.integers(0, 3)  # 3 is a stranger


class Life(RuleBasedStateMachine):
    """A region, its timer, and what its PEs were told."""

    @initialize(operator_driven=st.booleans(), limit=st.integers(1, 3))
    def begin(self, operator_driven: bool, limit: int) -> None:
        self.region: Region = (
            driven(Src=True) if operator_driven else periodic((0, 1, 2), max_consecutive_reset_attempts=limit)
        )
        self.timer: Timer | None = None
        self.now = NOON
        self.restarted = False
        self.triggered: list[int] = []
        self.completed: list[int] = []
        self.checkpointed: dict[int, set[int]] = {}
        self.highest = self.region.status.current_seq_id

    def play(self, event: Event) -> Outcome:
        self.now += 500
        before = self.region.status
        outcome = step(self.region, event, self.now)
        self.region = outcome.region
        after = outcome.region.status
        if outcome.timer is not None:
            self.timer = outcome.timer
        assert after.current_seq_id >= before.current_seq_id
        assert after.last_completed_seq_id >= before.last_completed_seq_id
        assert after.last_completed_seq_id < after.current_seq_id
        if outcome.notification is not None:
            self.told(outcome.notification, before)
        if after.last_completed_seq_id != before.last_completed_seq_id:
            self.completed.append(after.last_completed_seq_id)
            members = set(self.region.spec.pes_in_region)
            assert self.checkpointed.get(after.last_completed_seq_id) == members
        return outcome

    def told(self, notification: Notification, before: RegionStatus) -> None:
        numbers = read(notification)
        if notification.type == "triggerDrain":
            self.triggered.append(numbers["seqId"])
        if notification.type == "triggerReset":
            assert numbers["seqId"] == self.region.status.last_completed_seq_id
            assert before.current_reset_attempt < self.region.status.current_max_reset_attempts

    @rule(clean=st.booleans())
    def healthy(self, clean: bool) -> None:
        self.play(BecameHealthy(clean, self.restarted))

    @rule()
    def unhealthy(self) -> None:
        self.play(BecameUnhealthy())

    @rule(pe=PES, off=st.sampled_from((0, 0, 0, 0, -1, 1)), blocking=st.booleans())
    def checkpoint(self, pe: int, off: int, blocking: bool) -> None:
        state = self.region.status.state
        expected = (
            self.region.status.pending_seq_id
            if state is State.CHECKPOINT_PENDING
            else self.region.status.current_seq_id
        )
        seq = expected + off
        if blocking:
            self.play(BlockingCheckpointDone(pe, seq))
        else:
            if pe in self.region.spec.pes_in_region and state in (State.DRAINING, State.CHECKPOINT_PENDING):
                self.checkpointed.setdefault(seq, set()).add(pe)
            self.play(CheckpointDone(pe, seq))

    @rule(pe=PES, off=st.sampled_from((0, 0, 0, 1)))
    def reset_done(self, pe: int, off: int) -> None:
        status = self.region.status
        self.play(ResetDone(pe, status.last_completed_seq_id, status.current_reset_attempt - 1 + off))

    @rule(off=st.sampled_from((0, 0, 5)))
    def drain(self, off: int) -> None:
        self.play(OperatorDrain("Src", self.region.status.current_seq_id + off))

    @rule(force=st.booleans(), healthy=st.sampled_from((True, False, None)))
    def reset(self, force: bool, healthy: bool | None) -> None:
        self.play(OperatorReset("person", force, healthy))

    @precondition(lambda self: self.timer is not None)
    @rule()
    def time_is_over(self) -> None:
        timer, self.timer = self.timer, None
        assert timer is not None
        self.play(over(timer))

    @rule()
    def controller_restarts(self) -> None:
        self.region, self.timer, self.restarted = restarted(self.region), None, True

    @rule()
    def a_drain_or_reset_left_alone_ends(self) -> None:
        """What waits for reports has a timer that runs, and ends with it."""
        busy = (State.DRAINING, State.CHECKPOINT_PENDING, State.RESETTING)
        for _ in range(self.region.status.current_max_reset_attempts + 2):
            if self.region.status.state not in busy:
                break
            assert self.timer is not None and self.timer.seq == self.region.status.current_timer_seq_id
            self.time_is_over()
        assert self.region.status.state not in busy

    @invariant()
    def ids_are_used_once(self) -> None:
        if hasattr(self, "region"):
            assert len(set(self.triggered)) == len(self.triggered)
            assert self.completed == sorted(set(self.completed))

    @invariant()
    def marks_are_of_members_and_of_this_state(self) -> None:
        if hasattr(self, "region"):
            status = self.region.status
            assert set(status.pe_to_completion) == set(self.region.spec.pes_in_region)
            marks = set(status.pe_to_completion.values())
            if status.state is State.RESETTING:
                assert marks <= {Mark.NONE, Mark.RESET_DONE}
            if status.state is State.PROCESSING:
                assert marks == {Mark.NONE}


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
