"""What a function uses: amounts per second busy and per invocation, by node type, from its pods' own series.

A sample says what a pod used over the step before it. For every step, function and node, the use of the function's
pods is divided by the time that its activations ran there (so an idle pod's use is not taken for the function's), and
the steps are weighed by that time. Memory is no rate: it is the working set of one pod. Shares are amounts by the
node's allocatable; where a node states no bandwidth of its network or disks, the largest use seen stands for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from featurestore.attribution.series import pair
from featurestore.columnar import codes, floats, integers, micros
from featurestore.exposure.kernels import Floats, Ints
from featurestore.interference.concurrency import build
from featurestore.runs import Runs

RESOURCES = ("cpu", "memory", "network", "disk")
AMOUNTS = ("cpu_cores", "memory_bytes", "network_bytes_per_s", "disk_bytes_per_s")

#: The usage metrics that make up each amount.
METRICS: Mapping[str, tuple[str, ...]] = {
    "cpu_cores": ("cpu_cores",),
    "memory_bytes": ("memory_bytes",),
    "network_bytes_per_s": ("network_receive_bytes_per_s", "network_transmit_bytes_per_s"),
    "disk_bytes_per_s": ("disk_read_bytes_per_s", "disk_write_bytes_per_s"),
}
_NAMES = pa.array([metric for metrics in METRICS.values() for metric in metrics])

#: A step in which the function was busy for a smaller share says more of idling than of the function.
_BUSY_SHARE = 0.02

#: Bandwidths where neither the node nor any use seen says more: a gigabit, a plain solid-state disk.
_LEAST_CAPACITY: Mapping[str, float] = {"network_bytes_per_s": 125e6, "disk_bytes_per_s": 200e6}


@dataclass(frozen=True, slots=True)
class Profiles:
    """Measured use of functions by node type; rows of the arrays belong together.

    *function*, *node_type* codes (node type -1: all together); *p50*, *p95* (rows, 4) in the order of `AMOUNTS`, per
    second busy (memory: of one pod), NaN where not measured; *invocation* (rows, 4) the p50 of one invocation
    (core-seconds, bytes); *share* (rows, 4) p50 by the node's allocatable.
    """

    function: Ints
    node_type: Ints
    p50: Floats
    p95: Floats
    invocation: Floats
    share: Floats


def measure(runs: Runs, placements: pa.Table, usage: pa.Table, specs: pa.Table, step_us: int) -> Profiles:
    """Measure the profiles of all functions that have samples: one row a function and node type, and one for all.

    Rows for all types come first, then the others, each by function and node type.
    """
    found, most = amounts(runs, placements, usage, step_us)
    return shared(found, most, specs, runs.node_types)


def shared(found: Profiles, most: Floats, specs: pa.Table, node_types: pa.Array) -> Profiles:
    """Return the profiles that were *found* with their shares of what nodes offer, by their *specs*; *most* (4,) is
    the largest use of a function's pods on one node that was seen."""
    return replace(found, share=found.p50 / _capacity(specs, most, node_types)[found.node_type + 1])


def amounts(runs: Runs, placements: pa.Table, usage: pa.Table, step_us: int) -> tuple[Profiles, Floats]:
    """Return the profiles of the functions of *runs* without their shares (NaN), and the largest use seen (4,).

    A function's rows are made of its own runs, pods and samples.
    """
    cells = _cells(runs, placements, usage, step_us)
    functions, types = len(runs.functions), len(runs.node_types)
    seconds = _mean_execution(runs)
    keys: list[Ints] = []
    parts: list[tuple[Floats, Floats]] = []
    for all_types in (True, False):
        found = np.full((functions * (types + 1), 4, 2), np.nan)
        for r, amount in enumerate(AMOUNTS):
            cell = cells[amount]
            kind = np.full(len(cell.function), -1) if all_types else cell.node_type
            found[:, r] = _weighted(
                cell.function * (types + 1) + kind + 1, cell.value, cell.busy, functions * (types + 1)
            )
        rows = np.flatnonzero(np.isfinite(found[:, :, 0]).any(axis=1))
        rows = rows if all_types else rows[rows % (types + 1) > 0]
        keys.append(rows)
        parts.append((found[rows, :, 0], found[rows, :, 1]))
    key = np.concatenate(keys)
    function, node_type = key // (types + 1), key % (types + 1) - 1
    p50 = np.concatenate([part[0] for part in parts])
    p95 = np.concatenate([part[1] for part in parts])
    invocation = p50 * np.where(np.arange(4) == 1, 1.0, seconds[function][:, None])
    most = np.array([cells[amount].total.max(initial=0.0) for amount in AMOUNTS])
    return Profiles(function, node_type, p50, p95, invocation, np.full_like(p50, np.nan)), most


