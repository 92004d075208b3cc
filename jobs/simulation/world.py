"""A history laid out to be replayed: nodes, pods and their requests, runs, and what slows whom."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from featurestore.replay.kernel import Floats, Ints, Load
from featurestore.snapshot import Snapshot

Bools = NDArray[np.bool_]

#: Functions differ in how much longer they take on a type by a standard deviation of some .13 of the log, single
#: runs of one function by some .45, and two types are compared: so many runs of each say as much of it as all other
#: functions do.
_USUAL = 30.0

#: What a pod requests, in the order of the columns.
RESOURCES = ("cpu", "memory", "pods")


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """K nodes: *allocatable* (K, 3) by `RESOURCES`, infinite where nothing is known, and which may take new pods."""

    names: tuple[str, ...]
    allocatable: Floats
    usable: Bools

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, slots=True, eq=False)
class Pods:
    """P pods by their coming: *function* (-1: of none, it stays where it was), *node* where it was recorded,
    *requests* (P, 3) by `RESOURCES`; lives from *came* until *went* (infinite: beyond the replay), in seconds.

    *names* are unique.
    """

    names: tuple[str, ...]
    function: Ints
    node: Ints
    came: Floats
    went: Floats
    requests: Floats

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """One history from *since* on, times in seconds from there, up to *length*.

    *load* are its runs and the truth that the replay goes by. What a policy may know is of the time before: *known*,
    the snapshot of it; *naive* (k, 2), the predecessor's pairs. *told* says whether the slowdowns of *load* are a
    given truth, or were learned from the replayed part itself.
    """

    cluster: str
    since: datetime
    length: float
    functions: tuple[str, ...]
    nodes: Nodes
    pods: Pods
    load: Load
    known: Snapshot
    naive: Ints
    told: bool


def by_victim(victim: Ints, aggressor: Ints, slowdown: Floats, functions: int) -> tuple[Ints, Ints, Floats]:
    """Return pairs as the rows of `Load`: *first*, *aggressor*, *slowdown*; those that slow nothing left out."""
    kept = np.flatnonzero(np.nan_to_num(slowdown) > 0)
    order = kept[np.lexsort((aggressor[kept], victim[kept]))]
    first = np.searchsorted(victim[order], np.arange(functions + 1)).astype(np.int64)
    return first, aggressor[order].astype(np.int64), slowdown[order].astype(np.float64)


def hardware(function: Ints, kind: Ints, seconds: Floats, shape: tuple[int, int]) -> Floats:
    """Return how much longer each function takes on each type than on its fastest, of *shape* (F, T).

    *seconds* is what runs (n,) took less what their company explains, *function* and *kind* say of whom and where;
    their medians are compared. What the types usually differ by (the median over functions seen on several) stands
    in where a function was not seen on a type, and counts for as much as `_USUAL` runs there; without any, all types
    are alike.
    """
    cell = function * shape[1] + kind
    order = np.lexsort((seconds, cell))
    present, first, count = np.unique(cell[order], return_index=True, return_counts=True)
    middle = np.log(seconds[order][np.stack((first + (count - 1) // 2, first + count // 2))]).mean(axis=0)
    level, runs = np.full(shape, np.nan), np.zeros(shape)
    level.flat[present], runs.flat[present] = middle, count
    seen = runs > 0
    kinds = seen.sum(axis=1)
    apart = level - np.divide(np.nansum(level, axis=1), kinds, out=np.zeros(shape[0]), where=kinds > 0)[:, None]
    told = seen & (kinds > 1)[:, None]
    usual = np.array([np.median(apart[told[:, t], t]) if told[:, t].any() else 0.0 for t in range(shape[1])])
    own = np.where(seen, level - usual, 0.0)
    mean = np.divide((own * runs).sum(axis=1), runs.sum(axis=1), out=np.zeros(shape[0]), where=kinds > 0)
    longer = usual + np.where(seen, own - mean[:, None], 0.0) * runs / (runs + _USUAL)
    speed: Floats = np.exp(longer - longer.min(axis=1, initial=np.inf)[:, None]) if shape[1] else longer
    return speed
