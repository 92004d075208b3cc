"""One region in the operator's memory: as it is, as its resource was last written, and what waits for a write."""

from collections import deque
from dataclasses import dataclass, field

from rules.regions.events import Event, Outcome
from rules.regions.region import Region, RegionSpec, RegionStatus

#: Events that wait behind a write that does not succeed, for one region; the oldest go first.
MOST_WAITING = 10_000


@dataclass(slots=True)
class Held:
    """*written* is the status that the API server accepted last, at *version*; None before the first write.

    *shown* is the status that the resource has at *shown_at*, as an accepted write or an event said: what the gauges
    show, whoever wrote it. *unwritten* is a transition whose resource is not written yet: nothing more happens to the
    region until it is, and what comes is *waiting* (None: a look at the health). *asked* is the static part that was
    seen last. *restarted*: the region's first healthy moment has to reset it.
    """

    name: str
    version: str
    region: Region
    written: RegionStatus | None
    asked: RegionSpec
    restarted: bool
    shown: RegionStatus
    shown_at: str
    unwritten: Outcome | None = None
    failures: int = 0
    catching_up: bool = False
    waiting: deque[Event | None] = field(default_factory=lambda: deque(maxlen=MOST_WAITING))

    @property
    def index(self) -> int:
        return self.region.spec.region_index

    def show(self, version: str, status: RegionStatus) -> None:
        """Have the gauges show *status*, unless what they show is known to be newer."""
        if not _older(version, self.shown_at):
            self.shown, self.shown_at = status, version

    def wait(self, event: Event | None) -> None:
        """Keep *event* for later; looks at the health in a row are one."""
        if event is not None or not self.waiting or self.waiting[-1] is not None:
            self.waiting.append(event)


def _older(one: str, other: str) -> bool:
    """Whether version *one* of a resource came before *other*; versions that are no numbers have no order."""
    return one.isdecimal() and other.isdecimal() and int(one) < int(other)


def only_marks(before: RegionStatus, outcome: Outcome) -> bool:
    """Whether a PE was marked and nothing else happened."""
    after = outcome.region.status
    return (
        outcome.notification is None
        and outcome.timer is None
        and after.state is before.state
        and after.pe_to_completion is not before.pe_to_completion
    )
