"""The disks of a cluster as plans need them: who uses which drive, what is free on it, what is held for whom.

Laid out once for each state of the cluster, so that a plan touches only what its own pod makes different.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pipeline.disk_records import (
    Capacity,
    Claim,
    CsiNode,
    DiskPod,
    Drive,
    Group,
    Reservation,
    StorageClass,
    Volume,
)
from pipeline.errors import BadInput
from rules.disks import taints
from rules.disks.annotations import ANTI_LABELS, ANTI_TYPES, PodLabel, parse
from rules.disks.columns import Columns, columns
from rules.disks.sizes import grouped, taken, usable

Key = tuple[str, str]
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Objects:
    """Everything that was read; *busy* is the measured utilisation (0..1) of drives by their identity, *heavy* the
    pods (namespace, name) whose functions are known to use disks much."""

    capacities: tuple[Capacity, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    drives: tuple[Drive, ...] = ()
    volumes: tuple[Volume, ...] = ()
    groups: tuple[Group, ...] = ()
    claims: tuple[Claim, ...] = ()
    classes: tuple[StorageClass, ...] = ()
    pods: tuple[DiskPod, ...] = ()
    nodes: tuple[CsiNode, ...] = ()
    busy: Mapping[str, float] = field(default_factory=dict)
    heavy: frozenset[Key] = frozenset()


@dataclass(frozen=True, slots=True)
class User:
    """A pod (namespace, name) that uses a drive, by a volume or, *held*, by a reservation; *pod* None: not known."""

    key: Key
    pod: DiskPod | None
    held: str = ""


@dataclass(frozen=True, slots=True)
class Booking:
    """What the reservation named *by* holds of a capacity."""

    by: str
    storage_class: str
    size: int


@dataclass(frozen=True, slots=True)
class Disks:
    """The layout; every mapping may lack what nobody spoke of.

    *identities* is the reverse of *node_names*. By drive go *users*, *unowned* (volumes of no known pod) and
    *capacities_of*. By capacity go *bookings* and *holders* (applications on the drive, by the text of their taint,
    "" for those without). By node go *capacities_on* and *consumed* (bytes in volumes, and free). *booked_by* are the
    capacities that a reservation holds, *used_by* the drives of a pod, *labelled* the pods with drives by namespace,
    label key and value, *guarded* those that require to be apart from others. *columns* has all capacities.
    """

    objects: Objects
    node_names: Mapping[str, str]
    identities: Mapping[str, str]
    drives: Mapping[str, str]
    users: Mapping[str, tuple[User, ...]]
    unowned: Mapping[str, tuple[str, ...]]
    holders: Mapping[str, frozenset[str]]
    bookings: Mapping[str, tuple[Booking, ...]]
    booked_by: Mapping[str, tuple[str, ...]]
    consumed: Mapping[str, tuple[int, int]]
    claims: Mapping[Key, Claim]
    volumes: Mapping[str, Volume]
    classes: Mapping[str, StorageClass]
    pods: Mapping[Key, DiskPod]
    guarded: tuple[tuple[DiskPod, tuple[PodLabel, ...]], ...]
    used_by: Mapping[Key, tuple[str, ...]]
    labelled: Mapping[tuple[str, str], Mapping[str, list[DiskPod]]]
    capacities_on: Mapping[str, tuple[Capacity, ...]]
    capacities_of: Mapping[str, tuple[Capacity, ...]]
    columns: Columns

    def drive_of_volume(self, volume: Volume) -> str:
        """Return the drive that *volume* lies on."""
        return self.drives.get(volume.location, volume.location)

    def drive_of(self, capacity: Capacity) -> str:
        """Return the drive that *capacity* lies on."""
        return self.drives.get(capacity.location, capacity.location)


def lay_out(objects: Objects) -> Disks:
    """Lay *objects* out. O(n log n) in their number."""
    groups = {group.name: group.drives[0] for group in objects.groups if group.drives}
    names = _node_names(objects)
    pods = {(pod.namespace, pod.name): pod for pod in objects.pods}
    mounted: dict[Key, list[DiskPod]] = {}
    for pod in objects.pods:
        for claim in pod.claims:
            mounted.setdefault((pod.namespace, claim), []).append(pod)
    claimed = {claim.volume: claim for claim in objects.claims if claim.volume}
    users: dict[str, list[User]] = {}
    unowned: dict[str, list[str]] = {}
    consumed: dict[str, list[int]] = {}
    for volume in objects.volumes:
        drive = groups.get(volume.location, volume.location)
        owners = _owners(volume, claimed, mounted, pods)
        users.setdefault(drive, []).extend(owners)
        if not owners:
            unowned.setdefault(drive, []).append(volume.name)
        consumed.setdefault(names.get(volume.csi_node, volume.csi_node), []).append(volume.size)
    by_name = {capacity.name: capacity for capacity in objects.capacities}
    bookings = _bookings(objects, by_name, groups, pods, users)
    on_node: dict[str, list[Capacity]] = {}
    of_drive: dict[str, list[Capacity]] = {}
    for capacity in objects.capacities:
        node = names.get(capacity.csi_node, capacity.csi_node)
        on_node.setdefault(node, []).append(capacity)
        of_drive.setdefault(groups.get(capacity.location, capacity.location), []).append(capacity)
    busy = objects.busy

    def order(capacity: Capacity) -> tuple[int, int, str]:
        drive = groups.get(capacity.location, capacity.location)
        return _noise(drive, busy, users, objects.heavy), capacity.size, capacity.name

    used: dict[Key, list[str]] = {}
    for drive, each in users.items():
        for user in each:
            used.setdefault(user.key, []).append(drive)
    labelled: dict[tuple[str, str], dict[str, list[DiskPod]]] = {}
    for namespace, name in used:
        user_pod = pods.get((namespace, name))
        if user_pod is not None:
            for label, value in user_pod.labels.items():
                labelled.setdefault((namespace, label), {}).setdefault(value, []).append(user_pod)
    holders = {
        capacity.name: texts
        for drive, texts in _holders(users, unowned).items()
        for capacity in of_drive.get(drive, ())
    }

    def rooms(name: str) -> tuple[int, int]:
        capacity, booked = by_name[name], bookings.get(name, ())
        return room(capacity, booked, shares=True), room(capacity, booked, shares=False)

    booked_by: dict[str, list[str]] = {}
    for name, booked in bookings.items():
        for booking in booked:
            booked_by.setdefault(booking.by, []).append(name)
    return Disks(
        objects=objects,
        node_names=names,
        identities=_identities(objects),
        drives=groups,
        users=_frozen(users),
        unowned=_frozen(unowned),
        holders=holders,
        bookings=bookings,
        booked_by=_frozen(booked_by),
        consumed={node: (sum(consumed.get(node, ())), sum(c.size for c in each)) for node, each in on_node.items()},
        claims={(claim.namespace, claim.name): claim for claim in objects.claims},
        volumes={volume.name: volume for volume in objects.volumes},
        classes={each.name: each for each in objects.classes},
        pods=pods,
        guarded=tuple(_guarded(objects.pods)),
        used_by=_frozen(used),
        labelled=labelled,
        capacities_on=_frozen(on_node),
        capacities_of=_frozen(of_drive),
        columns=columns(
            sorted(objects.capacities, key=order),
            lambda each: names.get(each.csi_node, each.csi_node),
            rooms,
            holders,
        ),
    )


def _node_names(objects: Objects) -> dict[str, str]:
    """Return node names by the driver's identity: what the node states, else what the driver registered, else its
    uid; a node that nothing names is its identity."""
    found: dict[str, str] = {}
    for node in objects.nodes:
        if node.uid:
            found.setdefault(node.uid, node.name)
    for node in objects.nodes:
        if node.csi_node:
            found[node.csi_node] = node.name
    return found


def _identities(objects: Objects) -> dict[str, str]:
    """Return how the driver knows each node, by name: what the node states before what the driver registered."""
    found = {node.name: node.uid for node in objects.nodes if node.uid}
    known = sorted((node for node in objects.nodes if node.csi_node), key=lambda node: bool(node.uid))
    return found | {node.name: node.csi_node for node in known}


def _owners(
    volume: Volume, claimed: Mapping[str, Claim], mounted: Mapping[Key, list[DiskPod]], pods: Mapping[Key, DiskPod]
) -> list[User]:
    """Return the pods of *volume*: those that mount its claim, else those that the driver names."""
    claim = claimed.get(volume.name)
    if claim is not None and (found := mounted.get((claim.namespace, claim.name))):
        return [User((pod.namespace, pod.name), pod) for pod in found]
    return [User((volume.namespace, name), pods.get((volume.namespace, name))) for name in volume.owners]


def _bookings(
    objects: Objects,
    capacities: Mapping[str, Capacity],
    groups: Mapping[str, str],
    pods: Mapping[Key, DiskPod],
    users: dict[str, list[User]],
) -> dict[str, tuple[Booking, ...]]:
    """Return what is held of each capacity by reservations that are RESERVED, and add their pods to *users*.

    Each capacity of a request is booked for itself: only one of them will be taken, and which is not known yet.
    """
    named = {(pod.namespace, f"{pod.namespace}-{pod.name}"): pod for pod in pods.values()}
    found: dict[str, list[Booking]] = {}
    for reservation in objects.reservations:
        if reservation.status != "RESERVED":
            continue
        pod = named.get((reservation.namespace, reservation.name))
        called = reservation.name.removeprefix(f"{reservation.namespace}-")
        for asked in reservation.requests:
            for name in asked.capacities:
                request = asked.request
                found.setdefault(name, []).append(Booking(reservation.name, request.storage_class, request.size))
                if name in capacities:
                    location = capacities[name].location
                    user = User((reservation.namespace, called), pod, reservation.name)
                    users.setdefault(groups.get(location, location), []).append(user)
    return {name: tuple(each) for name, each in found.items()}


def room(capacity: Capacity, bookings: Iterable[Booking], *, shares: bool, by: str = "") -> int:
    """Return the bytes that a volume can have of *capacity* under *bookings*, but for those *by* its own reservation.

    It *shares* the drive as one of a group, or takes all of it.
    """
    used = 0
    for booking in bookings:
        if booking.by != by:
            if not (shares and grouped(booking.storage_class)):
                return 0
            used += taken(booking.size, booking.storage_class)
    return max(0, usable(capacity.size, capacity.storage_class, shares=shares) - used)


def held_for(reservation: str) -> str:
    """Return what stands among `Disks.holders` for a reservation whose pod is not known."""
    return f"reservation {reservation}"


def _holders(users: Mapping[str, list[User]], unowned: Mapping[str, list[str]]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {drive: {""} for drive in unowned}
    for drive, each in users.items():
        for user in each:
            unknown = held_for(user.held) if user.held else ""
            text = unknown if user.pod is None else taints.own(user.pod) or ""
            found.setdefault(drive, set()).add(text)
    return {drive: frozenset(texts) for drive, texts in found.items()}


def _noise(drive: str, busy: Mapping[str, float], users: Mapping[str, Iterable[User]], heavy: frozenset[Key]) -> int:
    """Return how much the users of *drive* would disturb another, in tenths: how busy it is, and two tenths for each
    user whose function is known to use disks much. Nothing known is quiet."""
    known = round(10 * min(1.0, max(0.0, busy.get(drive, 0.0))))
    return known + 2 * len({user.key for user in users.get(drive, ())} & heavy)


def _guarded(pods: Iterable[DiskPod]) -> Iterable[tuple[DiskPod, tuple[PodLabel, ...]]]:
    """Yield the pods that require to be apart from others, with whom; odd annotations guard nothing."""
    for pod in pods:
        if ANTI_TYPES in pod.annotations and ANTI_LABELS in pod.annotations:
            try:
                asked = parse(pod.annotations, pod.namespace)
            except BadInput:
                continue
            if asked.pod_label == "required":
                yield pod, asked.labels


def _frozen(lists: Mapping[K, list[V]]) -> dict[K, tuple[V, ...]]:
    return {key: tuple(values) for key, values in lists.items()}
