"""The combined ranking of nodes as few preferred terms: bands of equal score, the better the heavier."""

from itertools import pairwise
from typing import Final

import numpy as np

from rules.advice import NodeWish
from rules.affinity.describe import describe
from rules.candidates import Combined, Mask
from rules.nodes import Nodes
from rules.policy import Policy

#: More terms than this cost the scheduler more than they tell it.
_BANDS: Final = 6
#: What parts two bands at least; a whole point of score is a percent of the first criterion, and weighs one more.
_STEP: Final = 5


def wishes(nodes: Nodes, combined: Combined, policy: Policy) -> tuple[NodeWish, ...]:
    """Return a term for each band but the worst, none where all allowed nodes score alike.

    A band that no label describes and that has more than ``policy.named`` names on both sides gets no term.
    """
    allowed = combined.allowed
    scores = combined.scores[allowed]
    bands = _bands(scores)
    weight, worst, terms = 0, float(scores.min(initial=np.inf)), []
    for low, high in bands[1:]:
        weight = min(100, max(weight + _STEP, round(low - worst)))
        inside: Mask = allowed & (combined.scores >= low) & (combined.scores < high)
        expressions = describe(nodes, inside, allowed, policy.named)
        if expressions is not None:
            terms.append(NodeWish(weight, expressions))
    return tuple(reversed(terms))


def _bands(scores: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[tuple[float, float]]:
    """Return half-open intervals of score, worst first: one a distinct score, or few by rank where there are many."""
    distinct = np.unique(scores)
    if len(distinct) > _BANDS:
        ordered = np.sort(scores)[::-1]
        cuts = [ordered[min(len(ordered) - 1, len(ordered) // part)] for part in (32, 8, 4, 2)]
        distinct = np.unique([*cuts, ordered[-1]])
    edges = [*distinct.tolist(), np.inf]
    return list(pairwise(edges))
