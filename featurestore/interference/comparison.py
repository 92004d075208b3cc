"""What the obvious comparison says of each pair, and what of it the joint fit puts down to something else.

The obvious (naive) slowdown is the typical time of the victim's runs that met the aggressor over that of its runs
that did not, less 1; typical is the geometric mean. Its logarithm falls into four differences between both kinds of
runs, by what was learned: the aggressor itself, other co-runners, node types, and the rest (cold starts, load, time,
node, chance). Source: the decomposition of Oaxaca, Int. Econ. Rev. 14 (1973) 693.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from featurestore.compiled import compiled
from featurestore.exposure.sweep import group
from featurestore.interference.evidence import Bools, Codes, Counts, Floats, Ints

#: Smallest admitted 1 + sum of slowdowns, as in the fit.
_LEAST = 0.2
#: What is summed over a victim's runs: their number, log seconds, log base of the node type, the log factor of one
#: aggressor, that of all the others, cold starts.
_RUNS, _TIME, _BASE, _OWN, _OTHERS, _COLD = range(6)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Of each pair [k] whose *victim* [k] ran both with and without the *aggressor* [k], in their order.

    *naive* is the slowdown of the obvious comparison; log(1 + naive) is the sum of *own*, *others*, *node_types* and
    *rest*. *cold_beside* and *cold_without* are the shares of cold starts among both kinds of runs. *alone* [F]
    counts the victim's runs that met nobody.
    """

    victim: Ints
    aggressor: Ints
    naive: Floats
    own: Floats
    others: Floats
    node_types: Floats
    rest: Floats
    cold_beside: Floats
    cold_without: Floats
    alone: Ints


def compare(
    victim: Ints,
    execution: Floats,
    node_type: Ints,
    cold: Bools,
    exposure: tuple[Ints, Codes | Counts | Ints, Floats],
    slowdown: Sequence[tuple[Ints, Floats]],
    base: Floats,
    threads: int = 1,
) -> Comparison:
    """Compare the runs [n] of all victims with and without each aggressor; a few victims at a time, so that memory is
    O(n + F + pairs that met). Time O(n + non-zeros + F^2).

    *execution* seconds (others than finite and positive take no part), *exposure* CSR (indptr [n + 1], indices,
    values), *slowdown* [F] of each victim the aggressors and what was learned of them (NaN counts as none), *base*
    [F, T + 1] the undisturbed seconds on each node type, NaN where not known; its last column is for runs on nodes of
    no known type (*node_type* -1).
    """
    functions = len(slowdown)
    taken = np.isfinite(execution) & (execution > 0)
    seconds = np.log(np.where(taken, execution, 1.0))
    known = np.isfinite(base) & (base > 0)
    level = np.full(base.shape, np.nan)
    level[known] = np.log(base[known])
    columns = (seconds, level[victim, node_type], cold)
    rows, first = group(np.where(taken, victim, -1).astype(np.int32) + np.int32(1))
    first = np.append(first, np.full(max(0, functions + 2 - len(first)), first[-1]))  # the last may have no runs
    alone = np.zeros(functions, np.int64)

    def one(own: int) -> tuple[Ints, Floats, Floats]:
        learned, sums, whole = np.zeros(functions), np.zeros((functions, 6)), np.zeros(6)
        learned[slowdown[own][0]] = np.nan_to_num(slowdown[own][1], nan=0.0)
        mine = rows[first[own + 1] : first[own + 2]]
        alone[own] = _sum(mine, columns, exposure, learned, sums, whole)
        both = np.flatnonzero((sums[:, _RUNS] > 0) & (sums[:, _RUNS] < whole[_RUNS]))
        return np.stack([np.full(len(both), own), both], axis=1), sums[both], whole - sums[both]

    pairs, beside, apart = [np.zeros((0, 2), np.int64)], [np.zeros((0, 6))], [np.zeros((0, 6))]
    with ThreadPoolExecutor(threads) as pool:
        for met, with_some, without_some in pool.map(one, np.flatnonzero(np.diff(first)[1:]).tolist()):
            pairs.append(met)
            beside.append(with_some)
            apart.append(without_some)
    found = np.concatenate(pairs)
    with_it, without = np.concatenate(beside), np.concatenate(apart)
    without[:, _OTHERS] -= with_it[:, _OWN]  # the whole has the factor of all, the aggressor's included
    without[:, _OWN] = 0.0
    mean, mean_without = with_it / with_it[:, :1], without / without[:, :1]
    difference = mean - mean_without
    total, own, others, types = (difference[:, at] for at in (_TIME, _OWN, _OTHERS, _BASE))
    return Comparison(
        victim=found[:, 0],
        aggressor=found[:, 1],
        naive=np.expm1(total),
        own=own,
        others=others,
        node_types=types,
        rest=total - own - others - types,
        cold_beside=mean[:, _COLD],
        cold_without=mean_without[:, _COLD],
        alone=alone,
    )


@compiled
def _sum(
    rows: Codes,
    columns: tuple[Floats, Floats, Bools],
    exposure: tuple[Ints, Codes | Counts | Ints, Floats],
    slowdown: Floats,
    beside: Floats,
    whole: Floats,
) -> int:
    """Add up what `_RUNS` .. `_COLD` say of one victim's *rows*, run by run, into *beside* [F, 6] and *whole* [6],
    which has the factor of all aggressors under `_OTHERS`; return how many runs met nobody."""
    seconds, base, cold = columns
    indptr, indices, values = exposure
    alone = 0
    for i in rows:
        total = 1.0
        met = False
        for k in range(indptr[i], indptr[i + 1]):
            s = slowdown[indices[k]]
            total += s * values[k] / (1.0 + s * max(0.0, 1.0 - values[k]))
            met = met or values[k] > 0
        whole[_RUNS] += 1
        whole[_TIME] += seconds[i]
        whole[_BASE] += base[i]
        told = np.log(max(total, _LEAST))
        whole[_OTHERS] += told
        whole[_COLD] += cold[i]
        alone += not met
        for k in range(indptr[i], indptr[i + 1]):
            if values[k] > 0:
                s = slowdown[indices[k]]
                part = s * values[k] / (1.0 + s * max(0.0, 1.0 - values[k]))
                left = np.log(max(total - part, _LEAST)) if part != 0.0 else told
                other = indices[k]
                beside[other, _RUNS] += 1
                beside[other, _TIME] += seconds[i]
                beside[other, _BASE] += base[i]
                beside[other, _OWN] += told - left
                beside[other, _OTHERS] += left
                beside[other, _COLD] += cold[i]
    return alone
