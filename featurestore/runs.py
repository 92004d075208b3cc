"""The activations of a window as plain arrays: what ran where, from when to when, and whether it is evidence."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from featurestore import node_kernels
from featurestore.attribution.methods import CERTAIN, METHODS
from featurestore.columnar import codes, distinct, flags, floats, integers, micros, numbered
from featurestore.exposure.kernels import Codes, Floats, Ints
from featurestore.exposure.sweep import OPEN, group
from featurestore.node_kernels import NodeKernels

Bools = npt.NDArray[np.bool_]

#: Runs longer than a day (microseconds) are no functions' runs; they are no evidence.
_LONGEST = 86_400_000_000
#: Limits beyond this (megabytes, thousandths of a core) are all the same.
_WIDE = 1 << 20


@dataclass(frozen=True, slots=True)
class Runs:
    """n activations that have a pod of their own (no composites, no triggers), in order of start.

    *function*, *node*, *node_type* codes into *functions*, *nodes*, *node_types* (-1: not known); *start*, *end*
    microseconds, *end* never `OPEN`; *execution* seconds without initialisation, NaN where not known; *cold* whether
    it initialised; *version* codes into *versions*, which name action version and limits; *pod* codes into *pods*, -1
    where not certain.
    *evidence* marks successes of known length, of a day at most, on a certain node; the others only count as
    co-runners. *throttled* and *pressure* are CPU throttling and memory pressure over the run, NaN where not known;
    None where nobody's are. *kernels* tells which kernel each of *nodes* ran, and when.
    """

    functions: pa.Array
    nodes: pa.Array
    node_types: pa.Array
    pods: pa.Array
    versions: tuple[str, ...]
    function: Codes
    node: Codes
    node_type: Codes
    pod: Codes
    start: Ints
    end: Ints
    execution: Floats
    cold: Bools
    version: Ints
    evidence: Bools
    throttled: Floats | None = None
    pressure: Floats | None = None
    kernels: NodeKernels = field(default_factory=NodeKernels)

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: npt.NDArray[np.integer]) -> "Runs":
        """Return these runs alone, their codes as they are."""
        columns = (each.name for each in fields(self) if isinstance(getattr(self, each.name), np.ndarray))
        return replace(self, **{name: getattr(self, name)[rows] for name in columns})


def read(
    activations: pa.Table,
    attributed: pa.Table,
    specs: pa.Table,
    placements: pa.Table,
    horizon: int,
    functions: Sequence[str] = (),
    node_types: Sequence[str] = (),
    nodes: Sequence[str] = (),
) -> Runs:
    """Join *activations* with their attribution, the node specifications that were valid at their start, and limits.

    The response is the recorded duration (else end - start) less the initialisation, which lies inside it. A run
    without a known end lasts to its timeout at most, and to *horizon* at most. A function's CPU limit is that of the
    last of its pods (*placements*) that started before the run. *functions*, *node_types* and *nodes* come first
    among the names, in their order; what is new follows, sorted.
    """
    single = ~flags(activations["composite"])
    if not single.all():
        activations, attributed = activations.filter(pa.array(single)), attributed.filter(pa.array(single))
    names = _after(functions, distinct(activations["function"]))
    places = _after(nodes, distinct(attributed["node"], specs["node"]))
    kinds = _after(node_types, distinct(specs["node_type"], activations["node_type"]))
    pods = distinct(attributed["pod"])
    start, end = micros(activations["start"]), micros(activations["end"])
    known_end = end != OPEN
    initialisation = np.nan_to_num(floats(activations["init_ms"]), copy=False)
    function, node = codes(activations["function"], names), codes(attributed["node"], places)
    node_type = codes(activations["node_type"], kinds)
    untold = node_type < 0
    if untold.any():
        node_type[untold] = _type_at(node[untold], start[untold], specs, places, kinds)
    versions, version = _versions(activations, _cpu_limit(function, start, placements, names))
    evidence = known_end & (node >= 0) & np.isin(_method(attributed), CERTAIN)
    execution = _execution(activations, start, end, initialisation)
    evidence &= (integers(activations["status_code"], -1) == 0) & (end - start <= _LONGEST) & ~np.isnan(execution)
    return Runs(
        names,
        places,
        kinds,
        pods,
        versions,
        function,
        node,
        node_type,
        codes(attributed["pod"], pods),
        start,
        _until(activations, start, end, horizon),
        execution,
        initialisation > 0,
        version,
        evidence,
        kernels=node_kernels.read(specs, places),
    )


def _method(attributed: pa.Table) -> Codes:
    return codes(attributed["method"], pa.array(METHODS))


def _execution(activations: pa.Table, start: Ints, end: Ints, initialisation: Floats) -> Floats:
    """Return how long each run (n,) took without its *initialisation* (ms), seconds, NaN where it is not known or the
    initialisation is said to have taken longer."""
    found = floats(activations["duration_ms"])
    untold = np.flatnonzero(~np.isfinite(found))
    found[untold] = np.where(end[untold] != OPEN, (end[untold] - start[untold]) / 1000, np.nan)
    found -= initialisation
    found /= 1000
    found[found < 0] = np.nan
    return found


def _after(known: Sequence[str], found: pa.Array) -> pa.Array:
    """Return the *known* names and, after them, those *found* beside."""
    first = pa.array(known, pa.string())
    return pa.concat_arrays([first, found.filter(pc.invert(pc.is_in(found, value_set=first)))])


def _versions(activations: pa.Table, cpu: Floats | None) -> tuple[tuple[str, ...], Ints]:
    """Return the names of the versions with their limits, and each run's code (n,)."""
    stated = distinct(activations["version"])
    key = codes(activations["version"], stated).astype(np.int64)
    key += 1
    key *= _WIDE
    key += np.clip(integers(activations["memory_mb"], 0), 0, _WIDE - 1)
    key *= _WIDE
    if cpu is not None:
        key += np.clip(np.round(cpu * 1000).astype(np.int64), 0, _WIDE - 1)
    present, version = numbered(key)
    named_versions = ["", *stated.to_pylist()]
    names = [
        f"{named_versions[key // _WIDE**2]} {key // _WIDE % _WIDE} MB {key % _WIDE} m" for key in present.tolist()
    ]
    return tuple(names), version


