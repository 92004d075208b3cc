"""One victim's evidence of some days, reduced once to a block: normal equations at a recorded point.

A full fit (`victim.fit_victim`) gives the point around which the model is linear. What lasts stays (the base of each
node type, the slowdowns, the placebos); what belongs to the days alone is integrated out within them (their level,
drift, load, cold starts, nodes, older versions): the Schur complement of mixed model equations (Henderson 1975). What
the load of the cluster did by the full fit is taken off first, so that a day says by how much it differs: a day alone
would pull it towards nothing, and what is left of it would go to whoever ran beside the victim.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from featurestore.compiled import compiled
from featurestore.interference import controls
from featurestore.interference.blocks import Block, Linearisation, valued
from featurestore.interference.cholesky import inverted
from featurestore.interference.concurrency import Concurrency
from featurestore.interference.control_columns import ranked
from featurestore.interference.evidence import Bools, Floats, Ints, Options, VictimDesign

#: Standard deviation of a block's own level: wide, since load and inputs change over a day. A tight one would read
#: what differs between days as slowdowns.
_LEVEL_SD = 0.3
#: Functions that a block met for less than this have no column in it: they are counted, and teach nothing.
_LEAST_OVERLAP = 0.5


def reduce(
    day: VictimDesign,
    point: Linearisation,
    concurrency: Concurrency | None = None,
    options: Options | None = None,
    version: str = "",
    ran: tuple[Sequence[str], Ints] | None = None,
) -> Block:
    """Reduce the evidence of some days (one block) to its normal equations at *point*.

    Rows on node types that the point does not know take no part: they ask for a full fit. *version* names the
    victim's version and limits, which are the same for all rows. *ran*, where kernels of nodes are known: their
    names, and the code [n] of the one that each row ran under, -1 where not known.
    """
    options = options or Options()
    rows = np.flatnonzero(np.isfinite(day.execution) & (day.execution >= 0) & np.isin(day.node_type, point.types))
    beside, place = ranked(day.indices)
    effective = np.bincount(place, weights=day.values, minlength=len(beside)).astype(np.float64)
    runs = np.bincount(place[day.values > 0], minlength=len(beside))
    met = np.flatnonzero(runs > 0)
    counted = Block(
        met=beside[met].astype(np.int64),
        overlaps=effective[met],
        activations=runs[met].astype(np.float64),
        version=version,
    )
    if len(rows) == 0:
        return counted
    chosen = np.flatnonzero(effective >= _LEAST_OVERLAP)
    if len(chosen) > options.max_columns:
        chosen = np.sort(chosen[np.argsort(-effective[chosen], kind="stable")[: options.max_columns]])
    columns = beside[chosen].astype(np.int64)
    at = np.full(len(beside), -1)
    at[chosen] = np.arange(len(chosen))
    exposure, load = _exposures(rows, day.indptr, at[place], day.values, len(columns))
    known = controls.build(day, rows, load, columns, concurrency, options)
    kept = known.values.shape[1] - len(known.placebo)
    types, place = ranked(day.node_type[rows])
    base = point.base[np.searchsorted(point.types, types)][place]
    cold = day.cold[rows]
    gram, pull, residual, weight, squares = _equations(
        exposure,
        valued(point.columns, point.slowdown, columns, 0.0),
        options.stretch,
        base,
        place,
        np.log(np.maximum(day.execution[rows], controls.HALF_MILLISECOND)) - controls.crowded(known, point.crowd),
        cold,
        np.ascontiguousarray(known.values),
        (len(types), kept),
        _passing(known, kept),
        (options.huber * point.noise, point.noise),
    )
    m = len(columns)
    at = np.concatenate([np.arange(len(types) + m), len(types) + m + np.searchsorted(columns, known.placebo)])
    whole, pulled = np.zeros((len(types) + 2 * m,) * 2), np.zeros(len(types) + 2 * m)
    whole[np.ix_(at, at)] = (gram + gram.T) / 2
    pulled[at] = pull
    plain = ~cold if not cold.all() else cold
    reduced = replace(
        counted,
        types=types.astype(np.int64),
        columns=columns.astype(np.int64),
        gram=whole,
        pull=pulled,
        rows=float(len(rows)),
        gap=float(weight[plain] @ residual[plain]),
        weight=float(weight[plain].sum()),
    )
    if ran is None:
        return reduced
    kernels, shares = _shares(*ran, rows, weight * squares)
    return replace(reduced, kernels=kernels, under=shares * reduced.information)


@compiled
def _exposures(rows: Ints, indptr: Ints, column: Ints, values: Floats, columns: int) -> tuple[Floats, Floats]:
    """Return the exposures of *rows* [r] of a sparse matrix to each of the *columns* [r, columns], and to all [r];
    *column* [values] is which one a value belongs to, -1 for none."""
    found, load = np.zeros((len(rows), columns)), np.zeros(len(rows))
    for row in range(len(rows)):
        for k in range(indptr[rows[row]], indptr[rows[row] + 1]):
            load[row] += values[k]
            if column[k] >= 0:
                found[row, column[k]] += values[k]
    return found, load


def _shares(names: Sequence[str], code: Ints, rows: Ints, information: Floats) -> tuple[tuple[str, ...], Floats]:
    """Return the kernels [q] that the *rows* [r] ran under, ascending, and the share of their *information* [r] of
    each."""
    own = code[rows]
    kernels = sorted({(names[each], each) for each in np.unique(own[own >= 0]).tolist()})
    total = max(float(information.sum()), 1e-300)
    shares = np.array([information[own == each].sum() / total for _, each in kernels], np.float64)
    return tuple(name for name, _ in kernels), shares


@compiled
def _equations(
    exposure: Floats,
    believed: Floats,
    stretch: bool,
    base: Floats,
    place: Ints,
    y: Floats,
    cold: Bools,
    values: Floats,
    kinds_kept: tuple[int, int],
    penalty: Floats,
    huber_noise: tuple[float, float],
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return gram [k, k] and pull [k] over [types, slowdowns, placebos], all else integrated out, and of each row the
    residual, the weight, and the sum of its squared slopes.

    *values* are the control columns: first those of the types, which stand at *place* [n] alone, then those of the
    day, from the second of *kinds_kept* on the placebos.
    """
    n, m = exposure.shape
    kinds, kept = kinds_kept
    placebos, passing = values.shape[1] - kept, 1 + kept - kinds
    k = kinds + m + placebos
    every = np.zeros((n, k + passing))
    residual, target, squares = np.empty(n), np.empty(n), np.zeros(n)
    for row in range(n):
        total = 1.0
        slope = every[row, kinds : kinds + m]
        for b in range(m):
            own = exposure[row, b]
            by = 1.0 + believed[b] * max(0.0, 1.0 - own) if stretch else 1.0
            total += own * believed[b] / by
            slope[b] = own / by / by
        residual[row] = y[row] - base[row] - np.log(total)
        target[row] = residual[row] + base[row]
        for b in range(m):
            slope[b] /= total
            target[row] += slope[b] * believed[b]
            squares[row] += slope[b] ** 2
        every[row, place[row]] = 1.0
        every[row, kinds + m : k] = values[row, kept:]
        every[row, k] = 1.0
        every[row, k + 1 :] = values[row, kinds:kept]
    weight = _weights(residual, cold, huber_noise[0]) / huber_noise[1] ** 2
    leaned = (weight * target) @ every
    for row in range(n):
        every[row] *= np.sqrt(weight[row])
    product = every.T @ every
    factor, _ = inverted(np.ascontiguousarray(product[k:, k:]), penalty)
    half = np.ascontiguousarray(product[:k, k:]) @ factor
    gram = product[:k, :k] - half @ half.T
    pull = leaned[:k] - half @ (np.ascontiguousarray(factor.T) @ leaned[k:])
    return gram, pull, residual, weight, squares


@compiled
def _weights(residual: Floats, cold: Bools, limit: float) -> Floats:
    """Return Huber's weights [n] of residuals about the medians of cold and of warm runs: a block has its own level,
    and so have cold starts."""
    middle = np.zeros(2)
    for kind in range(2):
        own = residual[cold == (kind == 1)]
        if len(own):
            middle[kind] = np.median(own)
    found = np.empty(len(residual))
    for row in range(len(residual)):
        centred = residual[row] - middle[1 if cold[row] else 0]
        found[row] = min(1.0, limit / max(abs(centred), 1e-300))
    return found


def _passing(known: controls.Controls, kept: int) -> Floats:
    """Return the penalties of what belongs to the day alone: its level, and all controls but types and placebos."""
    group = known.group[len(known.types) : kept]
    precision = np.where(group == 0, 1e-2, 1.0 / np.square(np.minimum(known.sd[group], 1e3)))
    return np.append(_LEVEL_SD**-2.0, precision)
