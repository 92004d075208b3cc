"""What the fits of all victims say, weighed together: of each pair, of how many interfere, of how well that is kept.

Estimates are taken with the victim's other aggressors integrated out (`featurestore.interference.joint`), and the two
groups of `featurestore.interference.groups` are fitted to them. `featurestore.interference.decision` decides on it.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy import special

from featurestore.interference.backwards import apart
from featurestore.interference.calibration import Calibration, calibrate
from featurestore.interference.evidence import (
    Evidence,
    Floats,
    Ints,
    Options,
    Predictions,
    Told,
    VictimFit,
    told,
)
from featurestore.interference.groups import (
    LOG_GRID,
    TYPICAL,
    TwoGroups,
    believed,
    by_class,
    likelihood,
    two_groups,
)
from featurestore.interference.joint import integrated

#: Classes of slowdowns that predictions learn from.
_CLASSES = 10

#: What of a fit is weighed.
_WEIGHED = (
    *("slowdown", "se", "effective_overlaps", "activations", "placebo", "placebo_se"),
    *("columns", "raw", "precision", "base"),
)

#: Victims that are weighed at once.
_THREADS = min(4, os.cpu_count() or 1)

#: Pairs that are weighed at once: their likelihoods are 1.5 kB each, and stay in the cache.
_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class Columns:
    """The fits' arrays, one row a pair that is in one; *estimate* and *error* are of log(1 + slowdown)."""

    victim: Ints
    aggressor: Ints
    estimate: Floats
    error: Floats
    overlaps: Floats
    met: Ints
    placebo: Floats
    placebo_se: Floats


def _columns(fits: Sequence[Told]) -> Columns:
    def column(name: str) -> Floats:
        return np.concatenate([getattr(fit, name) for fit in fits]) if fits else np.zeros(0)

    return Columns(
        np.repeat([fit.victim for fit in fits], [len(fit.met) for fit in fits]).astype(np.int64),
        column("met").astype(np.int64),
        np.log1p(column("slowdown")),
        column("se") / (1.0 + column("slowdown")),
        column("effective_overlaps"),
        column("activations").astype(np.int64),
        column("placebo"),
        column("placebo_se"),
    )


@dataclass(frozen=True, slots=True)
class Weighed:
    """All pairs of *fits* weighed together under one prior: what `evidence`, `kept` and `decide` start from.

    *told* are the fits without what is their victims' own doing (`featurestore.interference.backwards`), *pairs* the
    columns of the pairs that are in one, *beforehand* [k] their prior, then the two *groups*, and of each pair
    *middle* and *spread* [k], estimate and error with the victim's others integrated out.
    """

    fits: Sequence[VictimFit | Told]
    told: Sequence[Told]
    pairs: Columns
    beforehand: Floats
    groups: TwoGroups
    middle: Floats
    spread: Floats


def weigh(
    fits: Sequence[VictimFit | Told], options: Options, prior: Predictions | None = None, known: Weighed | None = None
) -> Weighed:
    """Weigh all pairs of *fits* under *prior*: most of the work of a decision.

    *known* is what was weighed under the same options and prior; it is returned where its fits say the same.
    """
    if known is not None and _alike(known.fits, fits):
        return known
    some = apart([told(fit) for fit in fits])
    pairs = _columns(some)
    beforehand = beliefs(pairs, prior)
    enough = pairs.overlaps >= options.min_overlaps
    # Not fitted to the estimates as they are: where something slows all runs that have company (crowding that no
    # control caught, a backend in a burst), most harmless pairs look slowed alike, and the mixture settles on a world
    # in which nearly all pairs interfere. Of a victim's pairs most are harmless: that tells what they share.
    groups = believed(options.min_effect)
    middle, spread = pairs.estimate, pairs.error
    for turn in range(2):
        middle, spread = _integrated(some, groups.prior(beforehand), groups, options)
        found = np.where(enough, middle, np.nan)
        groups = two_groups(found, spread, options.min_effect, beforehand, groups.widening if turn else None)
    return Weighed(fits, some, pairs, beforehand, groups, middle, spread)


def _alike(some: Sequence[VictimFit | Told], others: Sequence[VictimFit | Told]) -> bool:
    """Return whether the estimates of both are the very same arrays, whatever else was changed."""
    return len(some) == len(others) and all(
        type(one) is type(other) and getattr(one, name) is getattr(other, name)
        for one, other in zip(some, others, strict=True)
        for name in _WEIGHED
    )


