"""The bodies of the intent API: their fields, the published spellings of them, and what is wrong with one.

A body is read in two steps: of a wrong JSON type is `Undecodable`; of the right type but not allowed is `BadInput`.
What comes out has one spelling and keeps the values as they were given.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from pipeline.errors import BadInput
from rules.hpa import amounts
from rules.hpa.errors import Undecodable
from rules.hpa.wire import (
    NAME_PATTERN,
    REPLICAS,
    CompositeApp,
    Consumer,
    Group,
    Intent,
    IntentSpec,
    Metadata,
    Object,
    Parent,
    Placement,
    Requirement,
    RequirementSpec,
)
from rules.labels import legal_key, legal_value

Body = dict[str, Any]
T = TypeVar("T", bound=Struct)

_NAME: Final = re.compile(NAME_PATTERN[1:-1])
_LONGEST: Final = {"name": 128, "description": 1024, "userData1": 512, "userData2": 512}
_WEIGHTS: Final = range(1, 11)

#: Fields of a document around the body: where it belongs, and what other versions of the interface say there.
_AROUND: Final = frozenset({"path", "resourceContext", "version", "apiVersion", "kind", "file"})


def parent(given: object) -> Body:
    """Read a project, an application or a cluster."""
    body = _body(given)
    _converted(body, Parent, "")
    return _whole(body, body.get("spec"))


def composite_app(given: object) -> Body:
    """Read a composite application."""
    body = _body(given)
    spec = _renamed(_part(body, "spec"), "spec", {"version": "compositeAppVersion"})
    read = _converted({**body, "spec": spec}, CompositeApp, "")
    _named(read.spec.version, "spec.compositeAppVersion")
    return _whole(body, spec)


def group(given: object) -> Body:
    """Read a deployment intent group."""
    body = _body(given)
    _unknown(_part(_part(body, "spec"), "placement", "spec.placement"), "spec.placement", Placement)
    read = _converted(body, Group, "")
    placement = read.spec.placement if read.spec else None
    if placement is not None:
        if (placement.any_of is None) == (placement.all_of is None):
            raise BadInput("spec.placement: needs either anyOf or allOf")
        for field, clusters in (("anyOf", placement.any_of), ("allOf", placement.all_of)):
            if clusters is not None and (not clusters or not all(clusters)):
                raise BadInput(f"spec.placement.{field}: needs at least one cluster, each with a name")
            if clusters is not None and len(set(clusters)) < len(clusters):
                raise BadInput(f"spec.placement.{field}: names a cluster twice")
    return _whole(body, body.get("spec"))


def intent(given: object) -> Body:
    """Read an intent; what was embedded by an earlier GET may only be empty."""
    body = _body(given)
    spec = _renamed(_part(body, "spec"), "spec", {"app": "appName", "app-name": "appName"})
    if spec.pop("resourceConsumers", None):
        raise BadInput("spec.resourceConsumers: each consumer is posted under the intent")
    _unknown(spec, "spec", IntentSpec)
    read = _converted({**body, "spec": spec}, Intent, "")
    _named(read.spec.app_name, "spec.appName")
    return _whole(body, spec)


_CONTAINER: Final = {"container": "container-name", "containerName": "container-name", "api-version": "apiVersion"}


def consumer(given: object) -> Body:
    """Read a resource consumer."""
    body = _body(given)
    spec = _part(body, "spec")
    inner = _part(spec, "consumer", "spec.consumer")
    flat = {key: value for key, value in spec.items() if key != "consumer"}
    where = "spec.consumer" if inner or not flat else "spec"
    target = _merged(_renamed(inner, "spec.consumer", _CONTAINER), _renamed(flat, "spec", _CONTAINER))
    target = {key: value for key, value in target.items() if value is not None}
    _unknown(target, where, Object)
    read = _converted({**body, "spec": {"consumer": target}}, Consumer, "").spec.consumer
    texts = {"name": read.name, "kind": read.kind, "apiVersion": read.api_version}
    texts |= {"container-name": read.container, "namespace": read.namespace}
    for field, value in texts.items():
        if value is not None and (not value or len(value) > 253):
            raise BadInput(f"{where}.{field}: needs 1 to 253 characters")
    if read.replicas is not None and not 1 <= read.replicas <= REPLICAS:
        raise BadInput(f"{where}.replicas: {read.replicas} is less than 1 or more than {REPLICAS}")
    return _whole(body, {"consumer": target})


def requirement(given: object) -> Body:
    """Read a resource requirement."""
    body = _body(given)
    spec = _part(body, "spec")
    nested = _part(spec, "resource", "spec.resource")
    if "resource" in spec:
        spec = _merged(nested, {key: value for key, value in spec.items() if key != "resource"})
    spec = {key: value for key, value in spec.items() if value is not None}
    _unknown({key: value for key, value in spec.items() if key != "key"}, "spec", RequirementSpec)
    if spec.get("allocatable") is True and "key" in spec:
        raise BadInput("spec.key: not of an allocatable resource, whose name is name")
    spec = _renamed(spec, "spec", {"key": "name"})
    read = _converted({**body, "spec": spec}, Requirement, "").spec
    if read.weight is not None and read.weight not in _WEIGHTS:
        raise BadInput(f"spec.weight: {read.weight} is not from 1 to 10")
    if read.allocatable:
        _allocatable(read)
    else:
        _label(read)
    return _whole(body, spec)


def _allocatable(read: RequirementSpec) -> None:
    if read.value is not None:
        raise BadInput("spec.value: not of an allocatable resource")
    if not _allocatable_name(read.name):
        raise BadInput(f"spec.name: {read.name!r} is no resource of a container, such as cpu or nvidia.com/gpu")
    page = amounts.huge_page(read.name)
    if read.requests is None and read.limits is None:
        raise BadInput("spec.requests: missing, and so is limits")
    amounts.unit(read.name, read.units)
    found = {
        field: amounts.amount(read.name, given, read.units, f"spec.{field}")
        for field, given in (("requests", read.requests), ("limits", read.limits))
        if given is not None
    }
    least, most = found.get("requests"), found.get("limits")
    if page and any(counted % page for counted in found.values()):
        raise BadInput(f"spec.{next(iter(found))}: no whole number of pages of {read.name}")
    if least is None or most is None:
        return
    if least > most:
        raise BadInput(f"spec.requests: {read.requests} is more than limits {read.limits}")
    if least != most and amounts.mirrored(read.name):
        raise BadInput(f"spec.limits: {read.limits} has to equal requests {read.requests} for {read.name}")


def _allocatable_name(name: str) -> bool:
    if "/" in name:
        domain = name.partition("/")[0]
        native = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
        return legal_key(name) and not native and not name.startswith("requests.")
    return name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-")


def _label(read: RequirementSpec) -> None:
    for field in ("requests", "limits", "units"):
        if getattr(read, field) is not None:
            raise BadInput(f"spec.{field}: only of an allocatable resource")
    if read.value is None:
        raise BadInput("spec.value: missing")
    if not legal_key(read.name):
        raise BadInput(f"spec.name: {read.name!r} is no key of a label")
    if not legal_value(read.value):
        raise BadInput(f"spec.value: {read.value!r} is no value of a label")


def _body(given: object) -> Body:
    """Check what all bodies have in common: an object of metadata and spec."""
    if given is None:
        raise BadInput("body: empty")
    if not isinstance(given, Mapping):
        raise Undecodable("body: expected one object")
    body = {str(key): value for key, value in given.items() if key not in _AROUND}
    for key in body:
        if key not in ("metadata", "spec"):
            raise BadInput(f"{key}: no such field; there are metadata and spec")
    if body.get("metadata") is None:
        raise BadInput("metadata: missing")
    metadata = _part(body, "metadata")
    _unknown(metadata, "metadata", Metadata)
    read = _converted({key: value for key, value in metadata.items() if value is not None}, Metadata, "metadata")
    _named(read.name, "metadata.name")
    for field, value in (
        ("description", read.description), ("userData1", read.user_data1), ("userData2", read.user_data2)
    ):  # fmt: skip
        if value is not None and len(value) > _LONGEST[field]:
            raise BadInput(f"metadata.{field}: longer than {_LONGEST[field]} characters")
    return body | {"metadata": msgspec.to_builtins(read)}


def _named(name: str, field: str) -> None:
    if len(name) > _LONGEST["name"]:
        raise BadInput(f"{field}: longer than {_LONGEST['name']} characters")
    if _NAME.fullmatch(name) is None:
        raise BadInput(f"{field}: {name!r} has to begin and end with a letter or digit, with only - _ . between")


def _part(given: Mapping[str, Any], key: str, where: str = "") -> Body:
    value = given.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Undecodable(f"{where or key}: expected an object")
    return {str(name): item for name, item in value.items()}


def _renamed(given: Body, where: str, spellings: Mapping[str, str]) -> Body:
    """Bring every field to its one spelling; raises `BadInput` where two spellings of a field differ."""
    found: Body = {}
    for key, value in given.items():
        name = spellings.get(key, key)
        if name in found and found[name] != value:
            raise BadInput(f"{where}.{key}: differs from {name}, which it is another spelling of")
        found[name] = value
    return found


def _merged(inner: Body, outer: Body) -> Body:
    """Put what stands in the spec itself beside what stands one level deeper."""
    for key, value in outer.items():
        if key in inner and inner[key] != value:
            raise BadInput(f"spec.{key}: given twice, with different values")
    return {**outer, **inner}


def _unknown(given: Iterable[str], where: str, kind: type[Struct]) -> None:
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    for key in given:
        if key not in known:
            raise BadInput(f"{where}.{key}: no such field; there are {', '.join(known)}")


def _converted(given: object, kind: type[T], where: str) -> T:
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        path = (where + path.rstrip("`")).lstrip(".")
        if (missing := re.fullmatch(r"Object missing required field `(.+)`", message)) is not None:
            raise BadInput(f"{'.'.join(filter(None, (path, missing[1])))}: missing") from None
        raise Undecodable(f"{path or 'body'}: {message[:1].lower()}{message[1:]}") from None


def _whole(body: Body, spec: Any) -> Body:
    found = {"metadata": body["metadata"]}
    if spec is not None:
        found["spec"] = spec
    return found


Read = Callable[[object], Body]