def nothing() -> Profiles:
    """Return the profiles of one who measured nothing."""
    codes, amounts = np.zeros(0, np.int64), np.zeros((0, len(AMOUNTS)))
    return Profiles(codes, codes, amounts, amounts, amounts, amounts)


def dominant(share: Sequence[float] | Floats) -> str:
    """Name the resource with the largest share if at least 1.5 times the second, else ``mixed``; "" if none known."""
    known = [(float(value), name) for value, name in zip(share, RESOURCES, strict=True) if np.isfinite(value)]
    known.sort(key=lambda pair: -pair[0])
    if not known or known[0][0] <= 0:
        return ""
    if len(known) > 1 and known[0][0] < 1.5 * known[1][0] * (1 - 1e-9):  # .3 is 1.5 times .2
        return "mixed"
    return known[0][1]


def thresholds(share: Floats) -> Floats:
    """Return the two limits (4, 2) between low, medium and high for each resource, from the functions' shares (k, 4).

    The limits cut the logarithms into the three groups of least squares (Fisher, J. Am. Statist. Assoc. 53 (1958)
    789). A resource for which fewer than three different shares are known has its limits at a tenth and a third of
    a node.
    """
    found = np.tile(np.array([0.1, 1 / 3]), (4, 1))
    for r in range(share.shape[1] if share.ndim == 2 else 0):
        values = np.log(np.unique(share[np.isfinite(share[:, r]) & (share[:, r] > 0), r]))
        if len(values) >= 3:
            found[r] = np.exp(_natural_breaks(values))
    return found


def levels(share: Floats, limits: Floats) -> list[str]:
    """Return low, medium or high for each resource of one function, "" where its share is not known."""
    return [
        "" if not np.isfinite(value) else ("low", "medium", "high")[int(np.sum(value > limit))]
        for value, limit in zip(share, limits, strict=True)
    ]


def _natural_breaks(values: Floats) -> tuple[float, float]:
    """Return the midpoints that cut sorted distinct *values* into three groups of least squares.

    At most 200 values are looked at, evenly taken by rank.
    """
    if len(values) > 200:
        values = values[np.linspace(0, len(values) - 1, 200).astype(np.int64)]
    n = len(values)
    total, square = np.concatenate([[0], np.cumsum(values)]), np.concatenate([[0], np.cumsum(values**2)])

    def spread(first: Ints, last: Ints) -> Floats:
        found: Floats = square[last] - square[first] - (total[last] - total[first]) ** 2 / (last - first)
        return found

    low, high = np.triu_indices(n - 1, 1)
    low, high = low + 1, high + 1
    cost = spread(np.zeros_like(low), low) + spread(low, high) + spread(high, np.full_like(high, n))
    best = int(np.argmin(cost))
    a, b = int(low[best]), int(high[best])
    return float(values[a - 1 : a + 1].mean()), float(values[b - 1 : b + 1].mean())


@dataclass(frozen=True, slots=True)
class _Cells:
    """Use by function, node and step: *value* per second busy (memory: per pod), *total* of the node's pods."""

    function: Ints
    node: Ints
    node_type: Ints
    value: Floats
    total: Floats
    busy: Floats


def _cells(runs: Runs, placements: pa.Table, usage: pa.Table, step: int) -> Mapping[str, _Cells]:
    kind = np.full(len(runs.nodes) + 1, -1, np.int64)
    kind[runs.node[::-1]] = runs.node_type[::-1]
    samples = _of_functions(runs, placements, usage)
    busy = _Busy(runs if len(samples) else runs.take(np.zeros(0, np.int64)))
    found = {}
    for amount, metrics in METRICS.items():
        mine = samples.filter(pc.is_in(samples["metric"], pc.index_in(pa.array(metrics), value_set=_NAMES)))
        summed = mine.group_by(["function", "node", "at"]).aggregate([("value", "sum"), ("pod", "count_distinct")])
        function, node = (floats(summed[name]).astype(np.int64) for name in ("function", "node"))
        at, total = integers(summed["at"], 0), floats(summed["value_sum"])
        seconds = busy.between(function, node, at - step, at)
        enough = seconds >= _BUSY_SHARE * step / 1e6
        if amount == "memory_bytes":
            value = total / floats(summed["pod_count_distinct"])
        else:
            value = total * (step / 1e6) / np.maximum(seconds, 1e-9)
        found[amount] = _Cells(
            *(column[enough] for column in (function, node, kind[node], value, total, seconds)),  # type: ignore[arg-type]
        )
    return found


