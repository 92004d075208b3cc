"""The action on one pod specification: what its containers request, where it may run; all of it or nothing."""

import copy
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, Final

from rules.hpa import amounts
from rules.hpa.errors import Contradiction
from rules.hpa.needs import Needs

_REQUESTS: Final = "requests"
_LIMITS: Final = "limits"


def check(spec: Mapping[str, Any], needs: Needs, what: str) -> None:
    """Raise `Contradiction` where *needs* cannot be written into the pod *spec* of *what*."""
    names = [str(each.get("name")) for each in containers(spec)]
    for name in needs.containers:
        if name not in names:
            initial = any(each.get("name") == name for each in spec.get("initContainers") or ())
            why = f"{name!r} only initialises the pod" if initial else f"no container {name!r}"
            raise Contradiction(f"{what}: {why}; there are {', '.join(names) or 'none'}")
    for each in containers(spec):
        for resource, (least, most) in needs.containers.get(str(each.get("name")), {}).items():
            _check_bounds(each, resource, least, most, what)
    standing = spec.get("nodeSelector") or {}
    for key, value in needs.labels.items():
        if key in standing and standing[key] != value:
            raise Contradiction(f"{what}: nodeSelector {key} is {standing[key]!r} and has to be {value!r}")
        if not _admitted(spec, key, value):
            raise Contradiction(f"{what}: its required node affinity forbids {key}={value}")


def _check_bounds(container: Mapping[str, Any], resource: str, least: int, most: int | None, what: str) -> None:
    if most is not None:
        return
    limit = ((container.get("resources") or {}).get(_LIMITS) or {}).get(resource)
    where = f"{what}: container {container.get('name')}: resources.limits.{resource}"
    if limit is not None and amounts.stated(resource, limit, where) < least:
        raise Contradiction(f"{where} {limit} is less than the request of {amounts.text(resource, least)}")


def apply(spec: MutableMapping[str, Any], needs: Needs, text: Callable[[str], str] = str) -> None:
    """Write *needs* into the pod *spec*, which `check` found possible; amounts that stand already are left alone.

    Node labels go into the nodeSelector, and what else is there stays as it is. A second time changes nothing. *text*
    makes the values that are written.
    """
    listed = own(spec, "containers") if needs.containers else []
    for number, each in enumerate(listed):
        wanted = needs.containers.get(str(each.get("name"))) if isinstance(each, Mapping) else None
        if not wanted:
            continue
        resources = own(own(listed, number), "resources")
        for side in (_REQUESTS, _LIMITS):
            _set(resources, side, wanted, f"container {each.get('name')}", text)
    if needs.labels:
        selector = own(spec, "nodeSelector")
        for key, value in needs.labels.items():
            if selector.get(key) != value:
                selector[key] = text(value)


def own(parent: Any, key: Any) -> Any:
    """Give *parent* a mapping or list of its own at *key* and return it.

    What stands there may be shared: aliases of YAML stand for one object in several places. Where nothing stands, a
    mapping is begun.
    """
    there = parent.get(key) if isinstance(parent, Mapping) else parent[key]
    parent[key] = found = {} if there is None else copy.copy(there)
    return found


def containers(spec: Mapping[str, Any]) -> Iterator[MutableMapping[str, Any]]:
    """Yield the containers of a pod *spec*, but for those that initialise it."""
    found = spec.get("containers")
    yield from (each for each in found if isinstance(each, MutableMapping)) if isinstance(found, list) else ()


def _set(
    resources: MutableMapping[str, Any],
    side: str,
    wanted: Mapping[str, tuple[int, int | None]],
    container: str,
    text: Callable[[str], str],
) -> None:
    both = {name: least if side == _REQUESTS else most for name, (least, most) in wanted.items()}
    asked = {name: counted for name, counted in both.items() if counted is not None}
    if not asked:
        return
    standing = own(resources, side)
    for name, counted in asked.items():
        where = f"{container}: resources.{side}.{name}"
        if name not in standing or amounts.stated(name, standing[name], where) != counted:
            standing[name] = text(amounts.text(name, counted))


def _admitted(spec: Mapping[str, Any], key: str, value: str) -> bool:
    """Whether some required node term lets the pod onto nodes that carry the label."""
    node = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    terms = required.get("nodeSelectorTerms") or []
    return any(all(_holds(each, value) for each in _about(term, key)) for term in terms)


def _about(term: Mapping[str, Any] | None, key: str) -> Iterator[Mapping[str, Any]]:
    return (each for each in (term or {}).get("matchExpressions") or [] if each.get("key") == key)


def _holds(expression: Mapping[str, Any], value: str) -> bool:
    values = expression.get("values") or []
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "DoesNotExist":
            return False
        case _:
            return True


def warnings(spec: Mapping[str, Any], needs: Needs, what: str) -> Iterator[str]:
    """Yield what is to be said of a changed pod *spec*: its class of service, exclusive cores, huge pages."""
    guaranteed = _guaranteed(spec)
    for each in containers(spec):
        name = str(each.get("name"))
        wanted = needs.containers.get(name, {})
        if any(resource.startswith("hugepages-") for resource in wanted) and not (
            stated(each, _REQUESTS).keys() & {"cpu", "memory"}
        ):
            yield f"{what}: container {name}: huge pages need a request of cpu or memory in the same container"
        least, most = wanted.get("cpu", (0, None))
        if not least or least != most or least % 1000:
            continue
        if not guaranteed:
            yield (
                f"{what}: container {name}: exclusive cores not granted: the pod is not of class Guaranteed, which "
                "needs equal requests and limits of cpu and memory in every container"
            )
    if guaranteed and needs.containers:
        shared = [
            str(each.get("name")) for each in containers(spec)
            if needs.containers.get(str(each.get("name")), {}).get("cpu", (0, None))[0] % 1000
        ]  # fmt: skip
        for name in shared:
            yield f"{what}: container {name}: cpu is no whole number: Guaranteed, but from the shared pool of cores"


def exclusive(spec: Mapping[str, Any], container: str) -> bool:
    """Whether a kubelet that pins cores (CPU manager, static policy) would give *container* cores of its own."""
    for each in containers(spec):
        if each.get("name") == container:
            cpu = stated(each, _REQUESTS).get("cpu", 0)
            return _guaranteed(spec) and cpu > 0 and cpu % 1000 == 0
    return False


def _guaranteed(spec: Mapping[str, Any]) -> bool:
    """https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/: equal cpu and memory in every container."""
    every = [*containers(spec), *(each for each in spec.get("initContainers") or [] if isinstance(each, Mapping))]
    return bool(every) and all(_bounded(each) for each in every)


def _bounded(container: Mapping[str, Any]) -> bool:
    limits = stated(container, _LIMITS)
    requests = {**limits, **stated(container, _REQUESTS)}
    return all(limits.get(name, 0) > 0 and requests[name] == limits[name] for name in ("cpu", "memory"))


def stated(container: Mapping[str, Any], side: str) -> dict[str, int]:
    """Return what a container states on one *side*, ``requests`` or ``limits``."""
    given = (container.get("resources") or {}).get(side) or {}
    return {
        name: amounts.stated(name, amount, f"container {container.get('name')}: resources.{side}.{name}")
        for name, amount in given.items()
        if amount is not None
    }
