"""What each activation used and where it ran, from where it was placed and its pod's own series.

A sample says what a pod used over the step that ends at it. All of that is the runs' that the pod served in the
step: it is shared among them in proportion to how long each ran in the step, and a run's use is the sum of its
shares. So the uses of a step's runs add up to what the pod used, and a pod's idling is its runs' as well.

A run whose node is certain but not its pod may have been served by any pod of its function there. In a step that
such a run touches, the function's pods on that node are taken together: what they used is shared among all runs of
the function there. The pods' samples are on one grid of time, as one range query gives them.

Memory is no rate: it is the mean working set over the run, of the pod, or of one of the pods where it is not
certain which. What the samples do not cover from the start of a run to its end is not known, metric by metric.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from featurestore.attribution.series import Samples, samples
from featurestore.columnar import TIME, codes, distinct, flags, floats, micros
from featurestore.compiled import compiled
from featurestore.exposure.kernels import Floats, Ints
from featurestore.exposure.sweep import OPEN
from featurestore.profiles import METRICS
from featurestore.used import USE

Bools = npt.NDArray[np.bool_]

#: The usage that makes up each amount.
_AMOUNTS: Mapping[str, str] = {
    "cpu_seconds": "cpu_cores",
    "memory_bytes": "memory_bytes",
    "network_bytes": "network_bytes_per_s",
    "disk_bytes": "disk_bytes_per_s",
}


def measure(
    activations: pa.Table,
    attributed: pa.Table,
    placements: pa.Table,
    usage: pa.Table,
    *,
    step_us: int,
    since_us: int | None = None,
) -> pa.Table:
    """Return `USE` of the activations that ended at *since_us* or later, in their order; of all where it is None.

    *activations* and *placements* are the columns of the store's tables, *attributed* what
    `attribution.attribute` says of them, *usage* the samples of pods. Composites and triggers have no
    row. *latency_ms* leaves the initialisation out; *vcores* is the pod's CPU limit (null: no limit, or no pod);
    *memory_limit_bytes* the pod's limit, else the action's. O((n + samples) log n), and a visit for each step that a
    run touches.
    """
    start, end = micros(activations["start"]), micros(activations["end"])
    last = np.where(end == OPEN, start, np.maximum(start, end))
    single = ~flags(activations["composite"])
    wanted = single & (last >= (since_us if since_us is not None else last))
    if since_us is not None:
        # Who shares a step with a wanted run counts too; the steps of earlier runs do not.
        first = int(start[wanted].min(initial=OPEN)) - step_us
        near = np.flatnonzero(single & (last >= first))
        usage = usage.filter(pc.greater(usage["at"], pa.scalar(first, pa.int64()).cast(TIME)))
    else:
        near = np.flatnonzero(single)
    if len(near) < activations.num_rows:
        activations, attributed = activations.take(near), attributed.take(near)
    start, end, last, wanted = start[near], end[near], last[near], wanted[near]

    placed = placements.filter(pc.is_valid(placements["function"]))
    by_pods = _by_pods(activations, attributed, placed, usage, (start, end, last), step_us) if len(placed) else {}
    amounts = {
        **by_pods,
        "latency_ms": _latency(activations, start, end),
        "memory_limit_bytes": _memory(activations, by_pods.get("memory_limit_bytes")),
    }
    unknown = pa.nulls(len(activations), pa.float64())
    told = {name: activations[name] for name in ("activation_id", "start", "end", "function")}
    told |= {name: attributed[name] for name in ("node", "pod", "method")}
    columns = [told[name] if name in told else _known(amounts.get(name), unknown) for name in USE.names]
    found = pa.table(columns, names=USE.names)
    return (found if wanted.all() else found.filter(pa.array(wanted))).cast(USE)


def _by_pods(
    activations: pa.Table,
    attributed: pa.Table,
    placed: pa.Table,
    usage: pa.Table,
    times: tuple[Ints, Ints, Ints],
    step_us: int,
) -> dict[str, Floats | None]:
    """Return the amounts and limits of the runs (n,) that their pods tell, by name; None where they tell nothing.

    *times* are start, end, and the last moment that is known of each run.
    """
    start, end, last = times
    nodes, names = distinct(placed["node"]), distinct(placed["pod"])
    functions = distinct(placed["function"])
    pod_node = codes(placed["node"], nodes).astype(np.int64)
    node = codes(attributed["node"], nodes).astype(np.int64)
    pods = pod_node * len(names) + codes(placed["pod"], names)
    own = codes(attributed["pod"], names)
    born = micros(placed["started"])
    life = _life(np.where((node >= 0) & (own >= 0), node * len(names) + own, -1), last, pods, born)
    # By clocks that differ a run may begin before its pod does.
    begin = np.where(life >= 0, np.minimum(np.maximum(start, born[life]), last), start)
    function = codes(activations["function"], functions)
    pool_of_pod, pool = _pools(
        pod_node * len(functions) + codes(placed["function"], functions),
        np.where((node >= 0) & (function >= 0), node * len(functions) + function, -1),
    )
    pool = np.where(life >= 0, pool_of_pod[life], pool)
    known_end = end != OPEN
    runs = _Runs(np.where(known_end, life, -1), np.where(known_end, pool, -1), begin, last, pool_of_pod)
    return {
        "vcores": _limit(floats(placed["cpu_limit_cores"]), life, pool, pool_of_pod),
        "memory_limit_bytes": _limit(floats(placed["memory_limit_bytes"]), life, pool, pool_of_pod),
        **{
            amount: _amount(runs, samples(placed, _of(usage, METRICS[source]), step_us), amount != "memory_bytes")
            for amount, source in _AMOUNTS.items()
        },
    }


class _Runs(NamedTuple):
    """Runs (n,): *life* the placement, *pool* the function's pods on the node (-1: not known); *pool_of_pod* (p,)."""

    life: Ints
    pool: Ints
    start: Ints
    end: Ints
    pool_of_pod: Ints


