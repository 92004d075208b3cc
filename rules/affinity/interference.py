"""Interference with the functions that run on a node: what a pod would suffer from them, and do to them.

The cost of a node is the sum over its functions of learned slowdown, times how many of their activations run at once,
times how important the one who suffers is (High 1.5, Medium 1, Low .5); a node is graded 1 / (h * (1 + cost)), h how
many times longer the function takes on the node's type than on its fastest one. Company and hardware both lengthen
runs: graded one behind the other, a hundredth less of company would outweigh a node of half the speed.

Every run counts alike, by the share that it takes longer: what a run does to a neighbour of shorter runs it does to
many of these, one after the other, and to one of longer runs only to a part of one.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.records import Labels
from rules.advice import Advice, Measure, PodTerm, Reason, Rendered, Term, silent
from rules.affinity.losses import Sides, met, sides
from rules.affinity.pods import against, bare_values
from rules.affinity.speed import hardware
from rules.candidates import Candidates, Mask, Scores, Sparse
from rules.claim import because
from rules.digits import digits, percent
from rules.functions import MEDIUM, Rows
from rules.labels import hashed
from rules.policy import Policy
from rules.request import Request
from rules.scoring import graded
from rules.standing import Label
from rules.view import View

NAME = "interference"
Numbers = npt.NDArray[np.intp]
#: A kube-scheduler 1.20 takes some .6 us to compare one preferred term with one pod that runs, for its own terms as
#: for those of other pods. A second weight is two terms: with so many pods .3 ms, a twentieth of what a pod takes.
#: So many nodes will have as many pods before long.
_MANY: Final = 250
#: Half a tenth of a percent: a smaller loss changes no score.
_SLIGHT: Final = 0.0005
#: Share of a run that is lost, the cost that it counts with, and the function that it is due to, or that suffers it.
_Loss = tuple[float, float, int]
_NOBODY: Final[Rows] = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What was learned of one function: the pairs of both *sides*, the cost of each *weighed* by who suffers, the
    rows that are shown, and what they make one wish; *needs* are labels of which some pod has to carry one for each
    wish to tell anything, none where that is not asked.
    """

    sides: Sides
    weighed: Scores
    shown: tuple[tuple[int, float, int], ...]
    wishes: tuple[Rendered, ...]
    needs: tuple[frozenset[Label], ...]


def interference(request: Request, view: View, policy: Policy) -> Advice:
    """Rank nodes by what both sides would lose; keep clear of sure disturbers where that is strictly wanted."""
    if request.function < 0:
        return silent(NAME)
    known = learned(request, view, policy)
    if not len(known.sides.rows):
        return silent(NAME)
    strict = _strict_others(request, view, known, policy)
    across = request.namespace in policy.across
    wishes: tuple[Term, ...] = tuple(
        wish for wish, needs in zip(known.wishes, known.needs, strict=True) if _tells(needs, view, policy)
    )
    terms, clear = wishes, None
    if strict.size:
        names = [view.functions.names[each] for each in strict.tolist()]
        strictly = set(strict.tolist())
        rest = [row for row in known.shown if row[2] not in strictly]
        terms = (
            *against(names, policy, weight=None, across=across, known=view.functions.index.__contains__),
            *(wish for wish, needs in _wishes(request, view, rest, policy) if _tells(needs, view, policy)),
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
        otherwise=wishes,
    )


def learned(request: Request, view: View, policy: Policy) -> Known:
    """Return what the pairs say of the pod's function; it holds for as long as the snapshot."""
    key = (request.function, request.importance, request.namespace in policy.across, policy.terms, _crowded(view))
    return view.pairs.memo.once(key, lambda: _known(request, view, policy))


def _crowded(view: View) -> bool:
    """Whether so many pods run, or will, that a scheduler should compare few terms with them."""
    return view.memo.once("crowded", lambda: len(view.nodes) > _MANY or bool(view.held.pods.sum() > _MANY))


def _tells(needs: frozenset[Label], view: View, policy: Policy) -> bool:
    """Whether a term that *needs* one of these labels on some pod is worth its comparisons."""
    return not needs or not _crowded(view) or not carried(view, policy).isdisjoint(needs)


