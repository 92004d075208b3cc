"""Which pairs interfere: the fits of all victims, weighed together, become the table of pairs.

Each pair is tested against the least effect that counts (Benjamini-Hochberg), held against its placebo, and given a
probability and a shrunken slowdown by the two groups of `featurestore.interference.groups`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy import special

from featurestore.interference.calibration import Calibration
from featurestore.interference.evidence import Bools, Floats, Ints, Options, Predictions, Told, VictimFit, impossible
from featurestore.interference.groups import benjamini_hochberg, posterior
from featurestore.interference.weighing import Columns, Weighed, beliefs, predicted, weigh

#: By how much the log odds of pairs seen little or never are understated: what weak effects look like to the evidence
#: is harmless, so that fewer pairs seem to interfere than do. Measured on simulated clusters kept for tuning.
_UNDERSTATED = 0.2

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
    own = predicted(pairs, prior)
    base = groups.prior(beliefs(pairs, prior))
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


def _with_predicted(pairs: Columns, prior: Predictions) -> tuple[Columns, Ints]:
    """Return the columns with rows for the pairs that are predicted and in no fit, and where the others now are."""
    victim, aggressor = prior.pairs()
    width = 1 + max(int(pairs.aggressor.max(initial=0)), int(aggressor.max(initial=0)))
    own, other = pairs.victim * width + pairs.aggressor, victim * width + aggressor
    new = ~np.isin(other, own)
    order = np.argsort(np.concatenate([own, other[new]]), kind="stable")
    fresh: dict[str, Any] = {"victim": victim[new], "aggressor": aggressor[new], "overlaps": 0.0, "met": 0}
    found: dict[str, Any] = {}
    for name in Columns.__slots__:
        values = getattr(pairs, name)
        more = np.broadcast_to(fresh.get(name, np.nan), int(new.sum())).astype(values.dtype)
        found[name] = np.concatenate([values, more])[order]
    return Columns(**found), np.argsort(order, kind="stable")[: len(own)]
