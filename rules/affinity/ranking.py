"""The combined ranking of nodes as few preferred terms, each for the nodes from some score upwards."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from rules.advice import Expression, NodeWish
from rules.affinity.describe import HOSTNAME, parts
from rules.candidates import Combined, Scores
from rules.nodes import Nodes
from rules.policy import Policy
from rules.scoring import PERCENT

#: More terms, or sets of nodes, than this cost the scheduler more than they tell it.
_TERMS: Final = 5
#: So often may kube-scheduler look at a pod's preferred terms. Up to Kubernetes 1.20 it reads each anew, and checks
#: the form of its labels, for every node that it scores: some .6 us for a node's name in ``matchFields``, half of it
#: for one among several that are denied, and as much as for `_LABEL` names for a label, with one more for each value.
#: This is .8 ms of CPU a pod, and half as much again for collecting the garbage. One value of a label is always told.
_LOOKS: Final = 1300
_LABEL: Final = 4
#: With this chance the scheduler may see none of so many best nodes as are taken to be seen.
_UNSEEN: Final = 0.05
#: Where more than `_MANY` nodes are scored, a term tells at least this share of what the best one tells: a few nodes
#: that are worse than all others are avoided there by chance as well.
_TELLING: Final = 0.02
_MANY: Final = 100
#: What a term weighs at least; a whole point of score is a percent of the first criterion, and weighs one more.
_STEP: Final = 5


#: So many of the best nodes, and what holds for them alone: one of the alternatives, all expressions of it.
_Described = tuple[int, tuple[tuple[Expression, ...], ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """*terms* say it to the scheduler, the heaviest first; *top* are the nodes that meet all of them, the best first.

    Where all allowed nodes score alike, or nothing describes the better ones, there is no term and all are the top.
    Where the scheduler may see none of these, the next ones are among the top.
    """

    terms: tuple[NodeWish, ...]
    top: npt.NDArray[np.intp]


def ranking(nodes: Nodes, combined: Combined, policy: Policy) -> Ranking:
    """Return terms whose weights add up to more the better a node scores.

    A set that no label describes is named, or what it lacks; with more than ``policy.named`` names on both sides, or
    than a large cluster's scheduler should look at, it gets no term. Of several sets those get terms that tell most.
    """
    best = combined.best
    if not best.size:
        return Ranking((), best)
    scores = combined.falling
    looks = max(_LOOKS // scored(len(nodes)), 1)
    named = min(policy.named, max(looks - _LABEL, min(looks, _TERMS)))
    described = [
        (size, _shortest(nodes, best, size, expressions))
        for size, expressions in parts(nodes, best, _sizes(scores, named), named)
        if expressions is not None
    ]
    surely = math.ceil(math.log(_UNSEEN) / math.log1p(-seen)) if (seen := scored(len(nodes)) / len(nodes)) < 1 else 1
    terms: list[NodeWish] = []
    below, top = float(scores[-1]), best
    for size, alternatives in _affordable(described, scores, len(nodes), looks):
        threshold = float(scores[size - 1])
        weight = min(100, max(_STEP, round((threshold - below) / PERCENT)))
        terms[:0] = [NodeWish(weight, expressions) for expressions in alternatives]
        below, top = threshold, best[: max(size, surely)]
    return Ranking(tuple(terms), top)


def _shortest(
    nodes: Nodes, best: npt.NDArray[np.intp], size: int, expressions: tuple[Expression, ...]
) -> tuple[tuple[Expression, ...], ...]:
    """Return what is quickest to look at and holds for the first *size* of *best* alone, as *expressions* do.

    A field holds one name: what is denied stands together in one term, what is allowed each in its own.
    """
    [one] = expressions
    if one.key != HOSTNAME or (one.operator == "In" and size > _TERMS):
        return (expressions,)
    numbers = best[:size] if one.operator == "In" else best[size:]
    each = (
        Expression("metadata.name", one.operator, (name,), field=True)
        for name in sorted(map(nodes.names.__getitem__, numbers.tolist()))
    )
    return tuple((field,) for field in each) if one.operator == "In" else (tuple(each),)


def scored(nodes: int) -> int:
    """Return how many of *nodes* kube-scheduler scores for each pod: the first so many that would take it.

    As its ``percentageOfNodesToScore`` is by default:
    https://kubernetes.io/docs/concepts/scheduling-eviction/scheduler-perf-tuning/
    """
    percent = max(50 - nodes // 125, 5)
    return nodes if nodes < 100 else max(nodes * percent // 100, 100)


def _affordable(described: Collection[_Described], scores: Scores, nodes: int, looks: int) -> list[_Described]:
    """Keep of *described* what tells most and enough, as far as it takes no more than so many *looks*; in its order.

    The scheduler takes one of the best nodes that it sees: a term tells by how much these are above the mean, times
    the chance that it sees one of them.
    """
    seen, mean = scored(nodes) / max(nodes, 1), np.add.reduce(scores) / len(scores)
    told = {
        size: (np.add.reduce(scores[:size]) / size - mean) * (1.0 - (1.0 - seen) ** size) for size, _ in described
    }
    kept: list[_Described] = []
    terms, least = _TERMS, _TELLING * max(told.values(), default=0.0) if scored(nodes) > _MANY else 0.0
    for each in sorted(described, key=lambda each: (-told[each[0]], each[0])):
        cost, count = _cost(each[1]), len(each[1])
        if told[each[0]] < least:
            continue
        one_value = not kept and not each[1][0][0].field and cost <= _LABEL + 1
        if count <= terms and (cost <= looks or one_value):
            kept.append(each)
            looks, terms = looks - cost, terms - count
    return sorted(kept, key=lambda each: -each[0])


def _cost(alternatives: tuple[tuple[Expression, ...], ...]) -> int:
    """Return how many looks at a name of their own the terms take as long as."""
    first = alternatives[0]
    if not first[0].field:
        return _LABEL + sum(len(each.values) for each in first)
    return len(alternatives) if first[0].operator == "In" else 1 + len(first) // 2


def _sizes(scores: Scores, named: int) -> list[int]:
    """Return how many nodes score at least as much as each threshold, the most first; *scores* fall.

    A threshold is each distinct score above the lowest; where they are many, those above the widest gaps and two
    ranks. The widest gaps part what differs most, such as company or node type; the ranks are the best few, and all
    but the worst few, of which names are no more than *named*.
    """
    falls = scores[:-1] - scores[1:]
    distinct = int(np.count_nonzero(falls > 0))
    if distinct <= _TERMS:
        return [end + 1 for end in np.flatnonzero(falls)[::-1].tolist()]
    few = max(min(named, len(scores) // 8), 1)
    above = [end for end, fall in enumerate(falls[:few].tolist()) if fall]
    below = [end for end, fall in enumerate(falls[-few:].tolist(), start=len(falls) - few) if fall]
    ends = {
        above[-1] if above else int(np.argmax(falls > 0)),
        below[0] if below else len(falls) - 1 - int(np.argmax(falls[::-1] > 0)),
    }
    for _ in range(_TERMS - 2):  # the widest, the first of equal ones
        widest = int(falls.argmax())
        ends.add(widest)
        falls[widest] = 0.0
    return [end + 1 for end in sorted(ends, reverse=True)]
