"""What was asked for and could not be given: hardware intents, stream jobs and volumes, by cause."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric


def refusals(counted: Counter[tuple[str, str]]) -> Iterator[Metric]:
    """Yield the counts of all serving processes together, keyed by (part, cause)."""
    family = CounterMetricFamily(
        "colocation_refusals",
        "Requests about hardware (hpa), stream jobs (hosts) and volumes (disks) that were refused",
        labels=("part", "cause"),
    )
    for key, count in sorted(counted.items()):
        family.add_metric(key, count)
    yield family
