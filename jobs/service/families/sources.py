"""Health of the pipeline: when each source was last read, what it brought and refused, how far it lags."""

from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from jobs.supervisor.status import SourceHealth

_BY = ("cluster", "source")
#: Why the newest model may not answer: see `jobs.promotion`.
_HELD_BACK = ("chosen", "worse")


def sources(health: Sequence[SourceHealth], now: float) -> Iterator[Metric]:
    """Yield one sample a cluster and source; *now* in epoch seconds."""
    success = GaugeMetricFamily(
        "colocation_source_last_success_timestamp_seconds", "When the source last gave what was asked", labels=_BY
    )
    attempt = GaugeMetricFamily(
        "colocation_source_last_attempt_timestamp_seconds", "When the source was last asked", labels=_BY
    )
    rows = CounterMetricFamily("colocation_source_rows", "Rows that the source brought", labels=_BY)
    errors = CounterMetricFamily("colocation_source_errors", "Collections that failed or were partial", labels=_BY)
    refused = GaugeMetricFamily(
        "colocation_source_refused", "Objects of the last collection that could not be used", labels=_BY
    )
    lag = GaugeMetricFamily("colocation_source_lag_seconds", "Age of what is known from the source", labels=_BY)
    failing = GaugeMetricFamily(
        "colocation_source_failing", "1 while the last collection was not whole", labels=(*_BY, "reason")
    )
    held_back = GaugeMetricFamily(
        "colocation_model_held_back",
        "1 while the newest model does not answer: another was chosen by hand, or it is worse on runs set aside",
        labels=("cluster", "reason"),
    )
    for one in health:
        if one.source == "learn":
            for reason in _HELD_BACK:
                held_back.add_metric((one.cluster, reason), float(one.reason == reason))
        by = (one.cluster, one.source)
        if one.last_success is not None:
            success.add_metric(by, one.last_success)
        if one.last_attempt is not None:
            attempt.add_metric(by, one.last_attempt)
        if one.watermark is not None:
            lag.add_metric(by, max(0.0, now - one.watermark))
        if one.source != "learn":  # it brings none: it looks at some again each time
            rows.add_metric(by, one.rows_total)
        errors.add_metric(by, one.errors_total)
        refused.add_metric(by, one.refused)
        if one.outcome not in ("", "ok"):
            failing.add_metric((*by, one.reason or one.outcome), 1)
    yield from (success, attempt, rows, errors, refused, lag, failing, held_back)
