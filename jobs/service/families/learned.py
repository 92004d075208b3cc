"""What the last learning run says of itself: attribution, drift, calibration, and which snapshot and model answer."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric

from featurestore.attribution.methods import METHODS
from featurestore.snapshot import Snapshot


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
            elif method in METHODS:
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
    yield from _calibration(snapshot)


def _calibration(snapshot: Snapshot) -> Iterator[Metric]:
    """Yield how often pairs interfered that were said to do so with a probability; bins hold a tenth of it each."""
    by = ("cluster", "status", "bin")
    stated = GaugeMetricFamily(
        "colocation_model_stated_probability_ratio",
        "Mean stated probability that a pair of the bin interferes",
        labels=by,
    )
    found = GaugeMetricFamily(
        "colocation_model_found_ratio", "Share of the bin's pairs found to interfere by runs left out", labels=by
    )
    error = GaugeMetricFamily(
        "colocation_model_calibration_error_ratio",
        "Mean distance of stated probability and share found, by what pairs were told of as",
        labels=("cluster", "status"),
    )
    for cluster, told in snapshot.learning.items():
        for status, value in told.get("calibration_error", {}).items():
            error.add_metric((cluster, status), value)
        for family, name in ((stated, "stated"), (found, "found")):
            for key, value in told.get(name, {}).items():
                family.add_metric((cluster, *key.split("/")), value)
    yield from (stated, found, error)


def version(snapshot: Snapshot) -> Iterator[Metric]:
    """Yield which snapshot and models answer."""
    yield InfoMetricFamily(
        "colocation_snapshot",
        "The snapshot that answers, its version as a label",
        value={"version": snapshot.version},
    )
    created = GaugeMetricFamily("colocation_snapshot_created_timestamp_seconds", "When the snapshot was made")
    created.add_metric((), snapshot.created.timestamp())
    yield created
    yield models(snapshot)


def models(snapshot: Snapshot) -> Metric:
    """Return which model of each cluster answers."""
    family = InfoMetricFamily("colocation_model", "The promoted model, its name as a label", labels=("cluster",))
    for cluster, model in snapshot.models.items():
        family.add_metric((cluster,), {"model": model})
    return family
