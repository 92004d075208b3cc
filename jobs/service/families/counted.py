"""A family of counts that are kept by their labels' values."""

from collections.abc import Mapping, Sequence

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric


def gauge(name: str, text: str, labels: Sequence[str], counted: Mapping[tuple[str, ...], float]) -> Metric:
    """Return a gauge *name* with a sample for each key of *counted*, which holds the values of *labels*."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, count in sorted(counted.items()):
        family.add_metric(key, count)
    return family
