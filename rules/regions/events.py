"""What can happen to a region, and what a transition asks for besides the new state."""

from enum import Enum
from typing import NamedTuple

from rules.regions.region import Region


class BecameHealthy(NamedTuple):
    """All PEs are connected and their pods run; *clean*: none was started before. *restarted*: the controller was."""

    clean: bool
    restarted: bool = False


class BecameUnhealthy(NamedTuple):
    """A PE is not fully connected or a pod does not run."""

    clean: bool = False


class OperatorDrain(NamedTuple):
    """An operator of the region asks for the drain of *seq*."""

    operator: str
    seq: int


class OperatorReset(NamedTuple):
    """An operator or a person asks for a reset; *healthy* is the health at that moment, None where it is unknown."""

    operator: str
    force: bool
    healthy: bool | None = None


class CheckpointDone(NamedTuple):
    pe: int
    seq: int


class BlockingCheckpointDone(NamedTuple):
    """The PE's state is taken, and is being written while the PE goes on."""

    pe: int
    seq: int


class ResetDone(NamedTuple):
    pe: int
    seq: int
    attempt: int


class DrainPeriod(NamedTuple):
    timer: int


class DrainTimeout(NamedTuple):
    timer: int


class ResetTimeout(NamedTuple):
    timer: int


Report = CheckpointDone | BlockingCheckpointDone | ResetDone
Timeout = DrainPeriod | DrainTimeout | ResetTimeout
Event = BecameHealthy | BecameUnhealthy | OperatorDrain | OperatorReset | Report | Timeout


class TimerKind(Enum):
    """Which event a timer gives when it is over."""

    DRAIN_PERIOD = "DrainPeriod"
    DRAIN_TIMEOUT = "DrainTimeout"
    RESET_TIMEOUT = "ResetTimeout"


class Timer(NamedTuple):
    """A timer to start: it is over after *seconds* and means nothing once the region's timer number went on."""

    kind: TimerKind
    seconds: float
    seq: int


_TIMEOUTS: dict[TimerKind, type[DrainPeriod] | type[DrainTimeout] | type[ResetTimeout]] = {
    TimerKind.DRAIN_PERIOD: DrainPeriod,
    TimerKind.DRAIN_TIMEOUT: DrainTimeout,
    TimerKind.RESET_TIMEOUT: ResetTimeout,
}


def over(timer: Timer) -> Timeout:
    """The event of a timer that is over."""
    return _TIMEOUTS[timer.kind](timer.seq)


class Notification(NamedTuple):
    """What the PEs of a region are told: *message* is ``key=value`` in a fixed order, joined with ``;``."""

    type: str
    message: str


class Outcome(NamedTuple):
    """What follows from an event.

    *clear_board*: what was told to the PEs before holds no longer. *ignored* says that the event was dropped.
    """

    region: Region
    notification: Notification | None = None
    timer: Timer | None = None
    clear_board: bool = False
    ignored: bool = False
