"""Samples of usage meet what is stored, some at a time: a large cluster brings six million in a collection."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from duckdb import DuckDBPyConnection

from featurestore.store.merging import changed

#: Samples that one transaction writes at most: two whole row groups of DuckDB, which are
#: compressed as they come; what is less than one is compressed again with each transaction.
PART = 245_760

#: How they stand in ``listed``: by time, so that of what is stored little is looked through, else as they came.
ORDER = '"at", place'

KEYS = 'scope, namespace, name, metric, "at"'


@dataclass(frozen=True, slots=True)
class Range:
    """Rows *first* to *last* of ``listed``, whose times are *since* to *until*, all inclusive."""

    first: int
    last: int
    since: datetime
    until: datetime


def ranges(con: DuckDBPyConnection) -> Iterator[Range]:
    """Yield the ranges of ``listed``, which is in `ORDER`, that one transaction each takes."""
    found = con.execute(
        """
        SELECT min(rowid), max(rowid), min("at"), max("at") FROM listed
        GROUP BY rowid // ? ORDER BY 1
        """,
        [PART],
    ).fetchall()
    return (Range(*row) for row in found)


def merge(con: DuckDBPyConnection, cluster: str, part: Range) -> int:
    """Write *part* of ``listed``; a sample that is known with another value takes the new one.

    Return how many are new or have another value.
    """
    rows = {"first": part.first, "last": part.last}
    con.execute(
        """
        CREATE OR REPLACE TEMP TABLE known AS
        SELECT u.rowid AS place, part.rowid AS row, part.value AS value, u.value IS DISTINCT FROM part.value AS other
        FROM usage AS u, listed AS part
        WHERE u.cluster = $cluster AND u."at" BETWEEN $since AND $until AND part.rowid BETWEEN $first AND $last
            AND u."at" = part."at" AND u.scope = part.scope AND u.metric = part.metric
            AND u.name = part.name AND u.namespace = part.namespace
        """,
        {"cluster": cluster, "since": part.since, "until": part.until, **rows},
    )
    [[others]] = con.execute("SELECT count(*) FROM known WHERE other").fetchall()
    if others:
        con.execute("UPDATE usage SET value = known.value FROM known WHERE known.other AND usage.rowid = known.place")
    return int(others) + changed(
        con,
        """
        INSERT INTO usage
        SELECT $cluster, scope, namespace, name, metric, "at", value FROM listed
        WHERE rowid BETWEEN $first AND $last AND rowid NOT IN (SELECT row FROM known)
        """,
        {"cluster": cluster, **rows},
    )
