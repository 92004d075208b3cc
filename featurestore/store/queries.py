"""What is read from the store: copies of a window for learning, watermarks, health, and what is kept how long.

Each function takes the connection that `Store.read` or `Store.write` hands to its work. Copies are Arrow tables with
times as ``timestamp[us, UTC]``, so that the file is free again before anything long is done with them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from duckdb import DuckDBPyConnection

_EVER = datetime(9999, 1, 1, tzinfo=UTC)


def arrow(con: DuckDBPyConnection, query: str, values: Sequence[object] | Mapping[str, object] = ()) -> pa.Table:
    """Return the answer to *query* as a table of its own, independent of the connection."""
    return con.sql(query, params=dict(values) if isinstance(values, Mapping) else list(values)).to_arrow_table()


def placements(con: DuckDBPyConnection, cluster: str, since: datetime, until: datetime) -> pa.Table:
    """Copy the lives of pods that overlap [since, until): the table's columns without the cluster.

    *ended* is null where the pod was alive at *last_seen*; *function_from* is from when it is its function's.
    """
    return arrow(
        con,
        """
        SELECT * EXCLUDE (cluster) FROM placements
        WHERE cluster = ? AND started < ? AND coalesce(ended, ?) > ? ORDER BY started, uid
        """,
        [cluster, until, _EVER, since],
    )


def usage(
    con: DuckDBPyConnection, cluster: str, scope: str, since: datetime, until: datetime, metrics: Sequence[str] = ()
) -> pa.Table:
    """Copy the samples of *scope* (``node`` or ``pod``) in [since, until): namespace, name, metric, at, value.

    Units are those of `pipeline.columns.METRICS`; *metrics* empty means all of them.
    """
    return arrow(
        con,
        """
        SELECT namespace, name, metric, "at", value FROM usage
        WHERE cluster = ? AND scope = ? AND "at" >= ? AND "at" < ? AND (len(?::VARCHAR[]) = 0 OR metric IN ?)
        ORDER BY "at", namespace, name, metric
        """,
        [cluster, scope, since, until, list(metrics), list(metrics)],
    )


def nodes(con: DuckDBPyConnection, cluster: str, since: datetime) -> pa.Table:
    """Copy the specifications of nodes that were valid at *since* or later: *valid_to* null is the current one."""
    return arrow(
        con,
        """
        SELECT * EXCLUDE (cluster) FROM node_specs
        WHERE cluster = ? AND coalesce(valid_to, ?) > ? ORDER BY node, valid_from
        """,
        [cluster, _EVER, since],
    )


def workflows(con: DuckDBPyConnection, cluster: str) -> pa.Table:
    """Copy the workflows last listed: namespace, workflow, seen, document (JSON)."""
    return arrow(
        con, "SELECT * EXCLUDE (cluster) FROM workflows WHERE cluster = ? ORDER BY namespace, workflow", [cluster]
    )


def declared_profiles(con: DuckDBPyConnection, cluster: str) -> pa.Table:
    """Copy the declared profiles: `pipeline.columns.PROFILES` and *seen*."""
    return arrow(
        con,
        "SELECT * EXCLUDE (cluster) FROM declared_profiles WHERE cluster = ? ORDER BY function, node_type",
        [cluster],
    )


def functions(con: DuckDBPyConnection, cluster: str) -> list[str]:
    """Return the names of every function that has been seen in *cluster*, in order."""
    found = con.execute(
        "SELECT DISTINCT function FROM activations WHERE cluster = ? AND NOT composite ORDER BY function", [cluster]
    ).fetchall()
    return [row[0] for row in found]


def addresses(con: DuckDBPyConnection, cluster: str) -> dict[str, str]:
    """Return the current nodes' names by each of their addresses."""
    found = con.execute(
        "SELECT node, addresses FROM node_specs WHERE cluster = ? AND valid_to IS NULL ORDER BY node", [cluster]
    ).fetchall()
    return {address: node for node, text in found for address in json.loads(text).values()}


def watermark(con: DuckDBPyConnection, cluster: str, source: str, scope: str = "") -> datetime | None:
    """Return up to when *source* is known in *scope*, or None before its first collection."""
    row = con.execute(
        'SELECT max("at") FROM watermarks WHERE cluster = ? AND source = ? AND scope = ?', [cluster, source, scope]
    ).fetchone()
    return row[0].astimezone(UTC) if row is not None and row[0] is not None else None


def oldest(con: DuckDBPyConnection, cluster: str, source: str) -> datetime | None:
    """Return up to when *source* is known in all its scopes, or None before its first collection."""
    [[at]] = con.execute(
        'SELECT min("at") FROM (SELECT max("at") AS "at" FROM watermarks WHERE cluster = ? AND source = ?'
        " GROUP BY scope)",
        [cluster, source],
    ).fetchall()
    return None if at is None else at.astimezone(UTC)


