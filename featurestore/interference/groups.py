"""Two groups of pairs, the harmless and the interfering: their mixture, its fit, and what it makes of an estimate.

Sources: Benjamini and Hochberg, J. R. Statist. Soc. B 57 (1995) 289; Efron, Large-Scale Inference (2010), ch. 2
(two groups) and 6 (widened errors); Stephens, Biostatistics 18 (2017) 275 (groups mixed from many parts, by EM).
Estimates and errors are of log(1 + slowdown), on whose scale the likelihood is nearest to a normal one.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from featurestore.compiled import compiled, summed
from featurestore.interference.evidence import Bools, Floats
from featurestore.interference.gridded import NEXT_TO_NONE, likelihoods, quantiles

#: The share of interfering pairs that prior probabilities are relative to.
TYPICAL = 0.12

#: Slowdowns that are weighed, up to sixty times as long, and the same on the scale of the likelihood.
GRID = np.concatenate(
    [np.linspace(0.0, 0.1, 41), np.linspace(0.105, 0.5, 80), np.geomspace(0.51, 6.0, 50), np.geomspace(6.6, 60.0, 24)]
)
LOG_GRID = np.log1p(GRID)
#: What each point of the grid stands for; the first one only for what lies above it.
CELL = np.gradient(GRID) * np.where(GRID > 0, 1.0, 0.5)

#: The parts that each group is mixed from: half normals of these standard deviations, lognormals about these
#: slowdowns with this standard deviation of the log.
_NULL_SDS = np.geomspace(0.003, 0.04, 12)
_MIDDLES, _NARROW = np.geomspace(0.11, 40.0, 20), 0.25
#: What is believed of the parts beforehand (centre and width of their logs), and how many pairs that is worth.
_NULL_SD, _NULL_SPREAD, _NULL_PAIRS = 0.012, 0.5, 20.0
_MIDDLE, _WIDTH, _SLAB_PAIRS = 0.2, 0.8, 15.0
#: Standard deviation of the common shift of the log odds of interfering.
_SHIFT_SD = 1.0
#: What no standard error tells: the standard deviation of what partial overlaps and skewed clocks do to a log.
FLOOR = 0.016
_ROWS = 1_000
#: So many pairs, evenly taken, tell how wide the errors are.
_MOST = 2000
_TURNS, _ROUNDS = 60, 2
#: By how much errors may be over- or understated, what was usual on simulated clusters (control groups that explain
#: nothing widen them), and how firmly it is believed: so many times the squared log is taken from the log likelihood.
_FACTORS = (0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 1.45, 1.6, 1.8, 2.0)
_USUAL, _FIRM = 0.88, 50.0


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
    """Return the masses [G] of half a normal from 0 up to *least* and of a lognormal above it."""
    null = np.where(least >= GRID, np.exp(-0.5 * (GRID / null_sd) ** 2), 0.0) * CELL
    positive = np.maximum(GRID, 1e-3)
    z = (np.log(positive) - middle) / width
    slab = np.where(least < GRID, np.exp(-0.5 * z**2) / positive, 0.0) * CELL
    return null / null.sum(), slab / max(float(slab.sum()), 1e-300)


def parts(least: float) -> tuple[Floats, Floats]:
    """Return the masses [parts, G] that the harmless and the interfering group are mixed from."""
    nulls = [densities(float(sd), 0.0, 1.0, least)[0] for sd in _NULL_SDS]
    return np.stack(nulls), np.stack([densities(1.0, np.log(middle), _NARROW, least)[1] for middle in _MIDDLES])


def _over(values: Floats, centre: float, width: float, pairs: float) -> Floats:
    """Return how many pairs each part is worth beforehand: a lognormal over *values*, *pairs* in all."""
    worth = np.exp(-0.5 * ((np.log(values) - np.log(centre)) / width) ** 2) + 1e-3
    found: Floats = pairs * worth / worth.sum()
    return found


def likelihood(estimate: Floats, error: Floats) -> Floats:
    """Return the likelihood [k, G] of each grid slowdown, scaled to a row maximum of 1; NaN says nothing.

    Besides its standard *error* an estimate is off by `FLOOR`.
    """
    return likelihoods(*_normal(estimate, error), LOG_GRID)


def _normal(estimate: Floats, error: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance [k] of the likelihood; where nothing is said it is flat."""
    known = np.isfinite(estimate) & np.isfinite(error) & (error > 0)
    return np.where(known, estimate, 0.0), np.square(np.where(known, error, 1e3)) + FLOOR**2


