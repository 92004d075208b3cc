"""Rows of what is folded: packed bodies by kind, number and part, the long ones of which stand in pieces.

Each function takes the connection that `Store.read` or `Store.write` hands to its work.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from duckdb import DuckDBPyConnection

from featurestore.store import pieces
from pipeline.errors import Permanent

#: Longer bodies stand in pieces, but for a head.
LONG = 65_536


@dataclass(frozen=True, slots=True)
class Row:
    """One packed *body*: which *part* of what *kind*, and of a step its *number*, *since*, *until* and *rows*."""

    kind: str
    part: int
    body: bytes
    number: int = 0
    since: int = 0
    until: int = 0
    rows: float = 0.0


class Damaged(Permanent):
    """Pieces of what is folded are missing."""

    def __init__(self, cluster: str, missing: int) -> None:
        super().__init__(
            "store", "damaged", f"the state of cluster {cluster} is damaged: {missing} parts of it are gone"
        )


def long(rows: Sequence[Row]) -> list[bytes]:
    """Return the bodies of *rows* that stand in pieces, in order."""
    return [row.body for row in rows if _is_long(row)]


def _is_long(row: Row) -> bool:
    return len(row.body) > LONG and row.kind != "head"


def read(
    con: DuckDBPyConnection, cluster: str, kinds: Sequence[str], last: int | None = None, first: int = 0
) -> list[Row]:
    """Return what is stored of *kinds*, in order of numbers and parts, from the number *first* up to the *last*.

    Raises `Damaged`."""
    rows = con.execute(
        """
        SELECT kind, part, number, since, until, "rows", entry, rowid FROM folded
        WHERE cluster = ? AND kind IN ? AND number BETWEEN ? AND coalesce(?, number) ORDER BY number, part
        """,
        [cluster, list(kinds), first, last],
    ).fetchall()
    bodies = pieces.read(con, [entry for *_, entry, _ in rows if entry])
    if missing := sum(1 for *_, entry, _ in rows if entry and entry not in bodies):
        raise Damaged(cluster, missing)
    short = con.execute(
        "SELECT rowid, body FROM folded WHERE cluster = ? AND kind IN ? AND entry = 0", [cluster, list(kinds)]
    ).fetchall()
    inside = dict(short)
    for *_, entry, place in rows:
        if entry is None:  # of an earlier version: too long, maybe, to be read beside others
            [[inside[place]]] = con.execute("SELECT body FROM folded WHERE rowid = ?", [place]).fetchall()
    return [
        Row(kind, part, bodies[entry] if entry else inside[place], number, since, until, count)
        for kind, part, number, since, until, count, entry, place in rows
    ]


def write(con: DuckDBPyConnection, cluster: str, rows: Sequence[Row], first: int = 0) -> None:
    """Add *rows*. The pieces of their long bodies were written under the entries from *first* on; 0: they are
    written here."""
    waiting = long(rows)
    if waiting and not first:
        first = pieces.last(con) + 1
        for part in pieces.cut(waiting, first):
            pieces.write(con, part)
    entries = iter(range(first, first + len(waiting)))
    for row in rows:
        entry = next(entries) if _is_long(row) else 0
        body = None if entry else row.body
        con.execute(
            """
            INSERT INTO folded (cluster, kind, number, part, since, until, "rows", body, entry)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [cluster, row.kind, row.number, row.part, row.since, row.until, row.rows, body, entry],
        )
