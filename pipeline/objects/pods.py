"""Pods: what the scheduler counts for one, who owns it, and when it lived."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from pipeline.errors import BadInput
from pipeline.objects import selections, wire
from pipeline.records import Pod

#: ``Pod.created`` of a pod that does not exist yet: a manifest, or one under admission.
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_DECODER = msgspec.json.Decoder(wire.WirePod)
_NO_RESOURCES = wire.Resources()


def pod(raw: bytes | msgspec.Raw) -> Pod:
    """Read one pod of a list, a watch event or an admission request."""
    return _record(wire.decode(_DECODER, "pod", raw))


def pod_of(mapping: Mapping[str, Any]) -> Pod:
    """Read one pod that is decoded already, as from YAML."""
    return _record(wire.convert(wire.WirePod, "pod", mapping))


def _record(given: wire.WirePod) -> Pod:
    meta = given.metadata or wire.Meta()
    spec = given.spec or wire.PodSpec()
    status = given.status or wire.PodStatus()
    namespace, name = meta.namespace or "", meta.name or meta.generate_name or ""
    try:
        requests = _requests(spec)
        limits = _limits(spec)
    except BadInput as error:
        raise BadInput(f"pod {namespace}/{name}: {error}") from None
    phase = status.phase or "Pending"
    owner = _controller(meta.owner_references)
    labels = meta.labels or {}
    beside, apart = selections.of_affinity(spec.affinity, namespace, labels)
    return Pod(
        namespace=namespace,
        name=name,
        uid=meta.uid or "",
        node=spec.node_name or "",
        phase=phase,
        labels=labels,
        annotations=meta.annotations or {},
        requests=requests,
        limits=limits,
        created=wire.utc(meta.creation_timestamp) or EPOCH,
        started=wire.utc(status.start_time),
        ended=_ended(status) if phase in ("Succeeded", "Failed") else None,
        owner_kind=owner.kind or "",
        owner_name=owner.name or "",
        tolerations=tuple(spec.tolerations or ()),
        priority=spec.priority or 0,
        beside=beside,
        apart=apart,
        spread=tuple(selections.spread(spec.topology_spread_constraints or (), labels)),
    )


def _controller(owners: list[wire.Owner] | None) -> wire.Owner:
    """The owner that manages the pod, else the first one (old pods do not mark it)."""
    for owner in owners or ():
        if owner.controller:
            return owner
    return owners[0] if owners else wire.Owner()


def _ended(status: wire.PodStatus) -> datetime | None:
    """When the last container finished; of a pod that never ran one (evicted), its last change of condition."""
    finished = [
        each.state.terminated.finished_at
        for each in status.container_statuses or ()
        if each.state and each.state.terminated and each.state.terminated.finished_at
    ]
    changes = [each.last_transition_time for each in status.conditions or () if each.last_transition_time]
    return wire.utc(max(finished or changes, default=None))


def _requests(spec: wire.PodSpec) -> dict[str, float]:
    """What the scheduler counts; a container's limit stands for a request that it does not make."""
    own = (spec.resources or _NO_RESOURCES).requests
    total = _total(spec, _container_requests)
    if own:
        total.update(wire.amounts("spec.resources.requests", own))
    return _add(total, wire.amounts("spec.overhead", spec.overhead))


def _limits(spec: wire.PodSpec) -> dict[str, float]:
    """The pod's limits, a resource that some container may use without limit left out."""
    each = [_container_limits("spec.containers", one) for one in spec.containers or ()]
    bounded = set.intersection(*(set(one) for one in each)) if each else set()
    total = {name: amount for name, amount in _total(spec, _container_limits).items() if name in bounded}
    total.update(wire.amounts("spec.resources.limits", (spec.resources or _NO_RESOURCES).limits))
    overhead = wire.amounts("spec.overhead", spec.overhead)
    return _add(total, {name: amount for name, amount in overhead.items() if name in total})


def _container_requests(where: str, container: wire.Container) -> dict[str, float]:
    given = container.resources
    if given is None:
        return {}
    field = f"{where}[{container.name}].resources"
    return {**wire.amounts(f"{field}.limits", given.limits), **wire.amounts(f"{field}.requests", given.requests)}


def _container_limits(where: str, container: wire.Container) -> dict[str, float]:
    if container.resources is None:
        return {}
    return wire.amounts(f"{where}[{container.name}].resources.limits", container.resources.limits)


def _total(spec: wire.PodSpec, needs: Callable[[str, wire.Container], dict[str, float]]) -> dict[str, float]:
    """Containers and sidecars together, or the largest step of the initialisation, resource by resource.

    A sidecar is an init container with restartPolicy Always: it runs on from its turn, so a later init container
    runs beside it (Kubernetes enhancement 753).
    """
    running: dict[str, float] = {}
    for container in spec.containers or ():
        _add(running, needs("spec.containers", container))
    if not spec.init_containers:
        return running
    sidecars: dict[str, float] = {}
    peak: dict[str, float] = {}
    for container in spec.init_containers:
        own = needs("spec.initContainers", container)
        if container.restart_policy == "Always":
            _add(sidecars, own)
            step = sidecars
        else:
            step = _add(dict(own), sidecars)
        for name, amount in step.items():
            peak[name] = max(peak.get(name, 0.0), amount)
    _add(running, sidecars)
    for name, amount in peak.items():
        running[name] = max(running.get(name, 0.0), amount)
    return running


def _add(total: dict[str, float], more: Mapping[str, float]) -> dict[str, float]:
    for name, amount in more.items():
        total[name] = total.get(name, 0.0) + amount
    return total
