"""From simulated records to the estimator's designs: what the engine does, without stores."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.simulator import Records
from featurestore import concurrency
from featurestore.evidence import Options, VictimDesign, VictimFit
from featurestore.exposure import sweep
from featurestore.interference import fit_victim

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def designs(records: Records, node_type: Ints, functions: int) -> list[VictimDesign]:
    """Return one design per function; activations on an unknown node are no evidence and no co-runner."""
    at = np.flatnonzero(records.node >= 0)
    function = records.function[at]
    start, end = records.start[at], records.end[at]
    found = sweep(
        records.node[at].astype(np.int32),
        np.round(start * 1e6).astype(np.int64),
        np.round(end * 1e6).astype(np.int64),
        function.astype(np.int32),
        functions=functions,
    )
    lengths = np.diff(found.indptr)
    made = []
    victims = function[found.rows]
    for victim in range(functions):
        rows = np.flatnonzero(victims == victim)
        take = _ranges(found.indptr[rows], lengths[rows])
        which = at[found.rows[rows]]
        made.append(
            VictimDesign(
                victim=victim,
                functions=functions,
                execution=np.maximum(records.end[which] - records.start[which] - records.initialisation[which], 0.0),
                start=records.start[which],
                end=records.end[which],
                cold=records.cold[which],
                node=records.node[which],
                node_type=node_type[records.node[which]],
                indptr=np.concatenate([[0], np.cumsum(lengths[rows])]),
                indices=found.indices[take].astype(np.int64),
                values=found.values[take],
                throttled=records.throttled[which],
                version=records.version[which],
            )
        )
    return made


def _ranges(first: Ints, length: Ints) -> Ints:
    """Return the concatenated ranges first[i] .. first[i] + length[i] - 1."""
    if not length.sum():
        return np.zeros(0, np.int64)
    stop = np.cumsum(length)
    return np.arange(stop[-1]) + np.repeat(first - (stop - length), length)


def fits(
    records: Records, node_type: Ints, functions: int, options: Options | None = None
) -> Sequence[VictimFit]:
    """Return the fits of all victims."""
    whole = concurrency.build(records.function, records.start, records.end, functions)
    return [fit_victim(design, whole, options) for design in designs(records, node_type, functions)]
