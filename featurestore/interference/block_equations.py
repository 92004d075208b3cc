"""The normal equations of one block of evidence at a point, what belongs to the block alone integrated out."""

import numpy as np

from featurestore.compiled import compiled
from featurestore.interference.cholesky import inverted
from featurestore.interference.ends import Ends, drifts, leaned
from featurestore.interference.evidence import Bools, Floats
from featurestore.interference.normal import Columns, Rows, along, crossed, joined, pulled, square, width

#: Standard deviation of a block's own level: wide, since load and inputs change over a day. A tight one would read
#: what differs between days as slowdowns.
LEVEL_SD = 0.3


@compiled
def equations(
    exposure: Rows,
    ends: Ends,
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

    *exposure* are sparse rows over the m functions *believed* [m], *ends* who was there when the runs ended. Of
    the *controls* [n, q] those of the types come first, then those of the day, from the second of *kinds_kept* on the
    placebos.
    """
    indptr, indices, exposed = exposure.indptr, exposure.indices, exposure.values
    n, m, q = len(y), len(believed), width(controls)
    kinds, kept = kinds_kept
    k, passing = kinds + m + q - kept, 1 + kept - kinds
    slope = np.empty(len(exposed))
    residual, target, squares, totals = np.empty(n), np.empty(n), np.zeros(n), np.empty(n)
    aside = np.empty(n)
    for row in range(n):
        total = 1.0
        for at in range(indptr[row], indptr[row + 1]):
            own, slowdown = exposed[at], believed[indices[at]]
            by = 1.0 + slowdown * max(0.0, 1.0 - own) if stretch else 1.0
            total += own * slowdown / by
            slope[at] = own / by / by
        totals[row] = total
        residual[row] = y[row] - base[row] - np.log(total)
        target[row] = aside[row] = residual[row] + base[row]
        for at in range(indptr[row], indptr[row + 1]):
            slope[at] /= total
            target[row] += slope[at] * believed[indices[at]]
            squares[row] += slope[at] ** 2
    weight, lean = _weights(residual, cold, huber_noise[0])
    weight /= huber_noise[1] ** 2
    lean *= ends.known
    drawn = weight * target
    moved_by = drifts(ends, exposure, slope, believed)
    cross, inner = crossed(controls, indptr, indices, slope, weight, m, moved_by, lean)
    more = leaned(ends, exposure, slope, believed, totals, stretch, lean, q)
    known = joined(square(controls, np.arange(n), weight), cross, inner, controls)
    sums, whole = along(controls, weight), along(controls, drawn) + more[:q]
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
    pull[kinds : kinds + m] = pulled(indptr, indices, slope, weight * aside, m) + inner @ believed + more[q:]
    pull[k] = drawn.sum()
    factor, _ = inverted(np.ascontiguousarray(product[k:, k:]), penalty)
    half = np.ascontiguousarray(product[:k, k:]) @ factor
    gram = product[:k, :k] - half @ half.T
    return gram, pull[:k] - half @ (np.ascontiguousarray(factor.T) @ pull[k:]), residual, weight, squares


@compiled
def _weights(residual: Floats, cold: Bools, limit: float) -> tuple[Floats, float]:
    """Return Huber's weights [n] of residuals about the medians of cold and of warm runs: a block has its own level,
    and so have cold starts. And the mean of psi(e) e over that of psi(e)^2, of which the fit's noise is: in these
    residuals there is more than noise."""
    middle = np.zeros(2)
    for kind in range(2):
        own = residual[cold == (kind == 1)]
        if len(own):
            middle[kind] = np.median(own)
    found, total, square = np.empty(len(residual)), 0.0, 0.0
    for row in range(len(residual)):
        centred = residual[row] - middle[1 if cold[row] else 0]
        found[row] = min(1.0, limit / max(abs(centred), 1e-300))
        total += found[row] * centred**2
        square += (found[row] * centred) ** 2
    return found, total / square if square > 0 else 1.0
