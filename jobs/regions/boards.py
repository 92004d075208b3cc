"""What each PE is told at the moment: one notification a region, kept until the next one of that region."""

import threading
from collections.abc import Iterable

import msgspec

from rules.regions.events import Notification


class Boards:
    """The latest notification by PE and region; read by many threads."""

    def __init__(self) -> None:
        self._by_pe: dict[int, dict[int, dict[str, str]]] = {}
        self._encoded: dict[int, bytes] = {}
        self._lock = threading.Lock()

    def put(self, region: int, pes: Iterable[int], notification: Notification) -> None:
        """Tell *pes* the notification of *region*."""
        entry = notification._asdict()
        with self._lock:
            for pe in pes:
                self._by_pe.setdefault(pe, {})[region] = entry
                self._encoded.pop(pe, None)

    def clear(self, region: int) -> None:
        """Forget everything of *region*."""
        with self._lock:
            for pe in [pe for pe, entries in self._by_pe.items() if region in entries]:
                del self._by_pe[pe][region]
                self._encoded.pop(pe, None)
                if not self._by_pe[pe]:
                    del self._by_pe[pe]

    def of(self, pe: int) -> bytes | None:
        """Return all of a PE as JSON, by region; None where there is nothing."""
        with self._lock:
            encoded = self._encoded.get(pe)
            if encoded is None and (entries := self._by_pe.get(pe)):
                encoded = self._encoded[pe] = msgspec.json.encode(entries)
            return encoded

    def entry(self, pe: int, region: int) -> bytes | None:
        """Return one notification as JSON; None where there is none."""
        with self._lock:
            entry = self._by_pe.get(pe, {}).get(region)
        return None if entry is None else msgspec.json.encode(entry)
