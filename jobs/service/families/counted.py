"""Families made of rows: counts that are kept by their labels' values, and the columns of a table."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric


def gauge(name: str, text: str, labels: Sequence[str], counted: Mapping[tuple[str, ...], float]) -> Metric:
    """Return a gauge *name* with a sample for each key of *counted*, which holds the values of *labels*."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, count in sorted(counted.items()):
        family.add_metric(key, count)
    return family


def gauges(
    columns: Iterable[tuple[str, str, str]], labels: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> Iterator[Metric]:
    """Yield a gauge for each of *columns* (column, name, text) of *rows*; what is not known has no sample."""
    for column, name, text in columns:
        family = GaugeMetricFamily(name, text, labels=labels)
        for row in rows:
            if (value := row[column]) is not None and math.isfinite(value):
                family.add_metric([row[label] or "" for label in labels], value)
        yield family
