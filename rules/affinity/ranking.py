"""The combined ranking of nodes as few preferred terms, each for the nodes from some score upwards."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from rules.advice import NodeWish
from rules.affinity.describe import parts
from rules.candidates import Combined, Scores
from rules.nodes import Nodes
from rules.policy import Policy
from rules.scoring import PERCENT

#: More terms than this cost the scheduler more than they tell it.
_TERMS: Final = 5
#: What a term weighs at least; a whole point of score is a percent of the first criterion, and weighs one more.
_STEP: Final = 5


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """*terms* say it to the scheduler, the heaviest first; *top* are the nodes that meet all of them, the best first.

    Where all allowed nodes score alike, or nothing describes the better ones, there is no term and all are the top.
    """

    terms: tuple[NodeWish, ...]
    top: npt.NDArray[np.intp]


def ranking(nodes: Nodes, combined: Combined, policy: Policy) -> Ranking:
    """Return terms whose weights add up to more the better a node scores.

    A set that no label describes and that has more than ``policy.named`` names on both sides gets no term.
    """
    best = combined.best
    if not best.size:
        return Ranking((), best)
    scores = combined.scores[best]
    terms, below, top = [], float(scores[-1]), best
    for size, expressions in parts(nodes, best, _sizes(scores, policy.named), policy.named):
        if expressions is not None:
            threshold = float(scores[size - 1])
            weight = min(100, max(_STEP, round((threshold - below) / PERCENT)))
            terms.append(NodeWish(weight, expressions))
            below, top = threshold, best[:size]
    return Ranking(tuple(reversed(terms)), top)


def _sizes(scores: Scores, named: int) -> list[int]:
    """Return how many nodes score at least as much as each threshold, the most first; *scores* fall.

    A threshold is each distinct score above the lowest; where they are many, those above the widest gaps and two
    ranks. The widest gaps part what differs most, such as company or node type; the ranks are the best few, and all
    but the worst few, of which names are no more than *named*.
    """
    falls = scores[:-1] - scores[1:]
    ends = np.flatnonzero(falls > 0)  # the last of each distinct score above the lowest
    if len(ends) > _TERMS:
        widest = ends[np.argpartition(-falls[ends], _TERMS - 2)[: _TERMS - 2]]
        few = max(min(named, len(scores) // 8), 1)
        ranks = np.searchsorted(ends, (few - 1, len(scores) - 1 - few))
        ends = np.unique(np.concatenate((widest, ends[ranks[ranks < len(ends)]])))
    return [int(end) + 1 for end in ends[::-1]]