def carried(view: View, policy: Policy) -> frozenset[Label]:
    """Return what tells of functions on pods whose own label does not name one in full.

    OpenWhisk's labels do on pods without one's own, as pods started ahead of any function are, or those from before
    one's own were written; one's own label of a bare action does on pods whose OpenWhisk namespace was not known. A
    term on labels that no pod carries tells nothing, and a scheduler compares it with every pod.
    """
    action, own = policy.function_labels[1], policy.own("function")
    return view.memo.once(
        ("carried", action, own),
        lambda: view.standing.told_by(("function", action, own), lambda labels: _told_by(labels, action, own)),
    )


def _told_by(labels: Labels, action: str, own: str) -> Label | None:
    mine = labels.get(own)
    if mine is None:
        return (action, labels[action]) if action in labels else None
    return None if hashed(mine) else (own, mine)


def _reasons(view: View, known: Known) -> tuple[Reason, ...]:
    found = (view.pairs.evidence(row) for row, _, _ in known.shown)
    return tuple(Reason(NAME, because(each), each) for each in found)


def _known(request: Request, view: View, policy: Policy) -> Known:
    found = sides(view, request.function)
    suffers = slice(found.suffered)
    weight = view.functions.importance[found.other] / MEDIUM
    weight[suffers] = request.importance / MEDIUM
    sure = _sure(view, found, weight, slice(None), policy)
    shown = sorted(sure, key=lambda row: (-row[1], row[0]))[: policy.pairs]
    wished = _wishes(request, view, shown, policy)
    weighed = found.cost * weight * _runs(view, found, request.function)
    weighed[suffers][found.other[suffers] == request.function] *= 2.0  # of two pods of one kind each slows the other
    wishes, needs = tuple(each.rendered for each, _ in wished), tuple(needed for _, needed in wished)
    return Known(found, weighed, tuple(shown), wishes, needs)


def _needs(term: PodTerm, bare: tuple[str, ...], policy: Policy) -> frozenset[Label]:
    """Return the labels by which *term* knows pods without a full name of one's own, *bare* names among them.

    None where it goes by full names, or where a bare one stands hashed on pods, as full ones do.
    """
    action, own = policy.function_labels[1], policy.own("function")
    for each in term.expressions:
        if each.key == action or (each.key == own and each.values == bare and not any(map(hashed, bare))):
            return frozenset((each.key, value) for value in each.values)
    return frozenset()


def _runs(view: View, found: Sides, function: int) -> Scores:
    """Return for each pair how many runs of the victim, one after the other, take as long as one of *function*.

    Where a time is not known they are taken to be alike; one's own runs are the measure.
    """
    ratio, causes = np.ones(len(found.rows)), slice(found.suffered, None)
    own, others = view.functions.p50[function], view.functions.p50[found.other[causes]]
    if own > 0:
        np.divide(own, others, out=ratio[causes], where=others > 0)
    return ratio


def _scores(request: Request, view: View, known: Known) -> Sparse:
    """Grade the nodes on which somebody would lose something; all others are as good as their hardware."""
    beside = met(view, request.function)
    lost = beside.lost(known.weighed, len(view.nodes))
    # Where few of the nodes have somebody of interest, these are told one by one, some of them twice.
    ids = beside.node if len(beside.node) < len(view.nodes) // 2 else np.flatnonzero(lost)
    slower = hardware(request.function, view)
    every = np.concatenate((slower, slower.take(view.nodes.type_of.take(ids)) * (1.0 + lost.take(ids))))
    grades = graded("company", 1.0 / every)
    alone, values = grades[: len(slower)], grades[len(slower) :]
    if len(set(alone.tolist())) == 1:
        return Sparse(float(alone[0]), ids, values)
    return Sparse(alone, ids, values, view.nodes.type_of)


