"""All aggressors of one victim at once: what the data say of one when the others are known to be mostly harmless.

The quadratic likelihood of the slowdowns is combined with a two-group prior for each by expectation propagation
(Minka 2001; for spike and slab priors Hernandez-Lobato et al., J. Mach. Learn. Res. 14 (2013) 1891). What it gives
for an aggressor is its likelihood with all others integrated out under their priors.
"""

import numpy as np

from featurestore.interference.evidence import Floats
from featurestore.interference.gaussian import inverse

_ROUNDS = 8
_DAMPING = 0.7
#: Logs of likelihoods below this are held here: what is smaller counts for nothing, and takes long to compute.
_NEXT_TO_NONE = -600.0


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
    powers = np.stack([np.ones(len(grid)), grid, grid**2], axis=1)
    _, mean, square = (prior @ powers).T
    site = 1.0 / np.maximum(square - mean**2, 1e-6)
    lean = site * mean
    middle, spread = estimate, np.ones(m)
    mass = np.empty((m, len(grid)))
    for _ in range(_ROUNDS):
        matrix = shared.copy()
        matrix.ravel()[:: m + 1] += site
        covariance = inverse(matrix)
        variance = np.maximum(covariance.diagonal(), 1e-12)
        centre = covariance @ (pull + lean)
        left = np.maximum(1.0 / variance - site, 1e-6)
        middle = (centre / variance - lean) / left
        spread = 1.0 / np.sqrt(left)
        _weigh(middle, left, prior, grid, mass)
        total, first, second = (mass @ powers).T
        total = np.maximum(total, 1e-300)
        tilted = first / total
        wide = np.maximum(second / total - tilted**2, 1e-6)
        found = np.maximum(1.0 / wide - left, 1e-3)
        site = (1 - _DAMPING) * site + _DAMPING * found
        lean = (1 - _DAMPING) * lean + _DAMPING * (tilted * (left + found) - middle * left)
    return middle, spread


def _weigh(middle: Floats, precision: Floats, prior: Floats, grid: Floats, mass: Floats) -> None:
    """Put into *mass* [m, G] the *prior* times the normal likelihood, scaled to a row maximum of 1; in place, since
    new memory for every step would cost more than the arithmetic."""
    np.subtract(middle[:, None], grid, out=mass)
    np.square(mass, out=mass)
    mass *= (-0.5 * precision)[:, None]
    mass -= mass.max(axis=1, keepdims=True)
    np.maximum(mass, _NEXT_TO_NONE, out=mass)
    np.exp(mass, out=mass)
    mass *= prior
