"""What is known of each function: its profile and classes, and how fast it answers on each type of node.

Only the functions that ran most are shown, so that a cluster of thousands does not drown a Prometheus.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric

from featurestore.snapshot import Snapshot
from featurestore.snapshot import rows as rows_of
from jobs.service.families.counted import gauges

_BY = ("cluster", "function")
#: Rows of one part.
_PART: Final = 250
_CLASSES = ("dominant", "cpu", "memory", "network", "disk", "source")
_USE = (
    ("cpu_cores", "colocation_function_cpu_used_cores", "CPU cores that the function uses while it runs"),
    ("memory_bytes", "colocation_function_memory_used_bytes", "Memory that the function uses while it runs"),
    ("network_bytes_per_s", "colocation_function_network_bytes_per_second", "Network traffic while it runs"),
    ("disk_bytes_per_s", "colocation_function_disk_bytes_per_second", "Disk traffic while it runs"),
    ("activations", "colocation_function_activations", "Activations that the function's profile was learned from"),
)
_QUANTILES = (("p50_ms", "0.5"), ("p95_ms", "0.95"))


def functions(snapshot: Snapshot, most: int) -> Iterator[Metric]:
    """Yield profiles, classes and latency by node type of the *most* active functions of *snapshot*.

    Latencies come in parts of their family: there are several for each function and node type.
    """
    rows = snapshot["functions"].filter(pc.equal(snapshot["functions"]["node_type"].cast("string"), ""))
    ranked = rows.sort_by([("activations", "descending"), ("function", "ascending")])
    shown = list(rows_of(ranked.slice(0, most), [*_BY, *_CLASSES, *(column for column, _, _ in _USE)]))
    yield from profiles(shown)
    names = {(row["cluster"], row["function"]) for row in shown}
    table = snapshot["latencies"]
    wanted = pc.is_in(table["function"].cast("string"), value_set=pa.array([name for _, name in names], pa.string()))
    table = table.filter(pc.and_(wanted, pc.equal(table["node"].cast("string"), "")))
    found = rows_of(table, [*_BY, "node_type", *(column for column, _ in _QUANTILES)])
    known = (row for row in found if (row["cluster"], row["function"]) in names)
    yield latencies(islice(known, _PART))
    yield from map(latencies, iter(lambda: list(islice(known, _PART)), []))


def profiles(rows: Iterable[Mapping[str, Any]]) -> Iterator[Metric]:
    """Yield what the functions of *rows* use, and the classes that this puts them into."""
    rows = list(rows)
    yield from gauges(_USE, _BY, rows)
    classes = InfoMetricFamily(
        "colocation_function_class",
        "Classes of what the function uses, as labels: dominant, cpu, memory, network, disk, and their source",
        labels=_BY,
    )
    for row in rows:
        classes.add_metric((row["cluster"], row["function"]), {name: row[name] or "" for name in _CLASSES})
    yield classes


def latencies(rows: Iterable[Mapping[str, Any]]) -> Metric:
    """Return the run times of *rows*, one a function and node type."""
    family = GaugeMetricFamily(
        "colocation_function_latency_seconds",
        "Run time of the function on a type of node, initialisation excluded",
        labels=(*_BY, "node_type", "quantile"),
    )
    for row in rows:
        for column, quantile in _QUANTILES:
            if (value := row[column]) is not None and math.isfinite(value):
                family.add_metric((row["cluster"], row["function"], row["node_type"], quantile), value / 1000)
    return family
