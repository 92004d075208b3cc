"""Two groups of pairs, the harmless and the interfering: their mixture, its fit, and what it makes of an estimate.

Sources: Benjamini and Hochberg, J. R. Statist. Soc. B 57 (1995) 289; Efron, Large-Scale Inference (2010), ch. 2
(two groups), 5 (empirical null) and 6 (widened errors); Laird, J. Am. Statist. Assoc. 73 (1978) 805 (EM on a grid).
Estimates and errors are of log(1 + slowdown), on whose scale the likelihood is nearest to a normal one.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from featurestore.interference.evidence import Bools, Floats

#: The share of interfering pairs that prior probabilities are relative to.
TYPICAL = 0.12

#: Slowdowns that are weighed, up to sixty times as long, and the same on the scale of the likelihood.
GRID = np.concatenate(
    [np.linspace(0.0, 0.1, 41), np.linspace(0.105, 0.5, 80), np.geomspace(0.51, 6.0, 50), np.geomspace(6.6, 60.0, 24)]
)
LOG_GRID = np.log1p(GRID)
#: What each point of the grid stands for; the first one only for what lies above it.
CELL = np.gradient(GRID) * np.where(GRID > 0, 1.0, 0.5)

#: What is believed of the groups beforehand, and how many pairs that is worth: it steadies small tables.
_NULL_SD, _MIDDLE, _WIDTH = 0.015, float(np.log(0.35)), 0.7
_NULL_PAIRS, _SLAB_PAIRS = 20.0, 4.0
#: Standard deviation of the common shift of the log odds of interfering.
_SHIFT_SD = 1.0
_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class TwoGroups:
    """Masses over `GRID` [G] of the *null* and the *interfering* group, the *share* of the latter.

    *widening* is the factor by which the errors were found to be understated.
    """

    null: Floats
    interfering: Floats
    share: float
    widening: float

    def prior(self, probability: Floats) -> Floats:
        """Return prior probabilities [k] whose odds are moved from a mean of `TYPICAL` to this mixture's share."""
        odds = special.logit(np.clip(probability, 1e-4, 1 - 1e-4)) + special.logit(self.share)
        moved: Floats = special.expit(odds - special.logit(TYPICAL))
        return moved

    def mixed(self, prior: Floats) -> Floats:
        """Return masses [k, G] of slowdowns that interfere with probability *prior* [k]."""
        return prior[:, None] * self.interfering + (1 - prior[:, None]) * self.null


def benjamini_hochberg(p: Floats, level: float) -> Bools:
    """Return which of the p values [k] are discoveries at false-discovery rate *level*; NaN never is."""
    found = np.zeros(len(p), bool)
    known = np.flatnonzero(np.isfinite(p))
    order = known[np.argsort(p[known], kind="stable")]
    passed = np.flatnonzero(p[order] <= level * np.arange(1, len(order) + 1) / max(len(order), 1))
    if len(passed):
        found[order[: passed[-1] + 1]] = True
    return found


def densities(null_sd: float, middle: float, width: float, least: float) -> tuple[Floats, Floats]:
    """Return the masses of both groups: half a normal from 0 up to *least*, a lognormal above it."""
    null = np.where(least >= GRID, np.exp(-0.5 * (GRID / null_sd) ** 2), 0.0) * CELL
    positive = np.maximum(GRID, 1e-3)
    slab = np.where(least < GRID, np.exp(-0.5 * ((np.log(positive) - middle) / width) ** 2) / positive, 0.0) * CELL
    return null / null.sum(), slab / slab.sum()


def likelihood(estimate: Floats, error: Floats) -> Floats:
    """Return the likelihood [k, G] of each grid slowdown, scaled to a row maximum of 1; NaN says nothing."""
    known = np.isfinite(estimate) & np.isfinite(error) & (error > 0)
    z = (np.where(known, estimate, 0.0)[:, None] - LOG_GRID) / np.where(known, error, np.inf)[:, None]
    square = 0.5 * z * z
    likely: Floats = np.exp(-(square - square.min(axis=1, keepdims=True)))
    return likely


