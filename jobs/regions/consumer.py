"""The one consumer of the event queue: write the resource, then act.

A transition is worked out, its resource is written at the version that is known, and only when the API server has
accepted it are the PEs told and the timer set. Marks of single PEs are not written one by one: a controller that
starts again resets the region anyway. What changes nothing is not written and waits for nothing.
"""

import time
from collections.abc import Callable, Iterable
from typing import Protocol

import structlog

from jobs.regions.boards import Boards
from jobs.regions.deadlines import Deadlines
from jobs.regions.held import Held, only_marks
from jobs.regions.inbox import Gone, Inbox, Item, Listed, Recheck, Seen, Watched
from jobs.regions.ledger import Ledger, Writing, Wrote
from jobs.regions.resources import Resource
from rules.regions.actions import next_drain
from rules.regions.events import BecameHealthy, BecameUnhealthy, Event, OperatorReset, Outcome, Timer, over
from rules.regions.health import Health
from rules.regions.machine import step
from rules.regions.membership import respecified
from rules.regions.region import Region, RegionStatus, State, restarted

_log = structlog.get_logger(__name__)

#: How long marks of single PEs wait to be written, in seconds.
MARKS = 1.0

#: Pauses between tries of a write, in seconds: doubled from the first to the last.
_PAUSES = (0.1, 10.0)

#: How long the consumer sleeps at most; items that wait for the regions to be known, at most.
_LONGEST, _EARLY = 1.0, 10_000


class Telling(Protocol):
    """What is needed of `jobs.regions.messenger.Messenger`."""

    def tell(self, pes: Iterable[int]) -> None: ...


