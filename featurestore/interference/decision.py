"""Which pairs interfere: the fits of all victims, weighed together, become the table of pairs.

Each pair is tested against the least effect that counts (Benjamini-Hochberg), held against its placebo, and given a
probability and a shrunken slowdown by the two groups of `featurestore.interference.groups`.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy import special

from featurestore.interference.calibration import Calibration, calibrate
from featurestore.interference.evidence import (
    Bools,
    Evidence,
    Floats,
    Ints,
    Options,
    Predictions,
    Told,
    VictimFit,
    impossible,
    told,
)
from featurestore.interference.groups import (
    LOG_GRID,
    TYPICAL,
    TwoGroups,
    believed,
    benjamini_hochberg,
    by_class,
    likelihood,
    posterior,
    two_groups,
)
from featurestore.interference.joint import integrated

#: Classes of slowdowns that predictions learn from.
_CLASSES = 10

#: By how much the log odds of pairs seen little or never are understated: what weak effects look like to the evidence
#: is harmless, so that fewer pairs seem to interfere than do. Measured on simulated clusters kept for tuning.
_UNDERSTATED = 0.2

#: What of a fit is weighed.
_WEIGHED = (
    *("slowdown", "se", "effective_overlaps", "activations", "placebo", "placebo_se"),
    *("columns", "raw", "precision"),
)

#: Victims that are weighed at once.
_THREADS = min(4, os.cpu_count() or 1)

#: Pairs that are weighed at once: their likelihoods are 1.5 kB each, and stay in the cache.
_ROWS = 1_000

OBSERVED, PREDICTED, UNKNOWN, SHARED_CAUSE = "observed", "predicted", "unknown", "shared_cause"


@dataclass(frozen=True, slots=True)
class PairTable:
    """One row a pair of which something is known or predicted, all columns [k]; every other pair is unknown.

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

    def whole(self, functions: int) -> "PairTable":
        """Return the table of all pairs of *functions* functions, in order of victim and aggressor."""
        victim, aggressor = np.divmod(np.arange(functions * functions), max(functions, 1))
        at = self.victim * functions + self.aggressor
        missing = {"effective_overlaps": 0.0, "activations": 0, "discovered": False}
        found: dict[str, Any] = {}
        for name in (each.name for each in fields(self) if each.name not in ("victim", "aggressor", "status")):
            values = getattr(self, name)
            found[name] = np.full(len(victim), missing.get(name, np.nan), values.dtype)
            found[name][at] = values
        status = np.full(len(victim), UNKNOWN, object)
        status[at] = self.status
        return PairTable(victim, aggressor, status.tolist(), **found)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The fits' arrays, one row a pair that is in one; *estimate* and *error* are of log(1 + slowdown)."""

    victim: Ints
    aggressor: Ints
    estimate: Floats
    error: Floats
    overlaps: Floats
    met: Ints
    placebo: Floats
    placebo_se: Floats


def _columns(fits: Sequence[Told]) -> _Columns:
    def column(name: str) -> Floats:
        return np.concatenate([getattr(fit, name) for fit in fits]) if fits else np.zeros(0)

    return _Columns(
        np.repeat([fit.victim for fit in fits], [len(fit.met) for fit in fits]).astype(np.int64),
        column("met").astype(np.int64),
        np.log1p(column("slowdown")),
        column("se") / (1.0 + column("slowdown")),
        column("effective_overlaps"),
        column("activations").astype(np.int64),
        column("placebo"),
        column("placebo_se"),
    )


def _with_predicted(pairs: _Columns, prior: Predictions) -> tuple[_Columns, Ints]:
    """Return the columns with rows for the pairs that are predicted and in no fit, and where the others now are."""
    victim, aggressor = prior.pairs()
    width = 1 + max(int(pairs.aggressor.max(initial=0)), int(aggressor.max(initial=0)))
    own, other = pairs.victim * width + pairs.aggressor, victim * width + aggressor
    new = ~np.isin(other, own)
    order = np.argsort(np.concatenate([own, other[new]]), kind="stable")
    fresh: dict[str, Any] = {"victim": victim[new], "aggressor": aggressor[new], "overlaps": 0.0, "met": 0}
    found: dict[str, Any] = {}
    for name in _Columns.__slots__:
        values = getattr(pairs, name)
        more = np.broadcast_to(fresh.get(name, np.nan), int(new.sum())).astype(values.dtype)
        found[name] = np.concatenate([values, more])[order]
    return _Columns(**found), np.argsort(order, kind="stable")[: len(own)]


def _beforehand(pairs: _Columns, prior: Predictions | None) -> Floats:
    """Return each pair's prior probability, the typical share where nothing is predicted."""
    own = _predicted(pairs, prior)
    return np.where(np.isfinite(own), own, TYPICAL)


