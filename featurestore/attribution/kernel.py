"""The compiled search for the pod that served an activation; the rules are those of `attribute`."""

from typing import NamedTuple

import numpy as np

from featurestore.attribution.series import Samples
from featurestore.compiled import compiled
from featurestore.exposure.kernels import Codes, Floats, Ints
from featurestore.exposure.sweep import OPEN, group

#: Mean CPU of the busiest candidate below which nothing is inferred from it, in cores.
_BUSY = 0.01
#: A pod that used less than this share of what the run cost did not serve it.
_SHARE = 0.5


class Pods(NamedTuple):
    """Pods (p,): the *key* they are looked up by (function or name, -1 none), life in microseconds, *node* code.

    A pod lives from *born*, and is its function's from *since*, until *until*.
    """

    key: Codes
    born: Ints
    since: Ints
    until: Ints
    node: Codes


def place(
    key: Codes, start: Ints, ready: Ints, end: Ints, pods: Pods, samples: Samples, skew: int
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return method, pod, node (-1 where not certain) and needed skew of every activation (n,).

    *key* -1 is not looked for; *ready*, between start and end, is from when the pod must be its function's. Method
    codes are those of `featurestore.attribution.methods.METHODS`.
    """
    n = len(key)
    method = np.full(n, 4, np.int64)
    pod = np.full(n, -1, np.int64)
    node = np.full(n, -1, np.int64)
    needed = np.zeros(n, np.int64)
    wanted = np.flatnonzero(key >= 0).astype(np.int32)
    usable = np.flatnonzero(pods.key >= 0).astype(np.int32)
    if len(wanted) == 0 or len(usable) == 0:
        return method, pod, node, needed
    wanted = wanted[np.argsort(ready[wanted], kind="stable")]
    usable = usable[np.argsort(pods.since[usable], kind="stable")]
    by_key, key_offsets = group(key[wanted])
    by_pod, pod_offsets = group(pods.key[usable])
    _place(
        wanted[by_key], key_offsets, usable[by_pod], pod_offsets, start, ready, end,
        pods.born, pods.since, pods.until, pods.node, samples.offsets, samples.begin, samples.end, samples.value,
        skew, method, pod, node, needed,
    )  # fmt: skip
    return method, pod, node, needed


@compiled
def _used(
    offsets: Ints, begin: Ints, until: Ints, value: Floats, pod: int, start: int, end: int
) -> tuple[float, int]:
    """Return a pod's CPU time over the samples that touch the run and how much time they cover; -1: not known."""
    low, high = offsets[pod], offsets[pod + 1]
    last = high
    while low < high:
        middle = (low + high) // 2
        if until[middle] > start:
            high = middle
        else:
            low = middle + 1
    if low == last or begin[low] > start:
        return 0.0, -1
    total = 0.0
    covered = 0
    reached = begin[low]
    while low < last and begin[low] < end:
        if begin[low] > reached:
            return 0.0, -1
        total += value[low] * (until[low] - begin[low])
        covered += until[low] - begin[low]
        reached = until[low]
        low += 1
    return total, covered if reached >= end else -1


@compiled
def _place(
    wanted: Codes,
    key_offsets: Ints,
    usable: Codes,
    pod_offsets: Ints,
    start: Ints,
    ready: Ints,
    end: Ints,
    born: Ints,
    since: Ints,
    until: Ints,
    on: Codes,
    offsets: Ints,
    sample_begin: Ints,
    sample_end: Ints,
    value: Floats,
    skew: int,
    method: Ints,
    chosen: Ints,
    node: Ints,
    needed: Ints,
) -> None:
    """Walk each key's activations by *ready* with the pods that may be alive; *wanted*, *usable* are so sorted."""
    alive = np.empty(len(usable), np.int32)
    fitting = np.empty(len(usable), np.int32)
    spent = np.empty(len(usable), np.float64)
    for key in range(min(len(key_offsets), len(pod_offsets)) - 1):
        coming, last = pod_offsets[key], pod_offsets[key + 1]
        living = 0
        for w in range(key_offsets[key], key_offsets[key + 1]):
            i = wanted[w]
            first, warm, stop = start[i], ready[i], end[i]
            while coming < last and since[usable[coming]] - skew <= warm:
                alive[living] = usable[coming]
                living += 1
                coming += 1
            kept = 0
            fits = 0
            least = skew + 1
            for a in range(living):
                p = alive[a]
                over = 0 if until[p] == OPEN else warm - until[p]
                if over > skew:
                    continue  # gone for every later activation as well
                alive[kept] = p
                kept += 1
                gap = max(0, born[p] - first, since[p] - warm)
                if until[p] != OPEN:
                    gap = max(gap, stop - until[p])
                if gap > skew or (least == 0 and gap > 0):
                    continue
                if gap == 0 and least > 0:
                    fits = 0  # pods alive by their own clocks come first
                least = min(least, gap)
                fitting[fits] = p
                fits += 1
            living = kept
            if fits == 0:
                continue
            needed[i] = least
            same = True
            for f in range(1, fits):
                same = same and on[fitting[f]] == on[fitting[0]]
            if fits == 1:
                method[i], chosen[i], node[i] = 0, fitting[0], on[fitting[0]]
            elif same:
                method[i], node[i] = 1, on[fitting[0]]
            else:
                method[i] = 3
                best = -1
                rate = 0.0
                for f in range(fits):
                    total, covered = _used(offsets, sample_begin, sample_end, value, fitting[f], first, stop)
                    if covered <= 0:
                        best = -1
                        break
                    spent[f] = total
                    if best < 0 or total / covered > rate:
                        best = f
                        rate = total / covered
                if best < 0 or rate < _BUSY:
                    continue
                cost = rate * (stop - first) * _SHARE
                one_node = True
                one_pod = True
                for f in range(fits):
                    if f != best and spent[f] >= cost:
                        one_pod = False
                        one_node = one_node and on[fitting[f]] == on[fitting[best]]
                if one_node:
                    method[i], node[i] = 2, on[fitting[best]]
                    if one_pod:
                        chosen[i] = fitting[best]
