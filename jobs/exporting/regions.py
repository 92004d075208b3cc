"""Drains and resets of consistent regions; the states between them are not stored."""

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from duckdb import DuckDBPyConnection

from featurestore.snapshot import TABLES
from jobs.exporting.page import Page
from jobs.exporting.span import Span
from jobs.service.families import regions

#: As the operator's own means: of the last ten.
_MEAN_OF = 10


@dataclass(slots=True)
class _Kind:
    last: float | None = None
    sequence: int | None = None
    spans: deque[float] = field(default_factory=lambda: deque(maxlen=_MEAN_OF))

    def mean(self) -> int | None:
        return round(sum(self.spans) / len(self.spans)) if self.spans else None


class Regions:
    """Adds the mean times, the last moments and the sequence ids of drains and resets until each step."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str, int], dict[str, _Kind]] = {}

    def read(self, con: DuckDBPyConnection, span: Span) -> list[tuple[Any, ...]]:
        return con.execute(
            """
            SELECT epoch(ended), cluster, namespace, stream_job, region, kind, seq_id,
                1000 * (epoch(ended) - epoch(started))
            FROM region_spans WHERE epoch(ended) >= $since AND epoch(ended) < $until ORDER BY ended
            """,
            {"since": span.since, "until": span.until},
        ).fetchall()

    def add(self, found: list[tuple[Any, ...]], span: Span, page: Page) -> None:
        if found or self._known:
            span.replay(found, self._ended, lambda step: page.add(regions.regions(self._table()), [step]))

    def _ended(
        self, at: float, cluster: str, namespace: str, job: str, region: int, kind: str, sequence: int, took: float
    ) -> None:
        known = self._known.setdefault((cluster, namespace, job, region), {"drain": _Kind(), "reset": _Kind()})
        one = known[kind]
        one.last, one.sequence = at, sequence
        one.spans.append(took)

    def _table(self) -> pa.Table:
        rows: list[dict[str, Any]] = []
        for (cluster, namespace, job, region), of in sorted(self._known.items()):
            row = {"cluster": cluster, "namespace": namespace, "stream_job": job, "region": region, "state": ""}
            drain, reset = of["drain"], of["reset"]
            row |= {
                "average_drain_ms": drain.mean(),
                "average_reset_ms": reset.mean(),
                "last_consistent_at": _utc(drain.last),
                "last_reset_at": _utc(reset.last),
                "last_completed_drain": drain.sequence,
                "last_completed_reset": reset.sequence,
            }
            rows.append(row)
        schema = TABLES["regions"]
        return pa.Table.from_pylist([dict.fromkeys(schema.names) | row for row in rows], schema)


def _utc(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)
