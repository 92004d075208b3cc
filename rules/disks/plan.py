"""The plan of a pod's volumes: for each node that can hold them, which capacity each takes, and what was given up.

Every node is searched with all preferences first; then as few as possible are given up, in the order of
`annotations.PREFERENCES` on ties. Preferences never cost a node.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from pipeline.disk_records import Capacity, DiskPod
from pipeline.errors import BadInput
from rules.disks import neighbours, taints
from rules.disks.annotations import TYPES, Affinities, parse
from rules.disks.filters import FILTERS, Question, offer
from rules.disks.fitting import fit
from rules.disks.requests import Asked, requests
from rules.disks.sizes import grouped
from rules.disks.state import Disks

#: Scores go from 0 to this, as the scheduler's extenders give them.
HIGHEST: Final = 10
#: What a preference that is given up costs; what is consumed matters within less than that.
_VIOLATION: Final = 3

Status = Literal["RESERVED", "REJECTED", "REQUEUE"]


@dataclass(frozen=True, slots=True)
class Planned:
    """What one node gives: a capacity for each request, the preferences *violated* there, and what was *denied*."""

    node: str
    chosen: tuple[Capacity, ...] = ()
    violated: tuple[str, ...] = ()
    denied: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer for one pod.

    *plan* names a capacity for each request, by node; *denied* says of nodes and capacities which rule removed them;
    *violated* the preferences given up; *taint* the capacities that are to be dedicated and their text; *scores* 0 to
    10; *failed* why a node cannot hold the volumes. *waits* says what a plan that is put off waits for.
    """

    status: Status
    plan: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    denied: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    violated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    taint: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    waits: tuple[str, ...] = ()


def plan(
    pod: DiskPod,
    disks: Disks,
    nodes: Iterable[str] | None = None,
    *,
    sequential: bool = False,
    symmetric: bool = False,
) -> Plan:
    """Plan the volumes of *pod* on *nodes* (names; None: all that are known).

    *sequential* puts a pod off while another's reservation asks for the same class of group. Raises `BadInput` for
    annotations that cannot be read or can never be met.
    """
    asked = requests(pod, disks)
    affinities = parse(pod.annotations, pod.namespace)
    check(affinities, asked)
    question = Question(
        pod=pod,
        asked=asked,
        affinities=affinities,
        disks=disks,
        own=(taints.named(pod) if affinities.automatic else taints.own(pod)) or "",
        reservation=f"{pod.namespace}-{pod.name}",
        avoided=neighbours.avoided(pod, affinities, disks, symmetric=symmetric),
        loud=neighbours.loud(pod, disks) if affinities.quiet else {},
        sacrifices=affinities.sacrifices(),
    )
    if symmetric and question.avoided and not affinities.pod_label:
        question = replace(question, affinities=replace(affinities, pod_label="required"))
    waits = asked.missing or (tuple(_ahead(question)) if sequential else ())
    if waits:
        return Plan("REQUEUE", waits=waits)
    names = known(disks) if nodes is None else list(dict.fromkeys(nodes))
    return _answer(question, [on_node(node, question) for node in names])


def known(disks: Disks) -> list[str]:
    """Return the names of all nodes, in order."""
    return sorted({*(node.name for node in disks.objects.nodes), *disks.capacities_on})


def on_node(node: str, question: Question) -> Planned:
    """Plan on one node: with all preferences, then with as few as possible given up."""
    first = offer(node, question)
    if first.reason or not question.asked.requests:
        return Planned(node, reason=first.reason)
    for given_up in question.sacrifices:
        tried = question.without(given_up)
        left = first
        for rule in FILTERS:
            left = rule(left, tried)
        reason = left.reason
        if not reason:
            chosen, reason = fit(question.asked.requests, left.lists, question.disks, question.reservation)
            if chosen is not None:
                return Planned(node, chosen, given_up, left.denied)
    return Planned(node, denied=left.denied, reason=reason)


def check(affinities: Affinities, asked: Asked) -> None:
    """Raise `BadInput` for rules that these volumes can never meet."""
    classes = {request.storage_class for request in asked.requests}
    many = len(asked.requests) + len(asked.bound) > 1
    if affinities.pod_bound == "required" and classes and many and (len(classes) > 1 or not grouped(min(classes))):
        told = ", ".join(sorted(classes))
        raise BadInput(f"annotation {TYPES}: pod-bound-required: volumes of {told} cannot share one drive")


def _ahead(question: Question) -> Iterator[str]:
    classes = {each.storage_class for each in question.asked.requests if grouped(each.storage_class)}
    for other in question.disks.objects.reservations:
        if other.status == "RESERVED" and other.name != question.reservation:
            held = {each.request.storage_class for each in other.requests} & classes
            if held:
                yield f"reservation {other.name} of {', '.join(sorted(held))}"


def _answer(question: Question, found: list[Planned]) -> Plan:
    fitting = [each for each in found if not each.reason]
    names = [request.name for request in question.asked.requests]
    text = question.own
    automatic = question.affinities.automatic
    to_be = {
        capacity.name: text
        for each in fitting
        for capacity in each.chosen
        if automatic and "dedicated" not in each.violated and not taints.taint_of(capacity)
    }
    return Plan(
        status="RESERVED" if fitting else "REJECTED",
        plan={each.node: {name: c.name for name, c in zip(names, each.chosen, strict=False)} for each in fitting},
        denied={each.node: each.denied for each in found if each.denied},
        violated={each.node: each.violated for each in fitting if each.violated},
        taint=to_be,
        scores=scores(fitting, question.disks),
        failed={
            each.node: f"No available capacity found on the node {each.node}: {each.reason}"
            for each in found
            if each.reason
        },
    )


def scores(fitting: list[Planned], disks: Disks) -> Mapping[str, int]:
    """Return a score 0 to 10 by node: fewer preferences violated first, then less of its capacity consumed.

    Among nodes with as many violations, three points are dealt by the rank of the consumed share.
    """
    shares = {each.node: _share(each.node, disks) for each in fitting}
    ranks: dict[int, list[float]] = {}
    for each in fitting:
        ranks.setdefault(len(each.violated), []).append(shares[each.node])
    ordered = {count: {share: i for i, share in enumerate(sorted(set(held)))} for count, held in ranks.items()}
    found = {}
    for each in fitting:
        alike = ordered[len(each.violated)]
        step = _VIOLATION * alike[shares[each.node]] // len(alike)
        found[each.node] = max(0, HIGHEST - _VIOLATION * len(each.violated) - step)
    return found


def _share(node: str, disks: Disks) -> float:
    consumed, free = disks.consumed.get(node, (0, 0))
    return consumed / (consumed + free) if consumed + free else 0.0