def believed(least: float) -> TwoGroups:
    """Return the two groups that are believed beforehand, before any estimate is seen; *least* effect that counts."""
    nulls, slabs = parts(least)
    worth0, worth1 = _worth()
    return TwoGroups(worth0 / worth0.sum() @ nulls, worth1 / worth1.sum() @ slabs, TYPICAL, 1.0)


def _worth() -> tuple[Floats, Floats]:
    """Return how many pairs each part of either group is worth beforehand."""
    return (
        _over(_NULL_SDS, _NULL_SD, _NULL_SPREAD, _NULL_PAIRS),
        _over(_MIDDLES, _MIDDLE, _WIDTH, _SLAB_PAIRS),
    )


def two_groups(
    estimate: Floats, error: Floats, least: float, prior: Floats, widening: float | None = None
) -> TwoGroups:
    """Fit the two groups to estimates [k] with standard errors by marginal maximum likelihood (EM).

    *prior* [k] are prior probabilities of interfering, pair by pair, relative to a mean of `TYPICAL`; their odds are
    shifted by one common factor. Estimates that are NaN or hardly determined take no part. *widening* is found too,
    unless it is given.
    """
    use = np.isfinite(estimate) & np.isfinite(error) & (error > 0) & (error < 1.0)
    x, s = estimate[use], error[use]
    odds = special.logit(np.clip(prior[use], 1e-4, 1 - 1e-4)) - special.logit(TYPICAL)
    nulls, slabs = parts(least)
    worth0, worth1 = _worth()
    weight0, weight1, share, wider = worth0 / worth0.sum(), worth1 / worth1.sum(), TYPICAL, widening or 1.0
    for turn in range((1 if widening else _ROUNDS) if len(x) else 0):
        if turn:
            wider = _widening(x, s, weight0 @ nulls, weight1 @ slabs, special.expit(odds + special.logit(share)))
        below, above = np.empty((len(x), len(nulls))), np.empty((len(x), len(slabs)))
        for first in range(0, len(x), _ROWS):
            part = slice(first, first + _ROWS)
            table = likelihood(x[part], s[part] * wider)
            below[part], above[part] = table @ nulls.T, table @ slabs.T
        share = _mixed(below, above, odds, worth0, worth1, weight0, weight1, share)
    return TwoGroups(weight0 @ nulls, weight1 @ slabs, share, wider)


@summed
def _mixed(
    below: Floats,
    above: Floats,
    odds: Floats,
    worth0: Floats,
    worth1: Floats,
    weight0: Floats,
    weight1: Floats,
    share: float,
) -> float:
    """Take all turns of EM and return the share; the parts' weights [parts] are changed in place.

    *below* and *above* [k, parts] are the likelihoods of the pairs in the parts of each group, *odds* [k] their log
    odds less the typical ones, *worth0* and *worth1* what the parts are worth beforehand. Compiled, since a turn is
    little work in many steps.
    """
    for _ in range(_TURNS):
        level, curve, slope = np.log(share / (1 - share)), 1 / _SHIFT_SD**2, 0.0
        gain0, gain1 = np.zeros(len(weight0)), np.zeros(len(weight1))
        for k in range(len(odds)):
            chance = 1.0 / (1.0 + np.exp(-odds[k] - level))
            f0, f1 = 0.0, 0.0
            for j in range(len(weight0)):
                f0 += below[k, j] * weight0[j]
            for j in range(len(weight1)):
                f1 += above[k, j] * weight1[j]
            inside = chance * f1 / max(chance * f1 + (1 - chance) * f0, 1e-300)
            for j in range(len(weight0)):
                gain0[j] += (1 - inside) / max(f0, 1e-300) * below[k, j]
            for j in range(len(weight1)):
                gain1[j] += inside / max(f1, 1e-300) * above[k, j]
            curve += chance * (1 - chance)
            slope += inside - chance
        weight0[:] = weight0 * gain0 + worth0
        weight1[:] = weight1 * gain1 + worth1
        weight0 /= weight0.sum()
        weight1 /= weight1.sum()
        shift = level - np.log(TYPICAL / (1 - TYPICAL))
        shift += (slope - shift / _SHIFT_SD**2) / curve
        share = min(max(1.0 / (1.0 + (1 - TYPICAL) / TYPICAL * np.exp(-shift)), 0.002), 0.6)
    return share


