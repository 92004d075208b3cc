"""From simulated records to the estimator's designs: what the engine does, without stores."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.simulator import Records
from featurestore.exposure.sweep import sweep
from featurestore.interference.concurrency import Met, events, swept
from featurestore.interference.decision import PairTable
from featurestore.interference.evidence import Around, Options, VictimDesign, VictimFit
from featurestore.interference.pairs import learn
from featurestore.interference.victim import fit_victim

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def designs(records: Records, node_type: Ints, functions: int, execution: Floats | None = None) -> list[VictimDesign]:
    """Return one design per function; activations on an unknown node are no evidence and no co-runner, but count as
    what runs in the whole cluster.

    *execution* [n] replaces the recorded times (seconds).
    """
    if execution is None:
        execution = records.end - records.start - records.initialisation
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
    whole = events(
        records.function.astype(np.int32),
        np.round(records.start * 1e6).astype(np.int64),
        np.round(records.end * 1e6).astype(np.int64),
        functions,
    )
    lengths = np.diff(found.indptr)
    made = []
    victims = function[found.rows]
    for victim in range(functions):
        rows = np.flatnonzero(victims == victim)
        take = _ranges(found.indptr[rows], lengths[rows])
        which = at[found.rows[rows]]
        indices = found.indices[take].astype(np.int64)
        columns = np.unique(indices)
        met = Met(which, np.zeros(len(which), np.int64), np.array([0, len(columns)]), columns)
        everywhere, beside = swept(whole, met)
        made.append(
            VictimDesign(
                victim=victim,
                functions=functions,
                execution=np.maximum(execution[which], 0.0),
                start=records.start[which],
                end=records.end[which],
                cold=records.cold[which],
                node=records.node[which],
                node_type=node_type[records.node[which]],
                indptr=np.concatenate([[0], np.cumsum(lengths[rows])]),
                indices=indices,
                values=found.values[take],
                ending=found.ending[take],
                throttled=records.throttled[which],
                version=records.version[which],
                around=Around(everywhere, columns, beside.reshape(len(which), len(columns))),
            )
        )
    return made


def _ranges(first: Ints, length: Ints) -> Ints:
    """Return the concatenated ranges first[i] .. first[i] + length[i] - 1."""
    if not length.sum():
        return np.zeros(0, np.int64)
    stop = np.cumsum(length)
    ranges: Ints = np.arange(stop[-1]) + np.repeat(first - (stop - length), length)
    return ranges


def fits(
    records: Records,
    node_type: Ints,
    functions: int,
    options: Options | None = None,
    execution: Floats | None = None,
    threads: int = 2,
) -> list[VictimFit]:
    """Return the fits of all victims, made on *threads* threads with one BLAS thread each."""
    made = designs(records, node_type, functions, execution)
    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda design: fit_victim(design, options), made))


def pair_table(
    records: Records,
    node_type: Ints,
    functions: int,
    profiles: Floats,
    options: Options | None = None,
    execution: Floats | None = None,
) -> PairTable:
    """Return the pair table that the product would learn."""
    found = fits(records, node_type, functions, options, execution)
    with threadpool_limits(1):
        return learn(found, profiles, options).whole(functions)


def naive_ratio(design: VictimDesign) -> Floats:
    """Return mean time beside each function over mean time without it [F]: the obvious statistic; NaN unknown."""
    rows = np.repeat(np.arange(len(design.execution)), np.diff(design.indptr))
    beside = np.bincount(design.indices, weights=design.execution[rows], minlength=design.functions)
    times = np.bincount(design.indices, minlength=design.functions)
    total, count = design.execution.sum(), len(design.execution)
    known = (times > 0) & (times < count)
    ratio = np.full(design.functions, np.nan)
    alone = (total - beside[known]) / (count - times[known])
    ratio[known] = beside[known] / times[known] / np.maximum(alone, 1e-9)
    return ratio
