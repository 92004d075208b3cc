"""What recently decided pods will take before they are seen running: bounded, and forgotten after a while."""

import time
from collections.abc import Callable
from threading import Lock

from rules.view import Reservation


class Reservations:
    """Own recent decisions by name; each counts until its pod is seen on a node, or until it expires.

    The admission path only appends to a dict, which needs no lock; views are made from `current` elsewhere.
    """

    def __init__(
        self, seconds: float = 120.0, room: int = 20_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.changes = 0
        self._seconds = seconds
        self._room = room
        self._clock = clock
        self._held: dict[str, tuple[float, Reservation]] = {}
        self._pruning = Lock()

    def add(self, reservation: Reservation) -> bool:
        """Remember one; returns False where there is no room, which only makes the next advice less exact."""
        if len(self._held) >= self._room:
            return False
        self._held[reservation.decision] = (self._clock() + self._seconds, reservation)
        self.changes += 1
        return True

    def learn(self, reservation: Reservation) -> None:
        """Remember one of another replica, unless it is known already."""
        if reservation.decision not in self._held:
            self.add(reservation)

    def seen(self, decision: str) -> None:
        """Forget a decision whose pod has a node now."""
        if self._held.pop(decision, None) is not None:
            self.changes += 1

    def current(self) -> list[Reservation]:
        """Return those that still count; forgets the others."""
        now = self._clock()
        with self._pruning:
            items = list(self._held.items())
            for decision, (until, _) in items:
                if until <= now:
                    self._held.pop(decision, None)
        return [reservation for _, (until, reservation) in items if until > now]
