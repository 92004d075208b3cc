"""The one helper that opens the DuckDB file: open, one transaction, close, with retry.

DuckDB admits one process while the file is open for writing, so nobody keeps it open: work that takes long prepares
outside (`staging`) and holds the file for one transaction only, `HOLD` at most; a longer hold is logged.
"""

import copy
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import duckdb
import structlog
from duckdb import DuckDBPyConnection

from featurestore.store import migrations
from featurestore.store.headers import Headers
from pipeline.errors import BadInput, ColocationError, Damaged, Permanent, Temporary

T = TypeVar("T")

#: No transaction should hold the file longer.
HOLD = timedelta(seconds=2)
#: Seconds for which the file is free after one of many parts: others ask for it ten times a second, and would find it
#: taken.
PAUSE = 0.05

_log = structlog.get_logger(__name__)

# What the machine and not a statement of ours is the reason of.
_FAILING = (duckdb.OperationalError, duckdb.FatalException)
# Of a block whose checksum is wrong, as it is read: an error of no kind of its own.
_CORRUPT = "Corrupt database file"

# The lock on the file belongs to the process and not to a handle, so that a second handle in this process would be
# let in, and closing it would give the first one's lock away: threads take turns here.
_TURNS: dict[str, threading.Lock] = {}
_TURNS_LOCK = threading.Lock()


#: Threads of a connection that is not asked to have fewer.
_THREADS = min(4, os.cpu_count() or 1)

#: DuckDB gives what its allocator keeps back to the system when this is set, be it as it was: in a quarter of a
#: millisecond, where a scan of a hundred million rows has left 800 MB.
_LIMIT = "SET memory_limit = '1GB'"
#: What holds for each staging, whatever the work before it set; the bar would go to stdout, unasked.
_AS_EVER = f"{_LIMIT}; SET TimeZone = 'UTC'; SET enable_progress_bar = false"


@contextmanager
def staging(spill: Path | None = None, threads: int = _THREADS) -> Iterator[DuckDBPyConnection]:
    """Yield a connection to an in-memory DuckDB in UTC to prepare work in; what exceeds its memory goes to *spill*.

    To make one takes longer than a short transaction, so one that was left in order is used again, by one at a time;
    what the connection held is gone by then. It works in so many *threads*.
    """
    try:
        database = _idle.take(spill) or _memory(spill)
        try:
            with database.cursor() as con:
                con.execute(f"{_AS_EVER}; SET threads = {threads}")
                yield con
        except BaseException:
            database.close()
            raise
        _idle.give(spill, database)
    except duckdb.OutOfMemoryException as error:
        raise Permanent("store", "out_of_memory", f"preparing what is to be stored: {_line(error)}") from error
    except _FAILING as error:
        where = f" in {spill}" if spill is not None else ""
        raise Permanent("store", "io", f"preparing what is to be stored{where}: {_line(error)}") from error


@contextmanager
def one_thread(con: DuckDBPyConnection) -> Iterator[None]:
    """Let *con* write by one thread: of several each begins a row group, and those that are not whole are compressed
    again when the transaction ends, which takes longer than all else of it."""
    [[threads]] = con.execute("SELECT current_setting('threads')").fetchall()
    con.execute("SET threads = 1")
    try:
        yield
    finally:
        con.execute(f"SET threads = {threads}")


def _memory(spill: Path | None) -> DuckDBPyConnection:
    return duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "temp_directory": str(spill) if spill is not None else "",
        },
    )


