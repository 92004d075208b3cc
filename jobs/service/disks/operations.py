"""The routes of disk affinity."""

from typing import Any, Final

import msgspec

from jobs.service.disks.extender import ExtenderArgs, ExtenderFilterResult, HostPriority
from jobs.service.operation import Operation


class DiskPlanRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A Pod, the *nodes* to plan on (default: all), and *objects* that do not exist yet: claims, storage classes."""

    pod: dict[str, Any]
    nodes: list[str] | None = None
    objects: list[dict[str, Any]] = []
    cluster: str | None = None


DISKS: Final = (
    Operation(
        "POST",
        "/v1/disk-plans",
        "disk_plans",
        "Which disks of which nodes the volumes of a pod would lie on; the body is JSON or YAML",
        (DiskPlanRequest, dict[str, Any]),
    ),
    Operation(
        "POST",
        "/extender/filter",
        "extender_filter",
        "Scheduler extender: nodes whose disks can hold the volumes",
        (ExtenderArgs,),
        ExtenderFilterResult,
    ),
    Operation(
        "POST",
        "/extender/prioritize",
        "extender_prioritize",
        "Scheduler extender: scores of nodes by their disks",
        (ExtenderArgs,),
        list[HostPriority],
    ),
)
