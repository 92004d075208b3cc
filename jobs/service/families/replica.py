"""A replica and its writer: how old its news are, what was exchanged, and decisions that wait or are lost."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from jobs.supervisor.status import WriterStatus


def replica(writer: WriterStatus, now: float) -> Iterator[Metric]:
    """Yield how a replica fares at *now* (epoch seconds); no age before the writer first answered."""
    age = GaugeMetricFamily(
        "colocation_replica_staleness_seconds", "Time since the writer last confirmed what this replica answers from"
    )
    if writer.confirmed is not None:
        age.add_metric((), max(0.0, now - writer.confirmed))
    exchanges = CounterMetricFamily(
        "colocation_replica_exchanges",
        "What a replica asked its writer for (snapshot, control) or gave it (decisions), by outcome",
        labels=("what", "outcome"),
    )
    for what, outcomes in sorted(writer.exchanges.items()):
        for outcome, count in sorted(outcomes.items()):
            exchanges.add_metric((what, outcome), count)
    handed = CounterMetricFamily(
        "colocation_replica_decisions_handed_back", "Decisions that the writer took from this replica"
    )
    handed.add_metric((), writer.handed_back)
    lost = CounterMetricFamily(
        "colocation_replica_decisions_lost", "Decisions given up: too many waited, or the writer could not read them"
    )
    lost.add_metric((), writer.lost)
    waiting = GaugeMetricFamily("colocation_replica_waiting_bytes", "Decisions that wait for the writer")
    waiting.add_metric((), writer.waiting)
    yield from (age, exchanges, handed, lost, waiting)
