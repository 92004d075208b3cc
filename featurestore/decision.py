"""Which pairs interfere: false-discovery control, placebo, and a two-group empirical Bayes over all pairs.

Sources: Benjamini and Hochberg, J. R. Statist. Soc. B 57 (1995) 289; Efron, Large-Scale Inference (2010), ch. 2
and 5 (two groups); Laird, J. Am. Statist. Assoc. 73 (1978) 805 (the mixing distribution by EM on a grid).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from featurestore.evidence import Bools, Evidence, Floats, Ints, Options, VictimFit
from featurestore.joint import integrated

#: The share of interfering pairs that prior probabilities are relative to.
TYPICAL = 0.12

OBSERVED, PREDICTED, UNKNOWN, SHARED_CAUSE = "observed", "predicted", "unknown", "shared_cause"


@dataclass(frozen=True, slots=True)
class PairTable:
    """One row a pair, columns of equal length; see the snapshot's ``pairs`` for units.

    *status* is observed, predicted, unknown or shared_cause; *probability* that the slowdown exceeds the least
    effect; *slowdown*, *low*, *high* the posterior median and interval (NaN where unknown); *discovered* whether
    the test against the least effect survives the false-discovery control; *placebo*, *placebo_se* per pair.
    """

    victim: Ints
    aggressor: Ints
    status: list[str]
    slowdown: Floats
    low: Floats
    high: Floats
    probability: Floats
    effective_overlaps: Floats
    activations: Ints
    discovered: Bools
    placebo: Floats
    placebo_se: Floats


def benjamini_hochberg(p: Floats, level: float) -> Bools:
    """Return which of the p values [k] are discoveries at false-discovery rate *level*; NaN never is."""
    found = np.zeros(len(p), bool)
    known = np.flatnonzero(np.isfinite(p))
    order = known[np.argsort(p[known], kind="stable")]
    passed = np.flatnonzero(p[order] <= level * np.arange(1, len(order) + 1) / max(len(order), 1))
    if len(passed):
        found[order[: passed[-1] + 1]] = True
    return found


_GRID = np.concatenate([np.linspace(0.0, 0.1, 41), np.linspace(0.105, 0.5, 80), np.geomspace(0.51, 6.0, 50)])


@dataclass(frozen=True, slots=True)
class TwoGroups:
    """A mixture over slowdowns: *null* and *interfering* densities on *grid* [G] (mass by point), share *share*."""

    grid: Floats
    null: Floats
    interfering: Floats
    share: float
    widening: float

    def prior(self, probability: Floats) -> Floats:
        """Return prior probabilities [k] whose odds are moved from a mean of `TYPICAL` to this mixture's share."""
        moved: Floats = special.expit(
            special.logit(np.clip(probability, 1e-4, 1 - 1e-4)) + special.logit(self.share) - special.logit(TYPICAL)
        )
        return moved


def _groups(null_sd: float, middle: float, width: float, least: float) -> tuple[Floats, Floats]:
    """Return the masses of both groups: half a normal from 0 up to *least*, a lognormal above it."""
    cell = np.gradient(_GRID)
    null = np.where(least >= _GRID, np.exp(-0.5 * (_GRID / null_sd) ** 2), 0.0) * cell
    positive = np.maximum(_GRID, 1e-3)
    slab = np.where(least < _GRID, np.exp(-0.5 * ((np.log(positive) - middle) / width) ** 2) / positive, 0.0) * cell
    return null / null.sum(), slab / slab.sum()


_LOG_GRID = np.log1p(_GRID)


def likelihood(estimate: Floats, error: Floats) -> Floats:
    """Return the likelihood [k, G] of each grid slowdown, scaled to a row maximum of 1; NaN says nothing.

    *estimate* and *error* are of log(1 + slowdown), on whose scale the likelihood is taken to be normal.
    """
    known = np.isfinite(estimate) & np.isfinite(error) & (error > 0)
    z = (np.where(known, estimate, 0.0)[:, None] - _LOG_GRID) / np.where(known, error, np.inf)[:, None]
    square = 0.5 * z * z
    return np.exp(-(square - square.min(axis=1, keepdims=True)))