def two_groups(estimate: Floats, error: Floats, least: float, prior: Floats) -> TwoGroups:
    """Fit the two groups to estimates [k] with standard errors by marginal maximum likelihood (EM).

    *prior* [k] are prior probabilities of interfering, pair by pair, relative to a mean of `TYPICAL`; their odds are
    shifted by one common factor. Estimates that are NaN or hardly determined take no part.
    """
    use = np.isfinite(estimate) & np.isfinite(error) & (error > 0) & (error < 1.0)
    x, s = estimate[use], error[use]
    null_sd, middle, width, share = _NULL_SD, _MIDDLE, _WIDTH, TYPICAL
    odds = special.logit(np.clip(prior[use], 1e-4, 1 - 1e-4)) - special.logit(TYPICAL)
    widening = _widening(x, s)
    table = likelihood(x, s * widening)
    logs = np.log(np.maximum(GRID, 1e-3))
    sds = np.linspace(0.004, 0.03, 53)
    moments = np.array([densities(sd, middle, width, least)[0] @ GRID**2 for sd in sds])
    for _ in range(60 if len(x) else 0):
        null, slab = densities(null_sd, middle, width, least)
        chance = special.expit(odds + special.logit(share))
        below, above = table * null, table * slab
        f0, f1 = below.sum(axis=1), above.sum(axis=1)
        inside = chance * f1 / np.maximum(chance * f1 + (1 - chance) * f0, 1e-300)
        mass1 = (inside / np.maximum(f1, 1e-300)) @ above
        mass0 = ((1 - inside) / np.maximum(f0, 1e-300)) @ below
        middle = float((mass1 @ logs + _SLAB_PAIRS * _MIDDLE) / (mass1.sum() + _SLAB_PAIRS))
        spread = (mass1 @ (logs - middle) ** 2 + _SLAB_PAIRS * _WIDTH**2) / (mass1.sum() + _SLAB_PAIRS)
        width = float(np.clip(np.sqrt(spread), 0.3, 1.2))
        size = (mass0 @ GRID**2 + _NULL_PAIRS * _NULL_SD**2) / (mass0.sum() + _NULL_PAIRS)
        null_sd = float(np.interp(size, moments, sds))
        curve = float(np.sum(chance * (1 - chance))) + 1 / _SHIFT_SD**2
        shift = special.logit(share) - special.logit(TYPICAL)
        shift += (float(np.sum(inside - chance)) - shift / _SHIFT_SD**2) / curve
        share = float(np.clip(special.expit(special.logit(TYPICAL) + shift), 0.002, 0.6))
    null, slab = densities(null_sd, middle, width, least)
    return TwoGroups(null, slab, share, widening)


def _widening(estimate: Floats, error: Floats) -> float:
    """Return by how much the errors are understated, from the estimates below zero (Efron's empirical null)."""
    z = estimate / error
    below = z[z < 0]
    return float(np.clip(np.sqrt(np.mean(np.minimum(-below, 4.0) ** 2)), 1.0, 2.0)) if len(below) >= 30 else 1.0


def posterior(
    groups: TwoGroups, estimate: Floats, error: Floats, prior: Floats, interval: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return probability, median, low and high [k] of the slowdown given estimates [k] and prior [k].

    A NaN estimate leaves the prior as it is. *interval* is the mass between low and high.
    """
    found = np.zeros((4, len(estimate)))
    tail = (1 - interval) / 2
    for first in range(0, len(estimate), _ROWS):
        part = slice(first, first + _ROWS)
        mass = likelihood(estimate[part], error[part] * groups.widening) * groups.mixed(prior[part])
        mass /= np.maximum(mass.sum(axis=1, keepdims=True), 1e-300)
        found[0, part] = mass[:, groups.interfering > 0].sum(axis=1)
        total = np.cumsum(mass, axis=1)
        for row, level in enumerate((0.5, tail, 1 - tail), start=1):
            found[row, part] = GRID[np.argmax(total >= min(level, 1 - 1e-9) * total[:, -1:], axis=1)]
    return found[0], found[1], found[2], found[3]
