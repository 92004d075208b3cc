"""What Prometheus has for ``colocate doctor``: scrapes enough in a step, and each metric that is asked for."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from jobs.finding import Finding, Verdict, remedy
from pipeline.clients.prometheus import PrometheusClient
from pipeline.collectors import usage_nodes, usage_pods
from pipeline.collectors.usage import Metric
from pipeline.columns import METRICS
from pipeline.errors import SourceError
from pipeline.records import Batch

#: Scrapes that a step should hold.
_SCRAPES: Final = 4
#: How each metric is asked for, by scope, and whether something has to come.
_ASKED: Final[Mapping[str, Mapping[str, Metric]]] = {"node": usage_nodes.METRICS, "pod": usage_pods.METRICS}
_OPTIONAL: Final = "optional: scrape it, or replace the query under prometheus.queries"


def scrapes(cluster: str, client: PrometheusClient, step: timedelta, now: datetime) -> Iterator[Finding]:
    """Check that a rate over a step has samples enough: it misses what happens between two of its windows."""
    asked = f"quantile(0.5, count_over_time(up[{int(step.total_seconds())}s]))"
    for series in client.instant(asked, now):
        scrapes = float(series.values[-1])
        few = scrapes < _SCRAPES
        fix = f"make schedule.step at least {_SCRAPES} scrape intervals" if few else ""
        said = (
            f"half of the targets are scraped {scrapes:.0f} times in a step of {step.total_seconds():.0f} s or more"
        )
        yield Finding(cluster, "prometheus", "scrapes", "warning" if few else "ok", said, fix)


def metrics(cluster: str, scope: str, collect: Callable[[], Batch]) -> Iterator[Finding]:
    """Check each metric of *scope* that *collect* brings: one that has to be there fails, another is a hint."""
    try:
        batch = collect()
    except SourceError as error:
        fix = remedy(error.reason)
        yield Finding(cluster, "prometheus", f"{scope} usage", "failed", str(error), fix)
        return
    counted = {}
    if batch.rows is not None:
        grouped = batch.rows.group_by("metric").aggregate([("name", "count_distinct")])
        counted = dict(zip(grouped["metric"].to_pylist(), grouped["name_count_distinct"].to_pylist(), strict=True))
    for failure in batch.failures:
        if failure.reason != "empty":  # which is told of the metric itself
            yield Finding(cluster, "prometheus", f"{scope} usage", "failed", str(failure), remedy(failure.reason))
    for metric in METRICS[scope]:
        found, needed = counted.get(metric, 0), _ASKED[scope][metric].base
        verdict: Verdict = "ok" if found else "failed" if needed else "warning"
        fix = "" if found else remedy("empty") if needed else _OPTIONAL
        yield Finding(cluster, "prometheus", f"{scope}.{metric}", verdict, f"of {found} {scope}s", fix)
    if batch.refused:
        first = batch.refused[0]
        yield Finding(
            cluster,
            "prometheus",
            f"{scope} labels",
            "warning",
            f"{first.what}: {first.why}",
            "prometheus.node_label names the labels that name a node" if scope == "node" else "check the relabelling",
        )
