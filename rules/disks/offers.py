"""What is asked of all nodes, and what they offer for it, in columns.

What is offered is, for each request, an ordered list of capacities on each node. Requests of one class and storage
group have the same list, and a filter removes a capacity from all of them: one mask over capacities has what is left.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from pipeline.disk_records import DiskPod
from rules.disks.annotations import Affinities
from rules.disks.columns import Columns, Kind, Mask, Numbers
from rules.disks.requests import Asked
from rules.disks.state import Disks, room

#: Says of a number, of a capacity or of a node, why it is left out.
Why = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of every node: *pod*'s volumes under *affinities*.

    *avoided*, *barred* and *loud* say of capacities what keeps the pod off (`rules.disks.neighbours`); *own* is the
    taint of its application, "" where no label names it; *reservation* its own, which holds nothing against it.
    *sacrifices* are the sets of preferences to give up, in the order in which they are tried.
    """

    pod: DiskPod
    asked: Asked
    affinities: Affinities
    disks: Disks
    own: str = ""
    reservation: str = ""
    avoided: Mapping[str, str] = field(default_factory=dict)
    barred: Mapping[str, str] = field(default_factory=dict)
    loud: Mapping[str, str] = field(default_factory=dict)
    sacrifices: tuple[tuple[str, ...], ...] = ((),)

    def without(self, given_up: tuple[str, ...]) -> "Question":
        """Return the question with the preferences *given_up*."""
        return replace(self, affinities=self.affinities.without(frozenset(given_up))) if given_up else self


@dataclass(frozen=True, slots=True, eq=False)
class Removed:
    """The numbers of *capacities* that a rule removed, and *why*; *told* where the rule is required."""

    capacities: Numbers
    why: Why
    told: bool


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """What is still offered, in columns over the nodes *names* and over all capacities.

    *place* has the number in *names* of each capacity's node, -1 for others. *kinds* are the lists of capacities, one
    a request, with the *node* of each in *names*; of them those *allowed* are left, on nodes that are *alive*, those
    that are *own* first. *together* is the one capacity of each node that has to hold all volumes. *shared* and
    *whole* are the rooms, but for one's own reservation. *removed* and *reasons* (why nothing is left on a node, by
    its number) are told of what is not.
    """

    names: tuple[str, ...]
    columns: Columns
    place: Numbers
    kinds: tuple[Kind, ...]
    allowed: Mask
    alive: Mask
    shared: Numbers
    whole: Numbers
    own: Mask | None = None
    together: Numbers | None = None
    removed: tuple[Removed, ...] = ()
    reasons: Mapping[int, str] = field(default_factory=dict)

    def dead(self, reasons: Mapping[int, str]) -> "Offer":
        """Return the offer without the nodes of *reasons*."""
        if not reasons:
            return self
        alive = self.alive.copy()
        alive[list(reasons)] = False
        return replace(self, alive=alive, reasons={**self.reasons, **reasons})

    def listed(self, kind: Kind) -> Mask:
        """Return which capacities of *kind* are left."""
        return self.allowed[kind.capacity] & self.alive[kind.node]

    def counts(self, kind: Kind) -> Numbers:
        """Return how many capacities of *kind* are left on each node."""
        left = kind.node[self.allowed[kind.capacity]]
        return np.bincount(left, minlength=len(self.names)).astype(np.int64, copy=False)

    def first(self, kind: Kind, wanted: Mask) -> tuple[Numbers, Numbers]:
        """Return the nodes that have one, and the first capacity of each, of those of *kind* that are *wanted*."""
        if self.own is not None:
            mine = self.own[kind.capacity]
            nodes, chosen = _first(kind, wanted & mine)
            others = wanted & ~mine
            others[np.isin(kind.node, nodes)] = False
            more, behind = _first(kind, others)
            return np.concatenate((nodes, more)), np.concatenate((chosen, behind))
        return _first(kind, wanted)


def _first(kind: Kind, wanted: Mask) -> tuple[Numbers, Numbers]:
    at = np.flatnonzero(wanted)
    nodes = kind.node[at]
    new = np.ones(len(at), dtype=np.bool_)
    new[1:] = nodes[1:] != nodes[:-1]
    return nodes[new], kind.capacity[at[new]]


def offer(names: tuple[str, ...], question: Question) -> Offer:
    """Return all capacities of the nodes *names* of the right class and storage group, in the order of preference."""
    disks = question.disks
    columns = disks.columns
    place = np.full(len(columns.nodes), -1, dtype=np.int64)
    for number, name in enumerate(names):
        there = columns.nodes.get(name)
        if there is not None:
            place[there] = number
    place_of = place[columns.node]
    allowed = np.zeros(len(columns.node), dtype=np.bool_)
    made: dict[tuple[str, str], Kind] = {}
    for each in question.asked.requests:
        key = (each.storage_class, each.storage_group)
        if key not in made:
            kind = columns.kind(*key)
            here = place_of[kind.capacity]
            if len(here) and here.min() < 0:
                kind = Kind(kind.capacity[here >= 0], here[here >= 0])
            else:
                kind = Kind(kind.capacity, here)
            made[key] = kind
            allowed[kind.capacity] = True
    shared, whole = _rooms(question, columns)
    given = Offer(
        names=names,
        columns=columns,
        place=place_of,
        kinds=tuple(made[each.storage_class, each.storage_group] for each in question.asked.requests),
        allowed=allowed,
        alive=np.ones(len(names), dtype=np.bool_),
        shared=shared,
        whole=whole,
    )
    reasons: dict[int, str] = {}
    for request, kind in zip(question.asked.requests, given.kinds, strict=True):
        for node in np.flatnonzero(given.counts(kind) == 0).tolist():
            reasons.setdefault(node, f"capacity: no drive of class {request.storage_class}")
    for csi_node, volume in {each.csi_node: each.name for each in reversed(question.asked.bound)}.items():
        lies_on = disks.node_names.get(csi_node, csi_node)
        for node, name in enumerate(names):
            if name != lies_on:
                reasons.setdefault(node, f"volume {volume} is bound on node {lies_on}")
    return given.dead(reasons)


def _rooms(question: Question, columns: Columns) -> tuple[Numbers, Numbers]:
    """Return the rooms of all capacities, as if the pod's own reservation held nothing."""
    held = question.disks.booked_by.get(question.reservation, ())
    shared, whole = columns.shared, columns.whole
    if held:
        shared, whole = shared.copy(), whole.copy()
        for name in held:
            number = columns.index.get(name)
            if number is not None:
                capacity, booked = columns.capacities[number], question.disks.bookings[name]
                shared[number] = room(capacity, booked, shares=True, by=question.reservation)
                whole[number] = room(capacity, booked, shares=False, by=question.reservation)
    return shared, whole
