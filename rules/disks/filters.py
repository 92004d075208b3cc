"""The filters of a plan: each takes what one node offers for each volume and leaves what its rule allows.

A node's offer is, for each request, an ordered list of capacities. Filters 1 to 4 look at single capacities and
commute; `pod_bound` needs what they leave, and `capacity` (`rules.disks.fitting`) comes last.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pipeline.disk_records import Capacity, DiskPod
from rules.disks import taints
from rules.disks.annotations import Affinities
from rules.disks.fitting import Holdings
from rules.disks.requests import Asked
from rules.disks.sizes import grouped, taken, told
from rules.disks.state import Disks, held_for

Lists = tuple[tuple[Capacity, ...], ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of every node: *pod*'s volumes under *affinities*.

    *avoided* and *loud* say of nodes and capacities why anti-affinity keeps the pod off (`rules.disks.neighbours`);
    *own* is the taint of its application, "" where no label names it; *reservation* its own, which holds nothing
    against it. *sacrifices* are the sets of preferences to give up, in the order in which they are tried.
    """

    pod: DiskPod
    asked: Asked
    affinities: Affinities
    disks: Disks
    own: str = ""
    reservation: str = ""
    avoided: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    loud: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    sacrifices: tuple[tuple[str, ...], ...] = ((),)
    _weaker: dict[tuple[str, ...], "Question"] = field(default_factory=dict, compare=False)

    def without(self, given_up: tuple[str, ...]) -> "Question":
        """Return the question with the preferences *given_up*; the same for every node."""
        if not given_up:
            return self
        if given_up not in self._weaker:
            kept = self.affinities.without(frozenset(given_up))
            self._weaker[given_up] = replace(self, affinities=kept, _weaker={})
        return self._weaker[given_up]


@dataclass(frozen=True, slots=True)
class Offer:
    """What *node* still offers: *lists*, one a request. *denied* says why a rule removed a capacity; *reason* is why
    nothing is left, "" while something is."""

    node: str
    lists: Lists
    denied: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""


Filter = Callable[[Offer, Question], Offer]


def offer(node: str, question: Question) -> Offer:
    """Return all capacities of *node* of the right class, storage group and node, in the order of preference."""
    disks = question.disks
    lists = tuple(disks.offer(node, each.storage_class, each.storage_group) for each in question.asked.requests)
    if not all(lists):
        empty = question.asked.requests[lists.index(())]
        return Offer(node, (), reason=f"capacity: no drive of class {empty.storage_class}")
    elsewhere = [volume for volume in question.asked.bound if _node_of(volume.csi_node, disks) != node]
    if elsewhere:
        there = _node_of(elsewhere[0].csi_node, disks)
        return Offer(node, (), reason=f"volume {elsewhere[0].name} is bound on node {there}")
    return Offer(node, lists)


def no_schedule(given: Offer, question: Question) -> Offer:
    """Leave drives on which the driver takes new volumes; nothing tolerates a suspended one."""
    suspended = question.disks.suspended.get(given.node)
    if not suspended:
        return given
    return _without(given, {each.name: f"no-schedule: {each.name} takes no new volumes" for each in suspended})


def repulsion(given: Offer, question: Question) -> Offer:
    """Leave drives that are dedicated to nobody else; asked of every pod, annotated or not."""
    tainted = question.disks.tainted.get(given.node)
    if not tainted:
        return given
    denied = {}
    for each in tainted:
        text = taints.taint_of(each)
        if not (text in question.affinities.tolerations or taints.belongs(text, question.pod)):
            denied[each.name] = f"dedicated: {each.name} reserved for {text}"
    return _without(given, denied)


def dedicated(given: Offer, question: Question) -> Offer:
    """Leave drives that are dedicated to the pod, first, and those that can be: unused by other applications."""
    asked = question.affinities
    if not asked.dedicated or given.reason:
        return given
    disks = question.disks
    ours = {question.own, held_for(question.reservation)}
    own: set[str] = set()
    denied = {}
    for each in _distinct(given.lists):
        name = each.name
        if name in disks.dedicated:
            text = disks.dedicated[name]
            if text in asked.tolerations or (asked.automatic and taints.belongs(text, question.pod)):
                own.add(name)
                continue
        elif asked.automatic and not (name in disks.holders and disks.holders[name] - ours):
            continue
        denied[name] = "dedicated-required: neither dedicated to it nor free to be"
    left = _without(given, denied, asked.dedicated, f"dedicated-{asked.dedicated}: no own or empty drive")
    if not own:
        return left
    ordered = tuple(tuple(sorted(listed, key=lambda each: each.name not in own)) for listed in left.lists)
    return Offer(left.node, ordered, left.denied, left.reason)


