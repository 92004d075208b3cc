"""The webhook: decisions by mode, outcome and reason, latency, and what failed open or held no review, by cause."""

from collections.abc import Iterator, Mapping
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from jobs.service.counts import BUCKETS, Tally


def admission(tally: Tally) -> Iterator[Metric]:
    """Yield the counts of all serving processes together."""
    errors = CounterMetricFamily(
        "colocation_webhook_errors", "Reviews admitted unchanged after an error", labels=("cause",)
    )
    for cause, count in sorted(tally.errors.items()):
        errors.add_metric((cause,), count)
    rejected = CounterMetricFamily(
        "colocation_webhook_rejected",
        "Requests to the webhook that held no review, answered with an error (empty, not_utf8, not_json,"
        " not_a_review, too_large, method)",
        labels=("cause",),
    )
    for cause, count in sorted(tally.rejections.items()):
        rejected.add_metric((cause,), count)
    latency = HistogramMetricFamily("colocation_webhook_duration_seconds", "Time to answer a review")
    bounds = [*(str(bound) for bound in BUCKETS), "+Inf"]
    latency.add_metric((), list(zip(bounds, accumulate(tally.buckets), strict=True)), tally.seconds)
    dropped = CounterMetricFamily("colocation_decisions_dropped", "Decisions that were not kept for the history")
    dropped.add_metric((), tally.dropped)
    refused = CounterMetricFamily("colocation_unauthorized_requests", "Requests without the right credentials")
    refused.add_metric((), tally.unauthorized)
    left_out = CounterMetricFamily(
        "colocation_rules_left_out", "Answers that a rule was left out of", labels=("rule", "cause")
    )
    for (rule, cause), count in sorted(tally.left_out.items()):
        left_out.add_metric((rule, cause), count)
    yield from (decisions(tally.decisions), errors, rejected, latency, dropped, refused, left_out)


def decisions(counts: Mapping[tuple[str, str, str], int]) -> Metric:
    """Return the decisions by mode, outcome and reason."""
    family = CounterMetricFamily(
        "colocation_decisions", "Pods decided about at admission", labels=("mode", "outcome", "reason")
    )
    for key, count in sorted(counts.items()):
        family.add_metric(key, count)
    return family
