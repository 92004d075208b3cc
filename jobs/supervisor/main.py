"""``colocate serve``: the supervisor, which owns the scheduler and the writer and keeps the serving processes.

It opens the listening socket, runs collections and learning as child processes with a limit, writes decisions and
what it sees of nodes and pods to the history, replaces serving processes that end, and takes everything with it when
it ends. As a replica (`replica.writer`) it has no history of its own: it fetches and hands back instead.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import structlog

from featurestore.store import decisions, followed, queries
from featurestore.store.duck import Store
from jobs import logs, tracing
from jobs.config import Settings, admitted
from jobs.ending import Ending, on_signals
from jobs.regions.instance import Instance
from jobs.service import listening, unwritten
from jobs.service.health import from_table
from jobs.service.periodic import Periodic
from jobs.service.tls import context_of
from jobs.supervisor import children, status
from jobs.supervisor.board import Board
from jobs.supervisor.clockwork import Clockwork, Job, names
from jobs.supervisor.replica import Replica
from jobs.supervisor.schedule import plan
from jobs.supervisor.servers import Servers
from jobs.supervisor.watching import Watches
from pipeline.errors import Temporary

_log = structlog.get_logger(__name__)

#: How often the serving processes are looked at, decisions are written to the history, and it is read what became of
#: them, in seconds.
_LOOK, _FLUSH, _FOLLOW = 0.2, 10.0, 30.0

#: How long what became of decisions waits for the store before it is put off to the next turn.
_PATIENCE = timedelta(seconds=3)

#: How long the last flush may take in seconds; what it does not get to lies in the spool for the next start.
_LAST_FLUSH = 10.0


def serve(settings: Settings, config_path: Path | None, *, schedule: bool) -> int:
    """Serve until SIGTERM, SIGINT or SIGHUP; returns the exit code. Raises `BadInput` before anything starts."""
    logs.configure(logs.LEVELS[settings.log.level], settings.log.form)
    admitted(settings)
    context_of(settings.serve)
    tracing.check(settings.trace)
    schedule = schedule and settings.schedule.built_in and settings.replica.writer is None
    jobs = plan(settings, config_path) if schedule else []
    with (
        listening.bind(settings.serve) as sock,
        # What is still being written into it must not make the end an error.
        tempfile.TemporaryDirectory(prefix=f"colocate-serve-{os.getpid()}-", ignore_cleanup_errors=True) as name,
    ):
        return _Supervisor(settings, config_path, jobs, sock.fileno(), Path(name)).run(sock.getsockname())


class _Supervisor:
    def __init__(
        self, settings: Settings, config_path: Path | None, jobs: Sequence[Job], descriptor: int, directory: Path
    ) -> None:
        self._config_path = config_path
        self._descriptor = descriptor
        self._directory = directory
        self._workers = settings.serve.workers
        self._unwritten = unwritten.shared(self._workers)
        self._stopping = Ending()
        self._store = Store(settings.store.path, settings.store.deadline)
        self._spool = settings.store.spool
        self._board = Board(directory / status.FILE, names(jobs))
        self._clockwork = Clockwork(jobs, self._board, self._report) if jobs else None
        self._watches = Watches(settings, self._board, self._report) if jobs else None
        self._regions: Instance | None = None
        if settings.replica.writer is None:
            self._regions = Instance(settings, directory, follow=bool(jobs) and settings.regions.follow)
            self._flusher = Periodic("decisions", _FLUSH, self._flush, finally_=True)
            self._followed = Periodic("outcomes", _FOLLOW, self._follow)
        else:
            replica, every = Replica(settings, self._board.writer), settings.replica.every.total_seconds()
            self._flusher = Periodic("decisions", every, replica.hand_back, finally_=True)
            self._followed = Periodic("snapshot", every, replica.fetch)

    def run(self, address: tuple[object, ...]) -> int:
        on_signals(self._stopping.set)
        _log.info("listening", host=address[0], port=address[1], workers=self._workers)
        servers = Servers(self._start_server, self._workers, self._board.restarted)
        code: int | None = None
        try:
            self._flusher.start()
            self._followed.start()
            if self._clockwork is not None:
                self._clockwork.start()
            if self._watches is not None:
                self._watches.start()
            if self._regions is not None:
                self._regions.start()
            while not self._stopping.wait(_LOOK) and code is None:
                code = servers.look()
        finally:
            _log.info("shutting down")
            self._close(servers)
            if self._unwritten is not None:
                os.close(self._unwritten)
        return code or 0

    def _close(self, servers: Servers) -> None:
        """End all parts side by side, since each may take seconds of the time that ending has (`ending.LIMIT`); then
        write what they decided last."""
        parts: list[Callable[[], None]] = [self._followed.close, servers.stop]
        if self._regions is not None:
            parts.append(self._regions.close)
        if self._watches is not None:
            parts.append(self._watches.close)
        if self._clockwork is not None:
            parts.append(self._clockwork.stop)
        with ThreadPoolExecutor(len(parts)) as beside:
            ending = [beside.submit(part) for part in parts]
        self._flusher.close(timeout=_LAST_FLUSH)
        for each in ending:
            each.result()

    def _start_server(self, slot: int) -> children.Process:
        config = ("--config", str(self._config_path)) if self._config_path is not None else ()
        given = ("--descriptor", str(self._descriptor), "--directory", str(self._directory), "--slot", str(slot))
        if (shared := self._unwritten) is None:
            return children.start("jobs.service.process", (*config, *given), (self._descriptor,))
        more = ("--unwritten", str(shared))
        return children.start("jobs.service.process", (*config, *given, *more), (self._descriptor, shared))

    def _report(self) -> None:
        """Say how the sources fare as soon as a collection has ended, not only with the next snapshot."""
        try:
            self._board.health(from_table(self._store.read(queries.health)))
        except Exception as error:
            _log.warning("health not read", error=f"{type(error).__name__}: {error}")

    def _follow(self) -> None:
        if self._store.path.exists():
            # Numbers that change with the learning can wait for who holds the store; ending must not wait for them.
            with contextlib.suppress(Temporary):
                found = Store(self._store.path, _PATIENCE).read(followed.summary)
                self._board.outcomes([status.OutcomeStatus(**row) for row in found.to_pylist()])

    def _flush(self) -> None:
        try:
            self._board.flushed(decisions.flush(self._store, self._spool).rows)
        except Exception:
            self._board.flush_failed()
            raise
