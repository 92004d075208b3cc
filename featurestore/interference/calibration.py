"""Are probabilities kept? Measured on pairs whose probability did not see the evidence that decides them.

Nobody knows which pairs of a cluster interfere. What is known is how likely a pair's own evidence is if it does and
if it does not; the ratio of both judges a probability that was stated without that evidence: one predicted out of
fold, or one from half of the time blocks against the other half. Of many pairs with the same stated probability, the
share that interferes is the one under which their evidence is most likely; and the stated odds are moved by the
intercept and slope under which all evidence is most likely.

Sources: Platt, Advances in Large Margin Classifiers (1999) 61 (intercept and slope of the log odds); DeGroot and
Fienberg, The Statistician 32 (1983) 12 (reliability); Dempster, Laird and Rubin, J. R. Statist. Soc. B 39 (1977) 1
(the share of a mixture by EM). What both halves get wrong alike, no split can show.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import special

from featurestore.interference.evidence import Floats
from featurestore.interference.gaussian import inverse

BINS = 10
#: Fewer pairs move no probability.
LEAST_PAIRS = 200
#: Standard deviations of the intercept and of the slope about (0, 1) beforehand.
_SD = np.array([0.5, 0.2])
_MOST_ODDS = 12.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """Reliability by bin of equal width and the map that is applied.

    *pairs*, mean *stated* and *found* share [bins], NaN where empty; the map is ``log odds -> intercept + slope * log
    odds`` (0 and 1: none).
    """

    pairs: Floats = field(default_factory=lambda: np.zeros(BINS))
    stated: Floats = field(default_factory=lambda: np.full(BINS, np.nan))
    found: Floats = field(default_factory=lambda: np.full(BINS, np.nan))
    intercept: float = 0.0
    slope: float = 1.0

    @property
    def error(self) -> float:
        """The expected calibration error of what was stated, before the map; NaN without pairs."""
        if not self.pairs.sum():
            return float("nan")
        return float(np.nansum(self.pairs * np.abs(self.stated - self.found)) / self.pairs.sum())

    def applied(self, probability: Floats) -> Floats:
        """Return calibrated probabilities; NaN stays."""
        moved: Floats = special.expit(self.intercept + self.slope * _log_odds(probability))
        return moved

    def document(self) -> Mapping[str, Any]:
        """Return the curve as JSON values; bins without pairs are left out."""
        return {
            "intercept": self.intercept,
            "slope": self.slope,
            "error": self.error if self.pairs.sum() else None,
            "bins": [
                {"pairs": int(pairs), "stated": float(stated), "found": float(found)}
                for pairs, stated, found in zip(self.pairs, self.stated, self.found, strict=True)
                if pairs
            ],
        }


def read(document: Mapping[str, Any] | None) -> Calibration:
    """Return the map of a `Calibration.document`, without its bins; the identity where there is none."""
    known = document or {}
    return Calibration(intercept=float(known.get("intercept", 0.0)), slope=float(known.get("slope", 1.0)))


def share(ratio: Floats) -> float:
    """Return the share of interfering pairs under which the evidence of pairs [k] is most likely.

    *ratio* are log likelihood ratios of interfering.
    """
    odds = np.exp(np.clip(ratio, -_MOST_ODDS, _MOST_ODDS))
    low, high = 0.0, 1.0
    for _ in range(50):  # the likelihood is concave: its slope has one zero
        middle = (low + high) / 2
        if np.sum((odds - 1.0) / (1.0 + middle * (odds - 1.0))) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def calibrate(probability: Floats, ratio: Floats) -> Calibration:
    """Measure probabilities [k] against log likelihood ratios [k] of evidence that they did not see; NaN is left out.

    The map is the identity where fewer than `LEAST_PAIRS` pairs are known, or where the evidence does not ask for
    another one (by the Bayesian information criterion; Schwarz, Ann. Statist. 6 (1978) 461).
    """
    known = np.isfinite(probability) & np.isfinite(ratio)
    p, r = probability[known], ratio[known]
    place = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    pairs = np.bincount(place, minlength=BINS).astype(np.float64)
    stated, found = np.full(BINS, np.nan), np.full(BINS, np.nan)
    for b in np.flatnonzero(pairs):
        stated[b], found[b] = p[place == b].mean(), share(r[place == b])
    intercept, slope = _map(p, r) if len(p) >= LEAST_PAIRS else (0.0, 1.0)
    return Calibration(pairs, stated, found, intercept, slope)


def _map(probability: Floats, ratio: Floats) -> tuple[float, float]:
    """Return intercept and slope of the largest posterior, by EM with one Newton step a turn."""
    columns = np.stack([np.ones(len(probability)), _log_odds(probability)], axis=1)
    beforehand, penalty = np.array([0.0, 1.0]), 1.0 / _SD**2
    theta = beforehand.copy()
    own = np.clip(ratio, -_MOST_ODDS, _MOST_ODDS)
    for _ in range(50):
        score = columns @ theta
        chance, label = special.expit(score), special.expit(score + own)
        curve = np.maximum(chance * (1 - chance), 1e-4)
        slope = columns.T @ (label - chance) - penalty * (theta - beforehand)
        step = inverse((columns * curve[:, None]).T @ columns + np.diag(penalty)) @ slope
        theta = theta + step
        if np.abs(step).max() < 1e-6:
            break
    if _fit(special.expit(columns @ theta), own) - _fit(probability, own) < np.log(len(own)):
        return 0.0, 1.0
    return float(theta[0]), float(np.clip(theta[1], 0.3, 2.0))


def _fit(probability: Floats, ratio: Floats) -> float:
    """Return the log likelihood of the evidence under *probability*."""
    return float(np.sum(np.log1p(probability * np.expm1(ratio))))


def _log_odds(probability: Floats) -> Floats:
    found: Floats = special.logit(np.clip(probability, 1e-5, 1 - 1e-5))
    return found
