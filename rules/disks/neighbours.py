"""Which drives a pod is kept off because of who uses them: by label, in turn, and by what they do to a disk."""

from collections.abc import Iterable, Mapping

from pipeline.disk_records import DiskPod
from rules.disks.annotations import Affinities
from rules.disks.state import Disks, Key


def avoided(pod: DiskPod, asked: Affinities, disks: Disks, *, symmetric: bool = False) -> Mapping[str, str]:
    """Return why *pod* must not use a drive, by drive: pods of its anti-affinity labels use it.

    The pod itself is left out, its siblings are not: its own label spreads replicas. With *symmetric*, drives are
    avoided too whose users require to be apart from pods like this one.
    """
    found: dict[str, str] = {}
    for label in asked.labels:
        for other in disks.labelled.get((label.namespace, label.key), ()):
            if label.matches(other.labels, other.namespace):
                _add(found, pod, other, disks, "anti-affinity")
    if symmetric:
        for other, labels in disks.guarded:
            if any(label.matches(pod.labels, pod.namespace) for label in labels):
                _add(found, pod, other, disks, "anti-affinity of others")
    return found


def loud(pod: DiskPod, disks: Disks) -> Mapping[str, str]:
    """Return why *pod* wants to be off a drive, by drive: a function that is known to use disks much uses it."""
    found: dict[str, str] = {}
    for key in sorted(disks.objects.heavy):
        if other := disks.pods.get(key):
            _add(found, pod, other, disks, "disk profile high")
    return found


def _add(found: dict[str, str], pod: DiskPod, other: DiskPod, disks: Disks, rule: str) -> None:
    key: Key = (other.namespace, other.name)
    if key != (pod.namespace, pod.name):
        drives: Iterable[str] = disks.used_by.get(key, ())
        for drive in drives:
            found.setdefault(drive, f"{rule}: drive {drive} used by {other.namespace}/{other.name}")