class _Idle:
    """In-memory databases that nobody uses, the last few by where they spill. A child process begins with none: the
    threads of these are not in it, and to close one would wait for them."""

    _MOST = 2

    def __init__(self) -> None:
        self._left: list[tuple[Path | None, DuckDBPyConnection]] = []
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._orphaned)

    def take(self, spill: Path | None) -> DuckDBPyConnection | None:
        """Return one that spills to *spill*, which is the caller's from then on; None where there is none."""
        with self._lock:
            for at, (where, database) in enumerate(self._left):
                if where == spill:
                    del self._left[at]
                    return database
        return None

    def give(self, spill: Path | None, database: DuckDBPyConnection) -> None:
        """Keep *database*, unless it has spilled: what it wrote goes when it is closed."""
        if spill is not None and spill.exists():
            database.close()
            return
        with self._lock:
            self._left.insert(0, (spill, database))
            rest, self._left = self._left[self._MOST :], self._left[: self._MOST]
        for _, each in rest:
            each.close()

    def _orphaned(self) -> None:
        self._parents, self._left, self._lock = self._left, [], threading.Lock()


_idle = _Idle()


class _Outdated(Exception):
    """The file is to be migrated before it can be read."""


class Store:
    """The DuckDB file at *path*, which is created and migrated when it is first used.

    *deadline* is how long to wait for the file while another process holds it. A store holds nothing between calls,
    may be shared by threads, and is handed to a child process as it is.
    """

    def __init__(self, path: Path, deadline: timedelta = timedelta(seconds=30)) -> None:
        self.path = Path(path)
        self.deadline = deadline
        self._con: DuckDBPyConnection | None = None

    @property
    def spill(self) -> Path:
        """Where prepared work goes that exceeds memory: beside the file, as DuckDB itself has it."""
        return self.path.with_name(f"{self.path.name}.tmp")

    def write(self, work: Callable[[DuckDBPyConnection], T], prepared: DuckDBPyConnection | None = None) -> T:
        """Do *work* in one transaction and return what it returns; on any exception nothing of it stays.

        The tables of the store are found by their bare names. *prepared* is a `staging` connection whose temporary
        tables the work reads. Raises `BadInput` where the file is no store and `Temporary` when the deadline passes.
        """
        if prepared is not None:
            return self._transact(prepared, work, read_only=False)
        with self._staged() as con:
            return self._transact(con, work, read_only=False)

    def write_each(self, works: Iterable[Callable[[DuckDBPyConnection], object]]) -> None:
        """Do each of *works* in a transaction of its own, as `write`; for a moment after it the file is others'."""
        for work in works:
            self.write(work)
            time.sleep(PAUSE)

    def read(self, work: Callable[[DuckDBPyConnection], T]) -> T:
        """Do *work* in one read-only transaction, beside other readers; otherwise as `write`.

        *work* returns values or Arrow tables, never a relation or a cursor: the file is closed afterwards.
        """
        with self._staged() as con:
            return self._transact(con, work, read_only=True)

    @contextmanager
    def session(self, threads: int = _THREADS) -> Iterator["Store"]:
        """Yield the same store for the many calls of one thread, which share one connection to prepare work in.

        To make that takes longer than a short transaction. The file is opened and closed at each call nevertheless.
        DuckDB works on each call in so many *threads*.
        """
        with staging(self.spill, threads) as con:
            same = copy.copy(self)
            same._con = con
            yield same

    def _staged(self) -> AbstractContextManager[DuckDBPyConnection]:
        return staging(self.spill) if self._con is None else nullcontext(self._con)

    def _transact(self, con: DuckDBPyConnection, work: Callable[[DuckDBPyConnection], T], *, read_only: bool) -> T:
        until = time.monotonic() + self.deadline.total_seconds()
        with self._turn(until):
            try:
                if not self.path.exists():
                    migrations.create(self.path)
                elif not (self.path.is_file() or self.path.is_dir()):  # to open a pipe would wait for its other end
                    raise BadInput(f"{self.path}: is a pipe or a device, not a DuckDB file")
                try:
                    return self._attached(con, work, until, read_only=read_only)
                except _Outdated:
                    self._attached(con, lambda _: None, until, read_only=False)
                    return self._attached(con, work, until, read_only=read_only)
            except duckdb.IOException as error:
                raise _explained(self.path, error) from error
            except duckdb.OutOfMemoryException as error:
                raise Permanent("store", "out_of_memory", f"{self.path}: {_line(error)}") from error
            except _FAILING as error:  # such as a disk that is full when the transaction commits
                raise Permanent("store", "io", f"{self.path}: {_line(error)}") from error
            except duckdb.Error as error:
                if not _line(error).startswith(_CORRUPT):
                    raise
                raise _explained(self.path, error) from error

    def _attached(
        self, con: DuckDBPyConnection, work: Callable[[DuckDBPyConnection], T], until: float, *, read_only: bool
    ) -> T:
        with self._open(con, until, read_only):
            con.execute("USE store")
            if not migrations.migrate(con, self.path, read_only=read_only):
                raise _Outdated
            con.execute("BEGIN")
            try:
                result = work(con)
                con.execute("COMMIT")
            except BaseException:
                _abandon(con)
                raise
            return result

    @contextmanager
    def _open(self, con: DuckDBPyConnection, until: float, read_only: bool) -> Iterator[None]:
        """Have the file in *con* as ``store``, as it is."""
        pause = 0.005
        while True:
            with Headers(self.path) as headers:  # not closed before the file is: that would give the lock away
                if self._attach(con, read_only, headers):
                    opened = time.monotonic()
                    try:
                        yield
                    finally:
                        self._detach(con, opened)
                    return
            if time.monotonic() + pause > until:
                raise self._busy()
            time.sleep(random.uniform(pause / 2, pause))
            pause = min(pause * 1.5, 0.1)

    def _attach(self, con: DuckDBPyConnection, read_only: bool, headers: Headers) -> bool:
        """Return whether the file is attached; it is not while another process has it or has just had it."""
        try:
            con.execute("ATTACH ? AS store (READ_ONLY)" if read_only else "ATTACH ? AS store", [str(self.path)])
        except duckdb.Error as error:
            if "Could not set lock" in str(error) or headers.changed():
                return False
            raise
        if headers.changed():
            con.execute("DETACH store")
            return False
        return True

    def _detach(self, con: DuckDBPyConnection, opened: float) -> None:
        con.execute("USE memory")
        con.execute("DETACH store")
        held = time.monotonic() - opened
        con.execute(_LIMIT)
        if held > HOLD.total_seconds():
            _log.warning("store held long", path=str(self.path), seconds=round(held, 2))

    @contextmanager
    def _turn(self, until: float) -> Iterator[None]:
        with _TURNS_LOCK:
            turn = _TURNS.setdefault(os.path.realpath(self.path), threading.Lock())
        if not turn.acquire(timeout=max(0.0, until - time.monotonic())):
            raise self._busy()
        try:
            yield
        finally:
            turn.release()

    def _busy(self) -> Temporary:
        waited = f"{self.deadline.total_seconds():g} s"
        return Temporary("store", "locked", f"{self.path}: held by another process for longer than {waited}")


def _abandon(con: DuckDBPyConnection) -> None:
    try:
        con.execute("ROLLBACK")
    except duckdb.Error:  # a fatal error has ended the transaction already; the first error is what counts
        _log.debug("nothing to roll back")


def _line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _explained(path: Path, error: duckdb.Error) -> ColocationError:
    if path.is_dir():
        return BadInput(f"{path}: is a directory, not a DuckDB file")
    if not path.parent.is_dir():
        return BadInput(f"{path}: no such directory as {path.parent}")
    text = _line(error)
    if "not a valid DuckDB database" in text:
        return BadInput(f"{path}: not a DuckDB database")
    if "Could not read enough bytes" in text or "Corrupt" in text:
        return Damaged(f"{path}: a damaged DuckDB database ({text})")
    if "Permission denied" in text or "Read-only file system" in text or "Cannot open file" in text:
        return BadInput(f"{path}: cannot be opened for writing ({text})")
    return Permanent("store", "io", f"{path}: {text}")
