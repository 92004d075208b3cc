"""Pairs never seen together: predicted from resource profiles and from what each function does with others.

Three learners see the pairs whose own evidence says something, and each speaks of such a pair only as if that pair's
evidence were not there (leave-one-out in closed form, out-of-bag for the trees), so that the result can serve as the
prior of the very same evidence:

* a ridge logistic model with, for each victim, a level and a slope on each of the aggressor's resources, for each
  aggressor a level, and the products of both profiles; labels are the evidence's likelihood ratios (EM), group
  variances by MacKay's rule (Jordan and Jacobs, Neural Computation 6 (1994) 181; MacKay 4 (1992) 415);
* kernel ridge (a Gaussian process) over pairs: similar aggressors of the same victim, similar victims of the same
  aggressor, similar pairs (Rasmussen and Williams (2006), 5.12 for the leave-one-out);
* scikit-learn's ExtraTrees over both profiles, their products and the two scores.

A logistic calibration joins them. Deterministic: the trees are seeded.
"""

from dataclasses import dataclass

import numpy as np
from scipy import optimize, sparse, special
from sklearn.ensemble import ExtraTreesRegressor

from featurestore.interference.evidence import Bools, Evidence, Floats, Ints
from featurestore.interference.gaussian import inverse

#: Fewer informative pairs than this teach nothing that the common share does not say.
_LEAST_PAIRS = 40
_KERNEL_PAIRS = 1200
#: Functions with a level and slopes of their own, at most: the cost grows with the cube.
_MOST_ACTIVE = 250
_MOST_PREDICTED = 400
_TURNS = 11
_TEMPER = 0.75
_MOST_ODDS = 6.0
#: Standard deviations of the logistic groups beforehand: levels of victim and aggressor, the victim's slopes, the
#: profiles' own effects, products, all cross products; each weighs as much as `_PSEUDO` coefficients.
_GROUP_SD = (1.0, 0.3, 1.0, 0.2, 0.4, 0.7, 0.1)
_PSEUDO = 20.0


def scaled(profiles: Floats) -> Floats:
    """Return standardised profiles [F, R]: each resource over its 90 % quantile, capped; unknown at the mean."""
    if profiles.size == 0:
        return np.zeros((len(profiles), 0))
    seen = np.isfinite(profiles) & (profiles >= 0)
    columns = []
    for values, known in zip(profiles.T, seen.T, strict=True):
        if known.sum() < 3:
            continue
        top = float(np.quantile(values[known], 0.9))
        level = np.minimum(np.where(known, values, 0.0) / (top if top > 0 else 1.0), 3.0)
        centred = np.where(known, level - level[known].mean(), 0.0)
        spread = float(centred[known].std())
        if spread > 1e-9:
            columns.append(centred / spread)
    return np.stack(columns, axis=1) if columns else np.zeros((len(profiles), 0))


def predict(evidence: Evidence, profiles: Floats | None, share: float) -> Floats | None:
    """Return probabilities of interfering [F, F], each without the pair's own evidence, or nothing.

    NaN where a function has neither a profile nor pairs that teach. *share* is the common share of interfering
    pairs. Nothing is returned where too few pairs are known.
    """
    known = np.isfinite(evidence.odds) & (evidence.weight > 0.02)
    if known.sum() < _LEAST_PAIRS:
        return None
    size = len(evidence.odds)
    profile = np.full((size, 1), np.nan) if profiles is None else profiles
    chosen = _predictable(known, evidence.weight, profile)
    part = np.ix_(chosen, chosen)
    known, weight = known[part], evidence.weight[part]
    odds = np.clip(np.where(known, evidence.odds[part], 0.0), -_MOST_ODDS, _MOST_ODDS)
    resources = scaled(profile[chosen])
    ridge = _logistic(odds, weight, known, resources, share)
    label = special.expit(ridge + odds)
    kernel = _kernel(label, weight, known, resources)
    trees = _trees(label, weight, known, resources, [ridge, kernel])
    scores = np.stack([ridge, kernel, trees], axis=-1)
    found = np.full((size, size), np.nan)
    found[part] = _calibrated(scores, odds, known, share)
    return found


def _predictable(known: Bools, weight: Floats, profile: Floats) -> Ints:
    """Return the functions of which something is known: pairs that teach, or a profile; the best known of many."""
    worth = _worth(known, weight)
    candidates = np.flatnonzero((worth > 0) | np.isfinite(profile).any(axis=1))
    return np.sort(candidates[np.argsort(-worth[candidates], kind="stable")[:_MOST_PREDICTED]])


