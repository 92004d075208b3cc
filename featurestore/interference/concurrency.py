"""How many activations of each function ran in the whole cluster at once: integrals that answer any interval.

Needed as a control: a neighbour that shows the same effect from other nodes is not the cause, a shared one is.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from featurestore.compiled import compiled

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Intervals shorter than this (seconds) are widened to it: the resolution of an activation record.
_SHORTEST = 1e-3


@dataclass(frozen=True, slots=True)
class Concurrency:
    """Integrals of the number of running activations, by function, over the whole cluster.

    *times* and *integral* hold, for function f, the rows ``offsets[f]:offsets[f + 1]``: event times in seconds
    (ascending) and activation-seconds run up to them. Row block ``functions`` (the last) is the sum of all.
    """

    functions: int
    offsets: Ints
    times: Floats
    integral: Floats


def build(function: Ints, start: Floats, end: Floats, functions: int) -> Concurrency:
    """Return the integrals of activations of *function* index [n] that ran from *start* to *end* [n], seconds.

    Every activation with a known interval belongs here, also a failed one or one whose node is not known.
    Time O(n log n), memory 64 bytes an activation. Sequences and conductors must not be given.
    """
    span = np.maximum(end - start, 0.0)
    codes = np.concatenate([function, function, np.full(2 * len(function), functions)])
    times = np.concatenate([start, start + span, start, start + span])
    steps = np.tile(np.repeat([1.0, -1.0], len(function)), 2)
    order = np.lexsort((times, codes))
    codes, times, steps = codes[order], times[order], steps[order]
    offsets = np.searchsorted(codes, np.arange(functions + 2))
    level = np.cumsum(steps)  # each function's steps sum to zero, so that one sum serves all
    gaps = np.diff(times, append=times[-1:])
    gaps[offsets[1:-1][offsets[1:-1] > 0] - 1] = 0.0
    area = np.concatenate([[0.0], np.cumsum(level * np.maximum(gaps, 0.0))[:-1]]) if len(times) else times
    return Concurrency(functions, offsets.astype(np.int64), times, area)


def mean(concurrency: Concurrency, functions: Ints, start: Floats, end: Floats) -> Floats:
    """Return the time-averaged number running in the cluster [n, len(functions)] over each [start, end].

    Function index ``concurrency.functions`` stands for all functions together. The activation itself counts.
    """
    chosen = np.asarray(functions, np.int64)
    return _mean(concurrency.offsets, concurrency.times, concurrency.integral, chosen, start, end)


@compiled
def _mean(offsets: Ints, times: Floats, integral: Floats, functions: Ints, start: Floats, end: Floats) -> Floats:
    found = np.zeros((len(start), len(functions)))
    for column in range(len(functions)):
        first, last = offsets[functions[column]], offsets[functions[column] + 1]
        if last > first:
            own, area = times[first:last], integral[first:last]
            begun = ended = 0  # rows come in order of time, or nearly: the next is sought from where the last was
            for row in range(len(start)):
                stop = max(end[row], start[row] + _SHORTEST)
                begun, ended = _after(own, start[row], begun), _after(own, stop, ended)
                run = _at(own, area, stop, ended) - _at(own, area, start[row], begun)
                found[row, column] = run / (stop - start[row])
    return found


@compiled
def _after(times: Floats, moment: float, near: int) -> int:
    """Return how many of *times* (ascending) are not after a *moment*: galloping away from *near*, then halving."""
    n = len(times)
    step = 1
    if near < n and times[near] <= moment:
        low, high = near, near + 1
        while high < n and times[high] <= moment:
            low = high
            high += step
            step *= 2
        high = min(high, n)
    else:
        low, high = near - 1, near
        while low >= 0 and times[low] > moment:
            high = low
            low -= step
            step *= 2
        low = max(low, -1)
    while high - low > 1:
        middle = (low + high) // 2
        if times[middle] <= moment:
            low = middle
        else:
            high = middle
    return high


@compiled
def _at(times: Floats, area: Floats, moment: float, after: int) -> float:
    """Return the integral at a *moment*, linear between events and constant outside of them; *after*: `_after`."""
    before = max(after - 1, 0)
    found = float(area[before])
    if 0 < after < len(times):
        found += (area[after] - area[before]) / (times[after] - times[before]) * (moment - times[before])
    return found
