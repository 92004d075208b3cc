"""The control store as one document, for replicas that only read it: every row, as it stands."""

import sqlite3
from typing import Final

import msgspec

from featurestore.store import migrations
from featurestore.store.control import Control
from pipeline.errors import NOT_JSON, BadInput

_FOLDER: Final = "control"


class _Copy(msgspec.Struct, array_like=True):
    schema: int
    settings: list[tuple[str, str]] = []
    documents: list[tuple[str, str, str, int, int]] = []
    resources: list[tuple[str, str | None, str, str, int, int]] = []


#: What is copied, in the order in which a parent comes before its children.
_COLUMNS: Final = {
    "settings": "key, value",
    "documents": "kind, name, body, updated, revision",
    "resources": "path, parent, collection, body, updated, revision",
}


def dump(control: Control) -> bytes:
    """Return all rows as JSON, the same bytes for the same rows; a store that is not there yet has none."""
    if not control.path.exists():
        return msgspec.json.encode(_Copy(migrations.newest(_FOLDER)))

    def work(con: sqlite3.Connection) -> bytes:
        rows = (con.execute(f"SELECT {columns} FROM {name} ORDER BY 1, 2") for name, columns in _COLUMNS.items())
        return msgspec.json.encode([migrations.newest(_FOLDER), *(each.fetchall() for each in rows)])

    return control.read(work)


def restore(control: Control, content: bytes) -> None:
    """Make the store hold the rows of *content* and no others, in one transaction.

    Raises `BadInput` where *content* is no such document or of another version, and as `Control.write` does.
    """
    try:
        copy = msgspec.json.decode(content, type=_Copy)
    except NOT_JSON:
        raise BadInput("the copy of the control store cannot be read") from None
    if copy.schema != (known := migrations.newest(_FOLDER)):
        raise BadInput(f"the copy of the control store is of schema {copy.schema}, this version knows {known}")

    def work(con: sqlite3.Connection) -> None:
        con.execute("PRAGMA defer_foreign_keys = ON")
        for name, columns in _COLUMNS.items():
            con.execute(f"DELETE FROM {name}")
            places = ", ".join("?" for _ in columns.split(","))
            con.executemany(f"INSERT INTO {name} ({columns}) VALUES ({places})", getattr(copy, name))

    control.write(work)
