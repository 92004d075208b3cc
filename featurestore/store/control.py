"""The control store: what was asked for, by many small writers, in SQLite with a write-ahead log.

The same shape of helper as `featurestore.store.duck`: open, one transaction, close.
"""

import json
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from featurestore.store import migrations
from pipeline.errors import BadInput, ColocationError, Permanent, Temporary

T = TypeVar("T")

_FOLDER = "control"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Conflict(ColocationError):
    """A document was changed by somebody else since it was read."""


class Control:
    """The SQLite file at *path*, which is created and migrated when it is first used.

    *deadline* is how long to wait while others write. Holds nothing between calls; may be shared by threads.
    """

    def __init__(self, path: Path, deadline: timedelta = timedelta(seconds=10)) -> None:
        self.path = Path(path)
        self.deadline = deadline

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do *work* in one transaction and return what it returns; on any exception nothing of it stays.

        Raises `BadInput` where the file is no control store and `Temporary` when the deadline passes.
        """
        return self._transact(work, "BEGIN IMMEDIATE")

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do *work* on one consistent state, beside writers; otherwise as `write`."""
        return self._transact(work, "BEGIN")

    def _transact(self, work: Callable[[sqlite3.Connection], T], begin: str) -> T:
        until = time.monotonic() + self.deadline.total_seconds()
        pause = 0.005
        while True:
            try:
                with closing(self._open(until)) as con:
                    self._migrate(con)
                    con.execute(begin)
                    try:
                        result = work(con)
                        con.execute("COMMIT")
                    except BaseException:
                        if con.in_transaction:
                            con.execute("ROLLBACK")
                        raise
                    return result
            except sqlite3.OperationalError as error:
                # SQLite's own waiting does not cover the change to a write-ahead log and stale reads.
                if not _busy(error):
                    raise self._explained(error) from error
                if time.monotonic() + pause > until:
                    waited = f"{self.deadline.total_seconds():g} s"
                    raise Temporary("control", "locked", f"{self.path}: locked for longer than {waited}") from error
            except sqlite3.DatabaseError as error:
                raise self._explained(error) from error
            time.sleep(random.uniform(pause / 2, pause))
            pause = min(pause * 1.5, 0.1)

    def _open(self, until: float) -> sqlite3.Connection:
        con = sqlite3.connect(self.path, timeout=max(0.0, until - time.monotonic()), isolation_level=None)
        try:
            con.execute("PRAGMA journal_mode = WAL")
            con.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            con.close()
            raise
        return con

    def _migrate(self, con: sqlite3.Connection) -> None:
        newest = migrations.newest(_FOLDER)
        [at] = con.execute("PRAGMA user_version").fetchone()
        if at == newest:
            return
        con.execute("BEGIN IMMEDIATE")
        try:
            [at] = con.execute("PRAGMA user_version").fetchone()  # another process may have been faster
            if at > newest:
                raise BadInput(f"{self.path}: written by a newer version (schema {at}, this one knows {newest})")
            for number, script in migrations.scripts(_FOLDER):
                if number > at:
                    for statement in _statements(script):
                        con.execute(statement)
                    con.execute(f"PRAGMA user_version = {number:d}")
            con.execute("COMMIT")
        except BaseException:
            if con.in_transaction:
                con.execute("ROLLBACK")
            raise

    def _explained(self, error: sqlite3.DatabaseError) -> ColocationError:
        if self.path.is_dir():
            return BadInput(f"{self.path}: is a directory, not an SQLite file")
        if not self.path.parent.is_dir():
            return BadInput(f"{self.path}: no such directory as {self.path.parent}")
        text = str(error)
        if "not a database" in text:
            return BadInput(f"{self.path}: not an SQLite database")
        if "malformed" in text:
            return BadInput(f"{self.path}: a damaged SQLite database")
        if "unable to open" in text or "readonly" in text:
            return BadInput(f"{self.path}: cannot be opened for writing")
        return Permanent("control", "io", f"{self.path}: {text}")


def _busy(error: sqlite3.OperationalError) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _statements(script: str) -> Iterator[str]:
    """Split *script* where a statement is complete: executescript would commit the transaction around it."""
    statement = ""
    for part in script.splitlines(keepends=True):
        statement += part
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


@dataclass(frozen=True, slots=True)
class Document:
    """One thing that was asked for; *revision* grows by one with each change."""

    kind: str
    name: str
    body: Any
    updated: datetime
    revision: int


def put(
    con: sqlite3.Connection, kind: str, name: str, body: object, at: datetime, *, expected: int | None = None
) -> int:
    """Write a document and return its new revision.

    *expected* is the revision that was read, 0 for none: raises `Conflict` where it is another by now.
    """
    known = get(con, kind, name)
    revision = 0 if known is None else known.revision
    if expected is not None and expected != revision:
        raise Conflict(f"{kind} {name}: changed meanwhile (revision {revision}, not {expected})")
    con.execute(
        """
        INSERT INTO documents (kind, name, body, updated, revision) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (kind, name) DO UPDATE
        SET body = excluded.body, updated = excluded.updated, revision = excluded.revision
        """,
        [kind, name, json.dumps(body, allow_nan=False), microseconds(at), revision + 1],
    )
    return revision + 1


def get(con: sqlite3.Connection, kind: str, name: str) -> Document | None:
    """Return the document, or None."""
    return next(_documents(con, "WHERE kind = ? AND name = ?", [kind, name]), None)


def listed(con: sqlite3.Connection, kind: str) -> list[Document]:
    """Return the documents of *kind*, in order of name."""
    return list(_documents(con, "WHERE kind = ? ORDER BY name", [kind]))


def delete(con: sqlite3.Connection, kind: str, name: str) -> bool:
    """Remove the document; returns whether there was one."""
    return con.execute("DELETE FROM documents WHERE kind = ? AND name = ?", [kind, name]).rowcount > 0


def microseconds(at: datetime) -> int:
    """Return *at* (aware) as the store keeps times."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def _documents(con: sqlite3.Connection, where: str, values: list[str]) -> Iterator[Document]:
    for kind, name, body, updated, revision in con.execute(
        f"SELECT kind, name, body, updated, revision FROM documents {where}", values
    ):
        yield Document(kind, name, json.loads(body), _EPOCH + timedelta(microseconds=updated), revision)


def setting(con: sqlite3.Connection, key: str) -> str | None:
    """Return the value of a setting, or None."""
    row = con.execute("SELECT value FROM settings WHERE key = ?", [key]).fetchone()
    return None if row is None else str(row[0])


def set_setting(con: sqlite3.Connection, key: str, value: str) -> None:
    """Write a setting."""
    con.execute(
        "INSERT INTO settings VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", [key, value]
    )