def _predicted(pairs: _Columns, prior: Predictions | None) -> Floats:
    return np.full(len(pairs.victim), np.nan) if prior is None else prior.at(pairs.victim, pairs.aggressor)


@dataclass(frozen=True, slots=True)
class Weighed:
    """All pairs of *fits* weighed together under one prior: what `evidence`, `kept` and `decide` start from.

    The columns of the pairs that are in a fit, their prior *beforehand* [k], the two *groups*, and of each pair
    *middle* and *spread* [k], estimate and error with the victim's others integrated out.
    """

    fits: Sequence[VictimFit | Told]
    pairs: _Columns
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
    some = [told(fit) for fit in fits]
    pairs = _columns(some)
    beforehand = _beforehand(pairs, prior)
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
    return Weighed(fits, pairs, beforehand, groups, middle, spread)


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


def decide(
    fits: Sequence[VictimFit | Told],
    options: Options | None = None,
    prior: Predictions | None = None,
    calibration: Calibration | None = None,
    weighed: Weighed | None = None,
) -> PairTable:
    """Decide on every pair that met, and on every other of which *prior* predicts something.

    *prior* holds out-of-fold probabilities of interfering. Below ``options.min_overlaps`` a pair is ``predicted``
    where there is a prior, else ``unknown`` (NaN estimates).
    *calibration* (of `kept`) moves the probabilities of pairs observed; *weighed* as for `evidence`.
    """
    options = options or Options()
    start = weigh(fits, options, prior, weighed)
    pairs, groups, middle, spread = start.pairs, start.groups, start.middle, start.spread
    if prior is not None:
        pairs, at = _with_predicted(start.pairs, prior)
        middle, spread = np.full((2, len(pairs.victim)), np.nan)
        middle[at], spread[at] = start.middle, start.spread
    own = _predicted(pairs, prior)
    base = groups.prior(_beforehand(pairs, prior))
    enough = pairs.overlaps >= options.min_overlaps
    if calibration is not None and (calibration.intercept, calibration.slope) != (0.0, 1.0):
        stated = posterior(groups, middle, spread, base, options.interval)[0]
        shift = special.logit(calibration.applied(stated)) - special.logit(np.clip(stated, 1e-5, 1 - 1e-5))
        base = np.where(enough, special.expit(special.logit(np.clip(base, 1e-5, 1 - 1e-5)) + shift), base)
    base = np.where(enough, base, special.expit(special.logit(base) + _UNDERSTATED))
    probability, slowdown, low, high = posterior(groups, middle, spread, base, options.interval)
    beyond = (middle - np.log1p(options.min_effect)) / np.where(spread > 0, spread * groups.widening, np.nan)
    p = special.ndtr(-beyond)
    discovered = benjamini_hochberg(np.where(enough, p, np.nan), options.false_discovery)
    z = pairs.placebo / np.where(pairs.placebo_se > 0, pairs.placebo_se, np.nan)
    shown = benjamini_hochberg(special.ndtr(-z), options.placebo_level)
    known = enough & np.isfinite(pairs.estimate)
    fitted = [fit.victim for fit in fits if not fit.reason]
    status = np.where(known, OBSERVED, np.where(np.isfinite(own), PREDICTED, UNKNOWN)).astype(object)
    status[known & shown & ~discovered & (probability < 0.5)] = SHARED_CAUSE
    # Seen often, and yet not told from others that were always there with it: what functions that are alike do says
    # nothing of how the two share what was seen.
    status[enough & np.isin(pairs.victim, fitted) & ~np.isfinite(pairs.estimate)] = UNKNOWN
    status[enough & impossible(pairs.estimate, pairs.error)] = UNKNOWN
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


def _ratio(middle: Floats, spread: Floats, groups: TwoGroups) -> Floats:
    """Return log likelihood ratios [k] of interfering."""
    found = np.zeros(len(middle))
    for first in range(0, len(middle), _ROWS):
        part = slice(first, first + _ROWS)
        likely = likelihood(middle[part], spread[part] * groups.widening)
        found[part] = np.log(likely @ groups.interfering + 1e-12) - np.log(likely @ groups.null + 1e-12)
    return found


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
    some = [told(fit) for fit in fits]
    stated, judged = [], []
    for half in (0, 1):
        middle, spread = _integrated(some, base, groups, options, half)
        known = (pairs.overlaps >= options.min_overlaps) & np.isfinite(middle)
        ratio = np.full(len(base), np.nan)
        ratio[known] = _ratio(middle[known], spread[known], groups)
        judged.append(ratio)
        stated.append(special.expit(special.logit(np.clip(base, 1e-5, 1 - 1e-5)) + ratio))
    return calibrate(np.concatenate(stated), np.concatenate(judged[::-1]))


def _integrated(
    fits: Sequence[Told], base: Floats, groups: TwoGroups, options: Options, half: int | None = None
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
