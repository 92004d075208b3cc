"""How well probabilities of pairs tell what interferes: the measures of the estimator's table."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Pairs:
    """What a method says of all pairs [k] of one world beside the truth; *probability* NaN: says nothing."""

    probability: Floats
    interferes: Bools
    overlaps: Floats


def f1(pairs: Pairs, chosen: Bools) -> float:
    """Return the F1 of flagging at probability .5 within *chosen* pairs; NaN where none interferes."""
    flagged, truth = np.nan_to_num(pairs.probability[chosen]) >= 0.5, pairs.interferes[chosen]
    return float(2 * (flagged & truth).sum() / (flagged.sum() + truth.sum())) if truth.any() else float("nan")


def auroc(pairs: Pairs, chosen: Bools) -> float:
    """Return the chance that an interfering pair of *chosen* ranks above a harmless one (Mann-Whitney)."""
    truth = pairs.interferes[chosen]
    rank = stats.rankdata(np.nan_to_num(pairs.probability[chosen], nan=0.12))
    ones, zeros = int(truth.sum()), int((~truth).sum())
    return float((rank[truth].sum() - ones * (ones + 1) / 2) / (ones * zeros)) if ones and zeros else float("nan")


def calibration_error(pairs: Pairs, chosen: Bools) -> float:
    """Return the expected calibration error over ten bins of equal width."""
    p, truth = np.nan_to_num(pairs.probability[chosen], nan=0.12), pairs.interferes[chosen]
    bins = np.minimum((p * 10).astype(np.int64), 9)
    parts = [(bins == b).mean() * abs(p[bins == b].mean() - truth[bins == b].mean()) for b in np.unique(bins)]
    return float(sum(parts))


def precision(pairs: Pairs, chosen: Bools) -> float:
    """Return the share of interfering pairs among those of *chosen* at probability .9 and more."""
    sure = chosen & (np.nan_to_num(pairs.probability) >= 0.9)
    return float(pairs.interferes[sure].mean()) if sure.any() else float("nan")


def recall(pairs: Pairs, chosen: Bools) -> float:
    """Return the share of the interfering pairs of *chosen* that have probability .9 and more."""
    truth = chosen & pairs.interferes
    return float((np.nan_to_num(pairs.probability[truth]) >= 0.9).mean()) if truth.any() else float("nan")


def brier_skill(pairs: Pairs, chosen: Bools) -> float:
    """Return how much of the squared error of always stating the share is spared (Brier 1950): 0 none, 1 all.

    A proper score beside the calibration error, which a constant keeps small without telling pairs apart.
    """
    truth = pairs.interferes[chosen].astype(np.float64)
    p = np.nan_to_num(pairs.probability[chosen], nan=0.12)
    spread = float(np.mean((truth - truth.mean()) ** 2))
    return float(1 - np.mean((truth - p) ** 2) / spread) if spread else float("nan")


def often_pairs(pairs: Pairs) -> Bools:
    return pairs.overlaps >= 100


def some_pairs(pairs: Pairs) -> Bools:
    return (pairs.overlaps >= 30) & (pairs.overlaps < 100)


def seen_pairs(pairs: Pairs) -> Bools:
    return pairs.overlaps >= 30


def never_pairs(pairs: Pairs) -> Bools:
    never: Bools = pairs.overlaps == 0
    return never


def all_pairs(pairs: Pairs) -> Bools:
    return np.ones(len(pairs.overlaps), bool)
