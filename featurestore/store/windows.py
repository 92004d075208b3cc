"""The window that a learning run looks at, copied out in one read."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from duckdb import DuckDBPyConnection

from featurestore.store import queries
from pipeline.columns import METRICS
from pipeline.records import Window

#: The usage of pods that learning looks at.
_USAGE = tuple(metric for metric in METRICS["pod"] if metric not in ("cpu_pressure", "io_pressure"))


def newest(con: DuckDBPyConnection, cluster: str) -> datetime | None:
    """Return the newest start of an activation of *cluster*, or None where there is none."""
    row = con.execute('SELECT max("start") FROM activations WHERE cluster = ?', [cluster]).fetchone()
    return row[0].astimezone(UTC) if row is not None and row[0] is not None else None


def window(con: DuckDBPyConnection, cluster: str, now: datetime, span: timedelta) -> Window:
    """Return the last *span* up to *now*, or up to the newest activation of a history that ended before that."""
    last = newest(con, cluster)
    until = now if last is None or last >= now - span else last + timedelta(seconds=1)
    return Window(until - span, until)


def copy(con: DuckDBPyConnection, cluster: str, span: Window) -> Mapping[str, pa.Table]:
    """Copy what learning needs of *span*: activations, placements, nodes, usage (of pods), declared, workflows."""
    since, until = span.since, span.until
    return {
        "activations": queries.activations(con, cluster, since, until),
        "placements": queries.placements(con, cluster, since, until),
        "nodes": queries.nodes(con, cluster, since, until),
        "usage": queries.usage(con, cluster, "pod", since, until, _USAGE),
        "declared": queries.declared_profiles(con, cluster),
        "workflows": queries.workflows(con, cluster),
    }


def clusters(con: DuckDBPyConnection) -> list[str]:
    """Return the clusters of which there is history to learn from, sorted."""
    found = con.execute("SELECT DISTINCT cluster FROM activations UNION SELECT cluster FROM placements ORDER BY 1")
    return [cluster for (cluster,) in found.fetchall()]
