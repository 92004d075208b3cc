"""The event queue: everything that happens to the regions of a job, in the order in which it came."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from jobs.regions.resources import Resource
from rules.regions.events import Event

#: Events that wait at most; the PEs repeat what is refused.
MOST = 100_000


class Recheck(NamedTuple):
    """A PE or pod of the region changed: its health is to be looked at."""


class Listed(NamedTuple):
    """All regions of the job that can be read; one whose name is not among *names* is gone."""

    resources: Sequence[Resource]
    names: frozenset[str]


class Seen(NamedTuple):
    """A region's resource was made or changed."""

    resource: Resource


class Gone(NamedTuple):
    """A region's resource was deleted."""

    name: str


Watched = Listed | Seen | Gone


class Item(NamedTuple):
    """*what* happened to *region*, -1 where the resource itself says which."""

    region: int
    what: Event | Recheck | Watched


class Inbox:
    """A bounded queue of many producers and one consumer; equal rechecks that wait are one."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._items: deque[Item] = deque()
        self._rechecks: set[int] = set()
        self._condition = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        return len(self._items)

    def report(self, index: int, event: Event) -> bool:
        """Put in what PEs and people say; False where too much waits already."""
        with self._condition:
            if len(self._items) >= self._most or self._closed:
                return False
            self._items.append(Item(index, event))
            self._condition.notify()
            return True

    def recheck(self, index: int) -> None:
        """Have a region's health looked at, once for all that asked since it was last done."""
        with self._condition:
            if index not in self._rechecks:
                self._rechecks.add(index)
                self._items.append(Item(index, Recheck()))
                self._condition.notify()

    def watched(self, what: Watched) -> None:
        """Put in what is seen of the resources themselves; never refused."""
        with self._condition:
            self._items.append(Item(-1, what))
            self._condition.notify()

    def take(self, seconds: float) -> Item | None:
        """Return the next item; None where none came for *seconds*, or where the queue is closed."""
        with self._condition:
            if not self._items and not self._closed and seconds > 0:
                self._condition.wait(seconds)
            if self._closed or not self._items:
                return None
            item = self._items.popleft()
            if type(item.what) is Recheck:
                self._rechecks.discard(item.region)
            return item

    def close(self) -> None:
        """Wake the consumer; nothing is given out any more."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