def _of_functions(runs: Runs, placements: pa.Table, usage: pa.Table) -> pa.Table:
    """Return the samples of functions' pods as codes: function, node, pod (placement), metric, at, value."""
    function, node = codes(placements["function"], runs.functions), codes(placements["node"], runs.nodes)
    row, pod = pair(placements, usage)
    at = micros(usage["at"])[row]
    alive = (at > micros(placements["started"])[pod]) & (at <= micros(placements["ended"])[pod])
    kept = np.flatnonzero(alive & (function[pod] >= 0) & (node[pod] >= 0))
    row, pod = row[kept], pod[kept]
    return pa.table(
        {
            "function": function[pod],
            "node": node[pod],
            "pod": pod,
            "metric": codes(usage["metric"], _NAMES)[row],
            "at": at[kept],
            "value": floats(usage["value"])[row],
        }
    )


class _Busy:
    """How long the activations of a function ran on a node within a span."""

    def __init__(self, runs: Runs) -> None:
        placed = runs.node >= 0
        key = runs.function[placed].astype(np.int64) * max(1, len(runs.nodes)) + runs.node[placed]
        self.present, code = np.unique(key, return_inverse=True)
        self.nodes = max(1, len(runs.nodes))
        self.integrals = build(
            code.astype(np.int64), runs.start[placed] / 1e6, runs.end[placed] / 1e6, len(self.present)
        )

    def between(self, function: Ints, node: Ints, since: Ints, until: Ints) -> Floats:
        """Return activation-seconds (n,) of *function* on *node* from *since* to *until* (microseconds)."""
        key = function * self.nodes + node
        found = np.zeros(len(key))
        order = np.argsort(key, kind="stable")
        wanted, first = np.unique(key[order], return_index=True)
        for k, rows in zip(wanted, np.split(order, first)[1:], strict=True):
            at = int(np.searchsorted(self.present, k))
            if at < len(self.present) and self.present[at] == k:
                span = slice(self.integrals.offsets[at], self.integrals.offsets[at + 1])
                times, area = self.integrals.times[span], self.integrals.integral[span]
                area = (area - area[0]) / 1e6  # whole numbers first: the same whichever functions are beside it
                found[rows] = np.interp(until[rows], times, area) - np.interp(since[rows], times, area)
        return found


def _capacity(specs: pa.Table, most: Floats, node_types: pa.Array) -> Floats:
    """Return what a node offers, (node types + 1, 4): the median over the nodes of each type, first over all."""
    kind = codes(specs["node_type"], node_types)
    stated = {
        "cpu_cores": floats(specs["cpu_cores"]),
        "memory_bytes": floats(specs["memory_bytes"]),
        "network_bytes_per_s": floats(specs["network_bytes_per_s"]),
        "disk_bytes_per_s": np.full(len(kind), np.nan),
    }
    found = np.full((len(node_types) + 1, 4), np.nan)
    for r, amount in enumerate(AMOUNTS):
        for row in range(len(found)):
            mine = stated[amount][(kind == row - 1) | (row == 0)]
            mine = mine[np.isfinite(mine) & (mine > 0)]
            if len(mine):
                found[row, r] = np.median(mine)
            elif amount in _LEAST_CAPACITY:
                found[row, r] = max(_LEAST_CAPACITY[amount], float(most[r]))
    return found


def _mean_execution(runs: Runs) -> Floats:
    number = np.bincount(runs.function[runs.evidence], minlength=len(runs.functions))
    total = np.bincount(
        runs.function[runs.evidence],
        weights=np.nan_to_num(runs.execution[runs.evidence]),
        minlength=len(runs.functions),
    )
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def _weighted(group: Ints, value: Floats, weight: Floats, groups: int) -> Floats:
    """Return the weighted median and 95th percentile of *value* by *group*: (groups, 2), NaN where empty."""
    order = np.lexsort((value, group))
    group, value, weight = group[order], value[order], weight[order]
    total = np.concatenate([[0.0], np.cumsum(weight)])
    first = np.searchsorted(group, np.arange(groups + 1))
    found = np.full((groups, 2), np.nan)
    some = np.flatnonzero(np.diff(first) > 0)
    for column, level in enumerate((0.5, 0.95)):
        wanted = total[first[some]] + level * (total[first[some + 1]] - total[first[some]])
        at = np.searchsorted(total, wanted, side="left") - 1
        found[some, column] = value[np.clip(at, first[some], first[some + 1] - 1)]
    return found
