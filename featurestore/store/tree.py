"""Items of a tree in the control store: each has a path, and exists under its parent alone.

Functions of one connection, for `Control.write` and `Control.read`: whoever checks and changes in one of these does
both in one transaction, so that of two writers the later one sees what the earlier one did.
"""

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from featurestore.store import control
from pipeline.errors import ColocationError

_CHANGES: Final = "resources.changes"


class Missing(ColocationError):
    """The item, or one of its parents, does not exist."""


class Taken(ColocationError):
    """The item exists already, or something else stands in the way of the change."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item: its *path*, and its *body* as plain JSON values."""

    path: str
    body: Any

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


def add(con: sqlite3.Connection, parent: str, collection: str, path: str, body: object, at: datetime) -> None:
    """Create an item below *parent* ("" for none); raises `Missing` without the parent, `Taken` where it exists."""
    need(con, parent)
    if _exists(con, path):
        raise Taken(f"{path}: exists already")
    con.execute(
        "INSERT INTO resources (path, parent, collection, body, updated, revision) VALUES (?, ?, ?, ?, ?, 1)",
        [path, parent or None, collection, json.dumps(body, allow_nan=False), control.microseconds(at)],
    )
    _changed(con)


def put(con: sqlite3.Connection, path: str, body: object, at: datetime, *, childless: bool) -> None:
    """Replace the body of an item; raises `Missing`, and with *childless* `Taken` where it has children."""
    need(con, path)
    if childless:
        _no_children(con, path)
    con.execute(
        "UPDATE resources SET body = ?, updated = ?, revision = revision + 1 WHERE path = ?",
        [json.dumps(body, allow_nan=False), control.microseconds(at), path],
    )
    _changed(con)


def remove(con: sqlite3.Connection, path: str) -> None:
    """Delete an item; raises `Missing`, and `Taken` where it has children."""
    need(con, path)
    _no_children(con, path)
    con.execute("DELETE FROM resources WHERE path = ?", [path])
    _changed(con)


def need(con: sqlite3.Connection, path: str) -> None:
    """Raise `Missing` where there is no item at *path*; "" is the root, which is always there."""
    if path and not _exists(con, path):
        raise Missing(f"{path}: does not exist")


def one(con: sqlite3.Connection, path: str) -> Item:
    """Return one item; raises `Missing`."""
    found = next(_items(con, "path = ?", path), None)
    if found is None:
        raise Missing(f"{path}: does not exist")
    return found


def listed(con: sqlite3.Connection, collection: str) -> list[Item]:
    """Return the items of a collection, in order of their names."""
    return list(_items(con, "collection = ? ORDER BY path", collection))


def below(con: sqlite3.Connection, path: str) -> list[Item]:
    """Return everything below *path* ("" for everything there is), parents before their children."""
    if not path:
        return list(_items(con, "path > ? ORDER BY path", ""))
    # "0" is the character that follows "/": a range, which the primary key answers.
    return list(_items(con, "path > ? AND path < ? ORDER BY path", f"{path}/", f"{path}0"))


def changes(con: sqlite3.Connection) -> int:
    """Return a number that grows with every change of any item."""
    return int(control.setting(con, _CHANGES) or 0)


def _changed(con: sqlite3.Connection) -> None:
    control.set_setting(con, _CHANGES, str(changes(con) + 1))


def _exists(con: sqlite3.Connection, path: str) -> bool:
    return con.execute("SELECT 1 FROM resources WHERE path = ?", [path]).fetchone() is not None


def _no_children(con: sqlite3.Connection, path: str) -> None:
    child = con.execute("SELECT path FROM resources WHERE parent = ? ORDER BY path LIMIT 1", [path]).fetchone()
    if child is not None:
        raise Taken(f"{path}: has {child[0].removeprefix(path)[1:]} below it, which has to be deleted first")


def _items(con: sqlite3.Connection, where: str, *values: str) -> Iterator[Item]:
    for path, body in con.execute(f"SELECT path, body FROM resources WHERE {where}", values):
        yield Item(path, json.loads(body))
