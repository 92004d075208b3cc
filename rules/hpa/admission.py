"""The action on one pod as it is created: whose consumer it is, and what the stored intents make of it."""

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from rules.affinity.own import own
from rules.affinity.patch import json_patch
from rules.affinity.selector import selector_mask
from rules.affinity.usable import usable
from rules.candidates import Mask
from rules.hpa import pods
from rules.hpa.errors import Contradiction
from rules.hpa.model import NAMESPACE, Consumer, Intents
from rules.hpa.needs import Needs, Stated, needs, workload
from rules.hpa.scoring import subsets
from rules.policy import Policy
from rules.request import Asked, Request
from rules.running import counted, units
from rules.view import View

#: What a Deployment adds to its ReplicaSet's name, and a CronJob to its Job's.
_HASH: Final = re.compile(r"(.+)-[bcdfghjklmnpqrstvwxz2456789]{5,10}")
_TIME: Final = re.compile(r"(.+)-[0-9]{6,}")
_HASH_LABEL: Final = "pod-template-hash"


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """The consumers that pods of one cluster may be, by namespace, kind and name; *version* tells two apart."""

    consumers: tuple[Consumer, ...] = ()
    version: int = 0
    by_object: Mapping[tuple[str, str, str], tuple[int, ...]] = field(default_factory=dict)

    def matching(
        self,
        namespace: str,
        name: str,
        owner: tuple[str, str],
        labels: Mapping[str, str],
        containers: Iterable[str | None],
    ) -> tuple[int, ...]:
        """Return the numbers of the consumers that a pod is, by its top *owner* (kind, name) and its *containers*."""
        if not self.consumers:
            return ()
        for kind, object_ in tops(owner, name, labels):
            found = self.by_object.get((namespace, kind, object_))
            if found:
                names = set(containers)
                return tuple(n for n in found if not (one := self.consumers[n].container) or one in names)
        return ()


def index(intents: Intents, cluster: str, version: int) -> Index:
    """Index the consumers of those groups that may go to *cluster*."""
    consumers = [
        each
        for each in intents.consumers
        if (named := intents.groups[intents.group_of(each)].clusters) is None or cluster in named
    ]
    found: dict[tuple[str, str, str], list[int]] = {}
    for number, each in enumerate(consumers):
        if each.requirements:
            found.setdefault((each.namespace or NAMESPACE, each.kind, each.object), []).append(number)
    return Index(tuple(consumers), version, {key: tuple(numbers) for key, numbers in found.items()})


def tops(owner: tuple[str, str], name: str, labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what may stand at the top of a pod's owners, the surest first."""
    kind, owned_by = owner
    if not kind:
        yield "Pod", name
        return
    if kind == "ReplicaSet" and (stamp := labels.get(_HASH_LABEL)) and owned_by.endswith(f"-{stamp}"):
        yield "Deployment", owned_by.removesuffix(f"-{stamp}")
    yield kind, owned_by
    pattern = {"ReplicaSet": _HASH, "Job": _TIME}.get(kind)
    found = pattern.fullmatch(owned_by) if pattern else None
    if found:
        yield {"ReplicaSet": "Deployment", "Job": "CronJob"}[kind], found[1]


def ask(
    request: Request, consumers: Sequence[Consumer], view: View, policy: Policy
) -> tuple[Asked, Mapping[str, Any]]:
    """Return what *consumers* ask of the pod of *request*, and the pod as it becomes.

    A conflict leaves the pod as it is. Wishes are granted where some node that the pod may use has them free.
    """
    first = consumers[0]
    apps = ", ".join(sorted({each.app for each in consumers}))
    load = workload(apps, first.kind, first.namespace, first.object, consumers)
    names = tuple(sorted({f"{each.where}/{each.name}" for each in consumers}))
    what = f"{first.kind} {first.object}"
    pod = copy.deepcopy(dict(request.pod))
    try:
        granted = _granted(request, load.mandatory, load.optional, view, policy)
        wanted = needs((*load.mandatory, *granted))
        spec = pod.setdefault("spec", {})
        pods.check(spec, wanted, what)
    except Contradiction as error:
        return Asked(names, conflict=str(error)), request.pod
    pods.apply(spec, wanted)
    return (
        Asked(
            consumers=names,
            wanted=tuple(str(requirement) for _, requirement in (*load.mandatory, *granted)),
            amounts=wanted.total(),
            labels=wanted.labels,
            withheld=tuple(str(each[1]) for each in load.optional if each not in granted),
            warnings=tuple(pods.warnings(spec, wanted, what)),
            operations=tuple(_operations(request.pod.get("spec") or {}, spec)),
        ),
        pod,
    )


def _operations(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the patch of what the action changes, container by container."""
    for number, (old, new) in enumerate(zip(before.get("containers") or (), after["containers"], strict=True)):
        yield from json_patch(_only(old, "resources"), _only(new, "resources"), f"/spec/containers/{number}")
    yield from json_patch(_only(before, "nodeSelector"), _only(after, "nodeSelector"), "/spec")


def _only(given: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {key: given[key]} if key in given else {}


def _granted(
    request: Request, mandatory: Sequence[Stated], optional: Sequence[Stated], view: View, policy: Policy
) -> tuple[Stated, ...]:
    """Return the heaviest wishes that one node which the pod may use has free beside what it needs."""
    if not optional:
        return ()
    nodes = view.nodes
    open_: Mask = np.ones(len(nodes), dtype=np.bool_)
    for advice in (usable(request, view, policy), own(request, view, policy)):
        if advice.candidates is not None:
            open_ &= advice.candidates.mask()

    def there(bits: int) -> bool:
        chosen = [stated for number, stated in enumerate(optional) if bits >> number & 1]
        try:
            wanted = needs((*mandatory, *chosen))
            pods.check(request.spec, wanted, "")
        except Contradiction:
            return False
        mask = open_ & selector_mask(nodes, wanted.labels)
        for resource, amount in _asked(request, wanted).items():
            free = nodes.free.get(resource)
            if free is None and resource == "pods":
                continue
            if free is None:
                return False
            mask &= counted(resource, free) >= amount - 1e-6
        return bool(mask.any())

    possible = sum(1 << number for number in range(len(optional)) if there(1 << number))
    for bits in subsets(possible, [requirement.weight for _, requirement in optional]):
        if there(bits):
            return tuple(stated for number, stated in enumerate(optional) if bits >> number & 1)
    return ()


def _asked(request: Request, wanted: Needs) -> dict[str, float]:
    """Return what the scheduler would count for the pod once *wanted* stands in it."""
    total = {name: units(name, amount) for name, amount in request.requests.items()}
    for container in pods.containers(request.spec):
        standing = {**pods.stated(container, "limits"), **pods.stated(container, "requests")}
        for resource, (least, _) in wanted.containers.get(str(container.get("name")), {}).items():
            total[resource] = total.get(resource, 0.0) + least - standing.get(resource, 0)
    return total
