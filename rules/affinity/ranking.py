"""The combined ranking of nodes as few preferred terms, each for the nodes from some score upwards."""

from typing import Final

import numpy as np

from rules.advice import NodeWish
from rules.affinity.describe import describe
from rules.candidates import Combined, Scores
from rules.nodes import Nodes
from rules.policy import Policy

#: More terms than this cost the scheduler more than they tell it.
_TERMS: Final = 5
#: What a term weighs at least; a whole point of score is a percent of the first criterion, and weighs one more.
_STEP: Final = 5


def wishes(nodes: Nodes, combined: Combined, policy: Policy) -> tuple[NodeWish, ...]:
    """Return terms whose weights add up to more the better a node scores, none where all allowed nodes score alike.

    A set that no label describes and that has more than ``policy.named`` names on both sides gets no term.
    """
    scores = combined.scores[combined.allowed]
    if not scores.size:
        return ()
    terms, below = [], float(scores.min())
    for threshold in _thresholds(scores, policy.named):
        inside = combined.allowed & (combined.scores >= threshold)
        expressions = describe(nodes, inside, combined.allowed, policy.named)
        if expressions is not None:
            terms.append(NodeWish(min(100, max(_STEP, round(threshold - below))), expressions))
            below = threshold
    return tuple(reversed(terms))


def _thresholds(scores: Scores, named: int) -> list[float]:
    """Return each distinct score above the lowest; where they are many, those above the widest gaps and two ranks.

    The widest gaps part what differs most, such as company or node type; the ranks are the best few, and all but the
    worst few, of which names are no more than *named*.
    """
    distinct = np.unique(scores)
    chosen = distinct[1:]
    if len(chosen) > _TERMS:
        widest = np.argsort(-np.diff(distinct), kind="stable")[: _TERMS - 2]
        few = max(min(named, len(scores) // 8), 1)
        ordered = np.sort(scores)
        chosen = np.unique([*chosen[widest], ordered[-few], ordered[few]])
    return [float(score) for score in chosen if score > distinct[0]]
