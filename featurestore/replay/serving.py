"""Which pod served which run, where records name the node or the pod's name alone: the living ones take turns."""

import numpy as np

from featurestore.compiled import compiled
from featurestore.replay.kernel import Ints


@compiled
def _turns(
    group: Ints, at: Ints, offsets: Ints, pods: Ints, started: Ints, ended: Ints, ring: Ints, chosen: Ints
) -> None:
    groups = len(offsets) - 1
    size, born, turn = np.zeros(groups, np.int64), offsets[:-1].copy(), np.zeros(groups, np.int64)
    for i in range(len(group)):
        g = group[i]
        if g < 0:
            continue
        first = offsets[g]
        while born[g] < offsets[g + 1] and started[pods[born[g]]] <= at[i]:
            ring[first + size[g]] = pods[born[g]]
            size[g] += 1
            born[g] += 1
        while size[g] > 0:
            spot = first + turn[g] % size[g]
            if ended[ring[spot]] > at[i]:
                chosen[i] = ring[spot]
                turn[g] += 1
                break
            size[g] -= 1
            ring[spot] = ring[first + size[g]]


def serving(group: Ints, at: Ints, pod_group: Ints, started: Ints, ended: Ints) -> Ints:
    """Return for each run (n,), by time *at*, a pod of its *group* that lives then, in turn; -1 where none does.

    *pod_group*, *started* and *ended* (P,) are the pods'; groups are numbered from 0, -1: none. Times in one unit.
    O(n + P log P).
    """
    groups = int(max(group.max(initial=-1), pod_group.max(initial=-1))) + 1
    order = np.lexsort((started, pod_group)).astype(np.int64)
    offsets = np.searchsorted(pod_group[order], np.arange(groups + 1)).astype(np.int64)
    chosen: Ints = np.full(len(group), -1, np.int64)
    ring: Ints = np.full(len(order), -1, np.int64)
    if groups:
        _turns(group, at, offsets, order, started, ended, ring, chosen)
    return chosen
