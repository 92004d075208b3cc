"""Interference with the functions that run on a node: what a pod would suffer from them, and do to them.

The cost of a node is the sum over its functions of learned slowdown, times how many of their activations run at once,
times how important the one who suffers is (High 1.5, Medium 1, Low .5); a node is graded 1 / (h * (1 + cost)), h how
many times longer the function takes on the node's type than on its fastest one. Company and hardware both lengthen
runs: graded one behind the other, a hundredth less of company would outweigh a node of half the speed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from rules.advice import Advice, Measure, PodTerm, Reason, Rendered, Term
from rules.affinity.fastest import hardware
from rules.affinity.losses import Side, losses, suffered, suffering
from rules.affinity.pods import against
from rules.candidates import Candidates, Mask, Scores, Sparse
from rules.claim import because
from rules.functions import MEDIUM, Rows
from rules.policy import Policy
from rules.request import Request
from rules.scoring import graded
from rules.view import View

NAME = "interference"
Numbers = npt.NDArray[np.intp]
#: A kube-scheduler 1.20 takes some .6 us to compare one preferred term with one pod that runs, for its own terms as
#: for those of other pods. A second weight is two terms: with so many pods .3 ms, a twentieth of what a pod takes.
_MANY: Final = 250
_NOBODY: Final[Rows] = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What was learned of one function: each direction, what it causes (to its own kind, too) *weighed* by who
    suffers, the rows that are shown, and what they make one wish.
    """

    suffers: Side
    causes: Side
    weighed: Side
    shown: tuple[tuple[int, float, int], ...]
    wishes: tuple[Rendered, ...]


def interference(request: Request, view: View, policy: Policy) -> Advice:
    """Rank nodes by what both sides would lose; keep clear of sure disturbers where that is strictly wanted."""
    if request.function < 0:
        return Advice(NAME)
    known = learned(request, view, policy)
    if not len(known.suffers.rows) and not len(known.causes.rows):
        return Advice(NAME)
    strict = _strict_others(request, view, known, policy)
    across = request.namespace in policy.across
    terms: tuple[Term, ...] = known.wishes
    clear = None
    if strict.size:
        names = [view.functions.names[each] for each in strict.tolist()]
        strictly = set(strict.tolist())
        terms = (
            *against(names, policy, weight=None, across=across, known=view.functions.index.__contains__),
            *_wishes(request, view, [each for each in known.shown if each[2] not in strictly], policy),
        )
        clear = Candidates.of(~_domains_with(view, strict, policy.topology_key))
    return Advice(
        NAME,
        candidates=clear,
        scores=_scores(request, view, known),
        terms=terms,
        reasons=lambda: _reasons(view, known),
        measures=lambda nodes: _measures(request, view, known, nodes),
        firm=False,
        otherwise=known.wishes,
    )


def learned(request: Request, view: View, policy: Policy) -> Known:
    """Return what the pairs say of the pod's function; it holds for as long as the snapshot."""
    key = (request.function, request.importance, request.namespace in policy.across, policy.terms, _crowded(view))
    return view.pairs.memo.once(key, lambda: _known(request, view, policy))


def _crowded(view: View) -> bool:
    """Whether so many pods run that a scheduler should compare few terms with them."""
    return view.memo.once("crowded", lambda: bool(view.held.pods.sum() > _MANY))


def _reasons(view: View, known: Known) -> tuple[Reason, ...]:
    found = (view.pairs.evidence(row) for row, _, _ in known.shown)
    return tuple(Reason(NAME, because(each), each) for each in found)


def _known(request: Request, view: View, policy: Policy) -> Known:
    suffers, causes = suffering(view, request.function), _causing(request.function, view)
    own = np.full(len(suffers.rows), request.importance / MEDIUM)
    theirs = view.functions.importance[causes.other] / MEDIUM
    sure = [*_sure(view, suffers, own, policy), *_sure(view, causes, theirs, policy)]
    shown = sorted(sure, key=lambda row: (-row[1], row[0]))[: policy.pairs]
    wishes = tuple(each.rendered for each in _wishes(request, view, shown, policy))
    return Known(suffers, causes, _weighed(request, suffers, causes, theirs), tuple(shown), wishes)


def _weighed(request: Request, suffers: Side, causes: Side, theirs: Scores) -> Side:
    """Return what the pod causes by who suffers; of two pods of one kind each slows the other."""
    own = suffers.other == request.function
    return Side(
        np.concatenate((causes.rows, suffers.rows[own])),
        np.concatenate((causes.other, suffers.other[own])),
        np.concatenate((causes.cost * theirs, suffers.cost[own] * (request.importance / MEDIUM))),
    )


