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
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Numbers = NDArray[np.uint32]

#: Intervals shorter than this (microseconds) are widened to it: the resolution of an activation record.
SHORTEST = 1_000
#: What has no end takes so long, microseconds: sums of many such stay whole numbers.
_YEAR = 31_536_000_000_000


@dataclass(frozen=True, slots=True)
class Concurrency:
    """Integrals of the number of running activations, by function, over the whole cluster.

    *times* and *integral* hold, for function f, the rows ``offsets[f]:offsets[f + 1]``: event times in microseconds
    (ascending) and activation-microseconds run up to them, from wherever: only differences mean something. Row block
    ``functions`` (the last) is the sum of all.
    """

    functions: int
    offsets: Ints
    times: Ints
    integral: Ints


def build(function: Ints, start: Floats, end: Floats, functions: int) -> Concurrency:
    """Return the integrals of activations of *function* index [n] that ran from *start* to *end* [n], seconds.

    Every activation with a known interval belongs here, also a failed one or one whose node is not known.
    Times count to the microsecond, and what has not ended a year after the last start counts until then. Time
    O(n log n), memory 64 bytes an activation. Sequences and conductors must not be given.
    """
    begun = _micros(start)
    ended = np.minimum(_micros(end), begun.max(initial=0) + _YEAR)
    both = np.concatenate([begun, np.maximum(begun, ended)])
    in_time = np.argsort(both, kind="stable")
    offsets = np.zeros(functions + 2, np.int64)
    np.cumsum(2 * np.bincount(function, minlength=functions), out=offsets[1:-1])
    offsets[-1] = 2 * len(both)
    by_function = grouped(np.concatenate([function, function])[in_time].astype(np.int32), offsets.copy())
    order = np.concatenate([in_time[by_function], in_time])
    times, steps = both[order], np.where(order < len(function), 1, -1)
    level = np.cumsum(steps)  # each function's steps sum to zero, so that one sum serves all
    gaps = np.diff(times, append=times[-1:])
    gaps[offsets[1:-1][offsets[1:-1] > 0] - 1] = 0
    area = np.concatenate([[0], np.cumsum(level * np.maximum(gaps, 0))[:-1]]) if len(times) else times
    return Concurrency(functions, offsets, times, area)


def _micros(seconds: Floats) -> Ints:
    """Return microseconds; those of today come out of floats of seconds as they went in."""
    return np.rint(np.asarray(seconds) * 1e6).astype(np.int64)


class Events(NamedTuple):
    """All starts and ends of n activations in order of time: the *activation* of each event, when it is (*moment*),
    and in *what* four times the function plus what happens: 0 a start, 1 an end, 2 where a short one is taken to end.
    *function*, *start* and *end* [n] are the activations', microseconds, of so many *functions*.
    """

    functions: int
    activation: Codes
    what: Numbers
    moment: Ints
    function: Codes
    start: Ints
    end: Ints


class Met(NamedTuple):
    """What activations [r] of some victims met: those of *victim* [r], in any order, are asked about the functions
    ``columns[offsets[victim]:offsets[victim + 1]]``; *activation* [r] says which of the events' they are."""

    activation: Ints
    victim: Ints
    offsets: Ints
    columns: Ints


def events(function: Codes, start: Ints, end: Ints, functions: int) -> Events:
    """Return the events of the activations that `build` takes, whose times are microseconds here. Time O(n log n)."""
    end = np.maximum(start, end)
    short = np.flatnonzero(end - start < SHORTEST)
    moment = np.concatenate([start, end, start[short] + SHORTEST])
    order = np.argsort(moment)
    kind = order // max(len(start), 1)
    kind[kind > 1] = 2
    activation = np.where(kind < 2, order - kind * len(start), 0).astype(np.int32)
    activation[kind == 2] = short[order[kind == 2] - 2 * len(start)]
    what = (4 * function[activation].astype(np.int64) + kind).astype(np.uint32)
    return Events(functions, activation, what, moment[order], function, start, end)


def swept(known: Events, met: Met) -> tuple[Floats, Singles]:
    """Return how many ran on average, over each activation of *met*, of all functions together [r], and of those that
    it is asked about, one activation after the other. The activation itself counts.

    One pass over all events, in which each function's integral so far is at hand: of many activations and functions
    a small part of what looking each up takes. Integrals are whole microseconds, exact whatever comes together.
    Time O(events + values); beside the values memory for those of the activations that run at once.
    """
    width = np.diff(met.offsets)[met.victim]
    at = np.concatenate([[0], np.cumsum(width)])
    row = np.full(len(known.start), -1, np.int32)
    row[met.activation] = np.arange(len(met.activation))
    asked = np.zeros(known.functions, np.bool_)
    asked[known.function[met.activation]] = True
    everywhere, beside = np.empty(len(met.activation)), np.empty(at[-1], np.float32)
    _sweep(known, asked, row, met, met.columns.astype(np.uint32), at, everywhere, beside)
    return everywhere, beside


@compiled
def _sweep(
    known: Events, asked: Bools, row: Codes, met: Met, columns: Numbers, at: Ints, everywhere: Floats, beside: Singles
) -> None:
    """Fill *everywhere* [r] and *beside* [values] at the ends of activations with the means since their starts;
    *asked* [F] are the functions whose activations have a *row* [n] of theirs (else -1)."""
    # What ran up to a moment is how many run times the moment, plus all ends so far less all starts.
    ran = np.zeros(2 * known.functions, np.int64)
    whole, others = 0, 0
    steps = np.array([1, -1, 0, 0])
    one, two = np.uint32(1), np.uint32(2)  # places that cannot be negative are not looked at for that
    kept_everywhere = everywhere.view(np.int64)  # an integral waits in its mean's place
    # Those of the functions that were met wait in a place that is another's after it: few run at once, so that little
    # of what there is place for is ever touched. A place that is free holds where the next one of its victim's is.
    waiting, used = np.empty(len(beside), np.int64), 0
    free = np.full(len(met.offsets) - 1, -1)
    place = np.empty(len(at) - 1, np.int64)
    for event in range(len(known.what)):
        now = known.moment[event] - known.moment[0]
        f, kind = known.what[event] >> two, known.what[event] & np.uint32(3)
        if asked[f] and row[known.activation[event]] >= 0:
            i = known.activation[event]
            r = row[i]
            victim = met.victim[r]
            first, own, width = met.offsets[victim], at[r], at[r + 1] - at[r]
            some, found = columns[first : first + width], beside[own : own + width]
            length = known.end[i] - known.start[i]
            if kind == 0:
                kept_everywhere[r] = whole * now + others
                if width > 0:
                    if free[victim] >= 0:
                        place[r] = free[victim]
                        free[victim] = waiting[place[r]]
                    else:
                        place[r] = used
                        used += width
                    kept = waiting[place[r] : place[r] + width]
                    for k in range(width):
                        other = some[k] << one
                        kept[k] = ran[other] * now + ran[other + one]
            elif kind == 2 or length >= SHORTEST:
                length = max(length, SHORTEST)
                everywhere[r] = (whole * now + others - kept_everywhere[r]) / length
                if width > 0:
                    kept = waiting[place[r] : place[r] + width]
                    for k in range(width):
                        other = some[k] << one
                        found[k] = (ran[other] * now + ran[other + one] - kept[k]) / length
                    waiting[place[r]], free[victim] = free[victim], place[r]
        step = steps[kind]
        ran[f << one] += step
        ran[(f << one) + one] -= step * now
        whole += step
        others -= step * now
