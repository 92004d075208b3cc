"""What an export reads of the store: whole days of each table of `featurestore.exported`, in slices.

Each function takes the connection that `Store.read` hands to its work.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

import pyarrow as pa
from duckdb import DuckDBPyConnection

from featurestore.exported import TABLES
from featurestore.store import queries, windows
from pipeline.records import Window


@dataclass(frozen=True, slots=True)
class Source:
    """*days* asks for the days of a cluster's rows (None: the table has none); *read* copies a span of them.

    *whole* tables are always written from their first day on: what a row says of its end becomes known later.
    """

    read: Callable[[DuckDBPyConnection, str, Window], pa.Table]
    days: str | None = None
    whole: bool = False


def _usage(con: DuckDBPyConnection, cluster: str, span: Window) -> pa.Table:
    """Copy samples with the node on which the last pod of that name that had started ran."""
    return queries.arrow(
        con,
        """
        SELECT u.namespace, u.name, u.metric, u."at", u.value, p.node
        FROM (
            FROM usage WHERE cluster = $cluster AND scope = 'pod' AND "at" >= $since AND "at" < $until
                AND metric IN $metrics
        ) AS u ASOF LEFT JOIN (
            SELECT namespace, pod, node, started FROM placements WHERE cluster = $cluster AND started < $until
        ) AS p ON p.namespace = u.namespace AND p.pod = u.name AND u."at" >= p.started
        """,
        {"cluster": cluster, "since": span.since, "until": span.until, "metrics": list(windows.USAGE)},
    )


def _placements(con: DuckDBPyConnection, cluster: str, span: Window) -> pa.Table:
    query = "SELECT * EXCLUDE (cluster) FROM placements WHERE cluster = ? AND started >= ? AND started < ?"
    return queries.arrow(con, query, [cluster, span.since, span.until])


def _nodes(con: DuckDBPyConnection, cluster: str, span: Window) -> pa.Table:
    query = "SELECT * EXCLUDE (cluster) FROM node_specs WHERE cluster = ? AND valid_from >= ? AND valid_from < ?"
    return queries.arrow(con, query, [cluster, span.since, span.until])


def _declared(con: DuckDBPyConnection, cluster: str, span: Window) -> pa.Table:
    return queries.declared_profiles(con, cluster)


def _workflows(con: DuckDBPyConnection, cluster: str, span: Window) -> pa.Table:
    return queries.workflows(con, cluster)


#: Every table that is exported.
SOURCES: Mapping[str, Source] = {
    "activations": Source(
        windows.activations,
        'SELECT "start" FROM activations WHERE cluster = $cluster'
        " UNION ALL SELECT started FROM region_spans WHERE cluster = $cluster AND kind = 'drain'",
    ),
    "usage": Source(_usage, "SELECT \"at\" FROM usage WHERE cluster = $cluster AND scope = 'pod'"),
    "placements": Source(_placements, "SELECT started FROM placements WHERE cluster = $cluster", whole=True),
    "nodes": Source(_nodes, "SELECT valid_from FROM node_specs WHERE cluster = $cluster", whole=True),
    "declared": Source(_declared),
    "workflows": Source(_workflows),
}


def read(con: DuckDBPyConnection, table: str, cluster: str, span: Window) -> pa.Table:
    """Copy the rows of *table* that belong to *span*, with the columns of `featurestore.exported.TABLES`."""
    rows = SOURCES[table].read(con, cluster, span)
    return rows.select(TABLES[table].names).cast(TABLES[table])


def days(con: DuckDBPyConnection, table: str, cluster: str) -> list[date]:
    """Return the days (UTC) of which *table* has rows, in order; none of a table without days."""
    asked = SOURCES[table].days
    if asked is None:
        return []
    found = con.execute(f"SELECT DISTINCT moment::DATE FROM ({asked}) AS t(moment) ORDER BY 1", {"cluster": cluster})
    return [day for (day,) in found.fetchall()]


def slices(con: DuckDBPyConnection, table: str, cluster: str, day: date) -> list[Window]:
    """Return the parts of *day* that are each read in a transaction of its own."""
    first = datetime.combine(day, time(), UTC)
    span = Window(first, datetime.max.replace(tzinfo=UTC) if day == date.max else first + timedelta(days=1))
    return windows.slices(con, table, cluster, span) if table in windows.LARGE else [span]
