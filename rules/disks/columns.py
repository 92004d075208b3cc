"""The capacities of a layout as columns: what the filters of a plan look at, for all nodes at once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from pipeline.disk_records import STORAGE_GROUP, Capacity
from rules.disks import taints
from rules.disks.sizes import CLASSES

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column of few distinct *values*: *code* has the number of each row's."""

    values: tuple[object, ...]
    code: Numbers

    @classmethod
    def of(cls, values: Iterable[object]) -> "Coded":
        index: dict[object, int] = {}
        code = np.array([index.setdefault(value, len(index)) for value in values], dtype=np.int64)
        return cls(tuple(index), code)

    def where(self, holds: Callable[[T], bool]) -> Mask:
        """Return which rows have a value of which *holds* is true; it is asked once for each value."""
        told: Mask = np.array([holds(value) for value in self.values], dtype=np.bool_)  # type: ignore[arg-type]
        return told[self.code]


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """The numbers of capacities in which one kind of request is looked for, those of a node together and in order."""

    capacity: Numbers
    node: Numbers


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """A row for each of *capacities*: the quietest first, then the smallest, then by name.

    *node* numbers *nodes*. *shared* and *whole* are the bytes that a volume of a group, and one that takes the drive,
    can have under all bookings. *taint* has the texts of taints ("": none), *holder* the applications on the drive as
    in `rules.disks.state.Disks`.
    """

    capacities: tuple[Capacity, ...]
    names: npt.NDArray[np.object_]
    index: Mapping[str, int]
    nodes: Mapping[str, int]
    node: Numbers
    shared: Numbers
    whole: Numbers
    suspended: Mask
    taint: Coded
    holder: Coded
    media: Coded
    group: Coded
    kinds: dict[tuple[str, str], Kind] = field(default_factory=dict)

    def kind(self, storage_class: str, group: str) -> Kind:
        """Return where requests of *storage_class* and storage *group* look; put together when first asked for."""
        found = self.kinds.get((storage_class, group))
        if found is None:
            ranks = {name: place for place, name in enumerate(CLASSES[storage_class])}
            rank = np.array([ranks.get(str(name), -1) for name in self.media.values], dtype=np.int64)[self.media.code]
            chosen = np.flatnonzero((rank >= 0) & self.group.where(lambda each: each == group))
            ordered = chosen[np.lexsort((rank[chosen], self.node[chosen]))]
            found = self.kinds[storage_class, group] = Kind(ordered, self.node[ordered])
        return found


def columns(
    ranked: Sequence[Capacity],
    node_of: Callable[[Capacity], str],
    rooms: Callable[[str], tuple[int, int]],
    holders: Mapping[str, frozenset[str]],
) -> Columns:
    """Lay *ranked* capacities out; *rooms* gives the shared and the whole room of a capacity by its name."""
    nodes: dict[str, int] = {}
    room = np.array([rooms(each.name) for each in ranked], dtype=np.int64).reshape(len(ranked), 2)
    nobody: frozenset[str] = frozenset()
    return Columns(
        capacities=tuple(ranked),
        names=np.array([each.name for each in ranked], dtype=np.object_),
        index={each.name: i for i, each in enumerate(ranked)},
        node=np.array([nodes.setdefault(node_of(each), len(nodes)) for each in ranked], dtype=np.int64),
        nodes=nodes,
        shared=room[:, 0],
        whole=room[:, 1],
        suspended=np.array([taints.suspended(each) for each in ranked], dtype=np.bool_),
        taint=Coded.of(map(taints.taint_of, ranked)),
        holder=Coded.of(holders.get(each.name, nobody) for each in ranked),
        media=Coded.of(each.storage_class for each in ranked),
        group=Coded.of(each.labels.get(STORAGE_GROUP, "") for each in ranked),
    )
