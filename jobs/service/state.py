"""What answers are given from at one moment: a snapshot and what was prepared from it and from the live cluster.

A watcher thread loads and prepares; readers take the one reference `State.current` and never wait. The admission path
therefore sees no disk and no lock.
"""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Generic, Protocol, TypeVar

import structlog

from featurestore.snapshot import Snapshot, empty
from featurestore.store.published import load
from jobs import tracing
from jobs.service import memory
from jobs.service.periodic import Periodic, Signature, signature
from jobs.service.turns import Turns
from pipeline.errors import BadInput

V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)
_log = structlog.get_logger(__name__)


class Prepare(Protocol[V_co]):
    """Prepare the view of one cluster from *snapshot* and, where it is watched, from the live cluster."""

    def __call__(self, snapshot: Snapshot, cluster: str, at: datetime, /) -> V_co: ...


@dataclass(frozen=True, slots=True)
class Current(Generic[V]):
    """One immutable moment; *others* keeps views of further clusters, prepared when first asked for."""

    snapshot: Snapshot
    view: V
    loaded: datetime
    number: int
    others: dict[str, V] = field(default_factory=dict)


class State(Generic[V]):
    """Holds the current moment and replaces it when the snapshot file or the live cluster changed.

    Changes of the live cluster are taken up every two seconds, and never so often that preparing views, and answers
    from them, takes more than a twentieth of one core; but every ten seconds in any case. Own reservations alone
    are no hurry: pods that are alike are spread over the best nodes without a new view.
    """

    POLL = 0.25
    SHARE = 0.05
    SHORTEST = 2.0
    RETRY = 5.0
    LONGEST = 10.0

    def __init__(
        self,
        path: Path,
        cluster: str,
        prepare: Prepare[V],
        changes: Callable[[], int] = lambda: 0,
        reserved: Callable[[], int] = lambda: 0,
        answering: Callable[[], float] = lambda: 0.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        retire: Callable[[V, V], None] = lambda former, view: None,
    ) -> None:
        """Load what is there; an absent or damaged file is an empty snapshot, and taken up once it is whole.

        *changes* returns a number that differs after any change of the live cluster, *reserved* one that differs
        after any of own reservations, *answering* the seconds that were spent so far on answers that a new view makes
        necessary. *retire* is told of each view that another took the place of, and of that one.
        """
        self.cluster = cluster
        self.failures = 0
        self.loads = 0
        self._path = path
        self._prepare = prepare
        self._count = changes
        self._reserved = reserved
        self._reservations = 0
        self._latest = 0.0
        self._answering = answering
        self._answered = 0.0
        self._now = now
        self._retire = retire
        self._turns = Turns(path)
        self._seen: Signature = (None,)
        self._changes = 0
        self._earliest = 0.0
        self._again = 0.0
        self._lock = Lock()
        self._listeners: list[Callable[[Snapshot], None]] = []
        snapshot = empty(now())
        self.current: Current[V] = Current(snapshot, prepare(snapshot, cluster, now()), now(), 0)
        self.refresh()
        self._thread = Periodic("snapshot", self.POLL, self.refresh)

    def on_swap(self, listener: Callable[[Snapshot], None]) -> None:
        """Call *listener* in the watcher's thread with each new snapshot, and now with the current one."""
        self._listeners.append(listener)
        listener(self.current.snapshot)

    def start(self) -> None:
        """Begin to watch the file."""
        self._thread.start()

    def close(self) -> None:
        """Stop watching; the current moment stays."""
        self._thread.close()

    def refresh(self) -> bool:
        """Take up a changed file or cluster; returns whether there is a new moment.

        The first file is taken up at once, another in turn with the processes beside this one.
        """
        if not self.loads or signature([self._path]) == self._seen:
            return self._refreshed(reload=True)
        if time.monotonic() < self._again:  # the cluster is followed from the former one meanwhile
            return self._refreshed(reload=False)
        with self._turns.turn() as mine:
            return self._refreshed(reload=mine)

    def _refreshed(self, *, reload: bool) -> bool:
        with self._lock:
            fresh = self._reload() if reload else None
            if not fresh and not self._due():
                return False
            began = time.monotonic()
            snapshot = fresh or self.current.snapshot
            # A collection in the midst of it would walk over all that is being built, and stop every thread.
            gc.disable()
            self._changes, self._reservations = self._count(), self._reserved()
            now = self._now()
            try:
                view = self._prepare(snapshot, self.cluster, now)
            except Exception as error:
                self.failures += 1
                again = time.monotonic() + self.RETRY
                if fresh:  # it is taken up once its view can be prepared
                    self._again, self._seen, self._changes = again, (None,), -1
                else:
                    self._earliest = again
                _log.error("view not prepared, the former one stays", error=f"{type(error).__name__}: {error}")
                gc.enable()
                return False
            former = self.current.view
            self.current = Current(snapshot, view, now if fresh else self.current.loaded, self.current.number + 1)
            took = time.monotonic() - began
            # What was built, and answered since, lives long and holds no cycles: no later collection is to walk over
            # it, which would stop every thread. What dies is freed by its count all the same.
            if not fresh:
                gc.collect(1)
            gc.freeze()
            gc.enable()
            self._earliest = time.monotonic() + max(self.SHORTEST, took / self.SHARE)
            self._latest = max(self._earliest, time.monotonic() + self.LONGEST)
            self._answered = self._answering()
            self._retire(former, view)
        if fresh:
            self._settle(fresh, took)
        return True

    def view_of(self, cluster: str) -> V:
        """The view of *cluster*, prepared when first asked for; not for the admission path."""
        current = self.current
        if cluster == self.cluster:
            return current.view
        with self._lock:
            if cluster not in current.others:
                current.others[cluster] = self._prepare(current.snapshot, cluster, self._now())
            return current.others[cluster]

    def _reload(self) -> Snapshot | None:
        seen = signature([self._path])
        if seen == self._seen:
            return None
        self._seen = seen
        if seen == (None,):
            return None
        try:
            snapshot = load(self._path)
        except BadInput as error:
            self.failures += 1
            _log.error("snapshot not loaded, the former one stays", error=str(error))
            return None
        self.loads += 1
        return snapshot

    def _due(self) -> bool:
        changed, now = self._count() != self._changes, time.monotonic()
        if now < self._earliest or not (changed or self._reserved() != self._reservations):
            return False
        spent = self._answering() - self._answered
        return now >= self._latest or (changed and now >= self._earliest - self.SHORTEST + spent / self.SHARE)

    def _settle(self, snapshot: Snapshot, took: float) -> None:
        for listener in self._listeners:
            listener(snapshot)
        memory.give_back()
        tracing.past("snapshot swap", took, {"snapshot": snapshot.version})
        _log.info("snapshot loaded", version=snapshot.version, created=str(snapshot.created), seconds=round(took, 3))
