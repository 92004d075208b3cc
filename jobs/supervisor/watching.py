"""Watches that feed the history while serving: placements and node specifications, seconds after they change.

The scheduled lists go on as a safety net. What cannot be written now is kept, up to a bound, and tried again; beyond
the bound the objects are listed anew, and only what came and went in between is lost.
"""

from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from math import isfinite

import msgspec
import structlog
from duckdb import DuckDBPyConnection

from featurestore.store import queries
from featurestore.store.duck import Store
from featurestore.store.ingest import ingest
from jobs import wire
from jobs.config import KubernetesSettings, Settings
from jobs.service.periodic import Periodic
from jobs.supervisor.board import Board
from jobs.supervisor.feeds import Feed, Nodes, Part, Pods
from jobs.supervisor.status import WatchStatus
from pipeline import objects
from pipeline.clients.stream import Watching
from pipeline.clients.watch import Source, Watcher
from pipeline.errors import BadInput, ColocationError, Permanent, SourceError
from pipeline.mangling import Index
from pipeline.records import Listing

_log = structlog.get_logger(__name__)

#: Seconds between two writes; sooner where so many objects wait.
EVERY, _MANY = 5.0, 1000

#: How long a write waits for the file before it is put off to the next turn.
_PATIENCE = timedelta(seconds=3)

#: How often a run is recorded, and the names of functions are read, for pods that have only a name.
RECORD, _NAMES = timedelta(minutes=1), timedelta(minutes=5)

#: Failures in a row that make a run a failed one; a single broken connection is none.
_FAILING = 3


class Reached:
    """A cluster's API server, logged in to when it is first asked, and again until that works."""

    def __init__(self, login: Callable[[], Source]) -> None:
        self._login = login
        self._client: Source | None = None

    def list(self, path: str, *, label_selector: str = "", field_selector: str = "") -> Listing:
        return self._reached().list(path, label_selector=label_selector, field_selector=field_selector)

    def watch(
        self,
        path: str,
        resource_version: str,
        *,
        label_selector: str = "",
        field_selector: str = "",
        seconds: float = 120.0,
    ) -> Watching:
        return self._reached().watch(
            path, resource_version, label_selector=label_selector, field_selector=field_selector, seconds=seconds
        )

    def _reached(self) -> Source:
        if self._client is None:
            try:
                self._client = self._login()
            except BadInput as error:
                raise Permanent("kubernetes", "credentials", str(error)) from None
        return self._client


class Watch:
    """One kind of object of one cluster: its watcher, its feed, and what is to be said of them."""

    def __init__(self, cluster: str, source: Source, feed: Feed, many: Callable[[], None]) -> None:
        """*many* is called when so many objects wait that they should be written at once."""
        self.cluster, self.feed = cluster, feed
        self.watcher = Watcher(
            source,
            feed.path,
            on_replace=self._replace,
            on_event=self._event,
            on_error=self._failed,
            field_selector=feed.field_selector,
        )
        self._many = many
        self._unsent: deque[Part] = deque()
        self._lists = self._rows = self._refused = 0
        self._error: tuple[datetime, Exception] | None = None
        self._known: datetime | None = None
        self._recorded = _now()
        self._due = self._recorded

    def write(self, store: Store) -> None:
        """Write what is new; raises `ColocationError` where the store cannot be written, and keeps it then."""
        self._send(store)
        known = self._alive()
        self._unsent.extend(self.feed.take())
        self._send(store)
        self._known = known

    def run(self, now: datetime) -> queries.Run | None:
        """Return the run to be recorded at *now*, if one is due: all since the last one."""
        failing = self._failing()
        if now < self._due or not (self.watcher.synced.is_set() or failing is not None):
            return None
        self._refused += self.feed.refused()
        reason = message = ""
        if failing is not None:
            reason = failing.reason if isinstance(failing, SourceError) else "internal"
            message = self.watcher.last_error
        outcome = "ok" if failing is None else "failed"
        return queries.Run(
            self.cluster, self.feed.table, self._recorded, now, self._rows, self._refused, outcome, reason, message
        )

    def record(self, con: DuckDBPyConnection, run: queries.Run) -> None:
        """Write *run*, and up to when the objects are known."""
        queries.record_run(con, run)
        if self._known is not None:
            queries.advance(con, self.cluster, self.feed.table, "", self._known)

    def recorded(self, run: queries.Run) -> None:
        """*run* was written."""
        self._rows -= run.rows
        self._refused -= run.refused
        self._recorded, self._due = run.finished, run.finished + RECORD

    def status(self) -> WatchStatus:
        """Return what the metrics show."""
        alive = self._alive()
        unsent = sum(part.batch.rows.num_rows for part in self._unsent if part.batch.rows is not None)
        return WatchStatus(
            cluster=self.cluster,
            resource=self.feed.path.rpartition("/")[2],
            alive=alive.timestamp() if alive is not None else None,
            lists=self._lists,
            waiting=self.feed.waiting() + unsent,
        )

    def _failing(self) -> Exception | None:
        """Return the last error where there were several in a row and no proof of life since."""
        if self._error is None or self.watcher.failures < _FAILING:
            return None
        at, error = self._error
        alive = self._alive()
        return error if alive is None or alive < at else None

    def _alive(self) -> datetime | None:
        age = self.watcher.staleness()
        return _now() - timedelta(seconds=age) if isfinite(age) else None

    def _send(self, store: Store) -> None:
        while self._unsent:
            part = self._unsent[0]
            try:
                written = ingest(
                    store, self.cluster, part.batch, collected=part.at, overlap=timedelta(0), source=self.feed.table
                )
                self._rows += written.rows
            except ColocationError:
                raise
            except Exception:  # a fault of ours must not stop all that follows; the next list mends what it cost
                _log.exception("watched changes dropped", cluster=self.cluster, source=self.feed.table)
            self._unsent.popleft()

    def _replace(self, raws: Sequence[msgspec.Raw]) -> None:
        self._lists += 1
        self.feed.replace(raws, _now())
        self._many()

    def _event(self, kind: str, raw: msgspec.Raw) -> None:
        self.feed.event(kind, raw, _now())
        if self.feed.waiting() == _MANY:
            self._many()

    def _failed(self, error: Exception) -> None:
        self._error = _now(), error
        _log.warning("watch failed", cluster=self.cluster, source=self.feed.table, error=self.watcher.last_error)


