"""Objects about disks as the API server gives them, in the terms of the worked cases, and their plan."""

from collections.abc import Iterable, Mapping
from typing import Any

from jobs.disks.layout import lay_out_of
from pipeline.disk_records import DiskPod
from pipeline.objects import disks as wire
from rules.disks import plan as planning
from rules.disks.annotations import ANTI_LABELS, ANTI_TYPES, DEDICATED, TOLERATIONS, TYPES
from rules.disks.taints import NO_SCHEDULE, TAINT

GIB = 2**30
ANNOTATIONS = {"TYPES": TYPES, "DED": DEDICATED, "TOL": TOLERATIONS, "ATYPES": ANTI_TYPES, "ALABELS": ANTI_LABELS}
API = "csi-baremetal.dell.com/v1"
Object = dict[str, Any]


def capacity(
    name: str,
    storage_class: str,
    gib: float,
    *,
    node: str = "n1",
    taint: str = "",
    manual: str = "",
    no_schedule: bool = False,
    group: str = "",
) -> Object:
    """``ac-X`` on drive X; *taint* is an automatic one, in its annotation."""
    metadata: Object = {"name": name, "labels": {}, "annotations": {}}
    if manual:
        metadata["labels"][TAINT] = manual
    if taint:
        metadata["annotations"][TAINT] = taint
    if no_schedule:
        metadata["labels"][NO_SCHEDULE] = "NoSchedule"
    if group:
        metadata["labels"]["drive.csi-baremetal.dell.com/storage-group"] = group
    spec = {"Location": name.removeprefix("ac-"), "NodeId": node, "storageClass": storage_class}
    if gib:
        spec["Size"] = round(gib * GIB)
    return {"apiVersion": API, "kind": "AvailableCapacity", "metadata": metadata, "spec": spec}


def storage_classes() -> list[Object]:
    """One class for each media type, named like it in small letters, and one of another driver."""
    own = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": "csi-baremetal",
            "parameters": {"storageType": name.upper()},
        }
        for name in ("hddlvg", "ssdlvg", "nvmelvg", "syslvg", "hdd", "ssd", "nvme", "any")
    ]
    return [*own, {"kind": "StorageClass", "metadata": {"name": "other"}, "provisioner": "example.com/other"}]


def claim(
    name: str, storage_class: str, gib: float, *, namespace: str = "default", volume: str = "", group: str = ""
) -> Object:
    spec: Object = {
        "storageClassName": storage_class.lower(),
        "resources": {"requests": {"storage": f"{round(gib * 1024)}Mi"}},
    }
    if volume:
        spec["volumeName"] = volume
    labels = {"drive.csi-baremetal.dell.com/storage-group": group} if group else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": spec,
        "status": {"phase": "Bound" if volume else "Pending"},
    }


def pod(
    name: str = "web-0",
    claims: Iterable[str] = (),
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    **annotations: str,
) -> Object:
    """A pod that mounts *claims*; annotations by the short names of `ANNOTATIONS`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app": "web"} if labels is None else dict(labels),
            "annotations": {ANNOTATIONS[key]: value for key, value in annotations.items()},
        },
        "spec": {
            "containers": [{"name": "main", "image": "nginx"}],
            "volumes": [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims],
        },
    }


def using(owner: Object, drive: str, *, gib: float = 10, node: str = "n1", name: str = "") -> list[Object]:
    """*owner* with a bound claim whose volume lies on *drive*."""
    meta = owner["metadata"]
    called = name or f"data-{meta['name']}"
    volume = f"pvc-{meta['namespace']}-{called}"
    owner["spec"]["volumes"].append({"name": called, "persistentVolumeClaim": {"claimName": called}})
    return [
        owner,
        claim(called, "hddlvg", gib, namespace=meta["namespace"], volume=volume),
        {
            "apiVersion": API,
            "kind": "Volume",
            "metadata": {"name": volume, "namespace": meta["namespace"]},
            "spec": {
                "Id": volume,
                "Location": drive,
                "LocationType": "DRIVE",
                "StorageClass": "HDDLVG",
                "NodeId": node,
                "Size": round(gib * GIB),
            },
        },
    ]


def reservation(
    name: str, storage_class: str, gib: float, capacities: Iterable[str], *, status: str = "RESERVED"
) -> Object:
    """A reservation of namespace default with one request."""
    request = {"Name": "data", "StorageClass": storage_class, "Size": round(gib * GIB)}
    return {
        "apiVersion": API,
        "kind": "AvailableCapacityReservation",
        "metadata": {"name": name},
        "spec": {
            "Namespace": "default",
            "Status": status,
            "ReservationRequests": [{"CapacityRequest": request, "Reservations": list(capacities)}],
        },
    }


def planned(
    given: Object,
    state: Iterable[Object],
    *,
    busy: Mapping[str, float] | None = None,
    heavy: frozenset[tuple[str, str]] = frozenset(),
    **options: Any,
) -> planning.Plan:
    """Plan the pod *given* on the nodes of *state*."""
    read = wire.read(given)
    assert isinstance(read, DiskPod)
    return planning.plan(read, lay_out_of([*storage_classes(), *state, given], busy=busy, heavy=heavy), **options)
