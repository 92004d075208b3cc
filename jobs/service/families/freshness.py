"""How old what answers is: the snapshot, its loads, and the watches on the live cluster."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric


def snapshot(created: float, now: float, loads: int, failures: int) -> Iterator[Metric]:
    """Yield the snapshot's age and how often one was loaded or could not be; times in epoch seconds."""
    age = GaugeMetricFamily("colocation_snapshot_age_seconds", "Age of the snapshot that answers")
    age.add_metric((), max(0.0, now - created))
    loaded = CounterMetricFamily("colocation_snapshot_loads", "Snapshots taken up by this process")
    loaded.add_metric((), loads)
    failed = CounterMetricFamily("colocation_snapshot_load_failures", "Snapshots that could not be taken up")
    failed.add_metric((), failures)
    yield from (age, loaded, failed)


def watches(staleness: Mapping[str, float | None], relists: Mapping[str, int]) -> Iterator[Metric]:
    """Yield the seconds since each watch was last known to be current; none before its first list."""
    age = GaugeMetricFamily(
        "colocation_watch_staleness_seconds", "Time since the live view was last known current", labels=("resource",)
    )
    for resource, seconds in staleness.items():
        if seconds is not None:
            age.add_metric((resource,), seconds)
    again = CounterMetricFamily("colocation_watch_lists", "Lists made, the first included", labels=("resource",))
    for resource, count in relists.items():
        again.add_metric((resource,), count)
    yield from (age, again)