def _causing(function: int, view: View) -> Side:
    """Return the pairs by which others suffer from *function*; its own kind is among what it suffers from."""
    pairs = view.pairs
    rows = pairs.caused_by(function)
    rows = rows[(pairs.victim[rows] != function) & pairs.known[rows]]
    return Side(rows, pairs.victim[rows].astype(np.int64), pairs.expected(rows))


def _scores(request: Request, view: View, known: Known) -> Sparse:
    """Grade the nodes on which somebody would lose something; all others are as good as their hardware."""
    at, loss = suffered(view, request.function)
    lost: Scores = np.bincount(at, loss * (request.importance / MEDIUM), len(view.nodes)).astype(
        np.float64, copy=False
    )
    at, loss = losses(view, known.weighed)
    lost += np.bincount(at, loss, len(view.nodes))
    ids = np.flatnonzero(lost > 0)
    slower = hardware(request.function, view)
    alone = graded("company", 1.0 / slower)
    values = graded("company", 1.0 / (slower[view.nodes.type_of[ids]] * (1.0 + lost[ids])))
    if (alone == alone[0]).all():
        return Sparse(float(alone[0]), ids, values)
    return Sparse(alone, ids, values, view.nodes.type_of)


def _measures(request: Request, view: View, known: Known, nodes: Numbers) -> Iterator[Measure]:
    for (at, loss), sentence in (
        (suffered(view, request.function), "would run {:.0%} longer beside its neighbours"),
        (losses(view, known.causes), "would slow its neighbours by {:.0%} together"),
    ):
        total = np.bincount(at, loss, len(view.nodes))[nodes]
        yield Measure(sentence, np.where(total >= 0.005, total, np.nan))


def _sure(view: View, side: Side, weight: Scores, policy: Policy) -> list[tuple[int, float, int]]:
    """Return row, cost and the other function of each pair that is sure enough to be acted upon."""
    pairs, rows = view.pairs, side.rows
    sure = (
        (pairs.probability[rows] >= policy.probability)
        & (pairs.slowdown[rows] >= policy.min_slowdown)
        & (~pairs.observed[rows] | (pairs.overlaps[rows] >= policy.min_overlaps))
        & (pairs.type_of[rows] >= -1)
    )
    return [(int(side.rows[i]), float(weight[i] * side.cost[i]), int(side.other[i])) for i in np.flatnonzero(sure)]


def _strict_others(request: Request, view: View, known: Known, policy: Policy) -> Rows:
    """Return the functions to keep away from by a required rule, if such is wanted at all.

    Only what was observed, on all node types that there are: it has to be true wherever the rule reaches.
    """
    if request.mode != "require" or not request.strict:
        return _NOBODY
    pairs = view.pairs
    found = set()
    for side, concerned in ((known.suffers, None), (known.causes, view.functions.strict)):
        for row, _, other in _sure(view, side, np.ones(len(side.rows)), policy):
            general = pairs.type_of[row] == -1 or len(view.nodes.types) == 1
            if pairs.observed[row] and general and (concerned is None or concerned[other]):
                found.add(other)
    return np.array(sorted(found), dtype=np.int64)


def _domains_with(view: View, functions: Rows, topology_key: str) -> Mask:
    """Return the nodes whose topology domain holds a pod of one of *functions*."""
    there = np.zeros(len(view.nodes), dtype=np.bool_)
    for function in functions.tolist():
        there[view.running.of(function).node] = True
    return view.nodes.within(topology_key, there)


def _wishes(
    request: Request, view: View, sure: Sequence[tuple[int, float, int]], policy: Policy
) -> tuple[PodTerm, ...]:
    """Prefer to stay away from each function by the cost of both directions, in steps of 50 of 100.

    Finer steps are more terms, each of which a scheduler compares with every pod that runs; where many run, the mean
    cost is the weight of all.
    """
    cost: dict[int, float] = {}
    for _, each, other in sure:
        cost[other] = cost.get(other, 0.0) + each
    if cost and _crowded(view):
        cost = dict.fromkeys(cost, sum(cost.values()) / len(cost))
    steps: dict[int, list[str]] = {}
    for other, each in cost.items():
        steps.setdefault(int(min(max(np.ceil(each * 2.0), 1.0), 2.0)) * 50, []).append(view.functions.names[other])
    across = request.namespace in policy.across
    return tuple(
        term
        for weight in sorted(steps, reverse=True)
        for term in against(
            steps[weight], policy, weight=weight, across=across, known=view.functions.index.__contains__
        )
    )
