"""What is due when: one moment a key, the last one set, in memory as small as the keys."""

import heapq
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Deadlines(Generic[K, V]):
    """Setting a key again replaces what it waited for."""

    def __init__(self) -> None:
        self._due: dict[K, tuple[float, int, V]] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, key: K, at: float, value: V) -> None:
        """Have *value* due at *at* under *key*."""
        self._count += 1
        self._due[key] = (at, self._count, value)
        heapq.heappush(self._heap, (at, self._count, key))
        if len(self._heap) > 4 * len(self._due) + 64:  # mostly what was replaced
            self._heap = [(at, number, key) for key, (at, number, _) in self._due.items()]
            heapq.heapify(self._heap)

    def drop(self, key: K) -> None:
        """Forget what *key* waits for."""
        self._due.pop(key, None)

    def __contains__(self, key: K) -> bool:
        return key in self._due

    def next(self) -> float | None:
        """Return when the next one is due, None for never."""
        while self._heap:
            at, number, key = self._heap[0]
            if key in self._due and self._due[key][1] == number:
                return at
            heapq.heappop(self._heap)
        return None

    def due(self, now: float) -> Iterator[tuple[K, V]]:
        """Yield and forget what is due at *now*, earliest first."""
        while (at := self.next()) is not None and at <= now:
            _, _, key = heapq.heappop(self._heap)
            yield key, self._due.pop(key)[2]
