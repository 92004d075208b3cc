"""All aggressors of one victim at once: what the data say of one when the others are known to be mostly harmless.

The quadratic likelihood of the slowdowns is combined with a two-group prior for each by expectation propagation
(Minka 2001; for spike and slab priors Hernandez-Lobato et al., J. Mach. Learn. Res. 14 (2013) 1891). What it gives
for an aggressor is its likelihood with all others integrated out under their priors.
"""

import numpy as np

from featurestore.compiled import compiled
from featurestore.interference.evidence import Floats
from featurestore.interference.gaussian import inverse
from featurestore.interference.groups import NEXT_TO_NONE

_ROUNDS = 8
_DAMPING = 0.7


def integrated(
    estimate: Floats, precision: Floats, prior: Floats, grid: Floats, common_sd: float
) -> tuple[Floats, Floats]:
    """Return mean and standard deviation [m] of each slowdown's likelihood, the others integrated out.

    *estimate* [m] with inverse covariance *precision* [m, m]; *prior* [m, G] masses on *grid* [G]. *common_sd* is
    the standard deviation of an error that all slowdowns of the victim share (crowding that no control caught).
    """
    m = len(estimate)
    if m == 0:
        return np.zeros(0), np.zeros(0)
    weight = precision.sum(axis=1)
    shared = precision - np.outer(weight, weight) / (1.0 / common_sd**2 + weight.sum())
    pull = shared @ estimate
    mean, square = prior @ grid, prior @ grid**2
    site = 1.0 / np.maximum(square - mean**2, 1e-6)
    lean = site * mean
    middle, left = np.zeros(m), np.ones(m)
    for _ in range(_ROUNDS):
        matrix = shared.copy()
        matrix.ravel()[:: m + 1] += site
        _turn(inverse(matrix), pull, site, lean, prior, grid, middle, left)
    return middle, 1.0 / np.sqrt(left)


@compiled
def _turn(
    covariance: Floats,
    pull: Floats,
    site: Floats,
    lean: Floats,
    prior: Floats,
    grid: Floats,
    middle: Floats,
    left: Floats,
) -> None:
    """Take one turn over all aggressors [m]: *middle* and *left* (mean and precision without the own prior) and the
    sites (precision *site*, precision times mean *lean*) are changed in place; *covariance* [m, m] is that of now.

    Compiled, since fresh arrays of m times the grid for every turn would cost more than the arithmetic.
    """
    for row in range(len(site)):
        centre = 0.0
        for other in range(len(site)):
            centre += covariance[row, other] * (pull[other] + lean[other])
        variance = max(covariance[row, row], 1e-12)
        left[row] = max(1.0 / variance - site[row], 1e-6)
        middle[row] = (centre / variance - lean[row]) / left[row]
    for row in range(len(site)):
        mean, square = _tilted(middle[row], left[row], prior[row], grid)
        found = max(1.0 / max(square - mean**2, 1e-6) - left[row], 1e-3)
        site[row] = (1 - _DAMPING) * site[row] + _DAMPING * found
        lean[row] = (1 - _DAMPING) * lean[row] + _DAMPING * (mean * (left[row] + found) - middle[row] * left[row])


@compiled
def _tilted(middle: float, precision: float, prior: Floats, grid: Floats) -> tuple[float, float]:
    """Return mean and mean square of *prior* [G] on *grid* [G] times a normal likelihood."""
    nearest = np.inf
    for cell in range(len(grid)):
        nearest = min(nearest, (middle - grid[cell]) ** 2)
    total, first, second = 0.0, 0.0, 0.0
    for cell in range(len(grid)):
        level = -0.5 * precision * ((middle - grid[cell]) ** 2 - nearest)
        if level > NEXT_TO_NONE:
            mass = np.exp(level) * prior[cell]
            total += mass
            first += mass * grid[cell]
            second += mass * grid[cell] ** 2
    total = max(total, 1e-300)
    return first / total, second / total