def evidence(
    fits: Sequence[VictimFit | Told],
    options: Options | None = None,
    prior: Predictions | None = None,
    weighed: Weighed | None = None,
) -> tuple[Evidence, float]:
    """Return what the fits say of each pair, and the share of pairs that interfere.

    *prior* is what is believed of a victim's other aggressors; a pair's own prior is not in its evidence. *weighed*
    may hold what `weigh` made of the same prior.
    """
    start = weigh(fits, options or Options(), prior, weighed)
    pairs, groups, middle, spread = start.pairs, start.groups, start.middle, start.spread
    known = np.flatnonzero(np.isfinite(middle))
    classes = np.ones((len(known), 1 + _CLASSES))
    for first in range(0, len(known), _ROWS):
        rows = known[first : first + _ROWS]
        likely = likelihood(middle[rows], spread[rows] * groups.widening)
        classes[first : first + _ROWS] = by_class(likely, groups, _CLASSES)
    trust = 1.0 / (1.0 + (spread[known] / 0.1) ** 2)
    functions = _functions(fits)
    odds = _ratio(middle[known], spread[known], groups)
    return Evidence(functions, pairs.victim[known], pairs.aggressor[known], odds, trust, classes), groups.share


def _functions(fits: Sequence[VictimFit | Told]) -> int:
    """Return the number of functions that *fits* speak of."""
    return told(fits[0]).functions if fits else 0


def kept(
    fits: Sequence[VictimFit | Told],
    options: Options,
    prior: Predictions | None = None,
    weighed: Weighed | None = None,
) -> Calibration | None:
    """Return how well probabilities from half of the time blocks foretell the evidence of the other half.

    None where no fit tells halves apart. Pairs with enough evidence count, once for each half. *weighed* as for
    `evidence`.
    """
    if not any(fit.halves for fit in fits):
        return None
    start = weigh(fits, options, prior, weighed)
    pairs, groups = start.pairs, start.groups
    base = groups.prior(start.beforehand)
    stated, judged = [], []
    for half in (0, 1):
        middle, spread = _integrated(start.told, base, groups, options, half)
        known = (pairs.overlaps >= options.min_overlaps) & np.isfinite(middle)
        ratio = np.full(len(base), np.nan)
        ratio[known] = _ratio(middle[known], spread[known], groups)
        judged.append(ratio)
        stated.append(special.expit(special.logit(np.clip(base, 1e-5, 1 - 1e-5)) + ratio))
    return calibrate(np.concatenate(stated), np.concatenate(judged[::-1]))


def beliefs(pairs: Columns, prior: Predictions | None) -> Floats:
    """Return each pair's prior probability, the typical share where nothing is predicted."""
    own = predicted(pairs, prior)
    return np.where(np.isfinite(own), own, TYPICAL)


def predicted(pairs: Columns, prior: Predictions | None) -> Floats:
    return np.full(len(pairs.victim), np.nan) if prior is None else prior.at(pairs.victim, pairs.aggressor)


def _ratio(middle: Floats, spread: Floats, groups: TwoGroups) -> Floats:
    """Return log likelihood ratios [k] of interfering."""
    found = np.zeros(len(middle))
    for first in range(0, len(middle), _ROWS):
        part = slice(first, first + _ROWS)
        likely = likelihood(middle[part], spread[part] * groups.widening)
        found[part] = np.log(likely @ groups.interfering + 1e-12) - np.log(likely @ groups.null + 1e-12)
    return found


def _integrated(
    fits: Sequence[Told],
    base: Floats,
    groups: TwoGroups,
    options: Options,
    half: int | None = None,
) -> tuple[Floats, Floats]:
    """Return estimate and error [k] of every pair with the victim's other aggressors integrated out.

    Of all evidence, or of one *half* of the time blocks alone.
    """
    middle, spread = np.full(len(base), np.nan), np.full(len(base), np.nan)
    ends = np.cumsum([len(fit.met) for fit in fits])

    def one(fit: Told, end: int) -> None:
        at = end - len(fit.met) + np.searchsorted(fit.met, fit.columns)
        raw, precision = (fit.raw, fit.precision) if half is None else fit.halves[half]
        middle[at], spread[at] = integrated(raw, precision, groups.mixed(base[at]), LOG_GRID, options.common_sd)

    chosen = [k for k, fit in enumerate(fits) if len(fit.columns) and (half is None or fit.halves)]
    with ThreadPoolExecutor(_THREADS) as pool:  # most of it is compiled, and holds no lock
        for _ in pool.map(lambda k: one(fits[k], int(ends[k])), chosen):
            pass
    return middle, spread
