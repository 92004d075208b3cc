"""How many activations of each function ran in the whole cluster at once: integrals that answer any interval.

Needed as a control: a neighbour that shows the same effect from other nodes is not the cause, a shared one is.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from featurestore.compiled import compiled
from featurestore.exposure.kernels import grouped

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Intervals shorter than this (seconds) are widened to it: the resolution of an activation record.
_SHORTEST = 1e-3
#: Rows that are filled at once: they stay in the processor's cache until all their columns are.
_ROWS = 64


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
    both = np.concatenate([start, start + np.maximum(end - start, 0.0)])
    in_time = np.argsort(both, kind="stable")
    offsets = np.zeros(functions + 2, np.int64)
    np.cumsum(2 * np.bincount(function, minlength=functions), out=offsets[1:-1])
    offsets[-1] = 2 * len(both)
    by_function = grouped(np.concatenate([function, function])[in_time].astype(np.int32), offsets.copy())
    order = np.concatenate([in_time[by_function], in_time])
    times, steps = both[order], np.where(order < len(function), 1.0, -1.0)
    level = np.cumsum(steps)  # each function's steps sum to zero, so that one sum serves all
    gaps = np.diff(times, append=times[-1:])
    gaps[offsets[1:-1][offsets[1:-1] > 0] - 1] = 0.0
    area = np.concatenate([[0.0], np.cumsum(level * np.maximum(gaps, 0.0))[:-1]]) if len(times) else times
    return Concurrency(functions, offsets, times, area)


def mean(concurrency: Concurrency, functions: Ints, start: Floats, end: Floats) -> Floats:
    """Return the time-averaged number running in the cluster [n, len(functions)] over each [start, end].

    Function index ``concurrency.functions`` stands for all functions together. The activation itself counts.
    """
    chosen = np.asarray(functions, np.int64)
    return _mean(concurrency.offsets, concurrency.times, concurrency.integral, chosen, start, end)


@compiled
def _mean(offsets: Ints, times: Floats, integral: Floats, functions: Ints, start: Floats, end: Floats) -> Floats:
    n, m = len(start), len(functions)
    found = np.zeros((n, m))
    last = offsets[functions]  # rows come in order of time, or nearly: the next is sought from where the last was
    for some in range(0, n, _ROWS):
        for column in range(m):
            low, high = offsets[functions[column]], offsets[functions[column] + 1]
            if high == low:
                continue
            begun = last[column]
            for row in range(some, min(some + _ROWS, n)):
                begin, stop = start[row], max(end[row], start[row] + _SHORTEST)
                begun = _after(times, low, high, begin, begun)
                ended = _after(times, low, high, stop, begun)
                # The integral is linear between events and constant outside of them.
                at = max(begun - 1, low)
                before = integral[at]
                if low < begun < high:
                    before += (integral[begun] - integral[at]) / (times[begun] - times[at]) * (begin - times[at])
                at = max(ended - 1, low)
                after = integral[at]
                if low < ended < high:
                    after += (integral[ended] - integral[at]) / (times[ended] - times[at]) * (stop - times[at])
                found[row, column] = (after - before) / (stop - begin)
            last[column] = begun
    return found


@compiled
def _after(times: Floats, low: int, high: int, moment: float, near: int) -> int:
    """Return the first of *times* (ascending) from *low* to *high* that is after a *moment*, *high* where none is:
    galloping away from *near*, then halving."""
    step = 1
    if near < high and times[near] <= moment:
        before, after = near, near + 1
        while after < high and times[after] <= moment:
            before = after
            after += step
            step *= 2
        after = min(after, high)
    else:
        before, after = near - 1, near
        while before >= low and times[before] > moment:
            after = before
            before -= step
            step *= 2
        before = max(before, low - 1)
    while after - before > 1:
        middle = (before + after) // 2
        if times[middle] <= moment:
            before = middle
        else:
            after = middle
    return after
