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
from featurestore.interference.normal import Columns, along, crossed, joined, pulled, square, width

#: Standard deviation of a block's own level: wide, since load and inputs change over a day. A tight one would read
#: what differs between days as slowdowns.
_LEVEL_SD = 0.3
#: Functions that a block met for less than this have no column in it: they are counted, and teach nothing.
LEAST_OVERLAP = 0.5


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
    chosen = np.flatnonzero(effective >= LEAST_OVERLAP)
    if len(chosen) > options.max_columns:
        chosen = np.sort(chosen[np.argsort(-effective[chosen], kind="stable")[: options.max_columns]])
    columns = beside[chosen].astype(np.int64)
    at = np.full(len(beside), -1)
    at[chosen] = np.arange(len(chosen))
    load, indptr, own, values = _exposures(rows, day.indptr, at[place], day.values)
    known = controls.build(day, rows, load, columns, concurrency, options)
    kept = len(known.group) - len(known.placebo)
    types, place = ranked(day.node_type[rows])
    base = point.base[np.searchsorted(point.types, types)][place]
    cold = day.cold[rows]
    gram, pull, residual, weight, squares = _equations(
        (indptr, own, values),
        valued(point.columns, point.slowdown, columns, 0.0),
        options.stretch,
        base,
        np.log(np.maximum(day.execution[rows], controls.HALF_MILLISECOND)) - controls.crowded(known, point.crowd),
        cold,
        known.columns,
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
def _exposures(rows: Ints, indptr: Ints, column: Ints, values: Floats) -> tuple[Floats, Ints, Ints, Floats]:
    """Return the sums [r] of *rows* of a sparse matrix, and of these as sparse rows (indptr, indices, values) what
    belongs to a *column* [values], not -1."""
    found = 0
    for row in range(len(rows)):
        for k in range(indptr[rows[row]], indptr[rows[row] + 1]):
            found += column[k] >= 0
    load, starts = np.zeros(len(rows)), np.zeros(len(rows) + 1, np.int64)
    indices, kept = np.empty(found, np.int64), np.empty(found)
    at = 0
    for row in range(len(rows)):
        for k in range(indptr[rows[row]], indptr[rows[row] + 1]):
            load[row] += values[k]
            if column[k] >= 0:
                indices[at], kept[at] = column[k], values[k]
                at += 1
        starts[row + 1] = at
    return load, starts, indices, kept


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
    exposure: tuple[Ints, Ints, Floats],
    believed: Floats,
    stretch: bool,
    base: Floats,
    y: Floats,
    cold: Bools,
    controls: Columns,
    kinds_kept: tuple[int, int],
    penalty: Floats,
    huber_noise: tuple[float, float],
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return gram [k, k] and pull [k] over [types, slowdowns, placebos], all else integrated out, and of each row the
    residual, the weight, and the sum of its squared slopes.

    *exposure* are sparse rows (indptr, indices, values) over the m functions *believed* [m]. Of
    the *controls* [n, q] those of the types come first, then those of the day, from the second of *kinds_kept* on the
    placebos.
    """
    indptr, indices, exposed = exposure
    n, m, q = len(y), len(believed), width(controls)
    kinds, kept = kinds_kept
    k, passing = kinds + m + q - kept, 1 + kept - kinds
    slope = np.empty(len(exposed))
    residual, target, squares = np.empty(n), np.empty(n), np.zeros(n)
    for row in range(n):
        total = 1.0
        for at in range(indptr[row], indptr[row + 1]):
            own, slowdown = exposed[at], believed[indices[at]]
            by = 1.0 + slowdown * max(0.0, 1.0 - own) if stretch else 1.0
            total += own * slowdown / by
            slope[at] = own / by / by
        residual[row] = y[row] - base[row] - np.log(total)
        target[row] = residual[row] + base[row]
        for at in range(indptr[row], indptr[row + 1]):
            slope[at] /= total
            target[row] += slope[at] * believed[indices[at]]
            squares[row] += slope[at] ** 2
    weight = _weights(residual, cold, huber_noise[0]) / huber_noise[1] ** 2
    leaned = weight * target
    cross, inner = crossed(controls, indptr, indices, slope, weight, m)
    known = joined(square(controls, np.arange(n), weight), cross, inner, controls)
    sums, whole = along(controls, weight), along(controls, leaned)
    product, pull = np.empty((k + passing, k + passing)), np.empty(k + passing)
    # Where the control columns stand: types, then, after the slowdowns, placebos, the day's level, its own columns.
    to = np.empty(q, np.int64)
    for at in range(q):
        to[at] = at if at < kinds else (k + 1 + at - kinds if at < kept else kinds + m + at - kept)
    for at in range(q):
        pull[to[at]] = whole[at]
        product[k, to[at]] = product[to[at], k] = sums[at]
        for other in range(q):
            product[to[at], to[other]] = known[at, other]
        for b in range(m):
            product[kinds + b, to[at]] = product[to[at], kinds + b] = known[q + b, at]
    product[kinds : kinds + m, kinds : kinds + m] = known[q:, q:]
    level = pulled(indptr, indices, slope, weight, m)
    product[k, kinds : kinds + m] = level
    product[kinds : kinds + m, k] = level
    product[k, k] = weight.sum()
    pull[kinds : kinds + m] = pulled(indptr, indices, slope, leaned, m)
    pull[k] = leaned.sum()
    factor, _ = inverted(np.ascontiguousarray(product[k:, k:]), penalty)
    half = np.ascontiguousarray(product[:k, k:]) @ factor
    gram = product[:k, :k] - half @ half.T
    return gram, pull[:k] - half @ (np.ascontiguousarray(factor.T) @ pull[k:]), residual, weight, squares


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
