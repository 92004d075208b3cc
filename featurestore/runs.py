"""The activations of a window as plain arrays: what ran where, from when to when, and whether it is evidence."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from featurestore.attribution.attribute import CERTAIN, METHODS
from featurestore.columnar import codes, distinct, flags, floats, integers, micros
from featurestore.exposure.kernels import Codes, Floats, Ints
from featurestore.exposure.sweep import OPEN

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Runs:
    """n activations that have a pod of their own (no composites, no triggers), in order of start.

    *function*, *node*, *node_type* codes into *functions*, *nodes*, *node_types* (-1: not known); *start*, *end*
    microseconds, *end* never `OPEN`; *execution* seconds without initialisation, NaN where not known; *cold* whether
    it initialised; *version* codes of action version and memory limit; *pod* codes into *pods*, -1 where not certain.
    *evidence* marks successes of known length on a certain node; the others only count as co-runners.
    """

    functions: pa.Array
    nodes: pa.Array
    node_types: pa.Array
    pods: pa.Array
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

    def __len__(self) -> int:
        return len(self.start)


def read(activations: pa.Table, attributed: pa.Table, specs: pa.Table, horizon: int) -> Runs:
    """Join *activations* with their attribution and the node specifications that were valid at their start.

    The response is the recorded duration (else end - start) less the initialisation, which lies inside it. A run
    without a known end lasts to its timeout at most, and to *horizon* at most.
    """
    single = ~flags(activations["composite"])
    activations, attributed = activations.filter(pa.array(single)), attributed.filter(pa.array(single))
    functions = distinct(activations["function"])
    nodes = distinct(attributed["node"], specs["node"])
    node_types = distinct(specs["node_type"], activations["node_type"])
    pods = distinct(attributed["pod"])
    start, end = micros(activations["start"]), micros(activations["end"])
    node = codes(attributed["node"], nodes)
    known_end = end != OPEN
    recorded = floats(activations["duration_ms"])
    length = np.where(known_end, (end - np.where(known_end, start, end)) / 1000, np.nan)
    initialisation = np.nan_to_num(floats(activations["init_ms"]))
    method = codes(attributed["method"], pa.array(METHODS))
    success = integers(activations["status_code"], -1) == 0
    given_type = codes(activations["node_type"], node_types)
    version = codes(activations["version"], distinct(activations["version"])).astype(np.int64)
    return Runs(
        functions,
        nodes,
        node_types,
        pods,
        codes(activations["function"], functions),
        node,
        np.where(given_type >= 0, given_type, _type_at(node, start, specs, nodes, node_types)).astype(np.int32),
        codes(attributed["pod"], pods),
        start,
        _until(activations, start, end, horizon),
        (np.where(np.isfinite(recorded), recorded, length) - initialisation) / 1000,
        initialisation > 0,
        (version << 32) + integers(activations["memory_mb"], 0),
        success & known_end & (node >= 0) & np.isin(method, CERTAIN),
    )


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
    members = np.flatnonzero(node >= 0)
    members = members[np.argsort(node[members], kind="stable")]
    offsets = np.searchsorted(node[members], np.arange(len(nodes) + 1))
    for k in range(len(nodes)):
        if first[k] < first[k + 1] and offsets[k] < offsets[k + 1]:
            mine = members[offsets[k] : offsets[k + 1]]
            row = np.searchsorted(since[first[k] : first[k + 1]], at[mine], side="right") - 1
            found[mine] = kind[first[k] : first[k + 1]][np.maximum(row, 0)]
    return found
