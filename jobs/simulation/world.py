"""A history laid out to be replayed: nodes, pods and their requests, runs, and what slows whom."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from featurestore.replay.kernel import Floats, Ints, Load
from featurestore.snapshot import Snapshot

Bools = NDArray[np.bool_]

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
    the snapshot of it; *usual* (F,), the mean number of runs that a pod served at once; *naive* (k, 2), the
    predecessor's pairs. *told* says whether the slowdowns of *load* are a given truth, or were learned from the
    replayed part itself.
    """

    cluster: str
    since: datetime
    length: float
    functions: tuple[str, ...]
    nodes: Nodes
    pods: Pods
    load: Load
    known: Snapshot
    usual: Floats
    naive: Ints
    told: bool


def by_victim(victim: Ints, aggressor: Ints, slowdown: Floats, functions: int) -> tuple[Ints, Ints, Floats]:
    """Return pairs as the rows of `Load`: *first*, *aggressor*, *slowdown*; those that slow nothing left out."""
    kept = np.flatnonzero(np.nan_to_num(slowdown) > 0)
    order = kept[np.lexsort((aggressor[kept], victim[kept]))]
    first = np.searchsorted(victim[order], np.arange(functions + 1)).astype(np.int64)
    return first, aggressor[order].astype(np.int64), slowdown[order].astype(np.float64)


def hardware(functions: tuple[str, ...], types: tuple[str, ...], latencies: pa.Table) -> Floats:
    """Return how much longer each function takes on each type than on its fastest (F, T), from its medians there.

    Where a function was not seen on a type, the types' usual difference stands in (the median over the functions
    seen on it); without any, all types are alike.
    """
    ratio = np.full((len(functions), len(types)), np.nan)
    row, column = ({name: i for i, name in enumerate(names)} for names in (functions, types))
    for each in latencies.to_pylist():
        f, t = row.get(each["function"], -1), column.get(each["node_type"], -1)
        if each["node"] == "" and f >= 0 and t >= 0 and each["p50_ms"]:
            ratio[f, t] = np.log(each["p50_ms"])
    seen = np.isfinite(ratio)
    several = seen.sum(axis=1) > 1
    centred = np.where(seen, ratio, 0.0)
    centred -= (centred.sum(axis=1) / np.maximum(seen.sum(axis=1), 1))[:, None]
    usual = np.array(
        [
            np.median(centred[seen[:, t] & several, t]) if (seen[:, t] & several).any() else 0.0
            for t in range(len(types))
        ]
    )
    base = np.where(seen, ratio - usual, 0.0).sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
    filled = np.where(seen, ratio, base[:, None] + usual)
    speed: Floats = np.exp(filled - filled.min(axis=1, initial=np.inf)[:, None]) if len(types) else filled
    return speed