def advance(con: DuckDBPyConnection, cluster: str, source: str, scope: str, at: datetime) -> None:
    """Move the watermark of *source* in *scope* to *at*, never back."""
    known = watermark(con, cluster, source, scope)
    if known is None:
        con.execute("INSERT INTO watermarks VALUES (?, ?, ?, ?)", [cluster, source, scope, at])
    elif known < at:
        con.execute(
            'UPDATE watermarks SET "at" = ? WHERE cluster = ? AND source = ? AND scope = ?',
            [at, cluster, source, scope],
        )


@dataclass(frozen=True, slots=True)
class Run:
    """One collection or learning run; *outcome* is ok, partial or failed, *reason* a short word or ''."""

    cluster: str
    source: str
    started: datetime
    finished: datetime
    rows: int = 0
    refused: int = 0
    outcome: str = "ok"
    reason: str = ""
    message: str = ""


def record_run(con: DuckDBPyConnection, run: Run) -> None:
    """Remember a run; its message must not hold a secret."""
    con.execute(
        "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            run.cluster,
            run.source,
            run.started,
            run.finished,
            run.rows,
            run.refused,
            run.outcome,
            run.reason,
            run.message,
        ],
    )


def health(con: DuckDBPyConnection) -> pa.Table:
    """Return one row a cluster and source: the columns of table ``health`` of `featurestore.snapshot.TABLES`.

    The watermark is the oldest of the source's scopes; the lag is what has passed since then. Attempt, outcome,
    rows and refused are those of the last run; the totals are over the runs that are kept.
    """
    return arrow(
        con,
        """
        WITH last AS (
            SELECT cluster, source,
                max(finished) FILTER (outcome <> 'failed') AS last_success,
                max(finished) AS last_attempt,
                arg_max(struct_pack(outcome, reason, "rows", refused), (finished, started)) AS run,
                sum("rows")::BIGINT AS rows_total,
                count(*) FILTER (outcome <> 'ok') AS errors_total
            FROM runs GROUP BY cluster, source
        ), marks AS (SELECT cluster, source, min("at") AS watermark FROM watermarks GROUP BY cluster, source)
        SELECT coalesce(last.cluster, marks.cluster) AS cluster, coalesce(last.source, marks.source) AS source,
            last_success, last_attempt, coalesce(run.outcome, '') AS outcome, coalesce(run.reason, '') AS reason,
            coalesce(run."rows", 0)::BIGINT AS "rows", coalesce(run.refused, 0)::BIGINT AS refused, watermark,
            coalesce(rows_total, 0)::BIGINT AS rows_total, coalesce(errors_total, 0)::BIGINT AS errors_total
        FROM last FULL JOIN marks ON marks.cluster = last.cluster AND marks.source = last.source ORDER BY 1, 2
        """,
    )


@dataclass(frozen=True, slots=True)
class Retention:
    """How long what happened is kept; ended placements and closed node specifications go by *placements*."""

    usage: timedelta = timedelta(days=30)
    activations: timedelta = timedelta(days=30)
    placements: timedelta = timedelta(days=90)
    decisions: timedelta = timedelta(days=90)


#: What is deleted, as table, condition on the last moment that is kept, and the span that applies. An imported
#: history may be old when it comes: an activation is kept that long after it was brought in, too.
_RETAINED = (
    ("usage", '"at" < ?', "usage"),
    ("activations", 'greatest("start", collected) < ?', "activations"),
    (
        "activation_use",
        '"start" < ? AND NOT EXISTS (SELECT 1 FROM activations AS kept WHERE kept.cluster = activation_use.cluster'
        ' AND kept.activation_id = activation_use.activation_id AND kept."start" = activation_use."start")',
        "activations",
    ),
    ("region_spans", "ended < ?", "activations"),
    ("placements", "ended < ?", "placements"),
    ("node_specs", "valid_to < ?", "placements"),
    ("decisions", '"at" < ?', "decisions"),
    ("decision_outcomes", '"at" < ?', "decisions"),
    ("runs", "finished < ?", "decisions"),
)


def retain(con: DuckDBPyConnection, now: datetime, retention: Retention) -> dict[str, int]:
    """Delete what is older than *retention* allows at *now*; return the number of rows deleted by table."""
    gone: dict[str, int] = {}
    for table, older, span in _RETAINED:
        row = con.execute(f"DELETE FROM {table} WHERE {older}", [now - getattr(retention, span)]).fetchone()
        gone[table] = int(row[0]) if row is not None else 0
    return gone