def _worth(known: Bools, weight: Floats) -> Floats:
    own = np.where(known, weight, 0.0)
    worth: Floats = own.sum(axis=0) + own.sum(axis=1)
    return worth


@dataclass(frozen=True, slots=True)
class _Columns:
    """The logistic model's columns: levels and slopes for the functions that teach something, by *place* [F]."""

    resources: Floats
    place: Ints
    active: int

    def of(self, victim: Ints, aggressor: Ints) -> sparse.csr_matrix:
        """Return the columns of pairs [k]: constant, the seven groups of `_GROUP_SD` in order."""
        own, other = self.resources[victim], self.resources[aggressor]
        level_v, level_a = self._hot(self.place[victim]), self._hot(self.place[aggressor])
        slopes = [level_v.multiply(values[:, None]).tocsr() for values in other.T]
        crossed = (own[:, :, None] * other[:, None, :]).reshape(len(victim), -1)
        dense = np.concatenate([own, other, own * other, crossed], axis=1)
        parts = [np.ones((len(victim), 1)), level_v, level_a, *slopes, dense]
        return sparse.hstack(parts, format="csr")

    def groups(self) -> Ints:
        """Return the group of each column but the constant."""
        width = self.resources.shape[1]
        sizes = [self.active, self.active, self.active * width, width, width, width, width * width]
        return np.repeat(np.arange(7), sizes)

    def _hot(self, place: Ints) -> sparse.csr_matrix:
        rows = np.flatnonzero(place >= 0)
        shape = (len(place), self.active)
        return sparse.csr_matrix((np.ones(len(rows)), (rows, place[rows])), shape=shape)


