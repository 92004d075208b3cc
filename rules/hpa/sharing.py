"""Which clusters applications may share: on each cluster, all that list it fit there together.

A deployment chooses one application's clusters without asking for the others', so what may be chosen by several at
once has to hold them all. First every application gets as many clusters as it needs, by a search with backtracking;
then each takes, in turn, further clusters of its own that still hold it beside those that have them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from rules.candidates import Mask
from rules.hpa.fleet import Fleet, part
from rules.hpa.packing import YES, Room, Thing, pack

#: A search that tries more sets of clusters than this is given up.
_TRIES: Final = 20_000
#: Into so many groups contended clusters are dealt.
_GROUPS: Final = 8


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """An application with its *things*: it may use the clusters *allowed* (in order: *best*), and needs *count*."""

    name: str
    things: tuple[Thing, ...]
    allowed: Mask
    best: Sequence[int]
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """The clusters that each application keeps; *short* are those that contend for too few clusters."""

    kept: Mapping[str, Mask]
    short: tuple[str, ...]
    undecided: bool = False


class _Exhausted(Exception):
    pass


def share(fleet: Fleet, claims: Sequence[Claim]) -> Shared:
    """Take clusters from applications until on each cluster all that list it fit together."""
    claims = sorted(claims, key=lambda each: each.name)
    kept = {each.name: each.allowed for each in claims}
    things = [(claim, thing) for claim in claims for thing in claim.things]
    if not things:
        return Shared(kept, ())
    wanted = np.array([claim.allowed for claim, _ in things])
    tight = pack(fleet, [thing for _, thing in things], wanted) != YES
    # Where less than two applications list it, a cluster was judged already.
    tight &= np.sum([claim.allowed for claim in claims if claim.things], axis=0) > 1
    if not tight.any():
        return Shared(kept, ())
    search = _Search(fleet, [claim for claim in claims if claim.things], tight)
    try:
        found = search.run()
    except _Exhausted:
        return Shared(kept, search.needy, undecided=True)
    if found is None:
        return Shared(kept, search.needy)
    return Shared({**kept, **_filled(fleet, claims, tight, found)}, ())


class _Search:
    """Finds for each application that roomy clusters do not serve enough *tight* ones, the best first."""

    def __init__(self, fleet: Fleet, claims: Sequence[Claim], tight: Mask) -> None:
        self._fleet = fleet
        self._claims = claims
        self._missing = {each.name: each.count - int((each.allowed & ~tight).sum()) for each in claims}
        self._offers = {each.name: [cluster for cluster in each.best if tight[cluster]] for each in claims}
        needy = [each for each in claims if self._missing[each.name] > 0]
        spare = {each.name: len(self._offers[each.name]) - self._missing[each.name] for each in needy}
        self._order = sorted(needy, key=lambda each: (spare[each.name], each.name))
        self._on: dict[int, tuple[int, ...]] = {}
        self._known: dict[tuple[int, tuple[int, ...]], bool] = {}
        self._tries = 0

    @property
    def needy(self) -> tuple[str, ...]:
        return tuple(sorted(each.name for each in self._order))

    def run(self) -> dict[int, tuple[int, ...]] | None:
        """Return the numbers of the claims on each cluster, None where there is no way; raises `_Exhausted`."""
        return self._on if self._place(0) else None

    def _place(self, position: int) -> bool:
        if position == len(self._order):
            return True
        claim = self._order[position]
        number = self._claims.index(claim)
        open_ = [cluster for cluster in self._offers[claim.name] if self._holds(cluster, number)]
        for clusters in combinations(open_, self._missing[claim.name]):
            self._tries += 1
            if self._tries > _TRIES:
                raise _Exhausted
            for cluster in clusters:
                self._on[cluster] = (*self._on.get(cluster, ()), number)
            if self._place(position + 1):
                return True
            for cluster in clusters:
                self._on[cluster] = self._on[cluster][:-1]
        return False

    def _holds(self, cluster: int, number: int) -> bool:
        together = tuple(sorted((*self._on.get(cluster, ()), number)))
        key = (cluster, together)
        if key not in self._known:
            things = [thing for each in together for thing in self._claims[each].things]
            self._known[key] = len(together) == 1 or bool(_on_one(self._fleet, cluster, things))
        return self._known[key]


def _on_one(fleet: Fleet, cluster: int, things: Sequence[Thing]) -> bool:
    first, last = np.searchsorted(fleet.cluster_of, [cluster, cluster + 1])
    rows = slice(int(first), int(last))
    free = {name: amount[rows] for name, amount in fleet.free.items()}
    only = Fleet((fleet.clusters[cluster],), np.zeros(int(last - first), dtype=np.intp), free, fleet.has)
    return bool(pack(only, [Thing(each.replicas, each.need, each.ok[rows]) for each in things])[0] == YES)


def _filled(
    fleet: Fleet, claims: Sequence[Claim], tight: Mask, found: Mapping[int, tuple[int, ...]]
) -> dict[str, Mask]:
    """Give what is left of the *tight* clusters away, each as long as it fits beside those that have it.

    The clusters are dealt into groups, in each of which another application goes first.
    """
    placed = [claim for claim in claims if claim.things]
    kept = {claim.name: claim.allowed & ~tight for claim in placed}
    for cluster, numbers in found.items():
        for number in numbers:
            kept[placed[number].name][cluster] = True
    order = sorted(range(len(placed)), key=lambda number: (int(kept[placed[number].name].sum()), placed[number].name))
    contended = np.flatnonzero(tight)
    groups = min(len(order), _GROUPS)
    for group in range(groups):
        clusters = contended[group::groups]
        if not len(clusters):
            continue
        first = group * len(order) // groups
        local, rows = part(fleet, clusters)
        parts = [tuple(Thing(each.replicas, each.need, each.ok[rows]) for each in claim.things) for claim in placed]
        room = Room(local, [thing for things in parts for thing in things])
        open_ = np.ones(len(clusters), dtype=np.bool_)
        for number, things in enumerate(parts):
            has = kept[placed[number].name][clusters]
            open_ &= ~has | room.put_all(things, has)  # what only the exact search could pack takes nothing more
        for number in (*order[first:], *order[:first]):
            name = placed[number].name
            mine = open_ & placed[number].allowed[clusters] & ~kept[name][clusters]
            kept[name][clusters] |= room.put_all(parts[number], mine)
    return kept
