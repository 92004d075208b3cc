"""Which functions have pods on which nodes now, how busy they are, and what all pods there have requested."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Final
from zlib import crc32

import msgspec
import numpy as np
import numpy.typing as npt

from rules.candidates import Ids
from rules.memo import Memo

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

#: A pod whose function was not called in the last hour, though calls are measured, may still be called any moment.
IDLE: Final = 0.1
#: So much of a pod's hour is as good as what is known otherwise of how busy it is: a minute.
_BRIEF: Final = 1.0 / 60.0


class Reservation(msgspec.Struct, frozen=True, gc=False):
    """A pod that was decided upon and is not seen on a node yet, counted where it is expected to go.

    *decision* is the decision's name, which the pod carries as an annotation; *function* "" where none is known.
    """

    decision: str
    node: str
    function: str
    requests: Mapping[str, float]


def expected_by(decision: str, nodes: str) -> str:
    """Return on which of *nodes* (names with commas between) the pod of *decision* is counted; "" where none is said.

    Each decision has its own: pods that are alike spread evenly, as those of one's own decisions do in turn.
    """
    listed = [name for name in nodes.split(",") if name]
    return listed[crc32(decision.encode()) % len(listed)] if listed else ""


def units(resource: str, amount: float) -> float:
    """Return *amount* as the scheduler counts it: whole thousandths of a core, whole units of all else.

    Whole numbers add up exactly, in whatever order pods come and go.
    """
    return float(ceil((amount * 1000.0 if resource == "cpu" else amount) - 1e-6))


def counted(resource: str, amount: Floats) -> Floats:
    """Return *amount* in the measure of `units`, not rounded."""
    return amount * 1000.0 if resource == "cpu" else amount


def amounts(resource: str, counted: Floats) -> Floats:
    """Return what `units` counted, in cores or units."""
    return counted / 1000.0 if resource == "cpu" else counted


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """What all pods on each node have requested, in `units` by resource name, and the number of pods."""

    requests: Mapping[str, Floats]
    pods: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """The nodes on which one function has pods, ascending.

    *pods* counts pods, of which *fresh* have come since it was measured how busy they are, or are only expected;
    *busy* is the mean number of activations that run at once.
    """

    node: Ids
    pods: Ids
    fresh: Ids
    busy: Floats


_NOWHERE: Final = Entries(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0))


_NO_ROWS: Final[Rows] = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Busyness:
    """Measured mean numbers of running activations, sorted by function and node, and of the *pods* that they ran in,
    over the last hour; NaN where no pod is known.

    Rows *start*[f]..*start*[f+1] belong to function f.
    """

    start: Rows
    node: Ids
    running: Floats
    pods: Floats

    def of(self, function: int) -> "Busyness":
        """Return the rows of *function* alone, as those of number 0."""
        first = last = 0
        if function + 1 < len(self.start):
            first, last = int(self.start[function]), int(self.start[function + 1])
        bounds = np.array([0, last - first])
        return Busyness(bounds, self.node[first:last], self.running[first:last], self.pods[first:last])


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """Which functions have pods on which nodes.

    Rows *start*[f]..*start*[f+1] of *entries* are function f's, but for the functions of *changed*, whose entries
    stand there.
    """

    start: Rows
    entries: Entries
    changed: Mapping[int, Entries] = field(default_factory=dict)
    memo: Memo = field(default_factory=Memo)

    def of(self, function: int) -> Entries:
        """Return the entries of *function*, by node."""
        changed = self.changed.get(function)
        if changed is not None:
            return changed
        if function + 1 >= len(self.start):
            return _NOWHERE
        first, last = int(self.start[function]), int(self.start[function + 1])
        if first == last:
            return _NOWHERE
        every = self.entries
        return Entries(
            every.node[first:last], every.pods[first:last], every.fresh[first:last], every.busy[first:last]
        )

    def of_all(self, functions: Rows) -> tuple[list[int], Rows, Floats]:
        """Return for each of *functions* the number of its entries, and of all these the nodes and busyness."""
        if not len(functions):
            return [], _NO_ROWS, _NOWHERE.busy
        last, every, changed = len(self.start) - 1, self.entries, self.changed
        first = self.start.take(np.minimum(functions, last)).tolist()  # one that came later has no entry
        behind = self.start.take(np.minimum(functions + 1, last)).tolist()
        counts, node, busy = [], [], []
        # A few tens of slices take less than a dozen passes over their rows.
        for function, start, end in zip(functions.tolist(), first, behind, strict=True):
            fresh = changed.get(function) if changed else None
            counts.append(end - start if fresh is None else len(fresh.node))
            node.append(every.node[start:end] if fresh is None else fresh.node)
            busy.append(every.busy[start:end] if fresh is None else fresh.busy)
        # Whole machine words: who indexes by them need not make them so first.
        return counts, np.concatenate(node).astype(np.int64), np.concatenate(busy)

    def all(self) -> tuple[Ids, Entries]:
        """Return all entries, by function and node, and the function of each."""
        return self.memo.once("all", self._all)

    def _all(self) -> tuple[Ids, Entries]:
        counts = np.diff(self.start)
        function = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        if not self.changed:
            return function, self.entries
        kept = ~np.isin(function, list(self.changed))
        fresh = sorted(self.changed.items())
        functions = np.concatenate(
            (function[kept], *(np.full(len(each.node), number, np.int32) for number, each in fresh))
        )
        order = np.argsort(functions, kind="stable")
        columns = (
            np.concatenate((getattr(self.entries, name)[kept], *(getattr(each, name) for _, each in fresh)))[order]
            for name in ("node", "pods", "fresh", "busy")
        )
        return functions[order], Entries(*columns)


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """Pods that hold a node's resources: the number of each one's node (-1 unknown) and function (-1 none).

    *requests* holds by resource name what pod number *rows* asks for, in `units`. *fresh* says which pods came since
    it was measured how busy they are, or are only expected.
    """

    node: Ids
    function: Ids
    requests: Mapping[str, tuple[Sequence[int] | Rows, Sequence[float] | Floats]]
    fresh: npt.NDArray[np.bool_]

    def held(self, nodes: int) -> Held:
        """Return the sums over each of so many *nodes*."""
        number = np.where(self.node < 0, nodes, self.node)
        requests = {}
        for name, (rows, asked) in self.requests.items():
            at, counted = number[np.asarray(rows, np.int64)], np.asarray(asked, np.float64)
            requests[name] = np.bincount(at, counted, nodes + 1)[:nodes].astype(np.float64)
        return Held(requests, np.bincount(number, minlength=nodes + 1)[:nodes].astype(np.float64))

    def running(self, nodes: int, functions: int, busyness: Busyness | None) -> Running:
        """Count the pods of each of so many *functions* on each node, and say how busy they are.

        A pod is as busy as the function's pods on its node were while they were there, else, or where it came since,
        as the function's other pods; else, where it came since, as the function was on nodes that it has left; else
        `IDLE`. Where nothing is measured at all (None), always busy.
        """
        placed = np.flatnonzero((self.node >= 0) & (self.function >= 0))
        cell = self.function[placed].astype(np.int64) * max(nodes, 1) + self.node[placed]
        keys, entry, counts = np.unique(cell, return_inverse=True, return_counts=True)
        came = np.bincount(entry[self.fresh[placed]], minlength=len(keys))
        function, node = np.divmod(keys, max(nodes, 1))
        start = np.searchsorted(function, np.arange(functions + 1))
        pods, fresh = counts.astype(np.int32), came.astype(np.int32)
        if not came.any():
            fresh = np.broadcast_to(np.int32(0), came.shape)
        busy = pods.astype(np.float64)
        if busyness is not None:
            busy = _busy(function, node, pods, fresh, nodes, busyness)
        return Running(start, Entries(node.astype(np.int32), pods, fresh, busy))


def entries(node: Ids, pods: Ids, fresh: Ids, measured: Busyness | None) -> Entries:
    """Return one function's entries, and how busy they are by what was *measured* of it, as `Seen.running` has it."""
    if measured is None:
        return Entries(node, pods, fresh, pods.astype(np.float64))
    alone = np.zeros(len(node), dtype=np.int64)
    nodes = int(max(node.max(initial=0), measured.node.max(initial=0))) + 1
    return Entries(node, pods, fresh, _busy(alone, node.astype(np.int64), pods, fresh, nodes, measured))


