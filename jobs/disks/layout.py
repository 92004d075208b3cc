"""Disks out of decoded Kubernetes objects: the layout that plans are made from."""

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import msgspec
import pyarrow.compute as pc

from featurestore.snapshot import Snapshot
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
from pipeline.objects import disks as wire
from rules.disks.state import Disks, Key, Objects, lay_out

#: Which part of `Objects` holds records of each type.
_PARTS: Mapping[type, str] = {
    Capacity: "capacities",
    Reservation: "reservations",
    Drive: "drives",
    Volume: "volumes",
    Group: "groups",
    Claim: "claims",
    StorageClass: "classes",
    DiskPod: "pods",
    CsiNode: "nodes",
}

#: The type of the records of each kind.
_KINDS: Mapping[str, type[wire.Record]] = {
    "AvailableCapacity": Capacity,
    "AvailableCapacityReservation": Reservation,
    "Drive": Drive,
    "Volume": Volume,
    "LogicalVolumeGroup": Group,
    "PersistentVolumeClaim": Claim,
    "StorageClass": StorageClass,
    "Pod": DiskPod,
    "Node": CsiNode,
    "CSINode": CsiNode,
}


def lay_out_of(
    objects: Iterable[object], *, busy: Mapping[str, float] | None = None, heavy: frozenset[Key] = frozenset()
) -> Disks:
    """Return the layout of decoded *objects*, kinds that say nothing of disks left out.

    Of two objects of one kind, name and namespace the last stands. Raises `pipeline.errors.BadInput` naming the
    object and the field that cannot be read.
    """
    return lay_out_records(map(wire.read, objects), busy or {}, heavy)


def lay_out_records(records: Iterable[wire.Record | None], busy: Mapping[str, float], heavy: frozenset[Key]) -> Disks:
    """Return the layout of *records*; see `rules.disks.state.Objects` for *busy* and *heavy*."""
    found: dict[str, dict[object, Any]] = {part: {} for part in _PARTS.values()}
    for record in records:
        if record is not None:
            found[_PARTS[type(record)]][_key(record)] = record
    return lay_out(Objects(**{part: tuple(each.values()) for part, each in found.items()}, busy=busy, heavy=heavy))


def of_snapshot(snapshot: Snapshot, cluster: str, beside: Iterable[object] = ()) -> Disks:
    """Return the layout of what *snapshot* knows of the disks of *cluster*, with the decoded objects *beside* it.

    What is there already stands.
    """
    records = list(_kept(snapshot, cluster))
    busy, heavy = learned(snapshot, cluster, records)
    return lay_out_records(chain(map(wire.read, beside), records), busy, heavy)


def beside(disks: Disks, objects: Iterable[object]) -> Disks:
    """Return *disks* with decoded *objects* where they are not in the cluster yet; the same where there are none."""
    records = [record for each in objects if (record := wire.read(each)) is not None]
    claims = [each for each in records if isinstance(each, Claim) and not each.volume]
    if len(claims) == len(records):
        return with_claims(disks, claims)
    known = disks.objects
    held = chain.from_iterable(getattr(known, part) for part in _PARTS.values())
    return lay_out_records(chain(records, held), known.busy, known.heavy)


def mounting(pod: Mapping[str, Any], namespace: str) -> DiskPod | None:
    """Return what decoded *pod*, which may have no name yet, mounts in *namespace*; None where that is no claim.

    Raises `pipeline.errors.BadInput` for a template that cannot be read.
    """
    metadata = dict(pod.get("metadata") or {})
    metadata |= {"namespace": namespace, "name": metadata.get("name") or metadata.get("generateName") or "new"}
    read = wire.read({"kind": "Pod", "metadata": metadata, "spec": pod.get("spec")})
    return read if isinstance(read, DiskPod) and read.claims else None


def with_claims(disks: Disks, claims: Iterable[Claim]) -> Disks:
    """Return *disks* with *claims* that are not bound, where it has none of their name: nothing else changes."""
    fresh = {(each.namespace, each.name): each for each in claims}
    return replace(disks, claims=ChainMap(disks.claims, fresh)) if fresh else disks  # type: ignore[arg-type]


def learned(
    snapshot: Snapshot, cluster: str, records: Iterable[wire.Record]
) -> tuple[Mapping[str, float], frozenset[Key]]:
    """Return how busy drives are, by drive, and the pods whose functions use disks much, as *snapshot* knows them."""
    held = list(records)
    names: dict[str, str] = {}
    for each in held:
        if isinstance(each, CsiNode):
            names |= {identity: each.name for identity in (each.uid, each.csi_node) if identity}
    use = {(row["node"], row["device"]): float(row["busy_ratio"]) for row in _rows(snapshot, "drives", cluster)}
    busy = {}
    for each in held:
        if isinstance(each, Drive):
            place = (names.get(each.csi_node, each.csi_node), each.path.rpartition("/")[2])
            if place in use:
                busy[each.uuid] = use[place]
    functions = {row["function"] for row in _rows(snapshot, "functions", cluster) if row["disk"] == "high"}
    pods = _rows(snapshot, "placements", cluster) if functions else ()
    return busy, frozenset((row["namespace"], row["pod"]) for row in pods if row["function"] in functions)


def _kept(snapshot: Snapshot, cluster: str) -> Iterator[wire.Record]:
    for row in _rows(snapshot, "disks", cluster):
        yield msgspec.json.decode(row["document"], type=_KINDS[row["kind"]])


def _rows(snapshot: Snapshot, table: str, cluster: str) -> list[dict[str, Any]]:
    held = snapshot[table]
    found: list[dict[str, Any]] = held.filter(pc.equal(held["cluster"], cluster)).to_pylist()
    return found


def _key(record: wire.Record) -> tuple[str, ...]:
    """Return what tells records of one type apart: a node and what its driver registered are two."""
    uid = record.uid if isinstance(record, CsiNode) else ""
    return getattr(record, "namespace", ""), wire.name_of(record), uid