def anti_affinity(given: Offer, question: Question) -> Offer:
    """Leave drives that none of the pods to keep apart from uses."""
    return _away(given, question.avoided, question.affinities.pod_label)


def quiet(given: Offer, question: Question) -> Offer:
    """Leave drives without users whose functions are known to use disks much (our own addition to the proposal)."""
    return _away(given, question.loud, question.affinities.quiet)


def _away(given: Offer, kept_off: Mapping[str, Mapping[str, str]], strength: str) -> Offer:
    denied = kept_off.get(given.node) if strength else None
    return _without(given, denied, strength) if denied else given


def pod_bound(given: Offer, question: Question) -> Offer:
    """Leave the first drive that holds all volumes of the pod together, those that are bound already included."""
    asked = question.affinities.pod_bound
    requests, bound = question.asked.requests, question.asked.bound
    if not asked or given.reason or len(requests) + len(bound) < 2:
        return given
    lists = given.lists
    name = f"pod-bound-{asked}"
    pinned = {question.disks.drive_of_volume(volume) for volume in bound}
    if len(pinned) > 1:
        return replace(given, lists=(), reason=f"{name}: its volumes lie on {len(pinned)} drives")
    storage_class = requests[0].storage_class
    if not grouped(storage_class) or any(each.storage_class != storage_class for each in requests):
        return replace(given, lists=(), reason=f"{name}: volumes that take whole drives cannot share one")
    first = lists[0]
    others = [{each.name for each in listed} for listed in lists if listed is not first]
    need = sum(taken(request.size, storage_class) for request in requests)
    holdings = Holdings(question.disks, question.reservation)
    largest = 0
    for each in first:
        if not all(each.name in other for other in others):
            continue
        if pinned and question.disks.drive_of(each) not in pinned:
            continue
        room = holdings.room(each, storage_class)
        if room >= need:
            return Offer(given.node, ((each,),) * len(requests), given.denied)
        largest = max(largest, room)
    if pinned:
        [drive] = pinned
        on_it = [c for c in question.disks.capacities_on.get(given.node, ()) if question.disks.drive_of(c) == drive]
        also = "".join(f"; {given.denied[c.name]}" for c in on_it if c.name in given.denied)
        why = also or f"; need {told(need)} there, usable {told(largest)}"
        return replace(given, lists=(), reason=f"{name}: its volumes lie on drive {drive}{why}")
    return replace(given, lists=(), reason=f"{name}: need {told(need)} on one drive, largest usable {told(largest)}")


#: In the order of a plan. The first five commute; what removes a capacity first says why.
FILTERS: Final[tuple[Filter, ...]] = (no_schedule, repulsion, dedicated, anti_affinity, quiet, pod_bound)


def _distinct(lists: Lists) -> tuple[Capacity, ...]:
    """Return each capacity of *lists* once; requests of one class have one list."""
    first = lists[0] if lists else ()
    if all(each is first for each in lists):
        return first
    return tuple({each.name: each for listed in lists for each in listed}.values())


def _without(given: Offer, denied: Mapping[str, str], strength: str = "required", empty: str = "") -> Offer:
    """Take the capacities *denied* out; only what is required is told as denied. *empty* is why nothing is left."""
    if not denied or given.reason:
        return given
    told_as = (
        {name: why for name, why in denied.items() if name not in given.denied} if strength == "required" else {}
    )
    here = {each.name for listed in given.lists for each in listed}
    said = {**given.denied, **{name: why for name, why in told_as.items() if name in here}}
    kept: dict[int, tuple[Capacity, ...]] = {}
    lists, reason = [], ""
    for listed in given.lists:
        left = kept.get(id(listed))
        if left is None:
            left = kept[id(listed)] = tuple(each for each in listed if each.name not in denied)
        if not left and not reason:
            reason = empty or next(denied[each.name] for each in listed)
        lists.append(left)
    return Offer(given.node, () if reason else tuple(lists), said, reason)


def _node_of(csi_node: str, disks: Disks) -> str:
    return disks.node_names.get(csi_node, csi_node)
