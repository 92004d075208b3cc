"""Regions for tests: the one of the worked cases, and short words for events and what comes of them."""

from msgspec.structs import replace

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
    TimerKind,
    over,
)
from rules.regions.machine import step
from rules.regions.region import Mark, Region, RegionSpec, State, Trigger, initial

__all__ = [
    "BecameHealthy",
    "BecameUnhealthy",
    "BlockingCheckpointDone",
    "CheckpointDone",
    "DrainPeriod",
    "DrainTimeout",
    "Mark",
    "OperatorDrain",
    "OperatorReset",
    "Played",
    "ResetDone",
    "ResetTimeout",
    "State",
    "TimerKind",
    "attempts",
    "driven",
    "ids",
    "periodic",
    "with_status",
]  # fmt: skip

#: When the first event of a played case happens, epoch milliseconds; one second passes before each event.
NOON = 1_800_000_000_000


def periodic(pes: tuple[int, ...] = (0, 1), period: float = 5.0, **more: object) -> Region:
    """A region that drains every *period* seconds."""
    return initial(RegionSpec(region_index=0, pes_in_region=pes, trigger=Trigger.PERIODIC, period=period, **more))  # type: ignore[arg-type]


def driven(**triggers: bool) -> Region:
    """A region whose operators ask for drains: those that are true."""
    spec = RegionSpec(
        region_index=0, pes_in_region=(0, 1), trigger=Trigger.OPERATOR, operators_to_trigger_map=triggers
    )
    return initial(spec)


def with_status(region: Region, **changes: object) -> Region:
    """The region with parts of its status changed."""
    return Region(region.spec, replace(region.status, **changes))


def ids(region: Region) -> tuple[int, int, int, int]:
    """(current, last completed, pending, to retire)."""
    status = region.status
    return (
        status.current_seq_id,
        status.last_completed_seq_id,
        status.pending_seq_id,
        status.to_retire_seq_id,
    )


def attempts(region: Region) -> tuple[int, int]:
    """(attempts used, limit)."""
    return region.status.current_reset_attempt, region.status.current_max_reset_attempts


class Played:
    """A region that events are played to, and the timer that runs."""

    def __init__(self, region: Region, now: int = NOON) -> None:
        self.region, self.now = region, now
        self.outcome = Outcome(region)

    def __call__(self, event: Event) -> Outcome:
        """Play one event, a second after the one before."""
        self.now += 1000
        self.outcome = step(self.region, event, self.now)
        self.region = self.outcome.region
        return self.outcome

    def over(self) -> Outcome:
        """Let the timer that the last event started run out."""
        timer = self.outcome.timer
        assert timer is not None
        return self(over(timer))

    @property
    def state(self) -> State:
        return self.region.status.state

    @property
    def marks(self) -> dict[int, Mark]:
        return self.region.status.pe_to_completion

    @property
    def told(self) -> tuple[str, str] | None:
        return None if self.outcome.notification is None else tuple(self.outcome.notification)  # type: ignore[return-value]

    @property
    def timer(self) -> tuple[TimerKind, float] | None:
        return None if self.outcome.timer is None else (self.outcome.timer.kind, self.outcome.timer.seconds)
