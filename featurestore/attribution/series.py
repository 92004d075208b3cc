"""The usage series of pods: which pod's life a sample belongs to, and the step of time that it speaks of.

A sample at t is the mean over the step that ends at t (of memory: the working set of that step). The step begins a
step before t, or at the pod's previous sample where that is nearer.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from featurestore.columnar import TIME, codes, distinct, floats, micros
from featurestore.exposure.kernels import Floats, Ints
from featurestore.exposure.sweep import OPEN


class Samples(NamedTuple):
    """Samples of pods: those of pod i are offsets[i]:offsets[i + 1], by time; *value* is the mean of (begin, end]."""

    offsets: Ints
    begin: Ints
    end: Ints
    value: Floats


def pair(placements: pa.Table, usage: pa.Table) -> tuple[Ints, Ints]:
    """Return the rows of *usage* and of *placements* that have the same namespace and pod name, each way of pairing.

    O((usage + placements) log placements), without a copy of any text.
    """
    names = distinct(placements["pod"])
    namespaces = distinct(placements["namespace"])
    if usage.num_rows == 0 or len(names) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    name, namespace = codes(usage["name"], names), codes(usage["namespace"], namespaces)
    rows = np.flatnonzero((name >= 0) & (namespace >= 0))
    wanted = namespace[rows].astype(np.int64) * len(names) + name[rows]
    key = codes(placements["namespace"], namespaces).astype(np.int64) * len(names) + codes(placements["pod"], names)
    order = np.argsort(key, kind="stable")
    first = np.searchsorted(key[order], wanted)
    number = np.searchsorted(key[order], wanted, side="right") - first
    within = np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number)
    return np.repeat(rows, number), order[np.repeat(first, number) + within]


def samples(placements: pa.Table, usage: pa.Table | None, step: int) -> Samples:
    """Return the samples (*usage*: namespace, name, at, value) of each of the *placements*, by placement and time.

    Of a pod that ended the last step counts as well. Values of one pod at one time, of several metrics, are added.
    """
    pods = placements.num_rows
    if usage is None or usage.num_rows == 0 or pods == 0:
        return Samples(np.zeros(pods + 1, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    row, placement = pair(placements, usage)
    at = micros(usage["at"])[row]
    until = micros(placements["ended"])
    until = np.where(until == OPEN, OPEN, np.minimum(until, OPEN - step) + step)
    alive = (at > micros(placements["started"].cast(TIME))[placement]) & (at <= until[placement])
    row, placement, at = row[alive], placement[alive], at[alive]
    order = np.lexsort((row, at, placement))
    placement, at, value = placement[order], at[order], floats(usage["value"])[row[order]]
    new = np.flatnonzero((np.diff(placement, prepend=-1) != 0) | (np.diff(at, prepend=0) != 0))
    placement, at = placement[new], at[new]
    value = np.add.reduceat(value, new) if len(new) else value
    begin = at - step
    same = np.flatnonzero(placement[1:] == placement[:-1]) + 1
    begin[same] = np.maximum(begin[same], at[same - 1])
    return Samples(np.searchsorted(placement, np.arange(pods + 1)), begin, at, value)
