"""What a pod asks of disks."""

from dataclasses import dataclass

from pipeline.disk_records import DiskPod
from rules.disks.state import Disks


@dataclass(frozen=True, slots=True, eq=False)
class Volumes:
    """The volumes that *pod* mounts, and the *disks* that they are looked for on; *symmetric* as in `plan`."""

    pod: DiskPod
    disks: Disks
    symmetric: bool = False
