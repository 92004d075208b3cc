"""List, then watch: the loop that keeps a view of one kind of object up to date.

List, replace what is held, watch from the list's version; go on from the last version where a watch ends quietly,
list anew where the server has forgotten it (410). Failures are waited out with growing, jittered pauses. Staleness is
the time since the server last gave a proof of life: a list, an event, a bookmark, or the quiet end of a watch.
"""

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from pipeline.clients.stream import Event, Watching
from pipeline.errors import ColocationError, SourceError, Temporary
from pipeline.records import Listing


class Source(Protocol):
    """What is needed of `pipeline.clients.kubernetes.KubernetesClient`."""

    def list(self, path: str, *, label_selector: str = "", field_selector: str = "") -> Listing: ...

    def watch(
        self,
        path: str,
        resource_version: str,
        *,
        label_selector: str = "",
        field_selector: str = "",
        seconds: float = 120.0,
    ) -> Watching: ...


class _Versioned(msgspec.Struct, rename="camel"):
    resource_version: str | None = None


class _Object(msgspec.Struct):
    metadata: _Versioned | None = None


_OBJECTS = msgspec.json.Decoder(_Object)


class Watcher:
    """Follows one path in one thread and hands on what it sees.

    *on_replace* gets all objects of a list: what is not among them is gone. *on_event* gets ADDED, MODIFIED or
    DELETED and the object. Both are called in the watcher's thread, one after the other; where one raises, the
    view is in doubt and the objects are listed anew. *on_error* gets each failure, for the log and the metrics.
    """

    def __init__(
        self,
        source: Source,
        path: str,
        *,
        on_replace: Callable[[Sequence[msgspec.Raw]], None],
        on_event: Callable[[str, msgspec.Raw], None],
        on_error: Callable[[Exception], None] = lambda error: None,
        label_selector: str = "",
        field_selector: str = "",
        seconds: float = 120.0,
        pauses: tuple[float, float] = (0.5, 60.0),
        stop: threading.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._source, self._path = source, path
        self._on_replace, self._on_event, self._on_error = on_replace, on_event, on_error
        self._label_selector, self._field_selector = label_selector, field_selector
        self._seconds, self._pauses = seconds, pauses
        self._stop = stop or threading.Event()
        self._clock, self._jitter = clock, jitter
        self._lock = threading.Lock()
        self._current: Watching | None = None
        self._alive: float | None = None
        self._failures = 0
        self._version = ""
        #: Set when the first list was handed on.
        self.synced = threading.Event()
        self.last_error = ""

    @property
    def failures(self) -> int:
        """How many tries in a row failed; 0 while all is well."""
        return self._failures

    def staleness(self) -> float:
        """Seconds since the last proof of life; infinite before the first."""
        return float("inf") if self._alive is None else max(0.0, self._clock() - self._alive)

    def start(self) -> threading.Thread:
        """Run in a daemon thread of its own."""
        thread = threading.Thread(target=self.run, name=f"watch {self._path}", daemon=True)
        thread.start()
        return thread

    def stop(self) -> None:
        """End `run` soon, also while it waits for an event."""
        self._stop.set()
        with self._lock:
            current = self._current
        if current is not None:
            current.close()

    def run(self) -> None:
        """Follow the path until stopped."""
        while not self._stop.is_set():
            try:
                if not self._version:
                    self._relist()
                self._follow()
            except SourceError as error:
                if error.reason == "gone" or not isinstance(error, Temporary):
                    self._version = ""
                self._pause(error)
            except Exception as error:  # a handler's: its view is in doubt, the loop has to live on
                self._version = ""
                self._pause(error)

    def _relist(self) -> None:
        listing = self._source.list(
            self._path, label_selector=self._label_selector, field_selector=self._field_selector
        )
        self._proof()
        self._on_replace(listing.items)
        self._version = listing.resource_version
        self.synced.set()

    def _follow(self) -> None:
        """Watch until the server ends it; an end at once and without an event counts as a failure."""
        began, seen = self._clock(), False
        watching = self._source.watch(
            self._path,
            self._version,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            seconds=self._seconds,
        )
        with self._lock:
            self._current = watching
        try:
            if self._stop.is_set():
                watching.close()
            for event in watching:
                seen = True
                self._proof()
                self._failures = 0
                self._take(event)
        finally:
            with self._lock:
                self._current = None
            watching.close()
        if self._stop.is_set():
            return
        if not seen and self._clock() - began < min(1.0, self._seconds / 2):
            raise Temporary("kubernetes", "watch_ended", f"watch of {self._path} ended at once")
        self._proof()
        self._failures = 0

    def _take(self, event: Event) -> None:
        meta = _OBJECTS.decode(event.object).metadata
        if event.type in ("ADDED", "MODIFIED", "DELETED"):
            self._on_event(event.type, event.object)
        if meta is not None and meta.resource_version:
            self._version = meta.resource_version

    def _proof(self) -> None:
        self._alive = self._clock()

    def _pause(self, error: Exception) -> None:
        """Say what failed and wait: twice as long each time in a row, at most the limit, a half of it by chance."""
        if self._stop.is_set():
            return
        self._failures += 1
        self.last_error = str(error).split("\n")[0] if isinstance(error, ColocationError) else type(error).__name__
        self._on_error(error)
        first, limit = self._pauses
        pause = min(limit, first * 2.0 ** min(self._failures - 1, 30))
        asked = error.delay if isinstance(error, Temporary) and error.reason != "gone" else 0.0
        self._stop.wait(max(pause * (0.5 + 0.5 * self._jitter()), min(asked, limit)))
