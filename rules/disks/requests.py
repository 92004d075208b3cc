"""What volumes a pod asks for, and which of its claims are bound already."""

from dataclasses import dataclass

from pipeline.disk_records import DRIVER, STORAGE_GROUP, CapacityRequest, DiskPod, Volume
from rules.disks.sizes import class_of
from rules.disks.state import Disks


@dataclass(frozen=True, slots=True)
class Asked:
    """*requests* in the order of the pod's volumes, the *bound* volumes of it, and claims that are *missing*."""

    requests: tuple[CapacityRequest, ...]
    bound: tuple[Volume, ...]
    missing: tuple[str, ...]


def requests(pod: DiskPod, disks: Disks) -> Asked:
    """Return what *pod* asks of this driver: not claims of other drivers, lost ones and those without a class.

    A claim or class that does not exist (yet) is missing: nothing can be decided before it is there.
    """
    templates = {claim.name: claim for claim in pod.templates}
    found: list[CapacityRequest] = []
    bound: list[Volume] = []
    missing: list[str] = []
    for name in pod.claims:
        claim = disks.claims.get((pod.namespace, name)) or templates.get(name)
        if claim is None:
            missing.append(f"claim {pod.namespace}/{name}")
            continue
        if claim.phase == "Bound" or claim.volume:
            if claim.volume in disks.volumes:
                bound.append(disks.volumes[claim.volume])
            continue
        if claim.phase == "Lost" or not claim.storage_class:
            continue
        known = disks.classes.get(claim.storage_class)
        if known is None:
            missing.append(f"storage class {claim.storage_class}")
        elif known.provisioner == DRIVER:
            group = claim.labels.get(STORAGE_GROUP, "")
            found.append(CapacityRequest(name, class_of(known.media), claim.size, group))
    return Asked(tuple(found), tuple(bound), tuple(dict.fromkeys(missing)))