def _widening(estimate: Floats, error: Floats, null: Floats, slab: Floats, chance: Floats) -> float:
    """Return by how much the errors are understated: the factor under which the estimates are most likely."""
    best, found, each = -np.inf, 1.0, max(len(estimate) / _MOST, 1.0)
    if len(estimate) > _MOST:
        some = np.linspace(0, len(estimate) - 1, _MOST).astype(np.int64)
        estimate, error, chance = estimate[some], error[some], chance[some]
    for factor in _FACTORS:
        variance = np.square(error * factor) + FLOOR**2
        fit = each * _marginal(estimate, variance, null, slab, chance, LOG_GRID)
        fit -= _FIRM * float(np.log(factor / _USUAL)) ** 2
        if fit > best:
            best, found = fit, factor
    return found


@compiled
def _marginal(estimate: Floats, variance: Floats, null: Floats, slab: Floats, chance: Floats, grid: Floats) -> float:
    """Return the log likelihood of estimates [k] with *variance* [k] under both groups, but for a constant.

    Compiled; cells that are less likely than the best by `NEXT_TO_NONE` are not computed.
    """
    found = 0.0
    for k in range(len(estimate)):
        nearest = np.inf
        for cell in range(len(grid)):
            nearest = min(nearest, (estimate[k] - grid[cell]) ** 2)
        above, below, each = 0.0, 0.0, -0.5 / variance[k]
        for cell in range(len(grid)):
            level = each * ((estimate[k] - grid[cell]) ** 2 - nearest)
            if level > NEXT_TO_NONE:
                mass = np.exp(level)
                above += mass * slab[cell]
                below += mass * null[cell]
        total = (chance[k] * above + (1 - chance[k]) * below) / np.sqrt(variance[k])
        found += np.log(total) + each * nearest
    return found


def by_class(likely: Floats, groups: TwoGroups, classes: int) -> Floats:
    """Return the likelihoods [k, 1 + classes] of being harmless and of each class of interfering slowdowns.

    *likely* [k, G] is that of `likelihood`; the classes are equally probable in the interfering group, lowest first.
    """
    middle = np.cumsum(groups.interfering) - groups.interfering / 2
    place = np.minimum((middle * classes).astype(np.int64), classes - 1)
    share = np.zeros((len(GRID), classes))
    share[np.arange(len(GRID)), place] = groups.interfering
    share[:, share.sum(axis=0) == 0] = groups.interfering[:, None]
    found = np.concatenate([(likely @ groups.null)[:, None], likely @ (share / share.sum(axis=0))], axis=1) + 1e-12
    scaled: Floats = found / found.max(axis=1, keepdims=True)
    return scaled


def posterior(
    groups: TwoGroups, estimate: Floats, error: Floats, prior: Floats, interval: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return probability, median, low and high [k] of the slowdown given estimates [k] and prior [k].

    A NaN estimate leaves the prior as it is. *interval* is the mass between low and high.
    """
    tail = (1 - interval) / 2
    levels = np.minimum(np.array([0.5, tail, 1 - tail]), 1 - 1e-9)
    probability, place = quantiles(
        *_normal(estimate, error * groups.widening),
        np.asarray(prior, np.float64),
        groups.null,
        groups.interfering,
        LOG_GRID,
        levels,
    )
    median, low, high = GRID[place.T]
    return probability, median, low, high
