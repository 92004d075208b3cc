"""How many activations of each function ran in the whole cluster at once: integrals that answer any interval.

Needed as a control: a neighbour that shows the same effect from other nodes is not the cause, a shared one is.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from featurestore.arrays import Codes
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


@dataclass(frozen=True, slots=True)
class Events:
    """All starts and ends of n activations in order of time: *order* holds i for the start of activation i, n + i for
    its end, and 2 n + i for where a short one is taken to end; *function*, *start* and *end* [n] are theirs, seconds.
    """

    functions: int
    order: Codes
    function: Codes
    start: Floats
    end: Floats


class Met(NamedTuple):
    """What activations [r] of some victims met: those of *victim* [r], in any order, are asked about the functions
    ``columns[offsets[victim]:offsets[victim + 1]]``; *activation* [r] says which of the events' they are."""

    activation: Ints
    victim: Ints
    offsets: Ints
    columns: Ints


def events(function: Codes, start: Floats, end: Floats, functions: int) -> Events:
    """Return the events of the activations that `build` takes. Time O(n log n)."""
    end = np.maximum(start, end)
    short = np.flatnonzero(end - start < _SHORTEST)
    order = np.argsort(np.concatenate([start, end, start[short] + _SHORTEST]), kind="stable")
    beyond = order >= 2 * len(start)
    order[beyond] = 2 * len(start) + short[order[beyond] - 2 * len(start)]
    return Events(functions, order.astype(np.int32), function, start, end)


def swept(known: Events, met: Met) -> tuple[Floats, Floats]:
    """Return the `mean` of all functions together [r], and those that each activation of *met* is asked about, one
    activation after the other.

    One pass over all events, in which each function's integral so far is at hand: of many activations and functions
    a small part of what looking each up takes. Time O(events + values).
    """
    width = np.diff(met.offsets)[met.victim]
    at = np.concatenate([[0], np.cumsum(width)])
    row = np.full(len(known.start), -1, np.int32)
    row[met.activation] = np.arange(len(met.activation))
    everywhere, beside = np.empty(len(met.activation)), np.empty(at[-1])
    _sweep(known.order, known.function, known.start, known.end, known.functions, row, met, at, everywhere, beside)
    return everywhere, beside


@compiled
def _sweep(
    order: Codes,
    function: Codes,
    start: Floats,
    end: Floats,
    functions: int,
    row: Codes,
    met: Met,
    at: Ints,
    everywhere: Floats,
    beside: Floats,
) -> None:
    n = len(start)
    victim, offsets, columns = met.victim, met.offsets, met.columns
    area, level, last = np.zeros(functions), np.zeros(functions), np.zeros(functions)
    whole, running, before = 0.0, 0.0, 0.0
    for event in order:
        kind = 0 if event < n else (1 if event < 2 * n else 2)
        i = event - kind * n
        moment = start[i] if kind == 0 else (end[i] if kind == 1 else start[i] + _SHORTEST)
        whole += running * (moment - before)
        before = moment
        r = row[i]
        length = max(end[i] - start[i], _SHORTEST)
        if r >= 0 and (kind != 1 or end[i] - start[i] >= _SHORTEST):
            first = offsets[victim[r]]
            if kind == 0:
                everywhere[r] = whole
                for k in range(at[r + 1] - at[r]):
                    f = columns[first + k]
                    beside[at[r] + k] = area[f] + level[f] * (moment - last[f])
            else:
                everywhere[r] = (whole - everywhere[r]) / length
                for k in range(at[r + 1] - at[r]):
                    f = columns[first + k]
                    beside[at[r] + k] = (area[f] + level[f] * (moment - last[f]) - beside[at[r] + k]) / length
        if kind < 2:
            f = function[i]
            area[f] += level[f] * (moment - last[f])
            last[f] = moment
            step = 1.0 if kind == 0 else -1.0
            level[f] += step
            running += step