def _teaching(known: Bools, weight: Floats) -> tuple[Ints, int]:
    """Return each function's place among those that have levels and slopes of their own (-1: none), and how many."""
    worth = _worth(known, weight)
    order = np.argsort(-worth, kind="stable")[:_MOST_ACTIVE]
    chosen = np.sort(order[worth[order] > 0])
    place = np.full(len(worth), -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    return place, len(chosen)


def _logistic(odds: Floats, weight: Floats, known: Bools, resources: Floats, share: float) -> Floats:
    """Return the ridge logistic scores [F, F], leave-one-out where known."""
    size = len(odds)
    victim, aggressor = np.nonzero(known)
    ratio = odds[known]
    maker = _Columns(resources, *_teaching(known, weight))
    columns, group = maker.of(victim, aggressor), maker.groups()
    sd = np.array(_GROUP_SD)
    variance = sd**2
    theta = np.zeros(columns.shape[1])
    theta[0] = special.logit(share)
    alone = np.full(len(victim), theta[0])
    for turn in range(_TURNS):
        label = special.expit(alone + ratio)
        chance = special.expit(columns @ theta)
        curve = np.maximum(chance * (1 - chance), 0.01)
        penalty = np.concatenate([[1e-2], 1.0 / variance[group]])
        covariance = inverse(_gram(columns, curve) + np.diag(penalty))
        theta = theta + covariance @ (columns.T @ (label - chance) - penalty * theta)
        if turn % 2 == 0:
            informed = np.maximum(curve - label * (1 - label), 0.0)
            spread = np.diag(inverse(_gram(columns, informed) + np.diag(penalty)))
            for g in range(len(sd)):
                members = np.flatnonzero(group == g) + 1
                used = max(len(members) - float(spread[members].sum()) / variance[g], 0.0)
                found = float(theta[members] @ theta[members]) + _PSEUDO * sd[g] ** 2
                variance[g] = np.clip(found / (used + _PSEUDO), 1e-4, 4.0)
        score = columns @ theta
        reach = np.asarray(columns.multiply(columns @ covariance).sum(axis=1)).ravel()
        gap = label - special.expit(score)
        alone = score - reach * gap / np.maximum(1.0 - curve * reach, 0.1)
    scores = np.stack([maker.of(np.full(size, row), np.arange(size)) @ theta for row in range(size)])
    scores[known] = alone
    return scores


def _gram(columns: sparse.csr_matrix, weight: Floats) -> Floats:
    product: Floats = (columns.T @ columns.multiply(weight[:, None]).tocsr()).toarray()
    return product


def _similarity(first: tuple[Ints, Ints], second: tuple[Ints, Ints], resources: Floats) -> Floats:
    """Return the kernel between pairs: shares of level, same victim, same aggressor and similar profiles."""
    width = max(resources.shape[1], 1)
    line = resources @ resources.T / width
    distance = np.sum((resources[:, None] - resources[None]) ** 2, axis=2) / width
    near = np.exp(-distance)
    same_v = (first[0][:, None] == second[0][None]).astype(np.float64)
    same_a = (first[1][:, None] == second[1][None]).astype(np.float64)
    at_v, at_a = np.ix_(first[0], second[0]), np.ix_(first[1], second[1])
    kernel: Floats = (
        0.3 * same_v
        + 0.1 * same_a
        + 0.1 * (near[at_v] + near[at_a])
        + same_v * (1.5 * line[at_a] + 0.2 * near[at_a])
        + 0.2 * same_a * line[at_v]
        + 0.5 * line[at_v] * line[at_a]
    )
    return kernel


def _kernel(label: Floats, weight: Floats, known: Bools, resources: Floats) -> Floats:
    """Return kernel ridge scores [F, F], leave-one-out where known (the best known pairs teach)."""
    size = len(label)
    victim, aggressor = np.nonzero(known)
    if len(victim) > _KERNEL_PAIRS:
        best = np.sort(np.argsort(-weight[known], kind="stable")[:_KERNEL_PAIRS])
        victim, aggressor = victim[best], aggressor[best]
    trust = weight[victim, aggressor]
    target = label[victim, aggressor]
    middle = float(np.average(target, weights=trust))
    noise = 0.5 + 0.02 / np.maximum(trust, 1e-3)
    gram = 0.25 * _similarity((victim, aggressor), (victim, aggressor), resources) + np.diag(noise)
    solved = inverse(gram)
    dual = solved @ (target - middle)
    found = np.zeros((size, size))
    for row in range(size):
        pairs = (np.full(size, row), np.arange(size))
        found[row] = 0.25 * _similarity(pairs, (victim, aggressor), resources) @ dual
    found[victim, aggressor] = target - middle - dual / np.diag(solved)
    return found


def _trees(label: Floats, weight: Floats, known: Bools, resources: Floats, scores: list[Floats]) -> Floats:
    """Return what ExtraTrees predict [F, F], out of bag where known."""
    size = len(label)
    victim, aggressor = np.divmod(np.arange(size * size), size)
    own, other = resources[victim], resources[aggressor]
    table = np.concatenate([own, other, own * other, *(score.reshape(-1, 1) for score in scores)], axis=1)
    rows = np.flatnonzero(known.ravel())
    forest = ExtraTreesRegressor(
        150, min_samples_leaf=8, max_features=0.5, bootstrap=True, oob_score=True, random_state=0, n_jobs=1
    )
    forest.fit(table[rows], label.ravel()[rows], sample_weight=weight.ravel()[rows])
    found: Floats = forest.predict(table)
    found[rows] = forest.oob_prediction_
    return found.reshape(size, size)


def _calibrated(scores: Floats, odds: Floats, known: Bools, share: float) -> Floats:
    """Return probabilities from scores [F, F, k] by a ridge logistic fit to the likelihood ratios (EM)."""
    spread = np.maximum(scores[known].std(axis=0), 1e-9)
    columns = (scores - scores[known].mean(axis=0)) / spread
    columns = np.concatenate([np.ones((*columns.shape[:2], 1)), columns], axis=2)
    train, ratio = columns[known], odds[known]
    theta = np.concatenate([[special.logit(share)], np.full(scores.shape[2], 0.5)])
    prior, penalty = theta.copy(), np.concatenate([[0.1], np.full(scores.shape[2], 4.0)])
    for _ in range(30):
        chance = special.expit(train @ theta)
        label = special.expit(train @ theta + ratio)
        curve = np.maximum(chance * (1 - chance), 1e-3)
        hessian = (train * curve[:, None]).T @ train + np.diag(penalty)
        theta = theta + inverse(hessian) @ (train.T @ (label - chance) - penalty * (theta - prior))
    return _tempered(columns @ theta)


def _tempered(score: Floats) -> Floats:
    """Return probabilities of log odds [F, F] that are drawn together, their mean kept.

    What is left out of a pair's own prediction still taught its neighbours a little: the odds are too sure of
    themselves by about this much, measured on simulated clusters.
    """
    target = float(special.expit(score).mean())
    close = _TEMPER * (score - score.mean())
    shift = optimize.brentq(lambda by: float(special.expit(close + by).mean()) - target, -60.0, 60.0)
    found: Floats = special.expit(close + shift)
    return found
