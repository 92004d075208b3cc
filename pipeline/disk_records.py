"""What csi-baremetal's objects, claims and classes say, as plain frozen records; sizes in bytes.

Group ``csi-baremetal.dell.com/v1``, whose fields are left out on the wire where they are zero. *csi_node* is the
driver's own identity of a node, not the Kubernetes name.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

#: The provisioner whose volumes are planned.
DRIVER: Final = "csi-baremetal"
#: The label that claims, drives and capacities of one storage group share.
STORAGE_GROUP: Final = "drive.csi-baremetal.dell.com/storage-group"

Labels = Mapping[str, str]


class Capacity(msgspec.Struct, frozen=True):
    """An AvailableCapacity: what is free on one drive. *location* is the drive, or its volume group."""

    name: str
    csi_node: str
    location: str
    storage_class: str
    size: int = 0
    labels: Labels = {}
    annotations: Labels = {}


class CapacityRequest(msgspec.Struct, frozen=True):
    """One volume that is asked for; *name* is its claim's."""

    name: str
    storage_class: str
    size: int
    storage_group: str = ""


class Reserved(msgspec.Struct, frozen=True):
    """A request of a reservation with the capacities that are held for it, about one a node."""

    request: CapacityRequest
    capacities: tuple[str, ...] = ()


class Reservation(msgspec.Struct, frozen=True):
    """An AvailableCapacityReservation of one pod; *status* is REQUESTED, RESERVED, REJECTED or CANCELLED."""

    name: str
    namespace: str
    status: str
    requested: tuple[str, ...] = ()
    reserved: tuple[str, ...] = ()
    requests: tuple[Reserved, ...] = ()


class Drive(msgspec.Struct, frozen=True):
    """A physical drive; *path* is its device on the node."""

    uuid: str
    csi_node: str
    type: str = ""
    size: int = 0
    path: str = ""
    health: str = ""
    status: str = ""
    usage: str = ""
    system: bool = False


class Volume(msgspec.Struct, frozen=True):
    """A volume on a drive or in a group; *owners* are names of pods that have it published."""

    name: str
    namespace: str
    csi_node: str
    location: str
    storage_class: str = ""
    size: int = 0
    owners: tuple[str, ...] = ()


class Group(msgspec.Struct, frozen=True):
    """A LogicalVolumeGroup; the first of *drives* is the one it lies on."""

    name: str
    csi_node: str
    drives: tuple[str, ...] = ()
    size: int = 0


class Claim(msgspec.Struct, frozen=True):
    """A PersistentVolumeClaim; *volume* is "" until it is bound, *storage_class* None where it states none."""

    name: str
    namespace: str
    storage_class: str | None
    size: int
    phase: str = ""
    volume: str = ""
    labels: Labels = {}


class StorageClass(msgspec.Struct, frozen=True):
    """A StorageClass; *media* is its parameter ``storageType`` as it is written."""

    name: str
    provisioner: str
    media: str = ""


class DiskPod(msgspec.Struct, frozen=True):
    """What of a pod matters to disks.

    *claims* are the names of the claims that it mounts; *templates* those of its ephemeral volumes, which stand for
    claims of the name ``pod-volume`` that may not exist yet. *function* is "" where it is none's.
    """

    name: str
    namespace: str
    labels: Labels = {}
    annotations: Labels = {}
    claims: tuple[str, ...] = ()
    templates: tuple[Claim, ...] = ()
    node: str = ""
    uid: str = ""
    phase: str = ""


class CsiNode(msgspec.Struct, frozen=True):
    """A Kubernetes node and the identity that the driver knows it by; *uid* stands in where nothing states it."""

    name: str
    csi_node: str
    uid: str = ""
