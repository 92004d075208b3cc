"""What was learned and last seen, which changes only with the snapshot: node load, pair slowdown, attribution.

Rendered once a snapshot, since 5,000 nodes are too many lines to make for every scrape.
"""

import math
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric

from featurestore.snapshot import Snapshot

_TOLD = pa.array(["observed", "predicted"])
_NODE_FACTS = (
    ("cpu_used_cores", "colocation_node_cpu_used_cores", "CPU cores in use on the node when last measured"),
    ("cpu_cores", "colocation_node_cpu_allocatable_cores", "CPU cores that pods can request on the node"),
    ("memory_used_bytes", "colocation_node_memory_used_bytes", "Memory working set on the node when last measured"),
    ("memory_bytes", "colocation_node_memory_allocatable_bytes", "Memory that pods can request on the node"),
)


def nodes(snapshot: Snapshot) -> Iterator[Metric]:
    """Yield the use and the size of each node; a node without a measurement has no sample."""
    rows = snapshot["nodes"].select(["cluster", "node", *(column for column, _, _ in _NODE_FACTS)]).to_pylist()
    for column, name, text in _NODE_FACTS:
        family = GaugeMetricFamily(name, text, labels=("cluster", "node"))
        for row in rows:
            if (value := row[column]) is not None and math.isfinite(value):
                family.add_metric((row["cluster"], row["node"]), value)
        yield family


def pairs(snapshot: Snapshot, most: int) -> Iterator[Metric]:
    """Yield the slowdown of the *most* strongest observed or predicted pairs, .25 = 25 % longer."""
    family = GaugeMetricFamily(
        "colocation_pair_slowdown_ratio",
        "How much longer the victim takes beside one always-running aggressor; the strongest pairs only",
        labels=("cluster", "victim", "aggressor", "node_type", "status"),
    )
    table = snapshot["pairs"]
    told = pc.is_in(table["status"].cast("string"), value_set=_TOLD)
    table = table.filter(pc.and_(told, pc.fill_null(pc.is_finite(table["slowdown"]), False)))
    for row in table.sort_by([("slowdown", "descending")]).slice(0, most).to_pylist():
        labels = (row["cluster"], row["victim"], row["aggressor"], row["node_type"] or "", row["status"])
        family.add_metric(labels, row["slowdown"])
    yield family
    counts = GaugeMetricFamily(
        "colocation_pairs", "Pairs of functions by what is known of them", labels=("cluster", "status")
    )
    for row in snapshot["pairs"].group_by(["cluster", "status"]).aggregate([([], "count_all")]).to_pylist():
        counts.add_metric((row["cluster"], row["status"]), row["count_all"])
    yield counts


def attribution(snapshot: Snapshot) -> Iterator[Metric]:
    """Yield how many activations of the last learning run were placed how, and the clock skew that was seen."""
    family = GaugeMetricFamily(
        "colocation_attributed_activations",
        "Activations of the last learning run by how they were placed on a node",
        labels=("cluster", "method"),
    )
    skew = GaugeMetricFamily(
        "colocation_attribution_skew_seconds",
        "Largest difference of clocks that was tolerated in the last learning run",
        labels=("cluster",),
    )
    for cluster, counts in snapshot.attribution.items():
        for method, count in counts.items():
            if method == "skew_max_ms":
                skew.add_metric((cluster,), count / 1000)
            else:
                family.add_metric((cluster, method), count)
    yield family
    yield skew


def learning(snapshot: Snapshot, most: int) -> Iterator[Metric]:
    """Yield the residual drift of the *most* drifting functions, and how far the folded states lie from full fits."""
    drift = GaugeMetricFamily(
        "colocation_function_drift",
        "Mean residual of the newest runs in standard deviations of a usual day's level; the most drifting",
        labels=("cluster", "function"),
    )
    distance = GaugeMetricFamily(
        "colocation_learning_distance",
        "Distance of folded slowdowns to those of the last full fit, in its standard errors",
        labels=("cluster", "of"),
    )
    for cluster, told in snapshot.learning.items():
        drifting = sorted(told.get("drift", {}).items(), key=lambda one: (-abs(one[1]), one[0]))
        for function, value in drifting[:most]:
            drift.add_metric((cluster, function), value)
        for of, value in told.get("distance", {}).items():
            distance.add_metric((cluster, of), value)
    yield drift
    yield distance


def version(snapshot: Snapshot) -> Iterator[Metric]:
    """Yield which snapshot and models answer."""
    yield InfoMetricFamily("colocation_snapshot", "The snapshot that answers", value={"version": snapshot.version})
    created = GaugeMetricFamily("colocation_snapshot_created_timestamp_seconds", "When the snapshot was made")
    created.add_metric((), snapshot.created.timestamp())
    yield created
    models = InfoMetricFamily("colocation_model", "The promoted model", labels=("cluster",))
    for cluster, model in snapshot.models.items():
        models.add_metric((cluster,), {"model": model})
    yield models