def _amount(runs: _Runs, single: Samples, rate: bool) -> Floats | None:
    """Return what each run used (of a rate), or the mean over it; NaN where the samples do not cover it, None where
    there are none."""
    if len(single.value) == 0:
        return None
    together, step, members = _together(single, runs.pool_of_pod)
    unsure = np.where(runs.life < 0, runs.pool, -1)
    if not rate:
        together = together._replace(value=together.value / np.maximum(members, 1))
        by_pod = _over(*single, np.zeros(0, np.int64), runs.life, runs.start, runs.end)
        by_pool = _over(*together, np.zeros(0, np.int64), unsure, runs.start, runs.end)
        return np.where(runs.life >= 0, by_pod, by_pool)
    mixed = _busy(together.offsets, together.begin, together.end, unsure, runs.start, runs.end) > 0
    apart = single._replace(value=np.where(mixed[step], 0.0, single.value))
    together = together._replace(value=np.where(mixed, together.value, 0.0))
    shared = [
        _over(*series, _busy(*series[:3], key, runs.start, runs.end), key, runs.start, runs.end)
        for series, key in ((apart, runs.life), (together, runs.pool))
    ]
    return np.where(runs.life >= 0, shared[0] + shared[1], shared[1])


def _together(single: Samples, pool_of_pod: Ints) -> tuple[Samples, Ints, Ints]:
    """Add the samples of pods by pool and time: the sums, where each sample went (m,), and how many each is of."""
    pools = int(pool_of_pod.max(initial=-1)) + 1
    pool = np.repeat(pool_of_pod, np.diff(single.offsets))
    order = np.lexsort((single.end, pool))
    new = (np.diff(pool[order], prepend=-1) != 0) | (np.diff(single.end[order], prepend=0) != 0)
    first = np.flatnonzero(new)
    step = np.empty(len(pool), np.int64)
    step[order] = np.cumsum(new) - 1
    end = single.end[order][first]
    if len(first) == 0:
        return Samples(np.zeros(pools + 1, np.int64), end, end, np.empty(0)), step, first
    begin = np.minimum.reduceat(single.begin[order], first)
    value = np.add.reduceat(single.value[order], first)
    offsets = np.searchsorted(pool[order][first], np.arange(pools + 1))
    return Samples(offsets, begin, end, value), step, np.diff(first, append=len(pool))


def _pools(of_pods: Ints, of_runs: Ints) -> tuple[Ints, Ints]:
    """Number the pods' pools from 0; return those of the pods and of the runs, -1 where there is no such pool."""
    present, of_pod = np.unique(of_pods, return_inverse=True)
    if len(present) == 0:
        return of_pod.reshape(-1).astype(np.int64), np.full(len(of_runs), -1, np.int64)
    at = np.minimum(np.searchsorted(present, of_runs), len(present) - 1)
    return of_pod.reshape(-1).astype(np.int64), np.where(present[at] == of_runs, at, -1)