def _busy(function: Rows, node: Rows, pods: Ids, fresh: Ids, nodes: int, busyness: Busyness) -> Floats:
    old, size = pods - fresh, int(function.max(initial=-1)) + 1
    of = np.repeat(np.arange(len(busyness.start) - 1), np.diff(busyness.start))
    known = of * max(nodes, 1) + busyness.node
    wanted = function * max(nodes, 1) + node
    found = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
    there = (known[found] == wanted if len(known) else np.zeros(len(wanted), dtype=np.bool_)) & (old > 0)
    counted = busyness.pods.copy()  # where no pod is known of, those that stand there now were there all the time
    timed = np.isfinite(counted)
    at = found[there]
    counted[at] = np.where(timed[at], counted[at], old[there])
    # What a moment says is drawn to what is usual elsewhere, that of all of a function's pods to idleness.
    brief, kept = np.where(timed, _BRIEF, 0.0), np.isfinite(counted)
    apart = np.bincount(of[timed], minlength=size)[:size] > 0
    lasted = np.bincount(of[kept], counted[kept], size)[:size] + apart * _BRIEF
    ran = np.bincount(of[kept], busyness.running[kept], size)[:size] + apart * _BRIEF * IDLE
    left = np.bincount(of, busyness.running, size)[:size], np.bincount(of, minlength=size)[:size]
    usual = np.divide(*left, out=np.full(size, IDLE), where=left[1] > 0)
    each = np.divide(ran, lasted, out=usual, where=lasted > 0)[function]
    own = np.full(len(wanted), np.nan)
    own[there] = (busyness.running[at] + brief[at] * each[there]) / (counted[at] + brief[at])
    stayed = np.where(there, own, np.where(np.bincount(function, there, size)[function] > 0, each, IDLE))
    busy: Floats = stayed * old + each * fresh
    return busy


def ask(requests: dict[str, tuple[list[int], list[float]]], row: int, asked: Iterable[tuple[str, float]]) -> None:
    """Note that pod number *row* asks for these amounts by resource name."""
    for name, amount in asked:
        column = requests.get(name)
        if column is None:
            column = requests[name] = ([], [])
        column[0].append(row)
        column[1].append(units(name, amount))