def _cpu_limit(function: Codes, at: Ints, placements: pa.Table, names: pa.Array) -> Floats | None:
    """Return the CPU limit (cores, 0: none or not known) of each run's function at a time (n,); None: nobody's is."""
    own = codes(placements["function"], names)
    limit = np.nan_to_num(floats(placements["cpu_limit_cores"]))
    if not limit.any():
        return None
    found = np.zeros(len(function))
    started = micros(placements["started"])
    order = np.lexsort((started, own))
    own, started, limit = own[order], started[order], limit[order]
    low, high = np.searchsorted(own, function), np.searchsorted(own, function, side="right")
    # Both times ranked together: one search finds the last pod of the run's own function that had started.
    rank = np.unique(np.concatenate([started, at]), return_inverse=True)[1].reshape(-1)
    width = len(rank) + 1
    key = own.astype(np.int64) * width + rank[: len(started)]
    row = np.searchsorted(key, function.astype(np.int64) * width + rank[len(started) :], side="right") - 1
    some = low < high
    found[some] = limit[np.maximum(row, low)[some]]
    return found


def _until(activations: pa.Table, start: Ints, end: Ints, horizon: int) -> Ints:
    missing = end == OPEN
    if not missing.any():
        return np.maximum(start, end)
    timeout = integers(activations["timeout_ms"], OPEN // 2000) * 1000
    last = np.minimum(horizon, start + np.minimum(timeout, OPEN // 2))
    return np.maximum(start, np.where(missing, last, end))


def _type_at(node: Codes, at: Ints, specs: pa.Table, nodes: pa.Array, node_types: pa.Array) -> Codes:
    """Return each node's type at a time: its last specification from then or before, else its first, else -1."""
    if specs.num_rows == 0 or len(node) == 0:
        return np.full(len(node), -1, np.int32)
    own, since = codes(specs["node"], nodes), micros(specs["valid_from"])
    kind = codes(specs["node_type"], node_types)
    order = np.lexsort((since, own))
    own, since, kind = own[order], since[order], kind[order]
    first = np.searchsorted(own, np.arange(len(nodes) + 1))
    found = np.full(len(node), -1, np.int32)
    by_node, offsets = group(node + np.int32(1))
    for k in range(min(len(nodes), len(offsets) - 2)):
        mine = by_node[offsets[k + 1] : offsets[k + 2]]
        if first[k] < first[k + 1] and len(mine):
            row = np.searchsorted(since[first[k] : first[k + 1]], at[mine], side="right") - 1
            found[mine] = kind[first[k] : first[k + 1]][np.maximum(row, 0)]
    return found
