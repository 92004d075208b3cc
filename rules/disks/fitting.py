"""Which capacity each volume takes: first fit as the driver does it, and a search where that fails.

Requests of groups come first, then smaller ones. A volume of a group takes whole extents of a capacity; a volume of
any other class takes a whole drive. What is booked counts, and what is chosen is booked at once.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from pipeline.disk_records import Capacity, CapacityRequest
from rules.disks.sizes import grouped, taken, told
from rules.disks.state import Disks

#: Volumes up to which a search follows where first fit fails, and the states that it may look at.
SEARCHED: Final = 8
_STATES: Final = 50_000


class Holdings:
    """What is left of capacities under bookings, but those *by* one's own reservation, and own choices."""

    def __init__(self, disks: Disks, by: str) -> None:
        self._bookings = disks.bookings
        self._rooms = disks.rooms
        self._by = by
        #: Bytes taken of capacities that are shared.
        self.used: dict[str, int] = {}
        self._whole: set[str] = set()

    def room(self, capacity: Capacity, storage_class: str) -> int:
        """Return the bytes that a request of *storage_class* can have of *capacity*."""
        name = capacity.name
        shares = grouped(storage_class)
        used = self.used.get(name, 0)
        if name in self._whole or (used and not shares):
            return 0
        if name in self._bookings:
            for booking in self._bookings[name]:
                if booking.by != self._by:
                    if not (shares and grouped(booking.storage_class)):
                        return 0
                    used += taken(booking.size, booking.storage_class)
        return self._rooms[name][0 if shares else 1] - used

    def take(self, capacity: Capacity, need: int, shares: bool) -> None:
        """Book *need* bytes of *capacity*, or all of it where the volume *shares* it with none."""
        if shares:
            self.used[capacity.name] = self.used.get(capacity.name, 0) + need
        else:
            self._whole.add(capacity.name)

    def release(self, capacity: Capacity, need: int, shares: bool) -> None:
        """Undo `take`."""
        if shares:
            self.used[capacity.name] -= need
        else:
            self._whole.discard(capacity.name)

    def state(self) -> tuple[frozenset[tuple[str, int]], frozenset[str]]:
        """Return one's own choices as a value: equal for equal holdings."""
        return frozenset((name, used) for name, used in self.used.items() if used), frozenset(self._whole)


@lru_cache(maxsize=64)
def order(requests: tuple[CapacityRequest, ...]) -> tuple[tuple[int, int], ...]:
    """Return the places of *requests* in the order in which they choose, and what each takes.

    Ties keep the pod's order.
    """
    turn = sorted(range(len(requests)), key=lambda i: (not grouped(requests[i].storage_class), requests[i].size, i))
    return tuple((i, taken(requests[i].size, requests[i].storage_class)) for i in turn)


def fit(
    requests: tuple[CapacityRequest, ...],
    lists: Sequence[Sequence[Capacity]],
    disks: Disks,
    by: str = "",
) -> tuple[tuple[Capacity, ...] | None, str]:
    """Return a capacity for each request out of its list, or None and why there is none.

    First fit; where it fails, all ways are searched for up to `SEARCHED` volumes. A search that is given up says
    "undecided".
    """
    holdings = Holdings(disks, by)
    bookings, rooms, used = disks.bookings, disks.rooms, holdings.used
    chosen: dict[int, Capacity] = {}
    reason = ""
    for i, need in order(requests):
        storage_class = requests[i].storage_class
        shares = grouped(storage_class)
        for capacity in lists[i]:
            name = capacity.name
            if shares and name not in bookings:  # the common case, without a call: groups choose first
                room = rooms[name][0] - used.get(name, 0)
            else:
                room = holdings.room(capacity, storage_class)
            if room >= need:
                holdings.take(capacity, need, shares)
                chosen[i] = capacity
                break
        else:
            reason = _told(requests[i], lists[i], holdings)
            break
    if len(chosen) == len(requests):
        return tuple(chosen[i] for i in range(len(requests))), ""
    if len(requests) == 1 or len(requests) > SEARCHED:
        return None, reason
    found, whole = _search(requests, lists, Holdings(disks, by))
    if found is None and not whole:
        return None, f"{reason} (undecided after {_STATES} tries)"
    return found, "" if found is not None else reason


def _search(
    requests: Sequence[CapacityRequest], lists: Sequence[Sequence[Capacity]], holdings: Holdings
) -> tuple[tuple[Capacity, ...] | None, bool]:
    """Search depth first, those with the fewest choices and the largest first; states that failed are not seen twice.

    Returns the choice, and whether the search was whole.
    """
    turn = sorted(range(len(requests)), key=lambda i: (len(lists[i]), -requests[i].size, i))
    everywhere = set.intersection(*({each.name for each in listed} for listed in lists))
    chosen: dict[int, Capacity] = {}
    failed: set[object] = set()
    tries = 0

    def deeper(at: int) -> bool:
        nonlocal tries
        if at == len(turn):
            return True
        key = (at, holdings.state())
        if key in failed or tries >= _STATES:
            return False
        request = requests[turn[at]]
        need = taken(request.size, request.storage_class)
        alike: set[tuple[int, str, int]] = set()
        for capacity in lists[turn[at]]:
            tries += 1
            room = holdings.room(capacity, request.storage_class)
            kind = (capacity.size, capacity.storage_class, room)
            if room < need or kind in alike:
                continue
            if capacity.name in everywhere:  # those that all may have stand for each other
                alike.add(kind)
            holdings.take(capacity, need, grouped(request.storage_class))
            chosen[turn[at]] = capacity
            if deeper(at + 1):
                return True
            holdings.release(capacity, need, grouped(request.storage_class))
            del chosen[turn[at]]
        failed.add(key)
        return False

    if deeper(0):
        return tuple(chosen[i] for i in range(len(requests))), True
    return None, tries < _STATES


def _told(request: CapacityRequest, listed: Sequence[Capacity], holdings: Holdings) -> str:
    largest = max((holdings.room(each, request.storage_class) for each in listed), default=0)
    need = told(taken(request.size, request.storage_class))
    return f"capacity: {request.name} needs {need} of {request.storage_class}, largest usable {told(max(0, largest))}"
