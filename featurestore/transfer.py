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

import numpy as np
from scipy import special
from sklearn.ensemble import ExtraTreesRegressor

from featurestore.evidence import Bools, Evidence, Floats, Ints
from featurestore.gaussian import inverse

#: Fewer informative pairs than this teach nothing that the common share does not say.
_LEAST_PAIRS = 40
_KERNEL_PAIRS = 1200
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

    *share* is the common share of interfering pairs. Nothing is returned where too few pairs are known.
    """
    known = np.isfinite(evidence.odds) & (evidence.weight > 0.02)
    if known.sum() < _LEAST_PAIRS:
        return None
    size = len(evidence.odds)
    resources = scaled(np.zeros((size, 0)) if profiles is None else profiles)
    odds = np.clip(np.where(known, evidence.odds, 0.0), -_MOST_ODDS, _MOST_ODDS)
    ridge = _logistic(odds, known, resources, share)
    label = special.expit(ridge + odds)
    kernel = _kernel(label, evidence.weight, known, resources)
    trees = _trees(label, evidence.weight, known, resources, [ridge, kernel])
    scores = np.stack([ridge, kernel, trees], axis=-1)
    return _calibrated(scores, odds, known, share)


def _pair_features(victim: Ints, aggressor: Ints, resources: Floats) -> tuple[Floats, Ints]:
    """Return the logistic model's columns for pairs [k] and the group of each."""
    size, width = resources.shape
    count, own, other = len(victim), resources[victim], resources[aggressor]
    rows = np.arange(count)
    level_v, level_a = np.zeros((count, size)), np.zeros((count, size))
    level_v[rows, victim] = 1.0
    level_a[rows, aggressor] = 1.0
    slopes = np.zeros((count, size, width))
    slopes[rows, victim] = other
    crossed = own[:, :, None] * other[:, None, :]
    parts = [level_v, level_a, slopes.reshape(count, -1), own, other, own * other, crossed.reshape(count, -1)]
    return np.concatenate(parts, axis=1), np.repeat(np.arange(7), [part.shape[1] for part in parts])


def _logistic(odds: Floats, known: Bools, resources: Floats, share: float) -> Floats:
    """Return the ridge logistic scores [F, F], leave-one-out where known."""
    size = len(odds)
    victim, aggressor = np.nonzero(known)
    ratio = odds[known]
    columns, group = _pair_features(victim, aggressor, resources)
    columns = np.concatenate([np.ones((len(victim), 1)), columns], axis=1)
    sd = np.array(_GROUP_SD)
    variance = sd**2
    theta = np.zeros(columns.shape[1])
    theta[0] = special.logit(share)
    alone = np.full(len(victim), theta[0])
    for _ in range(15):
        label = special.expit(alone + ratio)
        score = columns @ theta
        chance = special.expit(score)
        curve = np.maximum(chance * (1 - chance), 0.01)
        penalty = np.concatenate([[1e-2], 1.0 / variance[group]])
        covariance = inverse((columns * curve[:, None]).T @ columns + np.diag(penalty))
        theta = theta + covariance @ (columns.T @ (label - chance) - penalty * theta)
        informed = np.maximum(curve - label * (1 - label), 0.0)
        spread = np.diag(inverse((columns * informed[:, None]).T @ columns + np.diag(penalty)))
        for g in range(len(sd)):
            members = np.flatnonzero(group == g) + 1
            if len(members):
                used = len(members) - float(spread[members].sum()) / variance[g]
                size_of = float(theta[members] @ theta[members]) + _PSEUDO * sd[g] ** 2
                variance[g] = np.clip(size_of / (max(used, 0.0) + _PSEUDO), 1e-4, 4.0)
        score = columns @ theta
        reach = np.sum((columns @ covariance) * columns, axis=1)
        gap = label - special.expit(score)
        alone = score - reach * gap / np.maximum(1.0 - curve * reach, 0.1)
    found = np.zeros((size, size))
    for row in range(size):
        columns, _ = _pair_features(np.full(size, row), np.arange(size), resources)
        found[row] = theta[0] + columns @ theta[1:]
    found[known] = alone
    return found


def _similarity(first: tuple[Ints, Ints], second: tuple[Ints, Ints], resources: Floats) -> Floats:
    """Return the kernel between pairs: shares of level, same victim, same aggressor and similar profiles."""
    width = max(resources.shape[1], 1)
    line = resources @ resources.T / width
    distance = np.sum((resources[:, None] - resources[None]) ** 2, axis=2) / width
    near = np.exp(-distance)
    same_v = (first[0][:, None] == second[0][None]).astype(np.float64)
    same_a = (first[1][:, None] == second[1][None]).astype(np.float64)
    at_v, at_a = np.ix_(first[0], second[0]), np.ix_(first[1], second[1])
    return (
        0.3 * same_v
        + 0.1 * same_a
        + 0.1 * (near[at_v] + near[at_a])
        + same_v * (1.5 * line[at_a] + 0.2 * near[at_a])
        + 0.2 * same_a * line[at_v]
        + 0.5 * line[at_v] * line[at_a]
    )


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
    found: Floats = special.expit(columns @ theta)
    return found
