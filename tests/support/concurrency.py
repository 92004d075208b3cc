"""How many activations ran in the whole cluster at once, looked up moment by moment: a reference for the sweep."""

from dataclasses import replace

import numpy as np

from featurestore.interference.concurrency import Concurrency
from featurestore.interference.evidence import Around, Floats, Ints, VictimDesign

#: Intervals shorter than this (microseconds) are widened to it.
SHORTEST = 1_000


def mean(whole: Concurrency, functions: Ints, start: Floats, end: Floats) -> Floats:
    """Return the time-averaged number running in the cluster [n, len(functions)] over each [start, end], seconds.

    Function index ``whole.functions`` stands for all functions together. The activation itself counts.
    """
    begin, stop = (np.rint(1e6 * np.asarray(each)).astype(np.int64) for each in (start, end))
    stop = np.maximum(stop, begin + SHORTEST)
    found = np.zeros((len(begin), len(functions)))
    for column, function in enumerate(functions):
        low, high = whole.offsets[function], whole.offsets[function + 1]
        times, integral = whole.times[low:high], whole.integral[low:high]
        if len(times):
            found[:, column] = (_upto(times, integral, stop) - _upto(times, integral, begin)) / (stop - begin)
    return found


def around(design: VictimDesign, whole: Concurrency) -> VictimDesign:
    """Return the design with what ran in the cluster around each run, of all functions that any of them met."""
    columns = np.unique(design.indices)
    everywhere = mean(whole, np.array([whole.functions]), design.start, design.end)[:, 0]
    beside = mean(whole, columns, design.start, design.end).astype(np.float32)
    return replace(design, around=Around(everywhere, columns, beside))


def _upto(times: Ints, integral: Ints, moment: Ints) -> Ints:
    """Return the integral at each moment: linear between events, by how many ran, and constant outside of them."""
    after = np.searchsorted(times, moment, side="right")
    last = np.maximum(after - 1, 0)
    following = np.minimum(after, len(times) - 1)
    gap = np.maximum(times[following] - times[last], 1)
    running = (integral[following] - integral[last]) // gap
    found: Ints = integral[last] + np.where(after > 0, running * (moment - times[last]), 0)
    return found
