"""Where each kind of Kubernetes object keeps the template of its pods."""

from collections.abc import Mapping
from typing import Final

#: Path from the object to the template; the pod's own specification stands under ``spec`` of that.
TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
