"""Whether things fit together on the nodes of each cluster, where every replica of a thing needs one node's room.

Vector bin packing is NP-hard, so the quick answers come first, for all clusters at once: a thing that alone finds too
few places, or a sum that exceeds what is free, refuses; enough different nodes (Hall's theorem, each thing its own
node) or a best-fit packing accepts. Between these a cluster is decided exactly, by dynamic programming over its nodes
and the numbers of replicas placed so far, while there are at most `STATES` such numbers; beyond, it is undecided.
One thing alone is always decided exactly. Things and nodes are taken in an order that follows from what they are, so
that no answer depends on the order in which they were given.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from rules.candidates import Mask
from rules.hpa.fleet import Fleet, Index, Whole, part

#: Up to so many combinations of replicas (the product of replicas + 1 over the things) a refusal is exact.
STATES: Final = 1024
NO, YES, UNDECIDED = 0, 1, -1
#: Of so few replicas each is looked at for itself.
_FEW: Final = 8
_GOLDEN: Final = 0.618033988749895
Answers = npt.NDArray[np.int8]
Counts = Whole | npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Thing:
    """*replicas* pods, each of which needs *need* (whole amounts above 0 by resource) of a node that is *ok*."""

    replicas: int
    need: Mapping[str, int]
    ok: Mask


def pack(fleet: Fleet, things: Sequence[Thing], wanted: npt.NDArray[np.bool_] | None = None) -> Answers:
    """Say for each cluster whether its *wanted* things [things, clusters] (default: all) fit together."""
    clusters = len(fleet)
    answers = np.full(clusters, YES, dtype=np.int8)
    if not things:
        return answers
    if wanted is None:
        wanted = np.ones((len(things), clusters), dtype=np.bool_)
    counts = np.array([thing.replicas for thing in things], dtype=np.float64)[:, None] * wanted
    fitting = np.zeros((len(things), clusters))
    for number, thing in enumerate(things):
        copies = _copies(fleet, thing)
        answers[(fleet.sums(copies) < counts[number])] = NO
        if len(things) > 1:
            fitting[number] = fleet.sums(copies > 0)
    answers[_exceeds(fleet, things, counts)] = NO
    open_ = np.flatnonzero((answers == YES) & (wanted.sum(axis=0) > 1))
    open_ = open_[~_each_its_own(fitting[:, open_], counts[:, open_])]
    if not len(open_):
        return answers
    local, rows = part(fleet, open_)
    names = sorted({name for thing in things for name in thing.need})
    worth = sum((local.amount(name) / (1.0 + number) for number, name in enumerate(names)), np.ones(local.nodes))

    def rank(number: int) -> tuple[object, ...]:
        each = things[number]
        return fitting[number].sum(), *_size(each), float(worth[each.ok[rows]].sum())

    order = sorted(range(len(things)), key=rank)
    ordered = [Thing(things[n].replicas, things[n].need, things[n].ok[rows]) for n in order]
    chosen = wanted[order][:, open_]
    room = Room(local, ordered)
    fits = np.ones(len(open_), dtype=np.bool_)
    for thing, on in zip(ordered, chosen, strict=True):
        fits &= room.put(thing, on & fits) | ~on
    if not fits.all():  # the other way round: the largest first
        fits |= _largest_first(local, ordered, chosen, ~fits)
    for place in np.flatnonzero(~fits).tolist():
        there = [thing for thing, on in zip(ordered, chosen[:, place], strict=True) if on]
        answers[open_[place]] = _exactly(local, place, there)
    return answers


def _largest_first(fleet: Fleet, things: Sequence[Thing], wanted: Mask, among: Mask) -> Mask:
    """Return on which clusters *among* a best-fit packing succeeds that takes the largest things first."""
    most = {name: max(thing.need.get(name, 0) for thing in things) for thing in things for name in thing.need}

    def share(number: int) -> float:
        return -sum(amount / most[name] for name, amount in things[number].need.items())

    room, fits = Room(fleet, things), among
    for number in sorted(range(len(things)), key=share):
        on = wanted[number]
        fits = fits & (room.put(things[number], on & fits) | ~on)
    return fits


def _copies(fleet: Fleet, thing: Thing) -> Counts:
    """Return how many replicas each node holds for itself, at most all of them."""
    return _held(thing, fleet.amount, thing.ok)


def _held(thing: Thing, free: Callable[[str], Whole], ok: Mask) -> Counts:
    if thing.replicas > _FEW:
        copies = np.where(ok, thing.replicas, 0).astype(np.int64)
        for resource, amount in thing.need.items():
            np.minimum(copies, free(resource) // amount, out=copies)
        return copies
    # Comparing is much quicker than dividing, and so few fit into a byte.
    few: npt.NDArray[np.uint8] = np.zeros(len(ok), dtype=np.uint8)
    for count in range(1, thing.replicas + 1):
        holds = ok
        for resource, amount in thing.need.items():
            holds = holds & (free(resource) >= count * amount)
        few += holds.view(np.uint8)
    return few


def _exceeds(fleet: Fleet, things: Sequence[Thing], counts: npt.NDArray[np.float64]) -> Mask:
    """Return on which clusters the things together need more of something than all nodes have."""
    exceeds = np.zeros(len(fleet), dtype=np.bool_)
    for resource in {name for thing in things for name in thing.need}:
        each = np.array([float(thing.need.get(resource, 0)) for thing in things])
        exceeds |= each @ counts > fleet.sums(fleet.amount(resource)) * (1 + 1e-9)
    return exceeds


def _each_its_own(fitting: npt.NDArray[np.float64], counts: npt.NDArray[np.float64]) -> Mask:
    """Return on which clusters every replica surely finds a node for itself: the scarcest thing chooses first."""
    order = np.argsort(fitting, axis=0, kind="stable")
    taken = np.cumsum(np.take_along_axis(counts, order, axis=0), axis=0)
    there = np.take_along_axis(fitting, order, axis=0)
    enough = (there >= taken) | (np.take_along_axis(counts, order, axis=0) == 0)
    return np.asarray(enough.all(axis=0))


def _size(thing: Thing) -> tuple[object, ...]:
    """Order things by what they are: the largest first."""
    return tuple((name, -amount) for name, amount in sorted(thing.need.items())), -thing.replicas


class Room:
    """What is free on the nodes while things are put there, best fit: each on the node that keeps least beside it."""

    def __init__(self, fleet: Fleet, things: Sequence[Thing]) -> None:
        self._fleet = fleet
        resources = sorted({name for thing in things for name in thing.need})
        self.free = {name: fleet.amount(name).copy() for name in resources}
        self._scale = {
            name: float(max(thing.need.get(name, 0) for thing in things)) for name in resources if name != "pods"
        }
        self._slack = np.zeros(fleet.nodes)
        # Nodes with equal slack are told apart by what they are, not by their order: a fraction that stands for it.
        alike = np.zeros(fleet.nodes)
        for number, (name, scale) in enumerate(self._scale.items(), start=1):
            ratio = np.minimum(self.free[name] / scale, 1e4)
            self._slack += ratio
            alike += np.modf(ratio * (number + _GOLDEN))[0]
        for number, thing in enumerate(things, start=1):
            alike += thing.ok * np.modf(number * _GOLDEN)[0]
        self._slack += np.modf(alike)[0] * 1e-9

    def put_all(self, things: Sequence[Thing], on: Mask) -> Mask:
        """Put all *things* on the clusters *on* where all of them find room, else none; return which these are."""
        if not on.any():
            return on
        free, slack = {name: amount.copy() for name, amount in self.free.items()}, self._slack.copy()
        fits = on
        for thing in things:
            fits = self.put(thing, fits)
        undone = np.flatnonzero((on & ~fits)[self._fleet.cluster_of])
        for name, amount in free.items():
            self.free[name][undone] = amount[undone]
        self._slack[undone] = slack[undone]
        return fits

    def put(self, thing: Thing, on: Mask) -> Mask:
        """Put *thing* on the clusters *on* where all its replicas find room, and return which these are."""
        fleet = self._fleet
        copies = _held(thing, self.free.__getitem__, thing.ok & on[fleet.cluster_of])
        done: Mask = on & (fleet.sums(copies) >= thing.replicas)
        rows = np.flatnonzero((copies > 0) & done[fleet.cluster_of])
        if not len(rows):
            return done
        if thing.replicas <= _FEW:
            for count in range(thing.replicas, 0, -1):
                chosen = _least(fleet.cluster_of[rows], self._slack[rows], rows)
                self._take(thing, chosen, np.ones(len(chosen), dtype=np.int64))
                copies[chosen] -= 1
                if count > 1:
                    rows = rows[copies[rows] > 0]
            return done
        order = rows[np.lexsort((self._slack[rows], fleet.cluster_of[rows]))]
        cluster, held = fleet.cluster_of[order], copies[order].astype(np.int64)
        before = np.cumsum(held) - held
        first = np.searchsorted(cluster, np.arange(len(fleet)))
        before -= before[np.minimum(first, len(before) - 1)][cluster]
        taken = np.clip(thing.replicas - before, 0, held)
        used = np.flatnonzero(taken)
        self._take(thing, order[used], taken[used])
        return done

    def _take(self, thing: Thing, nodes: Index, taken: Whole) -> None:
        for resource, amount in thing.need.items():
            self.free[resource][nodes] -= taken * amount
            if resource in self._scale:
                self._slack[nodes] -= taken * amount / self._scale[resource]


def _least(cluster: Index, slack: npt.NDArray[np.float64], rows: Index) -> Index:
    """Return of *rows*, ascending by *cluster*, the one with the least *slack* of each cluster."""
    first = _firsts(cluster)
    least = np.minimum.reduceat(slack, first)
    where = np.flatnonzero(slack == np.repeat(least, np.diff(first, append=len(rows))))
    return rows[where[_firsts(cluster[where])]]


def _firsts(cluster: Index) -> Index:
    """Return where each new number begins."""
    new = np.ones(len(cluster), dtype=np.bool_)
    np.not_equal(cluster[1:], cluster[:-1], out=new[1:])
    return np.flatnonzero(new)


def _exactly(fleet: Fleet, cluster: int, things: Sequence[Thing]) -> int:
    """Decide one cluster: which numbers of replicas can be on the first nodes, node after node."""
    if prod(thing.replicas + 1 for thing in things) > STATES:
        return UNDECIDED
    sizes = np.array([thing.replicas + 1 for thing in things], dtype=np.int64)
    strides = np.concatenate(([1], np.cumprod(sizes)[:-1]))
    numbers = (np.arange(int(np.prod(sizes)))[:, None] // strides) % sizes  # every combination of replicas
    resources = sorted({name for thing in things for name in thing.need})
    needs = np.array([[thing.need.get(name, 0) for name in resources] for thing in things], dtype=np.float64)
    loads = numbers @ needs
    rows = np.flatnonzero(fleet.cluster_of == cluster)
    free = np.array([fleet.amount(name)[rows] for name in resources], dtype=np.float64).T
    refused = ~np.array([thing.ok[rows] for thing in things]).T
    reached = np.zeros(len(numbers), dtype=np.bool_)
    reached[0] = True
    # The order cannot change the answer; roomy nodes first find it sooner.
    for node in np.argsort(-(free / np.maximum(needs.max(axis=0), 1)).sum(axis=1), kind="stable").tolist():
        holds = (loads <= free[node]).all(axis=1) & ~(numbers[:, refused[node]] > 0).any(axis=1)
        before = numbers[reached]
        for most in numbers[_maximal(holds, numbers, sizes, strides)]:
            reached[np.minimum(before + most, sizes - 1) @ strides] = True
        if reached[-1]:
            return YES
    return NO


def _maximal(holds: Mask, numbers: Whole, sizes: Whole, strides: Whole) -> Mask:
    """Return the combinations that hold while none with one replica more does."""
    more = np.zeros(len(holds), dtype=np.bool_)
    for thing in range(len(sizes)):
        grown = np.flatnonzero(numbers[:, thing] < sizes[thing] - 1)
        more[grown] |= holds[grown + strides[thing]]
    return holds & ~more
