"""The plan of a pod's volumes: for each node that can hold them, which capacity each takes, and what was given up.

Every node is searched with all preferences first; then as few as possible are given up, in the order of
`annotations.PREFERENCES` on ties. Preferences never cost a node.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np

from pipeline.disk_records import DiskPod
from pipeline.errors import BadInput
from rules.disks import neighbours, taints
from rules.disks.annotations import TYPES, Affinities, parse
from rules.disks.columns import Mask, Numbers
from rules.disks.filters import FILTERS
from rules.disks.fitting import TRIES, Budget, fit
from rules.disks.offers import Offer, Question, offer
from rules.disks.requests import Asked, requests
from rules.disks.sizes import grouped
from rules.disks.state import Disks

#: Scores go from 0 to this, as the scheduler's extenders give them.
HIGHEST: Final = 10

Status = Literal["RESERVED", "REJECTED", "REQUEUE"]


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
    tries: int = TRIES,
) -> Plan:
    """Plan the volumes of *pod* on *nodes* (names; None: all that are known).

    *sequential* puts a pod off while another's reservation asks for the same class of group. *tries* bounds the
    search where first fit fails, on all nodes together: once with preferences, and once without. Raises `BadInput`
    for annotations that cannot be read or can never be met.
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
        reservation=_own_reservation(pod, disks),
        avoided=neighbours.avoided(pod, affinities, disks),
        barred=neighbours.barred(pod, disks) if symmetric else {},
        loud=neighbours.loud(pod, disks) if affinities.quiet else {},
        sacrifices=affinities.sacrifices(),
    )
    waits = asked.missing or (tuple(_ahead(question)) if sequential else ())
    if waits:
        return Plan("REQUEUE", waits=waits)
    names = tuple(known(disks) if nodes is None else dict.fromkeys(nodes))
    return _answer(question, names, tries) if names else Plan("REJECTED")


def _own_reservation(pod: DiskPod, disks: Disks) -> str:
    """Return the name of the pod's reservation, "" where another namespace's pod has one of that name.

    Namespace ``a``, pod ``b-c`` and namespace ``a-b``, pod ``c`` would have the same.
    """
    name = f"{pod.namespace}-{pod.name}"
    taken = any(each.name == name and each.namespace != pod.namespace for each in disks.objects.reservations)
    return "" if taken else name


def known(disks: Disks) -> list[str]:
    """Return the names of all nodes, in order."""
    return sorted({*(node.name for node in disks.objects.nodes), *disks.capacities_on})


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


def _answer(question: Question, names: tuple[str, ...], tries: int) -> Plan:
    """Plan on the nodes *names*: all with all preferences, those that cannot with as few as possible given up."""
    asked = question.asked.requests
    every, budget = offer(names, question), Budget(tries)
    found = np.full((len(asked), len(names)), -1, dtype=np.int64)
    given_up: dict[int, tuple[str, ...]] = {}
    denied: dict[str, dict[str, str]] = {}
    given = every
    for some in question.sacrifices:
        if some == question.sacrifices[-1]:  # what preferences cost takes nothing from what must be found
            budget = replace(budget, tries=tries)
        weaker = question.without(some)
        left = given
        for rule in FILTERS:
            left = rule(left, weaker)
        chosen, left = fit(left, asked, budget)
        held = np.flatnonzero(left.alive)
        found[:, held] = chosen[:, held]
        given_up |= dict.fromkeys(held.tolist(), some)
        last = some == question.sacrifices[-1] or len(given_up) + len(every.reasons) == len(names)
        _deny(denied, left, given.alive if last else left.alive)
        if last:
            break
        given = replace(given, alive=given.alive & ~left.alive)
    failed = {names[node]: why for node, why in sorted(left.reasons.items()) if node not in given_up}
    return _told(question, every, found, given_up, denied, failed)


def _deny(denied: dict[str, dict[str, str]], left: Offer, nodes: Mask) -> None:
    """Write into *denied* what required rules removed on *nodes*, and why."""
    for each in left.removed:
        if each.told:
            at = left.place[each.capacities]
            shown = nodes[at]
            for node, number in zip(at[shown].tolist(), each.capacities[shown].tolist(), strict=True):
                name = left.columns.capacities[number].name
                denied.setdefault(left.names[node], {})[name] = each.why(number)


def _told(
    question: Question,
    given: Offer,
    found: Numbers,
    given_up: Mapping[int, tuple[str, ...]],
    denied: Mapping[str, Mapping[str, str]],
    failed: Mapping[str, str],
) -> Plan:
    names, columns = given.names, given.columns
    keys = [request.name for request in question.asked.requests]
    fitting = sorted(given_up)
    called = columns.names[found[:, fitting]].T.tolist()
    to_be = {}
    if question.affinities.automatic:
        free = columns.taint.where(lambda text: not text)
        ours = [node for node in fitting if "dedicated" not in given_up[node]]
        chosen = found[:, ours].T.ravel()
        to_be = dict.fromkeys(columns.names[chosen[free[chosen]]].tolist(), question.own)
    return Plan(
        status="RESERVED" if fitting else "REJECTED",
        plan={names[node]: dict(zip(keys, each, strict=True)) for node, each in zip(fitting, called, strict=True)},
        denied=denied,
        violated={names[node]: given_up[node] for node in fitting if given_up[node]},
        taint=to_be,
        scores=scores(
            {names[node]: len(given_up[node]) for node in fitting}, question.disks, len(question.sacrifices[-1])
        ),
        failed={name: f"No available capacity found on the node {name}: {why}" for name, why in failed.items()},
    )


def scores(violated: Mapping[str, int], disks: Disks, preferences: int) -> Mapping[str, int]:
    """Return a score 0 to 10 by node: fewer of the *preferences* *violated* first, then less of it consumed.

    Each number of violations has as many of the points, which are dealt by the rank of the consumed share: without
    preferences eleven nodes can be told apart.
    """
    width = (HIGHEST + 1) // (preferences + 1)
    shares = {node: _share(node, disks) for node in violated}
    ranks: dict[int, set[float]] = {}
    for node, count in violated.items():
        ranks.setdefault(count, set()).add(shares[node])
    ordered = {count: {share: i for i, share in enumerate(sorted(held))} for count, held in ranks.items()}
    found = {}
    for node, count in violated.items():
        alike = ordered[count]
        found[node] = HIGHEST - width * count - width * alike[shares[node]] // len(alike)
    return found


def _share(node: str, disks: Disks) -> float:
    consumed, free = disks.consumed.get(node, (0, 0))
    return consumed / (consumed + free) if consumed + free else 0.0
