"""How old what answers is: the snapshot, its loads, and the watches on the live cluster."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from jobs.supervisor.status import WatchStatus as Watch


def snapshot(created: float, now: float, loads: int, failures: int) -> Iterator[Metric]:
    """Yield the snapshot's age and how often one was loaded or could not be; times in epoch seconds."""
    age = GaugeMetricFamily("colocation_snapshot_age_seconds", "Age of the snapshot that answers")
    age.add_metric((), max(0.0, now - created))
    loaded = CounterMetricFamily("colocation_snapshot_loads", "Snapshots taken up by this process")
    loaded.add_metric((), loads)
    failed = CounterMetricFamily("colocation_snapshot_load_failures", "Snapshots that could not be taken up")
    failed.add_metric((), failures)
    yield from (age, loaded, failed)


def watches(watches: Iterable[Watch], now: float) -> Iterator[Metric]:
    """Yield the seconds from when each watch was last known to be current to *now*; none before its first list."""
    by = ("cluster", "resource", "use")
    age = GaugeMetricFamily(
        "colocation_watch_staleness_seconds",
        "Time since the watch was last known current, for answers, disks or the history",
        labels=by,
    )
    again = CounterMetricFamily("colocation_watch_lists", "Lists made, the first included", labels=by)
    waiting = GaugeMetricFamily(
        "colocation_watch_waiting", "Objects whose changes are not in the history yet", labels=by
    )
    for watch in watches:
        labels = (watch.cluster, watch.resource, watch.use)
        if watch.alive is not None:
            age.add_metric(labels, max(0.0, now - watch.alive))
        again.add_metric(labels, watch.lists)
        if watch.use == "history":
            waiting.add_metric(labels, watch.waiting)
    yield from (age, again, waiting)