def two_groups(estimate: Floats, error: Floats, least: float, prior: Floats | None = None) -> TwoGroups:
    """Fit the two groups to estimates [k] of log(1 + slowdown) with standard errors by marginal maximum likelihood (EM).

    *prior* [k] are prior probabilities of interfering, pair by pair; their odds are shifted by one common factor.
    """
    use = np.isfinite(estimate) & np.isfinite(error) & (error > 0) & (error < 1.0)
    x, s = estimate[use], error[use]
    null_sd, middle, width, share = 0.015, float(np.log(0.35)), 0.7, 0.12
    odds = np.zeros(len(x)) if prior is None else special.logit(np.clip(prior[use], 1e-4, 1 - 1e-4))
    if prior is not None:
        odds -= special.logit(share)
    widening = _widening(x, s)
    table = likelihood(x, s * widening)
    for _ in range(60 if len(x) else 0):
        null, slab = _groups(null_sd, middle, width, least)
        chance = special.expit(odds + special.logit(share))
        below, above = table * null, table * slab
        f0, f1 = below.sum(axis=1), above.sum(axis=1)
        inside = chance * f1 / np.maximum(chance * f1 + (1 - chance) * f0, 1e-300)
        mass1 = (inside / np.maximum(f1, 1e-300)) @ above
        mass0 = ((1 - inside) / np.maximum(f0, 1e-300)) @ below
        # a handful of imagined pairs keeps a small table from claiming certainty about the groups
        logs = np.log(np.maximum(_GRID, 1e-3))
        middle = float((mass1 @ logs + 4 * np.log(0.35)) / (mass1.sum() + 4))
        width = float(np.clip(np.sqrt((mass1 @ (logs - middle) ** 2 + 4 * 0.5) / (mass1.sum() + 4)), 0.3, 1.2))
        null_sd = float(np.clip(np.sqrt((mass0 @ _GRID**2 + 20 * 0.015**2) / (mass0.sum() + 20)), 0.004, 0.03))
        gap = special.logit((inside.sum() + 2.4) / (len(x) + 20)) - special.logit((chance.sum() + 2.4) / (len(x) + 20))
        share = float(np.clip(special.expit(special.logit(share) + gap), 0.002, 0.6))
    null, slab = _groups(null_sd, middle, width, least)
    return TwoGroups(_GRID, null, slab, share, widening)


def _widening(estimate: Floats, error: Floats) -> float:
    """Return by how much the errors are understated, from the estimates below zero (Efron's empirical null)."""
    z = estimate / error
    below = z[z < 0]
    return float(np.clip(np.sqrt(np.mean(np.minimum(below, 4.0) ** 2)), 1.0, 2.0)) if len(below) >= 30 else 1.0


def posterior(groups: TwoGroups, estimate: Floats, error: Floats, prior: Floats, interval: float) -> tuple[Floats, ...]:
    """Return probability, median, low and high [k] of the slowdown given estimates [k] and prior [k]."""
    mixed = prior[:, None] * groups.interfering + (1 - prior[:, None]) * groups.null
    mass = likelihood(estimate, error * groups.widening) * mixed
    mass /= mass.sum(axis=1, keepdims=True)
    total = np.cumsum(mass, axis=1)
    probability = mass[:, groups.interfering > 0].sum(axis=1)

    def quantile(level: float) -> Floats:
        at = np.argmax(total >= level, axis=1)
        found: Floats = groups.grid[at]
        return found

    tail = (1 - interval) / 2
    return probability, quantile(0.5), quantile(tail), quantile(1 - tail)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The fits' arrays, one row a pair; *estimate* and *error* are of log(1 + slowdown)."""

    victim: Ints
    aggressor: Ints
    estimate: Floats
    error: Floats
    overlaps: Floats
    met: Ints
    placebo: Floats
    placebo_se: Floats


def _columns(fits: Sequence[VictimFit]) -> _Columns:
    f = len(fits[0].slowdown) if fits else 0
    victim = np.repeat([fit.victim for fit in fits], f).astype(np.int64)

    def column(name: str) -> Floats:
        return np.concatenate([getattr(fit, name) for fit in fits]) if fits else np.zeros(0)

    return _Columns(
        victim,
        np.tile(np.arange(f), len(fits)),
        np.log1p(column("slowdown")),
        column("se") / (1.0 + column("slowdown")),
        column("effective_overlaps"),
        column("activations").astype(np.int64),
        column("placebo"),
        column("placebo_se"),
    )


def _beforehand(pairs: _Columns, prior: Floats | None) -> Floats:
    """Return each pair's prior probability, the typical share where nothing is predicted."""
    if prior is None:
        return np.full(len(pairs.victim), TYPICAL)
    own = prior[pairs.victim, pairs.aggressor]
    return np.where(np.isfinite(own), own, TYPICAL)