class Watches:
    """All watches of one supervisor, and the thread that writes what they see."""

    def __init__(
        self, settings: Settings, board: Board, recorded: Callable[[], None] = lambda: None, every: float = EVERY
    ) -> None:
        """*recorded* is called after runs were recorded."""
        self._store = Store(settings.store.path, min(_PATIENCE, settings.store.deadline))
        self._board, self._after = board, recorded
        self._writer = Periodic("watches", every, self._turn, finally_=True)
        self._pods: dict[str, Pods] = {}
        self._watches: list[Watch] = []
        self._named: datetime | None = None
        self._started = self._closing = False
        for cluster in settings.clusters:
            if cluster.kubernetes is not None:
                self._add(cluster.name, cluster.kubernetes)

    def start(self) -> None:
        """Begin to watch."""
        if self._watches:
            self._writer.start()

    def close(self, timeout: float = 10.0) -> None:
        """End the watches and write what they saw; waits for at most *timeout* seconds."""
        self._closing = True
        for watch in self._watches:
            watch.watcher.stop()
        self._writer.close(timeout)

    def _add(self, cluster: str, settings: KubernetesSettings) -> None:
        source = Reached(partial(wire.kubernetes, settings))
        reader = partial(objects.node, bandwidth_label=settings.bandwidth_label, disk_label=settings.disk_label)
        pods = self._pods[cluster] = Pods(settings.function_labels)
        self._watches += [Watch(cluster, source, feed, self._writer.wake) for feed in (Nodes(reader), pods)]

    def _turn(self) -> None:
        try:
            self._name()
        except ColocationError as error:
            _log.warning("names of functions not read", error=str(error))
        if not self._started and not self._closing:
            self._started = True
            for watch in self._watches:
                watch.watcher.start()
        try:
            for watch in self._watches:
                watch.write(self._store)
            self._record()
        except ColocationError as error:
            _log.warning("watched changes wait for the store", error=str(error))
        self._board.watches([watch.status() for watch in self._watches])

    def _name(self) -> None:
        """Tell the feeds the names of functions, now and then; without them a pod waits for its label."""
        now = _now()
        if self._closing or (self._named is not None and now < self._named + _NAMES):
            return
        for cluster, feed in self._pods.items():
            feed.known = Index(self._store.read(partial(queries.functions, cluster=cluster)))
        self._named = now

    def _record(self) -> None:
        now = _now()
        due = [(watch, run) for watch in self._watches if (run := watch.run(now)) is not None]

        def work(con: DuckDBPyConnection) -> None:
            for watch, run in due:
                watch.record(con, run)

        if due:
            self._store.write(work)
            for watch, run in due:
                watch.recorded(run)
            self._after()


def _now() -> datetime:
    return datetime.now(UTC)
