"""Samples of metric families by name and labels."""

from collections.abc import Iterable, Mapping

from prometheus_client.metrics_core import Metric

Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def samples(families: Iterable[Metric]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return every sample of *families*; two of one name and labels are an error."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in families:
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"two samples of {key}"
            found[key] = sample.value
    return found


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    """Return the key of a sample of ``colocation_NAME``."""
    return f"colocation_{name}", frozenset(labels.items())
