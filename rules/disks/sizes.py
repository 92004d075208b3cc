"""What fits on a capacity, to the byte: extents of volume groups, metadata of new ones, whole drives.

As the driver does it: a volume in a group takes whole extents of 4 MiB; a new group on an empty drive has the drive's
size rounded down to extents, and one extent less where what is left over is too little for the metadata (1 MiB); a
volume that takes a whole drive is aligned to 1 MiB.
"""

from functools import lru_cache
from typing import Final

MIB: Final = 2**20
EXTENT: Final = 4 * MIB
#: No drive offers more, and a volume never takes more, which no drive offers: sums stay 64-bit numbers.
_MOST_ROOM: Final = 2**59
_MOST_TAKEN: Final = 2**60

#: The classes in which a request of each class is looked for, in order. Text that is no class means ANY.
CLASSES: Final = {
    "HDDLVG": ("HDDLVG", "HDD"),
    "SSDLVG": ("SSDLVG", "SSD"),
    "NVMELVG": ("NVMELVG", "NVME"),
    "SYSLVG": ("SYSLVG",),
    "HDD": ("HDD",),
    "SSD": ("SSD",),
    "NVME": ("NVME",),
    "ANY": ("ANY", "HDD", "SSD", "NVME"),
}


def class_of(media: str) -> str:
    """Return the class that a StorageClass's ``storageType`` asks for."""
    asked = media.strip().upper()
    return asked if asked in CLASSES else "ANY"


@lru_cache(maxsize=64)
def grouped(storage_class: str) -> bool:
    """Say whether volumes of the class share a drive, in a volume group."""
    return storage_class.endswith("LVG")


def taken(size: int, storage_class: str) -> int:
    """Return what a volume of *size* takes: whole extents in a group, else whole MiB."""
    unit = EXTENT if grouped(storage_class) else MIB
    return min(-(-max(size, 1) // unit) * unit, _MOST_TAKEN)


def usable(size: int, held_as: str, *, shares: bool) -> int:
    """Return what of a capacity of class *held_as* and *size* volumes can have that *share* it, or take all of it."""
    size = min(max(0, size), _MOST_ROOM)
    if not shares:
        return size // MIB * MIB
    if grouped(held_as):
        return size // EXTENT * EXTENT
    whole = size // EXTENT * EXTENT
    return max(0, whole - EXTENT if size - whole < MIB else whole)


def told(size: int) -> str:
    """Return *size* for a person: GiB, cut off after two digits, or MiB below one."""
    unit, name = (2**30, "GiB") if size >= 2**30 else (MIB, "MiB")
    return f"{size * 100 // unit / 100:g} {name}"
