"""Who ran beside whom, for how long: one sort and one sweep a node, no comparison of pairs.

The exposure E[i, b] is the time-averaged number of *other* activations of function b on the same node while
activation i ran. With I_b(t) the integral over time of the number of running activations of b, it is
(I_b(end) - I_b(start)) / (end - start), less one for the activation's own function. The sweep keeps I_b of each
function as a list of breakpoints, and the functions in the order in which they were last seen running: when an
activation ends, exactly the functions that ran beside it are visited, and I_b(start) is found by galloping back from
the newest breakpoint. In all O(n log n + non-zeros * log k), k the breakpoints of one function during one run.

Runs are half-open, [start, end): touching is no overlap. A run of zero length counts who is running at that instant
and adds nothing to anybody; an end before the start (clocks) is taken as zero length. A run without an end is cut at
the horizon: a co-runner until then, with a row that says what it met so far; whether that row is evidence is for the
caller to say. Integrals are exact (int64 microseconds), so no value depends on the order of the input.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from featurestore.arrays import OPEN as OPEN
from featurestore.compiled import compiled
from featurestore.exposure.kernels import Codes, Counts, Floats, Ints, advance, grouped, prepare

#: Times may lie this far apart (microseconds; 36,000 years), so that no sum of theirs overflows.
_REACH = 1 << 60
#: Of fewer activations one thread is as fast.
_FEW = 100_000
#: The codes of so many functions take two bytes each.
_SHORT = 1 << 16


@dataclass(frozen=True, slots=True)
class Exposure:
    """Sparse rows, one an activation: E[rows[r], indices[k]] = values[k] for indptr[r] <= k < indptr[r + 1].

    *rows* int32 (n,) says which activation of the input a row speaks of: nodes in order of their code, and within
    a node in order of the activations' ends. *indptr* int64 (n + 1,), *indices* function codes, uint16
    where all are below 65,536 and else int32, *values* float64, all greater than zero; within a row the functions
    stand in no particular order. *ending* uint16 is how many of the function, the activation itself apart, ran right
    before it ended.
    """

    rows: Codes
    indptr: Ints
    indices: Codes | Counts
    values: Floats
    ending: Counts


def sweep(
    node: Codes,
    start: Ints,
    end: Ints,
    function: Codes,
    *,
    functions: int,
    horizon: int | None = None,
    threads: int = 1,
) -> Exposure:
    """Return the exposure of every activation to every function on its own node.

    All arrays (n,), in any order: *node* and *function* are codes from 0, *function* less than *functions*; *start*
    and *end* are microseconds, *end* `OPEN` where a run has none. *horizon* is where the window of the data ends;
    default: the last time in it. Nodes are swept by so many *threads*, which change nothing of the answer. Memory
    beside the input: 12 bytes a non-zero (14 of more than 65,536 functions), as much again of the part of a thread,
    16 an activation, and about 100 an activation of a thread's largest node. Raises `ValueError` for arrays that do
    not fit together.
    """
    _check(node, start, end, function, functions)
    end = closed(start, end, horizon)
    members, offsets = group(node)

    def swept(nodes: Ints) -> _Growing:
        out = _Growing(int(nodes[-1] - nodes[0]), functions)
        local = np.full(functions, -1, np.int32)
        for first, last in pairwise(nodes):
            if first < last:
                state = prepare(members[first:last], start, end, function, local)
                while not advance(*state, out.indices, out.values, out.ending, out.indptr, out.rows, out.cursor):
                    out.grow()
        return out

    if threads == 1 or len(start) < _FEW:
        return swept(offsets).finished()
    cuts = np.searchsorted(offsets, np.arange(1, threads) * len(start) // threads)
    cuts = np.unique([0, *cuts, len(offsets) - 1])
    with ThreadPoolExecutor(threads, "sweeps") as pool:
        first, *others = [pool.submit(swept, offsets[cut : until + 1]) for cut, until in pairwise(cuts.tolist())]
        whole = first.result()
        for each in others:
            whole.append(each.result())
    return whole.finished()


def group(code: Codes) -> tuple[Codes, Ints]:
    """Return the stable order that groups equal codes, int32 (n,), and where each group starts, (max + 2,)."""
    groups = int(code.max(initial=-1)) + 1
    offsets = np.zeros(groups + 1, np.int64)
    np.cumsum(np.bincount(code, minlength=groups), out=offsets[1:])
    return grouped(code, offsets.copy()), offsets


def closed(start: Ints, end: Ints, horizon: int | None = None) -> Ints:
    """Return *end* with `OPEN` replaced by the horizon (default: the last time given), never before the start."""
    missing = end == OPEN
    if not missing.any():
        return end
    if horizon is None:
        horizon = int(np.maximum(start, np.where(missing, start, end)).max())
    return np.where(missing, np.maximum(start, horizon), end)


def effective_overlaps(exposure: Exposure, function: Codes, functions: int) -> Floats:
    """Return N[a, b], the sum of E over the activations of a: (functions, functions).

    An activation that must not count is left out by giving it the function -1.
    """
    total = np.zeros((functions, functions))
    _add_up(exposure.rows, exposure.indptr, exposure.indices, exposure.values, function, total)
    return total


def _check(node: Codes, start: Ints, end: Ints, function: Codes, functions: int) -> None:
    if not len(node) == len(start) == len(end) == len(function):
        raise ValueError("node, start, end and function differ in length")
    if len(start) == 0:
        return
    if int(function.min()) < 0 or int(function.max()) >= functions or int(node.min()) < 0:
        raise ValueError("a code of node or function is outside its range")
    if int(start.max()) - int(start.min()) > _REACH:
        raise ValueError("start times lie too far apart")


def _codes(n: int, functions: int) -> Codes | Counts:
    return np.empty(n, np.uint16) if functions <= _SHORT else np.empty(n, np.int32)


class _Growing:
    """The output, grown in place, so that the large arrays are never held twice."""

    def __init__(self, n: int, functions: int) -> None:
        self.rows = np.empty(n, np.int32)
        self.indptr = np.zeros(n + 1, np.int64)
        self.indices = _codes(n, functions)
        self.values = np.empty(n, np.float64)
        self.ending = np.empty(n, np.uint16)
        self.cursor = np.zeros(3, np.int64)  # rows written, non-zeros written, room that the next row needs

    def grow(self) -> None:
        """Make room for the next row: twice as much while it is little, a little more when it is much."""
        room = len(self.indices)
        self._resize(room + max(room // 128, int(self.cursor[2]), min(room, 1 << 20)))

    def finished(self) -> Exposure:
        """Return the rows, the unused room given back."""
        self._resize(int(self.cursor[1]))
        return Exposure(self.rows, self.indptr, self.indices, self.values, self.ending)

    def append(self, other: "_Growing") -> None:
        """Put the rows of *other* behind these."""
        rows, own = (int(each.cursor[0]) for each in (self, other))
        found, more = (int(each.cursor[1]) for each in (self, other))
        self._resize(found + more)
        for name in ("indices", "values", "ending"):
            getattr(self, name)[found:] = getattr(other, name)[:more]
        self.rows = np.concatenate([self.rows[:rows], other.rows[:own]])
        self.indptr = np.concatenate([self.indptr[: rows + 1], other.indptr[1 : own + 1] + found])
        self.cursor[:2] = rows + own, found + more

    def _resize(self, room: int) -> None:
        self.indices.resize(room, refcheck=False)
        self.values.resize(room, refcheck=False)
        self.ending.resize(room, refcheck=False)


@compiled
def _add_up(
    rows: Codes, indptr: Ints, indices: Codes | Counts, values: Floats, function: Codes, total: Floats
) -> None:
    for r in range(len(rows)):
        victim = function[rows[r]]
        if victim >= 0:
            for k in range(indptr[r], indptr[r + 1]):
                total[victim, indices[k]] += values[k]
