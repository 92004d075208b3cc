"""The sources' health: from the supervisor, who sees each run, else from the snapshot."""

from collections.abc import Iterable
from datetime import datetime

import pyarrow as pa

from jobs.supervisor.status import SourceHealth


def from_table(table: pa.Table) -> list[SourceHealth]:
    """Read table ``health`` of a snapshot or of the store."""
    return [
        SourceHealth(
            row["cluster"],
            row["source"],
            _epoch(row["last_success"]),
            _epoch(row["last_attempt"]),
            row["outcome"] or "",
            row["reason"] or "",
            row["refused"] or 0,
            _epoch(row["watermark"]),
            row["rows_total"] or 0,
            row["errors_total"] or 0,
        )
        for row in table.to_pylist()
    ]


def newest(*reports: Iterable[SourceHealth]) -> list[SourceHealth]:
    """For each cluster and source the report with the latest attempt."""
    best: dict[tuple[str, str], SourceHealth] = {}
    for report in reports:
        for one in report:
            known = best.get((one.cluster, one.source))
            if known is None or (one.last_attempt or 0.0) >= (known.last_attempt or 0.0):
                best[one.cluster, one.source] = one
    return [best[key] for key in sorted(best)]


def _epoch(value: datetime | None) -> float | None:
    return value.timestamp() if value is not None else None
