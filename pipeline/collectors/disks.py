"""Disks: what csi-baremetal's objects, claims, storage classes and pods say of drives, one JSON record each.

Where the cluster does not know the driver's kinds there is nothing to collect, and nothing else is listed.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Final

import msgspec

from pipeline.collectors.objects import read, table, text
from pipeline.columns import DISKS
from pipeline.disk_records import DiskPod
from pipeline.errors import BadInput, SourceError
from pipeline.objects import disks as wire
from pipeline.objects.wire import name_of
from pipeline.ports import ListObjects
from pipeline.records import Batch, Refusal

_DRIVER: Final = f"/apis/{wire.GROUP}/v1"

#: What is listed, by kind; the first tells whether the driver is there.
PATHS: Final[Mapping[str, str]] = {
    "AvailableCapacity": f"{_DRIVER}/availablecapacities",
    "AvailableCapacityReservation": f"{_DRIVER}/availablecapacityreservations",
    "Drive": f"{_DRIVER}/drives",
    "Volume": f"{_DRIVER}/volumes",
    "LogicalVolumeGroup": f"{_DRIVER}/logicalvolumegroups",
    "PersistentVolumeClaim": "/api/v1/persistentvolumeclaims",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
}


def collect(list_objects: ListObjects, at: datetime) -> Batch:
    """List everything that plans of disks are made from, at *at*; of pods those that mount claims.

    Kinds that the cluster does not know have no objects. Raises `SourceError` where a list fails otherwise.
    """
    rows: list[tuple[object, ...]] = []
    refused: list[Refusal] = []
    for kind, path in PATHS.items():
        try:
            items = list_objects(path).items
        except SourceError as error:
            if error.reason != "status_404":
                raise
            if kind == "AvailableCapacity":
                break
            continue
        records, odd = read(kind, items, partial(decode, kind))
        refused += odd
        rows += [
            (kind, getattr(each, "namespace", ""), wire.name_of(each), text(each))
            for each in records
            if each is not None and not (isinstance(each, DiskPod) and not each.claims)
        ]
    return Batch("disks", table(DISKS, rows), refused=tuple(refused), watermark=at)


def decode(kind: str, raw: msgspec.Raw | bytes) -> wire.Record | None:
    """Read one item of a list of *kind*, which the item itself does not say; raises `BadInput` naming it."""
    try:
        given = msgspec.json.decode(raw)
    except msgspec.MsgspecError:
        raise BadInput(f"{kind} {name_of(raw)}: not JSON") from None
    return wire.read({**given, "kind": kind}) if isinstance(given, dict) else None
