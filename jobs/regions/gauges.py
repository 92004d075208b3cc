"""The metrics of one job's regions, under the names that their dashboards know."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from rules.regions.region import RegionStatus

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: Name, help and value of each gauge.
GAUGES: tuple[tuple[str, str, Callable[[RegionStatus], int]], ...] = (
    (
        "average_drain_time_milliseconds",
        "Mean time of the last ten drains",
        lambda status: status.avg_drain_time_metric,
    ),
    (
        "average_reset_time_milliseconds",
        "Mean time of the last ten resets",
        lambda status: status.avg_reset_time_metric,
    ),
    (
        "last_consistent_state_time_milliseconds",
        "When the last drain was completed, epoch milliseconds",
        lambda status: status.last_consistent_state_time,
    ),
    (
        "last_reset_time_milliseconds",
        "When the last reset was completed, epoch milliseconds",
        lambda status: status.last_reset_time,
    ),
    (
        "last_completed_drain_seq_id",
        "Sequence id of the last completed drain, -1 before the first",
        lambda status: status.last_completed_drain,
    ),
    (
        "last_completed_reset_seq_id",
        "Sequence id of the last completed reset, -1 before the first",
        lambda status: status.last_completed_reset,
    ),
    (
        "state",
        "0 started, 1 processing, 2 unhealthy, 3 draining, 4 resetting, 5 attempts used up, 6 checkpoint pending",
        lambda status: status.state.ordinal,
    ),
    (
        "n_current_reset_attempts",
        "Resets since the last completed drain",
        lambda status: status.current_reset_attempt,
    ),
    (
        "last_completed_seq_id",
        "Sequence id of the last completed checkpoint",
        lambda status: status.last_completed_seq_id,
    ),
)

LABEL = "ConsistentRegion"

#: What the operator counts, by name, and its help.
COUNTED = {
    "events": "Events that changed a region",
    "ignored_events": "Events that no state expected",
    "datagrams": "Notifications sent",
    "datagrams_failed": "Notifications that could not be sent",
}


def families(shown: Mapping[int, RegionStatus]) -> Iterable[Metric]:
    """Yield the gauges of the regions as their resources hold them."""
    for name, text, value in GAUGES:
        family = GaugeMetricFamily(name, text, labels=(LABEL,))
        for index, status in sorted(shown.items()):
            family.add_metric((f"{LABEL}_{index}",), value(status))
        yield family


def counted(counts: Mapping[str, int]) -> Iterable[Metric]:
    """Yield the counters of what the operator did, by the names of `COUNTED`."""
    for name, count in counts.items():
        family = CounterMetricFamily(f"colocation_region_operator_{name}", COUNTED[name])
        family.add_metric((), count)
        yield family


class Gauges(Collector):
    """Makes the page: the regions, what the operator did, and the process itself."""

    def __init__(
        self, shown: Callable[[], Mapping[int, RegionStatus]], counts: Callable[[], Mapping[str, int]]
    ) -> None:
        self._shown, self._counts = shown, counts
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def collect(self) -> Iterable[Metric]:
        yield from families(self._shown())
        yield from counted(self._counts())

    def page(self) -> bytes:
        """Return the page in Prometheus' text format."""
        return generate_latest(self._registry)