def _measures(request: Request, view: View, known: Known, nodes: Numbers) -> Iterator[Measure]:
    slower = hardware(request.function, view).take(view.nodes.type_of.take(nodes))
    yield Measure(
        lambda times: f"takes {digits(times)} times as long on this node type as on its fastest",
        np.where(slower > 1.0 + _SLIGHT, slower, np.nan),
    )
    beside = met(view, request.function)
    place = np.full(len(view.nodes), -1)
    place[nodes] = np.arange(len(nodes))
    number = place.take(beside.node)
    here = np.flatnonzero(number >= 0)  # few: plain numbers take less than passes over columns
    pair = beside.pair.take(here)
    busy, other = beside.busy.take(here), known.sides.other.take(pair)
    columns = (here, number.take(here), busy * known.sides.cost.take(pair), busy * known.weighed.take(pair), other)
    # By place, the share lost of a run, the cost that it counts with, and the function: suffered and caused.
    lost: tuple[dict[int, list[_Loss]], ...] = (defaultdict(list), defaultdict(list))
    for entry, at, *loss in zip(*(column.tolist() for column in columns), strict=True):
        lost[entry >= beside.suffered][at].append(tuple(loss))
    for side, sentence in (
        (lost[0], lambda share: f"would run {percent(share)} longer beside its neighbours"),
        (lost[1], lambda share: f"would slow its neighbours by {percent(share)} together"),
    ):
        shares, notes = np.full(len(nodes), np.nan), [""] * len(nodes)
        for at, losses in side.items():
            if _counts(losses):
                shares[at], notes[at] = sum(share for share, _, _ in losses), _whom(losses, view)
        yield Measure(sentence, shares, notes)


def _counts(losses: Sequence[_Loss]) -> bool:
    """Whether *losses* are more than a person would call nothing, or move the score."""
    return max(sum(share for share, _, _ in losses), sum(cost for _, cost, _ in losses)) >= _SLIGHT


def _whom(losses: Sequence[_Loss], view: View) -> str:
    """Name the function that counts most in *losses*."""
    name = view.functions.names[max(losses, key=lambda loss: loss[1])[2]]
    return f" ({name})" if len({other for _, _, other in losses}) == 1 else f" (mostly {name})"


def _sure(view: View, known: Sides, weight: Scores, side: slice, policy: Policy) -> list[tuple[int, float, int]]:
    """Return row, weighed cost and the other function of each pair of *side* that is sure enough to be acted upon."""
    pairs, rows = view.pairs, known.rows[side]
    sure = (
        (pairs.probability[rows] >= policy.probability)
        & (pairs.slowdown[rows] >= policy.min_slowdown)
        & (~pairs.observed[rows] | (pairs.overlaps[rows] >= policy.min_overlaps))
        & (pairs.type_of[rows] >= -1)
    )
    cost, other = weight[side] * known.cost[side], known.other[side]
    return [(int(rows[i]), float(cost[i]), int(other[i])) for i in np.flatnonzero(sure)]


def _strict_others(request: Request, view: View, known: Known, policy: Policy) -> Rows:
    """Return the functions to keep away from by a required rule, if such is wanted at all.

    Only what was observed, on all node types that there are: it has to be true wherever the rule reaches.
    """
    if request.mode != "require" or not request.strict:
        return _NOBODY
    pairs = view.pairs
    found = set()
    count, every = known.sides.suffered, np.ones(len(known.sides.rows))
    for side, concerned in ((slice(count), None), (slice(count, None), view.functions.strict)):
        for row, _, other in _sure(view, known.sides, every, side, policy):
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
) -> tuple[tuple[PodTerm, frozenset[Label]], ...]:
    """Prefer to stay away from each function by the cost of both directions, in steps of 50 of 100; with `_needs`.

    Finer steps are more terms, each of which a scheduler compares with every pod that runs; where many run, the mean
    cost is the weight of all.
    """
    crowded = _crowded(view)
    cost: dict[int, float] = {}
    for _, each, other in sure:
        cost[other] = cost.get(other, 0.0) + each
    if cost and crowded:
        cost = dict.fromkeys(cost, sum(cost.values()) / len(cost))
    steps: dict[int, list[str]] = {}
    for other, each in cost.items():
        steps.setdefault(int(min(max(np.ceil(each * 2.0), 1.0), 2.0)) * 50, []).append(view.functions.names[other])
    across, known = request.namespace in policy.across, view.functions.index.__contains__
    return tuple(
        (term, _needs(term, bare_values(names), policy))
        for weight, names in sorted(steps.items(), reverse=True)
        for term in against(names, policy, weight=weight, across=across, known=known, apart=crowded)
    )
