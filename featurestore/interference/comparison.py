"""What the obvious comparison says of each pair, and what of it the joint fit puts down to something else.

The obvious (naive) slowdown is the typical time of the victim's runs that met the aggressor over that of its runs
that did not, less 1; typical is the geometric mean. Its logarithm falls into four differences between both kinds of
runs, by what was learned: the aggressor itself, other co-runners, node types, and the rest (cold starts, load, time,
node, chance). Source: the decomposition of Oaxaca, Int. Econ. Rev. 14 (1973) 693.
"""

from dataclasses import dataclass

import numpy as np

from featurestore.compiled import compiled
from featurestore.interference.evidence import Bools, Floats, Ints

#: Smallest admitted 1 + sum of slowdowns, as in the fit.
_LEAST = 0.2
#: What is summed over a victim's runs: their number, log seconds, log base of the node type, the log factor of one
#: aggressor, that of all the others, cold starts.
_RUNS, _TIME, _BASE, _OWN, _OTHERS, _COLD = range(6)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All [F, F], victim by aggressor, NaN where the victim did not run both with and without the aggressor.

    *naive* is the slowdown of the obvious comparison; log(1 + naive) is the sum of *own*, *others*, *node_types* and
    *rest*. *cold_beside* and *cold_without* are the shares of cold starts among both kinds of runs. *alone* [F]
    counts the victim's runs that met nobody.
    """

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
    exposure: tuple[Ints, Ints, Floats],
    slowdown: Floats,
    base: Floats,
) -> Comparison:
    """Compare the runs [n] of all victims with and without each aggressor. O(n + non-zeros + F^2).

    *execution* seconds (others than finite and positive take no part), *exposure* CSR (indptr [n + 1], indices,
    values), *slowdown* [F, F] as learned (NaN counts as none), *base* [F, T + 1] the undisturbed seconds on each node
    type, NaN where not known; its last column is for runs on nodes of no known type (*node_type* -1).
    """
    functions = len(slowdown)
    taken = np.isfinite(execution) & (execution > 0)
    seconds = np.log(np.where(taken, execution, 1.0))
    known = np.isfinite(base) & (base > 0)
    level = np.full(base.shape, np.nan)
    level[known] = np.log(base[known])
    beside = np.zeros((functions, functions, 6))
    whole = np.zeros((functions, 6))
    alone = np.zeros(functions, np.int64)
    rows = (victim, taken, seconds, level[victim, node_type], cold)
    _sum(rows, exposure, np.nan_to_num(slowdown, nan=0.0), beside, whole, alone)
    apart = whole[:, None] - beside
    apart[:, :, _OTHERS] -= beside[:, :, _OWN]  # the whole has the factor of all, the aggressor's included
    apart[:, :, _OWN] = 0.0
    with np.errstate(invalid="ignore", divide="ignore"):  # 0 / 0 where there are no such runs: NaN, as is said
        mean, without = beside / beside[:, :, :1], apart / apart[:, :, :1]
    difference = mean - without
    total, own, others, types = (difference[:, :, at] for at in (_TIME, _OWN, _OTHERS, _BASE))
    return Comparison(
        naive=np.expm1(total),
        own=own,
        others=others,
        node_types=types,
        rest=total - own - others - types,
        cold_beside=mean[:, :, _COLD],
        cold_without=without[:, :, _COLD],
        alone=alone,
    )


@compiled
def _sum(
    rows: tuple[Ints, Bools, Floats, Floats, Bools],
    exposure: tuple[Ints, Ints, Floats],
    slowdown: Floats,
    beside: Floats,
    whole: Floats,
    alone: Ints,
) -> None:
    """Add up what `_RUNS` .. `_COLD` say, run by run; *whole* has the factor of all aggressors under `_OTHERS`."""
    victim, taken, seconds, base, cold = rows
    indptr, indices, values = exposure
    for i in range(len(victim)):
        if not taken[i]:
            continue
        v = victim[i]
        total = 1.0
        met = False
        for k in range(indptr[i], indptr[i + 1]):
            s = slowdown[v, indices[k]]
            total += s * values[k] / (1.0 + s * max(0.0, 1.0 - values[k]))
            met = met or values[k] > 0
        whole[v, _RUNS] += 1
        whole[v, _TIME] += seconds[i]
        whole[v, _BASE] += base[i]
        whole[v, _OTHERS] += np.log(max(total, _LEAST))
        whole[v, _COLD] += cold[i]
        alone[v] += not met
        for k in range(indptr[i], indptr[i + 1]):
            if values[k] > 0:
                b = indices[k]
                s = slowdown[v, b]
                left = np.log(max(total - s * values[k] / (1.0 + s * max(0.0, 1.0 - values[k])), _LEAST))
                sums = beside[v, b]
                sums[_RUNS] += 1
                sums[_TIME] += seconds[i]
                sums[_BASE] += base[i]
                sums[_OWN] += np.log(max(total, _LEAST)) - left
                sums[_OTHERS] += left
                sums[_COLD] += cold[i]
