"""To whom a disk is dedicated: the taint of a capacity, what a pod's own would say, and who may use which.

The text of an automatic taint, ``app=nginx:default``, is no legal label value. It is kept in an annotation of the
same key, and ``t-`` with 40 hex digits of its SHA-256 in the label, so that it can be selected by. Taints set by hand
are labels alone.
"""

import hashlib
from typing import Final

from pipeline.disk_records import Capacity, DiskPod
from pipeline.errors import BadInput
from rules.disks.annotations import PodLabel

TAINT: Final = "affinity.csi-baremetal.dell.com/taint"
#: Set by the driver on a suspect drive; nobody tolerates it.
NO_SCHEDULE: Final = "drive.csi-baremetal.dell.com/taint"

#: The labels that may name an application, the first that a pod has. Labels that controllers add name single pods.
_NAMING: Final = ("app", "app.kubernetes.io/name")


def encoded(text: str) -> str:
    """Return the label value that stands for the *text* of an automatic taint."""
    return "t-" + hashlib.sha256(text.encode()).hexdigest()[:40]


def taint_of(capacity: Capacity) -> str:
    """Return the full text of the taint where it is known, else the label as it is, else ""."""
    return capacity.annotations.get(TAINT) or capacity.labels.get(TAINT, "")


def suspended(capacity: Capacity) -> bool:
    """Say whether the driver takes no new volumes on the drive."""
    return capacity.labels.get(NO_SCHEDULE) == "NoSchedule"


def own(pod: DiskPod) -> str | None:
    """Return the text of the taint that dedicates a disk to *pod*'s application; None where no label names it."""
    for key in _NAMING:
        if pod.labels.get(key):
            return f"{key}={pod.labels[key]}:{pod.namespace}"
    return None


def named(pod: DiskPod) -> str:
    """Return `own`; raises `BadInput` where no label names the application."""
    text = own(pod)
    if text is None:
        raise BadInput(
            f"pod {pod.namespace}/{pod.name}: a dedicated disk needs one of the labels {', '.join(_NAMING)}"
        )
    return text


def belongs(taint: str, pod: DiskPod) -> bool:
    """Say whether *pod* is of the application that *taint* names, annotated or not."""
    if taint.startswith("t-"):
        text = own(pod)
        return text is not None and taint == encoded(text)
    label, colon, namespace = taint.rpartition(":")
    key, equals, value = label.partition("=")
    return bool(colon and equals) and PodLabel(key, value, namespace).matches(pod.labels, pod.namespace)