def _weigh(
    fits: Sequence[VictimFit], pairs: _Columns, beforehand: Floats, options: Options
) -> tuple[TwoGroups, Floats, Floats]:
    """Return the two groups and, for each pair, estimate and error with the victim's others integrated out."""
    enough = pairs.overlaps >= options.min_overlaps
    groups = two_groups(np.where(enough, pairs.estimate, np.nan), pairs.error, options.min_effect, beforehand)
    middle, spread = pairs.estimate, pairs.error
    for _ in range(2):
        middle, spread = _integrated(fits, groups.prior(beforehand), groups, options)
        groups = two_groups(np.where(enough, middle, np.nan), spread, options.min_effect, beforehand)
    return groups, middle, spread


def evidence(
    fits: Sequence[VictimFit], options: Options | None = None, prior: Floats | None = None
) -> tuple[Evidence, float]:
    """Return what the fits say of each pair, [F, F], and the share of pairs that interfere.

    *prior* [F, F] is what is believed of a victim's other aggressors; a pair's own prior is not in its evidence.
    """
    options = options or Options()
    pairs = _columns(fits)
    groups, middle, spread = _weigh(fits, pairs, _beforehand(pairs, prior), options)
    known = np.isfinite(middle)
    weight = likelihood(middle, spread * groups.widening)
    ratio = np.log(weight @ groups.interfering + 1e-12) - np.log(weight @ groups.null + 1e-12)
    f = len(fits[0].slowdown) if fits else 0
    odds, trust = np.full((f, f), np.nan), np.zeros((f, f))
    odds[pairs.victim[known], pairs.aggressor[known]] = ratio[known]
    trust[pairs.victim[known], pairs.aggressor[known]] = 1.0 / (1.0 + (spread[known] / 0.1) ** 2)
    return Evidence(odds, trust), groups.share


def decide(fits: Sequence[VictimFit], options: Options | None = None, prior: Floats | None = None) -> PairTable:
    """Decide on every pair that met (and, with *prior* [F, F] victim by aggressor, on every other pair too).

    *prior* holds out-of-fold probabilities of interfering, NaN where nothing is predicted. Below
    ``options.min_overlaps`` a pair is ``predicted`` where there is a prior, else ``unknown`` (NaN estimates).
    """
    options = options or Options()
    pairs = _columns(fits)
    own = np.full(len(pairs.victim), np.nan) if prior is None else prior[pairs.victim, pairs.aggressor]
    beforehand = _beforehand(pairs, prior)
    groups, middle, spread = _weigh(fits, pairs, beforehand, options)
    base = groups.prior(beforehand)
    probability, slowdown, low, high = posterior(groups, middle, spread, base, options.interval)
    enough = pairs.overlaps >= options.min_overlaps
    p = stats.norm.sf((middle - np.log1p(options.min_effect)) / np.where(spread > 0, spread * groups.widening, np.nan))
    discovered = benjamini_hochberg(np.where(enough, p, np.nan), options.false_discovery)
    z = pairs.placebo / np.where(pairs.placebo_se > 0, pairs.placebo_se, np.nan)
    shown = benjamini_hochberg(stats.norm.sf(z), 0.01)
    known = enough & np.isfinite(pairs.estimate)
    status = np.where(known, OBSERVED, np.where(np.isfinite(own), PREDICTED, UNKNOWN)).astype(object)
    status[known & shown & ~discovered & (probability < 0.5)] = SHARED_CAUSE
    blank = status == UNKNOWN
    for values in (probability, slowdown, low, high):
        values[blank] = np.nan
    return PairTable(
        pairs.victim,
        pairs.aggressor,
        status.tolist(),
        slowdown,
        low,
        high,
        probability,
        pairs.overlaps,
        pairs.met,
        discovered,
        pairs.placebo,
        pairs.placebo_se,
    )


def _integrated(fits: Sequence[VictimFit], base: Floats, groups: TwoGroups, options: Options) -> tuple[Floats, Floats]:
    """Return estimate and error [k] of every pair with the victim's other aggressors integrated out."""
    middle, spread = np.full(len(base), np.nan), np.full(len(base), np.nan)
    f = len(base) // max(len(fits), 1)
    for row, fit in enumerate(fits):
        if len(fit.columns) == 0:
            continue
        at = row * f + fit.columns
        mixed = base[at, None] * groups.interfering + (1 - base[at, None]) * groups.null
        middle[at], spread[at] = integrated(fit.raw, fit.precision, mixed, _LOG_GRID, options.common_sd)
    return middle, spread
