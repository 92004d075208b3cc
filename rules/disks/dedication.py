"""The life of automatic taints: written when a disk is reserved, kept while it serves, then taken off.

A reservation holds a disk on every node that fits, so that each taint is provisional, with the reservation's name,
until that is gone. Taints set by hand are never touched.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from pipeline.disk_records import Capacity
from rules.disks.state import Disks
from rules.disks.taints import TAINT, encoded

#: The annotation that names the reservation for which a capacity was dedicated.
PROVISIONAL: Final = "affinity.csi-baremetal.dell.com/provisional"


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a capacity: ``drop`` takes its taint off, ``keep`` makes a provisional one lasting."""

    capacity: str
    what: Literal["drop", "keep"]


def changes(disks: Disks) -> Iterator[Change]:
    """Yield what is to be done about the automatic taints there are.

    A provisional taint whose reservation is no longer RESERVED lasts where the drive holds a volume of its
    application, and goes elsewhere; a lasting one goes with the last such volume or reservation. A volume that no pod
    has now, such as one of a pod that is being replaced, keeps the taint too.
    """
    reserved = {each.name for each in disks.objects.reservations if each.status == "RESERVED"}
    for capacity in disks.objects.capacities:
        text = capacity.annotations.get(TAINT, "")
        if not automatic(capacity):
            continue
        used = not disks.holders.get(capacity.name, frozenset()).isdisjoint((text, ""))
        provisional = capacity.annotations.get(PROVISIONAL, "")
        if provisional in reserved:
            continue
        if not used:
            yield Change(capacity.name, "drop")
        elif provisional:
            yield Change(capacity.name, "keep")


def automatic(capacity: Capacity) -> bool:
    """Say whether the taint of *capacity* was written by a reservation: its label stands for its annotation."""
    text = capacity.annotations.get(TAINT, "")
    return bool(text) and capacity.labels.get(TAINT) == encoded(text)


def patch(text: str, reservation: str) -> dict[str, object]:
    """Return the merge patch that dedicates a capacity by *text*, provisionally for *reservation*."""
    return {"metadata": {"labels": {TAINT: encoded(text)}, "annotations": {TAINT: text, PROVISIONAL: reservation}}}


def undoing(change: Change) -> dict[str, object]:
    """Return the merge patch of *change*."""
    gone: dict[str, object] = {PROVISIONAL: None}
    if change.what == "keep":
        return {"metadata": {"annotations": gone}}
    return {"metadata": {"labels": {TAINT: None}, "annotations": {TAINT: None, **gone}}}
