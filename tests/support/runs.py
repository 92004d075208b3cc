"""Runs as learning reads them, made by hand."""

import numpy as np
import pyarrow as pa

from featurestore.runs import Runs

NAMES, NODES, TYPES = (pa.array([f"{each}{number}" for number in range(10)]) for each in "fnt")


def runs_of(start, end, function, node, version=("v",), evidence=True):
    """Runs in order of start."""
    n = len(start)
    return Runs(
        functions=NAMES,
        nodes=NODES,
        node_types=TYPES,
        pods=pa.array([], pa.string()),
        versions=tuple(version),
        function=np.asarray(function, np.int32),
        node=np.asarray(node, np.int32),
        node_type=np.zeros(n, np.int32),
        pod=np.full(n, -1, np.int32),
        start=np.asarray(start, np.int64),
        end=np.asarray(end, np.int64),
        execution=np.arange(n) / 7,
        cold=np.arange(n) % 2 == 0,
        version=np.arange(n) % len(version),
        evidence=np.broadcast_to(np.asarray(evidence), n).copy(),
    )
