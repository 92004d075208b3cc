"""How the scores of independent rules add up to successive criteria.

Every criterion grades a node from 0 to 1, the first one in tenths of a percent, the others in whole percent. A later
criterion weighs 1/101 of such a step of the one before it, so that all later ones together never outweigh one step of
an earlier one: the sum compares like the list of grades, first criterion first. Rules that share a criterion share
its percents. All scores are whole numbers below 2**53, so that sums are exact in any order; `shown` puts the point
behind the percents of the first criterion.
"""

import math
from typing import Final, Literal, TypeVar, get_args

import numpy as np

from rules.candidates import Scores

S = TypeVar("S", float, Scores)
#: In the order in which they count: the company a pod keeps, what its designer would like, how fast its function
#: answered there, how loaded the node is, and how much is free on it.
Criterion = Literal["company", "wishes", "speed", "load", "free"]
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)
#: So many steps has a percent of the first criterion. In whole percents a pod that is slowed by a tenth anyway counts
#: nodes as equal that differ by a hundredth in company, and a full cluster is made of many such choices.
_FINER: Final = 10.0
#: One step of the first criterion, and one percent of it.
_STEP: Final = 101.0 ** (len(CRITERIA) - 1)
PERCENT: Final = _FINER * _STEP
#: Sums of tenths that differ in their last digit only are still one grade.
_DUST: Final = 1e-9


def graded(criterion: Criterion, grades: Scores, *, step: float | None = None, share: float = 1.0) -> Scores:
    """Return the score of *grades* (0..1, one a node), which count as equal within a *step* (None: the criterion's).

    *share* is the part of the criterion that a rule has where several share it.
    """
    steps = 100.0 * _FINER if criterion == CRITERIA[0] else 100.0
    scores = np.minimum(grades, 1.0)
    np.maximum(scores, 0.0, out=scores)
    _round(np.multiply(scores, steps, out=scores) if step is None else np.divide(scores, step, out=scores))
    if step is not None or share != 1.0:  # else these are the steps
        scores *= 1.0 / steps if step is None else step
        _round(np.multiply(scores, steps * share, out=scores))
    scores *= _STEP / 101.0 ** CRITERIA.index(criterion)
    return scores


def shown(score: S) -> S:
    """Return *score*, or a column of them, for people: the percents of the first criterion stand before the point."""
    return score / PERCENT


def told(score: float) -> str:
    """Return a `shown` score as tables have it: the first criterion alone, in the tenths of a percent that it counts
    with. What stands behind those is an order and no amount."""
    return f"{math.floor(score * _FINER + _DUST) / _FINER:.1f}"


def _round(values: Scores) -> None:
    values += 0.5 + _DUST
    np.floor(values, out=values)
