"""Which capacity each volume takes: first fit as the driver does it, and a search where that fails.

Requests of groups come first, then smaller ones. A volume of a group takes whole extents of a capacity; a volume of
any other class takes a whole drive. What is booked counts, and what is chosen is booked at once. First fit goes over
all nodes at once, the search over one node after the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np

from pipeline.disk_records import CapacityRequest
from rules.disks.columns import Kind, Mask, Numbers
from rules.disks.offers import Offer
from rules.disks.sizes import grouped, taken, told

#: Volumes up to which a search follows where first fit fails.
SEARCHED: Final = 8
#: The places that the searches of one plan may try, for all of its nodes together.
TRIES: Final = 200_000
#: Those that one node may try: few at first, so that hard nodes leave something for the others, then the rest.
_ROUNDS: Final = (1_000, 50_000)

#: A capacity by its number within one node's search: shared and whole room.
_Room = tuple[int, int]
_Shape = tuple[tuple[_Room, ...], tuple[tuple[int, ...], ...]]


@dataclass(slots=True)
class Budget:
    """How many places the searches of a plan may still try; what was *found* of nodes that are alike is kept."""

    tries: int = TRIES
    found: dict[_Shape, tuple[int, ...]] = field(default_factory=dict)

    def search(self, requests: Sequence[CapacityRequest], shape: _Shape, most: int) -> tuple[int, ...] | None:
        """Return a place for each of *requests*, none at all where there is no way, None where that is not known
        after *most* tries, or when no more may be made."""
        found = self.found.get(shape)
        if found is None:
            limit = min(most, self.tries)
            found, tries = _search(requests, *shape, limit)
            self.tries -= tries
            if not found and tries >= limit:
                return None
            self.found[shape] = found
        return found


@lru_cache(maxsize=64)
def order(requests: tuple[CapacityRequest, ...]) -> tuple[tuple[int, int], ...]:
    """Return the places of *requests* in the order in which they choose, and what each takes.

    Ties keep the pod's order.
    """
    turn = sorted(range(len(requests)), key=lambda i: (not grouped(requests[i].storage_class), requests[i].size, i))
    return tuple((i, taken(requests[i].size, requests[i].storage_class)) for i in turn)


def fit(given: Offer, requests: tuple[CapacityRequest, ...], budget: Budget) -> tuple[Numbers, Offer]:
    """Choose a capacity for each of *requests* on every node that is alive.

    Returns their numbers, one row a request and one column a node (-1: none), and the offer in which the nodes where
    they do not fit are dead.
    """
    size = len(given.names)
    if given.together is not None:
        return np.where(given.alive, given.together, -1)[None, :].repeat(len(requests), axis=0), given
    chosen = np.full((len(requests), size), -1, dtype=np.int64)
    used = np.zeros(len(given.allowed), dtype=np.int64)
    full = np.zeros(len(given.allowed), dtype=np.bool_)
    going = given.alive.copy()
    reasons: dict[int, str] = {}
    for i, need in order(requests):
        kind, shares = given.kinds[i], grouped(requests[i].storage_class)
        left = given.allowed[kind.capacity] & going[kind.node]
        room = _room(given, used, full, kind.capacity, shares)
        nodes, numbers = given.first(kind, left & (room >= need))
        chosen[i, nodes] = numbers
        missing = np.flatnonzero(going & (chosen[i] < 0))
        if len(missing):
            largest = np.zeros(size, dtype=np.int64)
            np.maximum.at(largest, kind.node[left], room[left])
            head = f"capacity: {requests[i].name} needs {told(need)} of {requests[i].storage_class}, largest usable "
            for node, most in zip(missing.tolist(), largest[missing].tolist(), strict=True):
                reasons[node] = head + told(most)
            going[missing] = False
        if shares:
            used[numbers] += need
        else:
            full[numbers] = True
    if reasons and 1 < len(requests) <= SEARCHED:
        reasons = _searched(given, requests, reasons, chosen, budget)
    elif len(requests) > SEARCHED:
        reasons = {node: f"{why} (first fit alone: more than {SEARCHED} volumes)" for node, why in reasons.items()}
    chosen[:, list(reasons)] = -1
    return chosen, given.dead(reasons)


def _room(given: Offer, used: Numbers, full: Mask, numbers: Numbers, shares: bool) -> Numbers:
    """Return what is left of capacities under own choices: bytes *used* of them, or *full* drives."""
    taken_by_us = used[numbers]
    left = given.shared[numbers] - taken_by_us if shares else np.where(taken_by_us > 0, 0, given.whole[numbers])
    room: Numbers = np.where(full[numbers], 0, left)
    return room


def _searched(
    given: Offer, requests: tuple[CapacityRequest, ...], reasons: dict[int, str], chosen: Numbers, budget: Budget
) -> dict[int, str]:
    """Search on the nodes of *reasons*, and write what is found into *chosen*; return why others still fail."""
    possible = np.zeros(len(given.names), dtype=np.bool_)
    possible[list(reasons)] = True
    for i, need in order(requests):  # where one volume fits nowhere even alone, there is nothing to search for
        kind, room = given.kinds[i], given.shared if grouped(requests[i].storage_class) else given.whole
        fits = given.allowed[kind.capacity] & (room[kind.capacity] >= need)
        possible &= np.bincount(kind.node[fits], minlength=len(given.names)) > 0
    lists = {kind: _by_node(given, kind, possible) for kind in dict.fromkeys(given.kinds)}
    failed = dict(reasons)
    pending = np.flatnonzero(possible).tolist()
    for most in _ROUNDS:
        undecided = []
        for node in pending:
            if budget.tries <= 0:
                undecided.append(node)
                continue
            listed = [lists[kind][node] for kind in given.kinds]
            numbers = list(dict.fromkeys(number for each in listed for number in each))
            found = budget.search(requests, _shape(given, numbers, listed), most)
            if found is None:
                undecided.append(node)
            elif found:
                del failed[node]
                chosen[:, node] = [numbers[place] for place in found]
        pending = undecided
    return failed | {node: f"{reasons[node]} (undecided: the search for a way was given up)" for node in pending}


def _shape(given: Offer, numbers: Sequence[int], listed: Sequence[Sequence[int]]) -> _Shape:
    """Return what a search on one node depends on: the rooms of its capacities, and the places in each list."""
    place = {number: at for at, number in enumerate(numbers)}
    rooms = tuple(zip(given.shared[list(numbers)].tolist(), given.whole[list(numbers)].tolist(), strict=True))
    return rooms, tuple(tuple(place[number] for number in each) for each in listed)


def _by_node(given: Offer, kind: Kind, wanted: Mask) -> dict[int, list[int]]:
    """Return the capacities of *kind* that are left, in order and by node, for the nodes *wanted*."""
    found: dict[int, list[int]] = {}
    left = given.listed(kind) & wanted[kind.node]
    for node, number in zip(kind.node[left].tolist(), kind.capacity[left].tolist(), strict=True):
        found.setdefault(node, []).append(number)
    own = given.own
    return found if own is None else {node: sorted(c, key=lambda i: not own[i]) for node, c in found.items()}


def _search(
    requests: Sequence[CapacityRequest], rooms: Sequence[_Room], lists: Sequence[Sequence[int]], limit: int
) -> tuple[tuple[int, ...], int]:
    """Search depth first, those with the fewest choices and the largest first; states that failed are not seen twice.

    Returns the choice, empty where none was found, and the tries made; at *limit* of them the search is not whole.
    """
    turn = sorted(range(len(requests)), key=lambda i: (len(lists[i]), -requests[i].size, i))
    shares = [grouped(each.storage_class) for each in requests]
    needs = [taken(each.size, each.storage_class) for each in requests]
    everywhere = set.intersection(*map(set, lists))
    used, full = [0] * len(rooms), [False] * len(rooms)
    chosen: dict[int, int] = {}
    failed: set[object] = set()
    tries = 0

    def deeper(at: int) -> bool:
        nonlocal tries
        if at == len(turn):
            return True
        key = (at, tuple(used), tuple(full))
        if key in failed or tries >= limit:
            return False
        i = turn[at]
        alike: set[tuple[int, int, int]] = set()
        for place in lists[i]:
            tries += 1
            room = 0 if full[place] or (used[place] and not shares[i]) else rooms[place][not shares[i]] - used[place]
            kind = (*rooms[place], room)
            if room < needs[i] or kind in alike:
                continue
            if place in everywhere:  # those that all may have stand for each other
                alike.add(kind)
            if shares[i]:
                used[place] += needs[i]
            else:
                full[place] = True
            chosen[i] = place
            if deeper(at + 1):
                return True
            if shares[i]:
                used[place] -= needs[i]
            else:
                full[place] = False
        failed.add(key)
        return False

    there = deeper(0)
    return tuple(chosen[i] for i in range(len(requests))) if there else (), tries