def _life(key: Ints, at: Ints, of_pods: Ints, born: Ints) -> Ints:
    """Return which pod of its *key* each run (n,) is of: the last born by *at*, else the first; or -1."""
    found = np.full(len(key), -1, np.int64)
    if len(of_pods) == 0:
        return found
    order = np.lexsort((born, of_pods))
    low, high = (np.searchsorted(of_pods[order], key, side=side) for side in ("left", "right"))
    found[low < high] = order[low[low < high]]
    several = np.flatnonzero(high - low > 1)
    if len(several):
        rank = np.lexsort((np.repeat([0, 1], [len(born), len(several)]), np.concatenate([born, at[several]])))
        place = np.empty(len(rank), np.int64)
        place[rank] = np.arange(len(rank))
        by_time = of_pods[order] * len(rank) + place[order]  # ascending: by key, then by time
        row = np.searchsorted(by_time, key[several] * len(rank) + place[len(born) :]) - 1
        found[several] = order[np.maximum(row, low[several])]
    return found


def _limit(limit: Floats, life: Ints, pool: Ints, pool_of_pod: Ints) -> Floats | None:
    """Return the pod's limit; where that is not certain what the pool's pods agree on; else NaN.

    None where no pod has one."""
    if not np.isfinite(limit).any():
        return None
    low, high = np.full(pool_of_pod.max() + 1, np.inf), np.full(pool_of_pod.max() + 1, -np.inf)
    with np.errstate(invalid="ignore"):  # a pod without a limit leaves its pool without one
        np.minimum.at(low, pool_of_pod, limit)
        np.maximum.at(high, pool_of_pod, limit)
    of_pool = np.where(low == high, low, np.nan)
    return np.where(life >= 0, limit[life], np.where(pool >= 0, of_pool[pool], np.nan))


def _latency(activations: pa.Table, start: Ints, end: Ints) -> Floats:
    """Return how long the runs (n,) took without their initialisation, milliseconds; NaN where it is not known."""
    found = floats(activations["duration_ms"])
    untold = np.flatnonzero(~np.isfinite(found))
    first, last = start[untold], end[untold]
    found[untold] = np.where(last != OPEN, (np.maximum(first, last) - first) / 1000, np.nan)
    cold = np.flatnonzero(flags(activations["init_ms"].is_valid()))
    found[cold] -= np.nan_to_num(floats(activations["init_ms"].take(pa.array(cold))))
    return found


def _memory(activations: pa.Table, limit: Floats | None) -> Floats:
    """Return the *limit* of the pods of the runs (n,), bytes, where they have one, else that of their action."""
    stated = floats(activations["memory_mb"])
    stated *= 2.0**20
    if limit is not None:
        np.copyto(stated, limit, where=np.isfinite(limit))
    return stated


def _of(usage: pa.Table, metrics: tuple[str, ...]) -> pa.Table:
    return usage.filter(pc.is_in(usage["metric"], value_set=pa.array(metrics)))


def _known(values: Floats | None, unknown: pa.Array) -> pa.Array:
    if values is None:
        return unknown
    known = np.isfinite(values)
    return pa.array(values) if known.all() else pa.array(values, mask=~known)


@compiled
def _first(end: Ints, low: int, high: int, at: int) -> int:
    """Return the first of the steps low:high that ends after *at*."""
    while low < high:
        middle = (low + high) // 2
        if end[middle] > at:
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def _busy(offsets: Ints, begin: Ints, end: Ints, key: Ints, start: Ints, stop: Ints) -> Ints:
    """Return how long the runs of each step's key ran in it, together."""
    found = np.zeros(len(end), np.int64)
    for i in range(len(key)):
        if key[i] < 0:
            continue
        last = offsets[key[i] + 1]
        s = _first(end, offsets[key[i]], last, start[i])
        while s < last and begin[s] < stop[i]:
            found[s] += max(0, min(stop[i], end[s]) - max(start[i], begin[s]))
            s += 1
    return found


@compiled
def _over(
    offsets: Ints, begin: Ints, end: Ints, value: Floats, busy: Ints, key: Ints, start: Ints, stop: Ints
) -> Floats:
    """Return each run's shares of its steps by *busy* time, or, with an empty *busy*, the mean; NaN: not covered."""
    found = np.full(len(key), np.nan)
    for i in range(len(key)):
        if key[i] < 0:
            continue
        last = offsets[key[i] + 1]
        s = _first(end, offsets[key[i]], last, start[i])
        if s == last or begin[s] > start[i]:
            continue
        total = 0.0 if len(busy) > 0 or stop[i] > start[i] else value[s]
        reached = start[i]
        while s < last and begin[s] < stop[i] and begin[s] <= reached:
            own = min(stop[i], end[s]) - max(start[i], begin[s])
            if len(busy) == 0:
                total += value[s] * own / max(1, stop[i] - start[i])
            elif busy[s] > 0:
                total += value[s] * ((end[s] - begin[s]) / 1e6) * (own / busy[s])
            reached = end[s]
            s += 1
        if reached >= stop[i]:
            found[i] = total
    return found
