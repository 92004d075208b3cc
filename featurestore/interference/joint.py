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
    middle, spread = estimate, np.ones(m)
    for _ in range(_ROUNDS):
        covariance = inverse(shared + np.diag(site))
        variance = np.maximum(np.diag(covariance), 1e-12)
        centre = covariance @ (pull + lean)
        left = np.maximum(1.0 / variance - site, 1e-6)
        middle = (centre / variance - lean) / left
        spread = 1.0 / np.sqrt(left)
        distance = 0.5 * ((middle[:, None] - grid) / spread[:, None]) ** 2
        mass = prior * np.exp(-(distance - distance.min(axis=1, keepdims=True)))
        mass /= np.maximum(mass.sum(axis=1, keepdims=True), 1e-300)
        tilted = mass @ grid
        wide = np.maximum(mass @ grid**2 - tilted**2, 1e-6)
        found = np.maximum(1.0 / wide - left, 1e-3)
        site = (1 - _DAMPING) * site + _DAMPING * found
        lean = (1 - _DAMPING) * lean + _DAMPING * (tilted * (left + found) - middle * left)
    return middle, spread