class Consumer:
    """Keeps the regions of one job; `run` it in one thread.

    *expected* is the number of regions without which nothing begins. *leading* says whether this operator may act.
    *clock* gives seconds that only grow, *now* epoch milliseconds.
    """

    def __init__(
        self,
        inbox: Inbox,
        resources: Writing,
        boards: Boards,
        messenger: Telling,
        health: Callable[[Iterable[int]], Health | None],
        *,
        expected: int,
        restarted: bool,
        leading: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._inbox, self._ledger, self._boards, self._messenger = inbox, Ledger(resources), boards, messenger
        self._health, self._leading = health, leading
        self._expected, self._restarted = expected, restarted
        self._clock, self._now = clock, now
        self._held: dict[int, Held] = {}
        self._deadlines: Deadlines[tuple[str, int], Timer | None] = Deadlines()
        self._early: list[Item] = []
        self.started = False
        #: Events that led to something, and that were ignored.
        self.handled = self.ignored = 0

    @property
    def regions(self) -> dict[int, Region]:
        """The regions as they are now, for those who only read."""
        return {index: held.region for index, held in list(self._held.items())}

    @property
    def shown(self) -> dict[int, RegionStatus]:
        """The statuses that the resources have, as the last write or event of each said."""
        return {index: held.shown for index, held in list(self._held.items())}

    def region(self, index: int) -> Region | None:
        """One region as it is now."""
        held = self._held.get(index)
        return None if held is None else held.region

    def run(self, stopped: Callable[[], bool]) -> None:
        """Consume until *stopped*."""
        while not stopped():
            self.turn(_LONGEST)

    def turn(self, longest: float = 0.0) -> bool:
        """Do what is due, then take one item, waiting for it for *longest* seconds at most; whether there was one."""
        if not self._leading():
            return False
        for (what, index), timer in list(self._deadlines.due(self._clock())):
            held = self._held.get(index)
            if held is not None:
                self._safely(self._overdue, held, what, timer)
        due = self._deadlines.next()
        wait = longest if due is None else min(longest, max(0.0, due - self._clock()))
        item = self._inbox.take(wait)
        if item is None or not self._leading():
            return False
        self._safely(self._handle, item)
        return True

    def _safely(self, work: Callable[..., None], *arguments: object) -> None:
        try:
            work(*arguments)
        except Exception:  # a fault of ours in one event must not end all regions
            _log.exception("event dropped", what=repr(arguments)[:500])

    def _overdue(self, held: Held, what: str, timer: Timer | None) -> None:
        if timer is not None:
            self._event(held, over(timer))
        elif held.unwritten is None:
            self._write(held, Outcome(held.region))
        elif what == "write":
            self._settle(held)

    def _handle(self, item: Item) -> None:
        if isinstance(item.what, (Listed, Seen, Gone)):
            self._watched(item.what)
        elif not self.started:
            if len(self._early) < _EARLY:
                self._early.append(item)
        elif (held := self._held.get(item.region)) is None:
            self._ignored(item.region, item.what, "no such region")
        else:
            self._event(held, None if isinstance(item.what, Recheck) else item.what)

    def _event(self, held: Held, event: Event | None) -> None:
        """Play *event*, None for a look at the health, unless a write of the region has to succeed first."""
        if held.unwritten is not None or held.waiting:
            held.wait(event)
        else:
            self._play(held, event)

    def _play(self, held: Held, event: Event | None) -> None:
        region = held.region
        if event is None:
            found = self._health(region.spec.pes_in_region)
            if found is None or found.healthy is region.status.region_healthy:
                return
            event = BecameHealthy(found.clean, held.restarted) if found.healthy else BecameUnhealthy(found.clean)
        elif isinstance(event, OperatorReset):
            found = self._health(region.spec.pes_in_region)
            event = event._replace(healthy=None if found is None else found.healthy)
        outcome = step(region, event, self._now())
        if outcome.ignored:
            self._ignored(held.index, event, region.status.state.value)
            return
        self.handled += 1
        if not only_marks(region.status, outcome):
            self._write(held, outcome)
            return
        held.region = outcome.region
        if ("marks", held.index) not in self._deadlines:
            self._deadlines.set(("marks", held.index), self._clock() + MARKS, None)

    def _write(self, held: Held, outcome: Outcome) -> None:
        """Write the resource, then act; what cannot be written now is tried again."""
        self._deadlines.drop(("marks", held.index))
        if outcome.region.status == held.written:
            self._act(held, outcome)  # no update, so none to wait for
            return
        held.unwritten = outcome
        self._settle(held)

    def _settle(self, held: Held) -> None:
        """Try to write what is not written yet; act, and go on with what waited for it."""
        # Set until its outcome is known: a failure that nobody foresaw must not leave the region waiting for ever.
        self._deadlines.set(("write", held.index), self._clock() + _PAUSES[1], None)
        wrote = self._ledger.write(held)
        self._deadlines.drop(("write", held.index))
        if wrote is Wrote.GONE:
            self._forget(held)
        elif wrote is Wrote.LATER:
            pause = min(_PAUSES[1], _PAUSES[0] * 2.0 ** min(held.failures - 1, 20))
            self._deadlines.set(("write", held.index), self._clock() + pause, None)
        elif held.unwritten is not None:
            self._act(held, held.unwritten)
            self._begin()
            self._catch_up(held)

    def _catch_up(self, held: Held) -> None:
        if held.catching_up:  # further out on the stack
            return
        held.catching_up = True
        try:
            if held.asked != held.region.spec:
                self._respecify(held)
            while held.waiting and held.unwritten is None:
                self._play(held, held.waiting.popleft())
        finally:
            held.catching_up = False

    def _respecify(self, held: Held) -> None:
        """Take over what is asked for now, before anything else that waits."""
        triggered = held.region.spec.trigger
        held.region, report = respecified(held.region, held.asked)
        if report is not None:
            held.waiting.appendleft(report)
        held.wait(None)
        if triggered is not held.asked.trigger and held.region.status.state is State.PROCESSING:
            # Between drains runs the timer of the next one, or none: whichever the trigger that was there needed.
            self._deadlines.drop(("timer", held.index))
            if (timer := next_drain(held.region)) is not None:
                self._deadlines.set(("timer", held.index), self._clock() + timer.seconds, timer)

    def _act(self, held: Held, outcome: Outcome) -> None:
        """The resource holds the transition now: tell the PEs, set the timer."""
        region, before, index = outcome.region, held.written, held.index
        held.region, held.written, held.unwritten = region, region.status, None
        if outcome.clear_board:
            self._boards.clear(index)
        if before is not None and region.status.current_timer_seq_id != before.current_timer_seq_id:
            self._deadlines.drop(("timer", index))
        if outcome.notification is not None:
            self._boards.put(index, region.spec.pes_in_region, outcome.notification)
            self._messenger.tell(region.spec.pes_in_region)
        if outcome.timer is not None:
            self._deadlines.set(("timer", index), self._clock() + outcome.timer.seconds, outcome.timer)
        if before is None or before.state is not region.status.state:
            _log.info("region", region=index, state=region.status.state.value, told=outcome.notification)

    def _watched(self, what: Watched) -> None:
        seen: Iterable[Resource] = ()
        if isinstance(what, Listed):
            seen = what.resources
            gone = [held for held in self._held.values() if held.name not in what.names]
        elif isinstance(what, Seen):
            seen, gone = (what.resource,), []
        else:
            gone = [held for held in self._held.values() if held.name == what.name]
        for held in gone:
            self._forget(held)
        for resource in seen:
            self._seen(resource)
        self._begin()

    def _seen(self, resource: Resource) -> None:
        spec, status = resource.region.spec, resource.region.status
        held = self._held.get(spec.region_index)
        if held is not None and held.name != resource.name:
            _log.error("two resources of one region", region=held.index, used=held.name, unused=resource.name)
        elif held is not None:
            # Its dynamic part is ours, and newer here than what is seen of it.
            held.asked = spec
            held.show(resource.version, status)
            if held.unwritten is None:
                self._catch_up(held)
        else:
            for other in [each for each in self._held.values() if each.name == resource.name]:
                self._forget(other)  # it has another index now; two regions would write one resource
            used = status.state is not State.STARTED or status.region_healthy or self.started
            again = resource.run_before and (self._restarted or used)
            region = restarted(resource.region) if again else resource.region
            written = status if resource.run_before else None
            held = Held(
                resource.name,
                resource.version,
                region,
                written,
                spec,
                again or self._restarted,
                status,
                resource.version,
            )
            self._held[held.index] = held
            self._write(held, Outcome(region))
            if self.started:
                self._event(held, None)

    def _forget(self, held: Held) -> None:
        self._held.pop(held.index, None)
        self._boards.clear(held.index)
        for what in ("timer", "write", "marks"):
            self._deadlines.drop((what, held.index))
        _log.info("region is gone", region=held.index)

    def _begin(self) -> None:
        """Begin to handle events once all regions are known and their resources written."""
        if self.started or len(self._held) < self._expected:
            return
        if any(held.written is None or held.unwritten is not None for held in self._held.values()):
            return
        self.started = True
        _log.info("all regions are known", regions=len(self._held), restarted=self._restarted)
        for held in list(self._held.values()):
            self._event(held, None)
        early, self._early = self._early, []
        for item in early:
            self._safely(self._handle, item)

    def _ignored(self, index: int, event: object, why: str) -> None:
        self.ignored += 1
        _log.debug("ignored", region=index, what=repr(event), why=why)
