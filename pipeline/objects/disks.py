"""Objects about disks to records: csi-baremetal's kinds, claims, storage classes, and what pods mount.

The driver's kinds encode their fields in CamelCase and leave zeros out, but for the ``storageClass`` of an
AvailableCapacity.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from pipeline import quantity
from pipeline.disk_records import (
    DRIVER,
    Capacity,
    CapacityRequest,
    Claim,
    CsiNode,
    DiskPod,
    Drive,
    Group,
    Reservation,
    Reserved,
    StorageClass,
    Volume,
)
from pipeline.errors import BadInput

GROUP: Final = "csi-baremetal.dell.com"
#: Where a node says how the driver knows it: a label or an annotation.
NODE_KEY: Final = "nodes.csi-baremetal.dell.com/uuid"

Record = Capacity | Reservation | Drive | Volume | Group | Claim | StorageClass | DiskPod | CsiNode


class _Object(msgspec.Struct, frozen=True, rename="camel"):
    """One object with its parts still as they came."""

    kind: str = ""
    metadata: dict[str, Any] | None = None
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
    provisioner: str | None = None
    parameters: dict[str, str] | None = None


def read(given: object) -> Record | None:
    """Read one decoded object; None for a kind that says nothing of disks.

    Raises `BadInput` naming the object and the field that cannot be read.
    """
    try:
        found = msgspec.convert(given, _Object)
    except msgspec.ValidationError as error:
        raise BadInput(f"{_called(given)}: {error}") from None
    reader = _READERS.get(found.kind)
    if reader is None:
        return None
    meta = found.metadata or {}
    what = f"{found.kind} {meta.get('name') or 'without a name'}"
    if not isinstance(meta.get("name"), str) or not meta["name"]:
        raise BadInput(f"{what}: metadata.name is missing")
    try:
        return reader(_Fields(what, meta), _Fields(what, found.spec or {}), found)
    except (TypeError, AttributeError) as error:
        raise BadInput(f"{what}: {error}") from None


def name_of(record: Record) -> str:
    """Return the name by which records of one kind and namespace are told apart."""
    return record.uuid if isinstance(record, Drive) else record.name


class _Fields:
    """The fields of one part of an object; every one may be missing or null."""

    def __init__(self, what: str, values: Mapping[str, Any]) -> None:
        self.what = what
        self.values = values

    def text(self, name: str) -> str:
        value = self.values.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise BadInput(f"{self.what}: {name} is no text")
        return value

    def bytes(self, name: str) -> int:
        value = self.values.get(name)
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int):
            raise BadInput(f"{self.what}: {name} is no whole number of bytes")
        return value

    def flag(self, name: str) -> bool:
        return self.values.get(name) is True

    def texts(self, name: str) -> tuple[str, ...]:
        values = self.values.get(name) or ()
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            if values:
                raise BadInput(f"{self.what}: {name} is no list of texts")
            return ()
        return tuple(values)

    def labels(self, name: str) -> Mapping[str, str]:
        values = self.values.get(name) or {}
        if not isinstance(values, Mapping):
            raise BadInput(f"{self.what}: {name} is no mapping")
        for key, value in values.items():
            if not isinstance(value, str):
                raise BadInput(f"{self.what}: {name}: {key} is no text; put it in quotes")
        return values

    def part(self, name: str) -> "_Fields":
        values = self.values.get(name) or {}
        if not isinstance(values, Mapping):
            raise BadInput(f"{self.what}: {name} is no object")
        return _Fields(f"{self.what}: {name}", values)

    def parts(self, name: str) -> "list[_Fields]":
        values = self.values.get(name) or []
        if not isinstance(values, list) or not all(isinstance(value, Mapping) for value in values):
            raise BadInput(f"{self.what}: {name} is no list of objects")
        return [_Fields(f"{self.what}: {name}[{i}]", value) for i, value in enumerate(values)]


def _capacity(meta: _Fields, spec: _Fields, whole: _Object) -> Capacity:
    return Capacity(
        name=meta.text("name"),
        csi_node=spec.text("NodeId"),
        location=spec.text("Location"),
        storage_class=(spec.text("storageClass") or spec.text("StorageClass")).upper(),
        size=spec.bytes("Size"),
        labels=meta.labels("labels"),
        annotations=meta.labels("annotations"),
    )


def _reservation(meta: _Fields, spec: _Fields, whole: _Object) -> Reservation:
    nodes = spec.part("NodeRequests")
    requests = []
    for each in spec.parts("ReservationRequests"):
        asked = each.part("CapacityRequest")
        request = CapacityRequest(
            asked.text("Name"), asked.text("StorageClass").upper(), asked.bytes("Size"), asked.text("StorageGroup")
        )
        requests.append(Reserved(request, each.texts("Reservations")))
    return Reservation(
        meta.text("name"),
        spec.text("Namespace"),
        spec.text("Status"),
        nodes.texts("Requested"),
        nodes.texts("Reserved"),
        tuple(requests),
    )


def _drive(meta: _Fields, spec: _Fields, whole: _Object) -> Drive:
    return Drive(
        uuid=spec.text("UUID") or meta.text("name"),
        csi_node=spec.text("NodeId"),
        type=spec.text("Type"),
        size=spec.bytes("Size"),
        path=spec.text("Path"),
        health=spec.text("Health"),
        status=spec.text("Status"),
        usage=spec.text("Usage"),
        system=spec.flag("IsSystem"),
    )


def _volume(meta: _Fields, spec: _Fields, whole: _Object) -> Volume:
    return Volume(
        name=meta.text("name"),
        namespace=meta.text("namespace") or "default",
        csi_node=spec.text("NodeId"),
        location=spec.text("Location"),
        storage_class=spec.text("StorageClass").upper(),
        size=spec.bytes("Size"),
        owners=spec.texts("Owners"),
    )


def _group(meta: _Fields, spec: _Fields, whole: _Object) -> Group:
    name = spec.text("Name") or meta.text("name")
    return Group(name, spec.text("Node"), spec.texts("Locations"), spec.bytes("Size"))


def _claim(meta: _Fields, spec: _Fields, whole: _Object) -> Claim:
    return _claimed(meta, spec, meta.text("name"), meta.text("namespace") or "default", whole.status or {})


def _claimed(meta: _Fields, spec: _Fields, name: str, namespace: str, status: Mapping[str, Any]) -> Claim:
    field = f"{spec.what}: resources.requests.storage"
    storage = spec.part("resources").part("requests").values.get("storage")
    stated = spec.values.get("storageClassName")
    return Claim(
        name=name,
        namespace=namespace,
        storage_class=stated if stated is None else spec.text("storageClassName"),
        size=0 if storage is None else round(quantity.parse(field, storage)),
        phase=str(status.get("phase") or ""),
        volume=spec.text("volumeName"),
        labels=meta.labels("labels"),
    )


def _storage_class(meta: _Fields, spec: _Fields, whole: _Object) -> StorageClass:
    return StorageClass(meta.text("name"), whole.provisioner or "", (whole.parameters or {}).get("storageType", ""))


def _pod(meta: _Fields, spec: _Fields, whole: _Object) -> DiskPod:
    name, namespace = meta.text("name"), meta.text("namespace") or "default"
    claims: list[str] = []
    templates: list[Claim] = []
    for volume in spec.parts("volumes"):
        claim = volume.part("persistentVolumeClaim").text("claimName")
        if claim:
            claims.append(claim)
        template = volume.part("ephemeral").part("volumeClaimTemplate")
        if template.values:
            called = f"{name}-{volume.text('name')}"
            claims.append(called)
            templates.append(_claimed(template.part("metadata"), template.part("spec"), called, namespace, {}))
    return DiskPod(
        name=name,
        namespace=namespace,
        labels=meta.labels("labels"),
        annotations=meta.labels("annotations"),
        claims=tuple(dict.fromkeys(claims)),
        templates=tuple(templates),
        node=spec.text("nodeName"),
        uid=meta.text("uid"),
        phase=str((whole.status or {}).get("phase") or ""),
    )


def _node(meta: _Fields, spec: _Fields, whole: _Object) -> CsiNode:
    name = meta.text("name")
    stated = meta.labels("labels").get(NODE_KEY) or meta.labels("annotations").get(NODE_KEY)
    return CsiNode(name, stated or "", meta.text("uid"))


def _csi_node(meta: _Fields, spec: _Fields, whole: _Object) -> CsiNode:
    known = (each.text("nodeID") for each in spec.parts("drivers") if each.text("name") == DRIVER)
    return CsiNode(meta.text("name"), next(known, ""))


_READERS: Mapping[str, Callable[[_Fields, _Fields, _Object], Record]] = {
    "AvailableCapacity": _capacity,
    "AvailableCapacityReservation": _reservation,
    "Drive": _drive,
    "Volume": _volume,
    "LogicalVolumeGroup": _group,
    "PersistentVolumeClaim": _claim,
    "StorageClass": _storage_class,
    "Pod": _pod,
    "Node": _node,
    "CSINode": _csi_node,
}


def _called(given: object) -> str:
    if not isinstance(given, Mapping):
        return f"a {type(given).__name__} where a Kubernetes object should be"
    meta = given.get("metadata")
    return f"{given.get('kind') or 'object'} {meta.get('name') if isinstance(meta, Mapping) else 'without a name'}"
