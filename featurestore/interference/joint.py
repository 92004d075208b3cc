"""All aggressors of one victim at once: what the data say of one when the others are known to be mostly harmless.

The quadratic likelihood of the slowdowns is combined with a two-group prior for each by expectation propagation
(Minka 2001; for spike and slab priors Hernandez-Lobato et al., J. Mach. Learn. Res. 14 (2013) 1891). What it gives
for an aggressor is its likelihood with all others integrated out under their priors.
"""

import numpy as np

from featurestore.compiled import compiled
from featurestore.interference.evidence import Floats, impossible
from featurestore.interference.gaussian import inverse
from featurestore.interference.gridded import tilted
from featurestore.interference.lapack import factored, invert

#: Rounds at most, and by what share of its error each aggressor's likelihood may still move in the last.
_ROUNDS = 8
_SETTLED = 1e-2
_DAMPING = 0.7


def integrated(
    estimate: Floats, precision: Floats, prior: Floats, grid: Floats, common_sd: float
) -> tuple[Floats, Floats]:
    """Return mean and standard deviation [m] of each slowdown's likelihood, the others integrated out.

    *estimate* [m] with inverse covariance *precision* [m, m]; *prior* [m, G] masses on *grid* [G]. *common_sd* is
    the standard deviation of an error that all slowdowns of the victim share (crowding that no control caught).
    Where an estimate is `impossible` it says nothing of what they share: the others are told without it.
    """
    m = len(estimate)
    if m == 0:
        return np.zeros(0), np.zeros(0)
    if impossible(estimate, 1.0 / np.sqrt(np.maximum(np.diag(precision), 1e-12))).any():  # less than its own error
        covariance = inverse(precision)
        error = np.sqrt(np.diag(covariance))
        out = impossible(estimate, error)
        if out.any():
            kept = np.flatnonzero(~out)
            middle, spread = estimate.copy(), error
            middle[kept], spread[kept] = integrated(
                estimate[kept], inverse(covariance[np.ix_(kept, kept)]), prior[kept], grid, common_sd
            )
            return middle, spread
    weight = precision.sum(axis=1)
    shared = precision - np.outer(weight, weight) / (1.0 / common_sd**2 + weight.sum())
    mean, square = prior @ grid, prior @ grid**2
    site = 1.0 / np.maximum(square - mean**2, 1e-6)
    return _rounds(shared, shared @ estimate, site, site * mean, prior, grid)


@compiled
def _rounds(
    shared: Floats, pull: Floats, site: Floats, lean: Floats, prior: Floats, grid: Floats
) -> tuple[Floats, Floats]:
    """Take all rounds over all aggressors [m] and return `integrated`; the sites (precision *site*, precision times
    mean *lean*) are changed in place.

    Compiled as a whole: a round of forty aggressors takes less than the calls of array functions that it would be.
    """
    m = len(site)
    middle, left = np.zeros(m), np.ones(m)
    for turn in range(_ROUNDS):
        centre, variance = _moments(shared, site, pull + lean)
        moved = 0.0
        for row in range(m):
            spread = max(variance[row], 1e-12)
            known, before = max(1.0 / spread - site[row], 1e-6), middle[row]
            middle[row] = (centre[row] / spread - lean[row]) / known
            moved = max(moved, abs(middle[row] - before) * np.sqrt(known), abs(known / left[row] - 1.0))
            left[row] = known
        if turn and moved < _SETTLED:
            break
        for row in range(m):
            mean, square = tilted(middle[row], left[row], prior[row], grid)
            found = max(1.0 / max(square - mean**2, 1e-6) - left[row], 1e-3)
            site[row] = (1 - _DAMPING) * site[row] + _DAMPING * found
            lean[row] = (1 - _DAMPING) * lean[row] + _DAMPING * (mean * (left[row] + found) - middle[row] * left[row])
    return middle, 1.0 / np.sqrt(left)


@compiled
def _moments(precision: Floats, more: Floats, pull: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance [m] of the normal with the inverse covariance *precision* [m, m] and *more* [m] on its
    diagonal, and *pull* [m] the precision times the mean.

    As `gaussian.inverse`: scaled to a unit diagonal, with the least ridge that a Cholesky factor exists of. Only the
    diagonal of the inverse is made: a sixth of the work of all of it.
    """
    m = len(more)
    size = np.empty(m)
    for row in range(m):
        size[row] = np.sqrt(max(precision[row, row] + more[row], 1e-12))
    upper = np.empty((m, m))
    mean, variance = np.zeros(m), np.zeros(m)
    for ridge in (1e-11, 1e-8, 1e-5, 1e-2):
        for row in range(m):
            for other in range(row, m):
                upper[row, other] = precision[row, other] / (size[row] * size[other])
            upper[row, row] = (precision[row, row] + more[row]) / (size[row] * size[row]) + ridge
        if factored(upper):
            invert(upper)
            for row in range(m):  # upper @ upper.T is the inverse of what was scaled
                for other in range(row, m):
                    mean[other] += upper[row, other] * pull[row] / size[row]
            for row in range(m):
                lean = 0.0
                for other in range(row, m):
                    lean += upper[row, other] * mean[other]
                    variance[row] += upper[row, other] ** 2
                mean[row] = lean / size[row]  # not needed any more by the rows that follow
                variance[row] /= size[row] ** 2
            return mean, variance
    return pull / size**2, 1.0 / size**2
