"""Pairs never seen together: predicted from resource profiles and from what each function does with others.

Two learners see the pairs whose own evidence says something, and each speaks of such a pair only as if that pair's
evidence were not there, so that the result can serve as the prior of the very same evidence:

* an ordered probit ridge (`featurestore.interference.ordered`) with, for each victim, a level and a slope on each of
  the aggressor's resources (its sensitivities), for each aggressor a level, and the products of both profiles: what
  a victim suffers from some aggressors of a kind tells of the others, what victims of a kind suffer tells of each;
* scikit-learn's ExtraTrees over both profiles, their products and the first score, out of bag, for what is not
  linear. They get as much of a say as makes the evidence of all pairs most likely, none where that gains little.

Deterministic: the trees are seeded.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy import sparse, special
from sklearn.ensemble import ExtraTreesRegressor

from featurestore.interference import ordered
from featurestore.interference.evidence import Bools, Evidence, Floats, Ints, Predictions

#: Fewer informative pairs than this teach nothing that the common share does not say.
_LEAST_PAIRS = 40
#: Functions with a level and slopes of their own, at most: the cost grows with the cube.
_MOST_ACTIVE = 250
_MOST_PREDICTED = 400
_MOST_ODDS = 6.0
#: Pairs that are predicted at once: few large steps, and yet little memory.
_ROWS = 4000
#: Standard deviations of the groups beforehand: levels of victim and aggressor, the victim's slopes, the profiles'
#: own effects, products, all cross products.
_GROUP_SD = np.array([0.8, 0.3, 0.7, 0.2, 0.4, 0.6, 0.1])
#: Trees that are grown at once.
_THREADS = min(4, os.cpu_count() or 1)
#: Shares of a say that the trees may get.
_SAYS = np.linspace(0.0, 0.5, 6)


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


def predict(evidence: Evidence, profiles: Floats | None, share: float, *, trees: bool = True) -> Predictions | None:
    """Return probabilities of interfering, each without the pair's own evidence, or nothing.

    Of functions that have neither a profile nor pairs that teach nothing is said. *share* is the common share of
    interfering pairs. Nothing is returned where too few pairs are known. Without *trees* the ridge speaks alone.
    """
    teaches = np.isfinite(evidence.odds) & (evidence.weight > 0.02)
    if teaches.sum() < _LEAST_PAIRS:
        return None
    profile = np.full((evidence.functions, 1), np.nan) if profiles is None else profiles
    chosen = _predictable(evidence, teaches, profile)
    place = np.full(evidence.functions, -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    rows = np.flatnonzero(teaches & (place[evidence.victim] >= 0) & (place[evidence.aggressor] >= 0))
    at = (place[evidence.victim[rows]], place[evidence.aggressor[rows]])
    own = np.clip(evidence.odds[rows], -_MOST_ODDS, _MOST_ODDS)
    weight, odds = np.zeros((2, len(chosen), len(chosen)))
    weight[at], odds[at] = evidence.weight[rows], own
    known = np.zeros(weight.shape, bool)
    known[at] = True
    likely = np.stack([np.ones(len(rows)), np.exp(own)], axis=1) if evidence.likely is None else evidence.likely[rows]
    resources = scaled(profile[chosen])
    probability = _ridge(likely, weight, known, resources, share)
    if trees:
        probability = _joined(probability, odds, weight, known, resources)
    return Predictions(chosen, probability)


def _predictable(evidence: Evidence, teaches: Bools, profile: Floats) -> Ints:
    """Return the functions of which something is known: pairs that teach, or a profile; the best known of many."""
    own = np.where(teaches, evidence.weight, 0.0)
    worth = np.bincount(evidence.victim, own, evidence.functions) + np.bincount(
        evidence.aggressor, own, evidence.functions
    )
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


def _ridge(likely: Floats, weight: Floats, known: Bools, resources: Floats, share: float) -> Floats:
    """Return the ordered probit's probabilities [F, F], leave-one-out where known."""
    size = len(known)
    maker = _Columns(resources, *_teaching(known, weight))
    columns = maker.of(*np.nonzero(known))
    harm = ordered.fit(columns, maker.groups(), _GROUP_SD, likely, share)
    found = np.zeros((size, size))
    each = max(1, _ROWS // size)
    for first in range(0, size, each):
        victims = np.arange(first, min(first + each, size))
        pairs = maker.of(np.repeat(victims, size), np.tile(np.arange(size), len(victims)))
        found[victims] = ordered.chance(*harm.predict(pairs)).reshape(len(victims), size)
    found[known] = ordered.chance(harm.alone, harm.doubt)
    return found


def _joined(ridge: Floats, odds: Floats, weight: Floats, known: Bools, resources: Floats) -> Floats:
    """Return probabilities [F, F] between the ridge's and the trees', on the scale of log odds."""
    score = special.logit(np.clip(ridge, 1e-4, 1 - 1e-4))
    grown = _trees(special.expit(score + odds), weight, known, resources, score)
    other = special.logit(np.clip(grown, 0.003, 0.997))
    likely = []
    for say in _SAYS:
        p = special.expit((1 - say) * score[known] + say * other[known])
        likely.append(float(np.sum(np.log(p * np.exp(odds[known]) + 1 - p))) - (say > 0) * np.log(known.sum()) / 2)
    say = float(_SAYS[int(np.argmax(likely))])
    found: Floats = special.expit((1 - say) * score + say * other)
    return found


def _trees(label: Floats, weight: Floats, known: Bools, resources: Floats, score: Floats) -> Floats:
    """Return what ExtraTrees predict [F, F], out of bag where known."""
    size = len(label)
    victim, aggressor = np.divmod(np.arange(size * size), size)
    own, other = resources[victim], resources[aggressor]
    table = np.concatenate([own, other, own * other, score.reshape(-1, 1)], axis=1)
    rows = np.flatnonzero(known.ravel())
    forest = ExtraTreesRegressor(
        100, min_samples_leaf=8, max_features=0.5, bootstrap=True, oob_score=True, random_state=0, n_jobs=_THREADS
    )
    forest.fit(table[rows], label.ravel()[rows], sample_weight=weight.ravel()[rows])
    found = np.zeros(len(table))
    whole = table.astype(np.float32)
    with ThreadPoolExecutor(_THREADS) as pool:  # the forest itself adds trees up in the order in which they are done
        for told in pool.map(lambda tree: tree.tree_.predict(whole)[:, 0], forest.estimators_):
            found += told
    found /= len(forest.estimators_)
    found[rows] = forest.oob_prediction_
    return found.reshape(size, size)
