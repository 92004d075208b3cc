"""Prometheus' answers as series: strings to numbers, windows joined, replicas merged."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.records import Refusal, Series


def parse(result: Sequence[Any]) -> tuple[list[Series], list[Refusal]]:
    """Read ``data.result`` of a vector, matrix or scalar answer; native histograms are refused, one by one.

    NaN and infinities stay what they are. Raises `ValueError`, `TypeError` or `LookupError` where *result* is of no
    such form.
    """
    if len(result) == 2 and not isinstance(result[0], Mapping):
        return [_series({}, [result])], []
    labelled: list[dict[str, str]] = []
    sampled: list[Sequence[Any]] = []
    refused: list[Refusal] = []
    for item in result:
        labels = {str(name): str(value) for name, value in item["metric"].items()}
        if "histogram" in item or "histograms" in item:
            refused.append(Refusal(_name(labels), "native histogram: not a number at each time"))
        samples = item["values"] if "values" in item else [item["value"]] if "value" in item else []
        if samples:
            labelled.append(labels)
            sampled.append(samples)
        elif "histogram" not in item and "histograms" not in item:
            raise LookupError("a series without values")
    return _together(labelled, sampled), refused


def _together(labelled: Sequence[Mapping[str, str]], sampled: Sequence[Sequence[Any]]) -> list[Series]:
    """Return a series for each, as parts of two arrays: hundreds of thousands have a few samples each."""
    times = np.array([float(time) for samples in sampled for time, _ in samples])
    values = np.array([float(value) for samples in sampled for _, value in samples])
    found, first = [], 0
    for labels, samples in zip(labelled, sampled, strict=True):
        last = first + len(samples)
        found.append(Series(labels, times[first:last], values[first:last]))
        first = last
    return found


def _series(labels: Mapping[str, str], samples: Sequence[Any]) -> Series:
    times = np.fromiter((float(time) for time, _ in samples), np.float64, len(samples))
    values = np.fromiter((float(value) for _, value in samples), np.float64, len(samples))
    return Series(labels, times, values)


def _name(labels: Mapping[str, str]) -> str:
    inner = ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()) if name != "__name__")
    return f"{labels.get('__name__', '')}{{{inner}}}"


def merge(series: Iterable[Series], replica_labels: Sequence[str]) -> list[Series]:
    """Join the series that differ in nothing but *replica_labels*: every time once, ascending.

    Where several have a value at one time, a finite one wins over NaN and infinities, then the one whose replica
    labels sort first; so the answer does not depend on the order of the series. Sorted by labels.
    """
    replicas = frozenset(replica_labels)
    ranking = sorted(replicas)
    groups: dict[tuple[tuple[str, str], ...], list[tuple[list[str], Series]]] = {}
    for one in series:
        key = tuple(sorted((name, value) for name, value in one.labels.items() if name not in replicas))
        rank = [one.labels.get(name, "") for name in ranking]
        groups.setdefault(key, []).append((rank, one))
    return [_join(dict(key), groups[key]) for key in sorted(groups)]


def _join(labels: Mapping[str, str], members: list[tuple[list[str], Series]]) -> Series:
    times = members[0][1].times
    if len(members) == 1 and bool((times[1:] > times[:-1]).all()):  # as nearly all are
        return Series(labels, times, members[0][1].values)
    ranks = {tuple(rank): place for place, rank in enumerate(sorted(rank for rank, _ in members))}
    times = np.concatenate([one.times for _, one in members])
    values = np.concatenate([one.values for _, one in members])
    preference = np.concatenate([np.full(len(one.times), ranks[tuple(rank)]) for rank, one in members])
    order = np.lexsort((preference, ~np.isfinite(values), times))
    times, values = times[order], values[order]
    first = np.ones(len(times), dtype=np.bool_)
    first[1:] = times[1:] != times[:-1]
    return Series(labels, times[first], values[first])
