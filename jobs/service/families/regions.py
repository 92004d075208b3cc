"""Consistent regions of stream jobs: what their operators say of them, all clusters side by side."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from rules.regions.region import State

_BY = ("cluster", "namespace", "stream_job", "region")

_Row = Mapping[str, Any]


def _milliseconds(moment: datetime | None) -> float:
    return 0.0 if moment is None else round(moment.timestamp() * 1000)


def _ordinal(row: _Row) -> float | None:
    try:
        return float(State(row["state"]).ordinal)
    except ValueError:
        return None


#: Name, help and value of each, as on the page of the region's own operator; None gives no sample.
_GAUGES: tuple[tuple[str, str, Callable[[_Row], float | None]], ...] = (
    ("average_drain_time_milliseconds", "Mean time of the last ten drains", lambda row: row["average_drain_ms"]),
    ("average_reset_time_milliseconds", "Mean time of the last ten resets", lambda row: row["average_reset_ms"]),
    (
        "last_consistent_state_time_milliseconds",
        "When the last drain was completed, epoch milliseconds, 0 for never",
        lambda row: _milliseconds(row["last_consistent_at"]),
    ),
    (
        "last_reset_time_milliseconds",
        "When the last reset was completed, epoch milliseconds, 0 for never",
        lambda row: _milliseconds(row["last_reset_at"]),
    ),
    (
        "last_completed_drain_seq_id",
        "Sequence id of the last completed drain, -1 before the first",
        lambda row: row["last_completed_drain"],
    ),
    (
        "last_completed_reset_seq_id",
        "Sequence id of the last completed reset, -1 before the first",
        lambda row: row["last_completed_reset"],
    ),
    (
        "state",
        "0 started, 1 processing, 2 unhealthy, 3 draining, 4 resetting, 5 attempts used up, 6 checkpoint pending",
        _ordinal,
    ),
    ("n_current_reset_attempts", "Resets since the last completed drain", lambda row: row["reset_attempts"]),
    (
        "last_completed_seq_id",
        "Sequence id of the last completed checkpoint",
        lambda row: row["last_completed_seq_id"],
    ),
)


def regions(table: pa.Table) -> Iterator[Metric]:
    """Yield the nine gauges of every region in *table*, as `featurestore.snapshot` has it."""
    rows = table.to_pylist()
    for name, text, value in _GAUGES:
        family = GaugeMetricFamily(f"colocation_region_{name}", text, labels=_BY)
        for row in rows:
            if (found := value(row)) is not None:
                family.add_metric((row["cluster"], row["namespace"], row["stream_job"], str(row["region"])), found)
        yield family
