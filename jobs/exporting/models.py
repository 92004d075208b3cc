"""What each model that is kept said, for as long as it was the newest; and, before the first, how fast runs were."""

from collections.abc import Sequence
from typing import Any

from duckdb import DuckDBPyConnection

from featurestore.snapshot import Snapshot
from featurestore.store import assemble
from jobs.exporting.page import Page
from jobs.exporting.span import Span
from jobs.service.families import functions
from jobs.service.metrics import of_model

_HOUR = 3600.0


class Models:
    """Adds the pairs, functions and figures of every model at the steps from its creation to that of the next."""

    def __init__(self, most: int) -> None:
        self._most = most

    def read(self, con: DuckDBPyConnection, span: Span) -> list[tuple[Sequence[float], Snapshot]]:
        return [
            (steps, assemble.of_model(con, cluster, model))
            for since, until, model, cluster in _reigns(con)
            if (steps := span.between(since, until))
        ]

    def add(self, found: list[tuple[Sequence[float], Snapshot]], span: Span, page: Page) -> None:
        for steps, snapshot in found:
            page.add(of_model(snapshot, self._most), steps)


class Latencies:
    """Adds medians and 95th percentiles of runs, hour by hour, by node type, from before a cluster's first model."""

    def __init__(self, most: int) -> None:
        self._most = most

    def read(self, con: DuckDBPyConnection, span: Span) -> list[tuple[Any, ...]]:
        return con.execute(
            """
            WITH first AS (SELECT cluster, min(created) AS created FROM models GROUP BY cluster),
            ran AS (
                SELECT u.cluster, u.function, coalesce(s.node_type, '') AS node_type, u.latency_ms,
                    floor(epoch(u."end") / $hour) * $hour AS hour
                FROM activation_use AS u JOIN first ON first.cluster = u.cluster
                LEFT JOIN node_specs AS s ON s.cluster = u.cluster AND s.node = u.node AND s.valid_to IS NULL
                WHERE u.latency_ms > 0 AND u."end" < first.created AND epoch(u."end") >= $since
                    AND epoch(u."end") < $until AND u.node IS NOT NULL
            ), active AS (
                SELECT cluster, function FROM activation_use GROUP BY ALL ORDER BY count(*) DESC, function LIMIT $most
            )
            SELECT cluster, function, node_type, hour, epoch(first.created) AS created,
                quantile_cont(latency_ms, [0.5, 0.95]) AS quantiles
            FROM ran SEMI JOIN active USING (cluster, function) JOIN first USING (cluster)
            GROUP BY ALL ORDER BY hour, cluster, function, node_type
            """,
            {"since": span.since, "until": span.until, "hour": _HOUR, "most": self._most},
        ).fetchall()

    def add(self, found: list[tuple[Any, ...]], span: Span, page: Page) -> None:
        for cluster, function, kind, hour, created, (median, high) in found:
            row = {"cluster": cluster, "function": function, "node_type": kind, "p50_ms": median, "p95_ms": high}
            steps = span.between(max(hour, span.since), min(hour + _HOUR, created))
            page.add([functions.latencies([row])], steps)


def _reigns(con: DuckDBPyConnection) -> list[tuple[float, float, str, str]]:
    """Return from when until when (epoch seconds) each model was the newest that was not held back."""
    found: list[tuple[float, float, str, str]] = con.execute(
        """
        SELECT epoch(created), coalesce(epoch(lead(created) OVER (PARTITION BY cluster ORDER BY number)),
            'inf'::DOUBLE), model, cluster
        FROM models WHERE promoted OR coalesce(json_extract_string(metrics, '$.holdout.verdict'), '') <> 'worse'
        ORDER BY cluster, number
        """
    ).fetchall()
    return found
