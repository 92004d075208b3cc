"""Which capacities a pod is kept off because of who uses their drives: by label, in turn, and by what they do."""

from collections.abc import Mapping

from pipeline.disk_records import DiskPod
from rules.disks.annotations import Affinities
from rules.disks.state import Disks

#: Why a capacity is kept off, by its name.
KeptOff = Mapping[str, str]


def avoided(pod: DiskPod, asked: Affinities, disks: Disks) -> KeptOff:
    """Return why *pod* must not use a capacity: pods of its anti-affinity labels use the drive.

    The pod itself is left out, its siblings are not: its own label spreads replicas.
    """
    found: dict[str, str] = {}
    for label in asked.labels:
        values = disks.labelled.get((label.namespace, label.key), {})
        meant = values.values() if label.value is None else (values.get(label.value, ()),)
        for others in meant:
            for other in others:
                _add(found, pod, other, disks, "anti-affinity")
    return found


def barred(pod: DiskPod, disks: Disks) -> KeptOff:
    """Return why others keep *pod* off a capacity: users of the drive require to be apart from pods like it."""
    found: dict[str, str] = {}
    for other, labels in disks.guarded:
        if any(label.matches(pod.labels, pod.namespace) for label in labels):
            _add(found, pod, other, disks, "anti-affinity of others")
    return found


def loud(pod: DiskPod, disks: Disks) -> KeptOff:
    """Return why *pod* wants to be off a capacity: a function that is known to use disks much uses the drive."""
    found: dict[str, str] = {}
    for key in sorted(disks.objects.heavy):
        if other := disks.pods.get(key):
            _add(found, pod, other, disks, "disk profile high")
    return found


def _add(found: dict[str, str], pod: DiskPod, other: DiskPod, disks: Disks, rule: str) -> None:
    key = (other.namespace, other.name)
    if key != (pod.namespace, pod.name):
        for drive in disks.used_by.get(key, ()):
            for capacity in disks.capacities_of.get(drive, ()):
                found.setdefault(capacity.name, f"{rule}: drive {drive} used by {other.namespace}/{other.name}")
