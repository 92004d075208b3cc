"""What became of decisions: whether pods went where they were advised to, and how these fared beside the others."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from jobs.supervisor.status import OutcomeStatus

_BY = ("cluster", "mode", "followed")


def outcomes(known: Iterable[OutcomeStatus]) -> Iterator[Metric]:
    """Yield the decided pods that ran, and their run time beside what is usual for their functions."""
    pods = GaugeMetricFamily(
        "colocation_decided_pods",
        "Pods of stored decisions that were seen on a node, by whether that was one ranked first",
        labels=_BY,
    )
    latency = GaugeMetricFamily(
        "colocation_decided_latency_ratio",
        "Median, over such pods, of the median run time over what is usual for the function",
        labels=_BY,
    )
    for each in known:
        labels = (each.cluster, each.mode, each.followed)
        pods.add_metric(labels, each.pods)
        if each.latency_ratio is not None:
            latency.add_metric(labels, each.latency_ratio)
    yield from (pods, latency)
