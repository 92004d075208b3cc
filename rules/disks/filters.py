"""The filters of a plan: each takes what the nodes offer for each volume and leaves what its rule allows.

Filters 1 to 4 look at single capacities and commute; `pod_bound` needs what they leave, and `capacity`
(`rules.disks.fitting`) comes last.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from rules.disks import taints
from rules.disks.columns import Kind, Mask
from rules.disks.offers import Offer, Question, Removed, Why
from rules.disks.sizes import grouped, taken, told
from rules.disks.state import held_for

Filter = Callable[[Offer, Question], Offer]


def no_schedule(given: Offer, question: Question) -> Offer:
    """Leave drives on which the driver takes new volumes; nothing tolerates a suspended one."""
    names = given.columns.capacities
    return _without(given, given.columns.suspended, lambda i: f"no-schedule: {names[i].name} takes no new volumes")


def repulsion(given: Offer, question: Question) -> Offer:
    """Leave drives that are dedicated to nobody else; asked of every pod, annotated or not."""
    capacities, tolerated = given.columns.capacities, question.affinities.tolerations

    def foreign(text: str) -> bool:
        return bool(text) and not (text in tolerated or taints.belongs(text, question.pod))

    def why(number: int) -> str:
        return f"dedicated: {capacities[number].name} reserved for {taints.taint_of(capacities[number])}"

    return _without(given, given.columns.taint.where(foreign), why)


def dedicated(given: Offer, question: Question) -> Offer:
    """Leave drives that are dedicated to the pod, first, and those that can be: unused by other applications."""
    asked = question.affinities
    if not asked.dedicated:
        return given
    columns = given.columns
    ours = {question.own, held_for(question.reservation)}

    def mine(text: str) -> bool:
        return bool(text) and (text in asked.tolerations or (asked.automatic and taints.belongs(text, question.pod)))

    def free(held: frozenset[str]) -> bool:
        return asked.automatic and held <= ours

    own = columns.taint.where(mine)
    may_be = columns.holder.where(free) & columns.taint.where(lambda text: not text)
    left = _without(
        given,
        ~(own | may_be),
        lambda number: "dedicated-required: neither dedicated to it nor free to be",
        asked.dedicated,
        f"dedicated-{asked.dedicated}: no own or empty drive",
    )
    return replace(left, own=own) if own.any() else left


def anti_affinity(given: Offer, question: Question) -> Offer:
    """Leave drives of none of the pods to keep apart from, and of none that requires to be apart from this one."""
    return _away(_away(given, question.barred, "required"), question.avoided, question.affinities.pod_label)


def quiet(given: Offer, question: Question) -> Offer:
    """Leave drives without users whose functions are known to use disks much (our own addition to the proposal)."""
    return _away(given, question.loud, question.affinities.quiet)


def _away(given: Offer, kept_off: Mapping[str, str], strength: str) -> Offer:
    if not strength or not kept_off:
        return given
    columns = given.columns
    out = np.zeros(len(columns.node), dtype=np.bool_)
    out[[columns.index[name] for name in kept_off]] = True
    return _without(given, out, lambda number: kept_off[columns.capacities[number].name], strength)


def pod_bound(given: Offer, question: Question) -> Offer:
    """Leave the first drive that holds all volumes of the pod together, those that are bound already included."""
    asked = question.affinities.pod_bound
    requests, bound = question.asked.requests, question.asked.bound
    if not asked or not requests or len(requests) + len(bound) < 2:
        return given
    name = f"pod-bound-{asked}"
    pinned = {question.disks.drive_of_volume(volume) for volume in bound}
    if len(pinned) > 1:
        return _none(given, f"{name}: its volumes lie on {len(pinned)} drives")
    storage_class = requests[0].storage_class
    if not grouped(storage_class) or any(each.storage_class != storage_class for each in requests):
        return _none(given, f"{name}: volumes that take whole drives cannot share one")
    kind = given.kinds[0]
    need = sum(taken(request.size, storage_class) for request in requests)
    possible = given.listed(kind)
    if any(other is not kind for other in given.kinds):
        possible = np.zeros_like(possible)  # of several storage groups: no capacity is in two
    if pinned:
        [drive] = pinned
        on_it = np.zeros(len(given.allowed), dtype=np.bool_)
        on_it[[given.columns.index[each.name] for each in question.disks.capacities_of.get(drive, ())]] = True
        possible &= on_it[kind.capacity]
    nodes, chosen = given.first(kind, possible & (given.shared[kind.capacity] >= need))
    together = np.full(len(given.names), -1, dtype=np.int64)
    together[nodes] = chosen
    missing = np.flatnonzero(given.alive & (together < 0)).tolist()
    if not missing:
        return replace(given, together=together)
    largest = np.zeros(len(given.names), dtype=np.int64)
    np.maximum.at(largest, kind.node[possible], given.shared[kind.capacity[possible]])
    if pinned:
        reasons = {node: _pinned(given, question, name, need, int(largest[node])) for node in missing}
    else:
        head = f"{name}: need {told(need)} on one drive, largest usable "
        reasons = {node: head + told(size) for node, size in zip(missing, largest[missing].tolist(), strict=True)}
    return replace(given.dead(reasons), together=together)


def _pinned(given: Offer, question: Question, name: str, need: int, largest: int) -> str:
    [drive] = {question.disks.drive_of_volume(volume) for volume in question.asked.bound}
    gone = {number: each for each in given.removed if each.told for number in each.capacities.tolist()}
    on_it = [given.columns.index[each.name] for each in question.disks.capacities_of.get(drive, ())]
    also = "".join(f"; {gone[number].why(number)}" for number in on_it if number in gone)
    return f"{name}: its volumes lie on drive {drive}" + (
        also or f"; need {told(need)} there, usable {told(largest)}"
    )


#: In the order of a plan. The first five commute; what removes a capacity first says why.
FILTERS: Final[tuple[Filter, ...]] = (no_schedule, repulsion, dedicated, anti_affinity, quiet, pod_bound)


def _none(given: Offer, why: str) -> Offer:
    return given.dead(dict.fromkeys(np.flatnonzero(given.alive).tolist(), why))


def _without(given: Offer, out: Mask, why: Why, strength: str = "required", empty: str = "") -> Offer:
    """Take the capacities *out* away; *empty* is why nothing is left on a node, else why its first one is away."""
    away = given.allowed & out
    away &= given.alive[given.place]
    numbers = np.flatnonzero(away)
    if not len(numbers):
        return given
    left = replace(
        given,
        allowed=given.allowed & ~away,
        removed=(*given.removed, Removed(numbers, why, strength == "required")),
    )
    reasons: dict[int, str] = {}
    for kind in dict.fromkeys(given.kinds):
        for node in np.flatnonzero(given.alive & (left.counts(kind) == 0)).tolist():
            if node not in reasons:
                reasons[node] = empty or why(int(_first_of(given, kind, node)))
    return left.dead(reasons)


def _first_of(given: Offer, kind: Kind, node: int) -> int:
    return int(kind.capacity[np.flatnonzero(given.listed(kind) & (kind.node == node))[0]])
