"""Interference with the functions that run on a node: what a pod would suffer from them, and do to them.

The cost of a node is the sum over its functions of learned slowdown, times how many of their activations run at once,
times how important the one who suffers is (High 1.5, Medium 1, Low .5); a node is graded 1 / (1 + cost).
"""

from dataclasses import dataclass

import numpy as np

from rules.advice import Advice, Measure, Reason, Term
from rules.affinity.pods import against
from rules.candidates import Candidates, Mask, Scores
from rules.explain import because
from rules.functions import MEDIUM, Rows
from rules.policy import Policy
from rules.request import Request
from rules.scoring import graded
from rules.view import View

NAME = "interference"


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """The pair rows of one direction, each with the function on the other side and the weight of who suffers."""

    rows: Rows
    other: Rows
    weight: Scores
    cost: Scores


def interference(request: Request, view: View, policy: Policy) -> Advice:
    """Rank nodes by what both sides would lose; keep clear of sure disturbers where that is strictly wanted."""
    if request.function < 0:
        return Advice(NAME)
    suffers, causes = _sides(request, view)
    (suffered, weighed_suffered), (caused, weighed_caused) = (_by_node(view, side) for side in (suffers, causes))
    sure = [row for side in (suffers, causes) for row in _sure(view, side, policy)]
    shown = sorted(sure, key=lambda row: (-row[1], row[0]))[: policy.pairs]
    strict = _strict_others(request, view, suffers, causes, policy)
    wishes = _wishes(request, view, shown, policy)
    terms, clear = wishes, None
    if strict.size:
        names = [view.functions.names[each] for each in strict.tolist()]
        strictly = set(strict.tolist())
        terms = (
            *against(names, policy, weight=None, across=request.namespace in policy.across),
            *_wishes(request, view, [each for each in shown if each[2] not in strictly], policy),
        )
        clear = Candidates.of(~_domains_with(view, strict, policy.topology_key))
    return Advice(
        NAME,
        candidates=clear,
        scores=graded("company", 1.0 / (1.0 + weighed_suffered + weighed_caused)),
        terms=terms,
        reasons=tuple(
            Reason(NAME, because(each), each) for each in (view.pairs.evidence(row) for row, _, _ in shown)
        ),
        measures=(
            Measure("would run {:.0%} longer beside its neighbours", np.where(suffered >= 0.005, suffered, np.nan)),
            Measure("would slow its neighbours by {:.0%} together", np.where(caused >= 0.005, caused, np.nan)),
        ),
        firm=False,
        otherwise=wishes,
    )


def _sides(request: Request, view: View) -> tuple[_Side, _Side]:
    pairs, functions = view.pairs, view.functions
    suffered = pairs.suffered_by(request.function)
    caused = pairs.caused_by(request.function)
    caused = caused[pairs.victim[caused] != request.function]  # its own kind is among what it suffers
    sides = []
    for rows, other, own_weight in (
        (suffered[pairs.known[suffered]], pairs.aggressor, request.importance),
        (caused[pairs.known[caused]], pairs.victim, None),
    ):
        others = other[rows].astype(np.int64)
        levels = np.full(len(rows), own_weight) if own_weight is not None else functions.importance[others]
        sides.append(_Side(rows, others, levels / MEDIUM, pairs.expected(rows)))
    return sides[0], sides[1]


def _by_node(view: View, side: _Side) -> tuple[Scores, Scores]:
    """Sum cost by busyness over the functions of each node, bare and weighed by importance.

    A row for the node's own type takes the place of the row for all types.
    """
    running, pairs, size = view.running, view.pairs, len(view.nodes)
    kind = pairs.type_of[side.rows].astype(np.int64)
    first = running.function_start[side.other]
    counts = running.function_start[side.other + 1] - first
    row = np.repeat(np.arange(len(side.rows)), counts)
    within = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    entries = running.by_function[first[row] + within]
    at = running.node[entries]
    here = view.nodes.type_of[at]
    keep = kind[row] == here
    special = kind >= 0
    types = len(view.nodes.types)
    replaced = np.isin(side.other[row] * types + here, side.other[special] * types + kind[special])
    keep |= (kind[row] == -1) & ~replaced
    loss = (side.cost[row] * running.busy[entries])[keep]
    at = at[keep]
    bare, weighed = (np.bincount(at, each, size).astype(float) for each in (loss, loss * side.weight[row[keep]]))
    return bare, weighed


def _sure(view: View, side: _Side, policy: Policy) -> list[tuple[int, float, int]]:
    """Return (row, weighed cost, other) of the rows that are sure enough to act upon."""
    pairs, rows = view.pairs, side.rows
    sure = (
        (pairs.probability[rows] >= policy.probability)
        & (pairs.slowdown[rows] >= policy.min_slowdown)
        & (~pairs.observed[rows] | (pairs.overlaps[rows] >= policy.min_overlaps))
        & (pairs.type_of[rows] >= -1)
    )
    return [
        (int(side.rows[i]), float(side.weight[i] * side.cost[i]), int(side.other[i])) for i in np.flatnonzero(sure)
    ]


def _strict_others(request: Request, view: View, suffers: _Side, causes: _Side, policy: Policy) -> Rows:
    """Return the functions to keep away from by a required rule, if such is wanted at all.

    Only what was observed, on all node types that there are: it has to be true wherever the rule reaches.
    """
    if request.mode != "require" or not request.strict:
        return np.zeros(0, dtype=np.int64)
    pairs = view.pairs
    found = set()
    for side, concerned in ((suffers, None), (causes, view.functions.strict)):
        for row, _, other in _sure(view, side, policy):
            general = pairs.type_of[row] == -1 or len(view.nodes.types) == 1
            if pairs.observed[row] and general and (concerned is None or concerned[other]):
                found.add(other)
    return np.array(sorted(found), dtype=np.int64)


def _domains_with(view: View, functions: Rows, topology_key: str) -> Mask:
    """Return the nodes whose topology domain holds a pod of one of *functions*."""
    domains = view.nodes.domains(topology_key)
    entries = [view.running.node[view.running.of(int(function))] for function in functions]
    nodes = np.concatenate(entries) if entries else np.zeros(0, dtype=np.int64)
    occupied = np.unique(domains[nodes])
    return np.isin(domains, occupied[occupied >= 0])


def _wishes(request: Request, view: View, sure: list[tuple[int, float, int]], policy: Policy) -> tuple[Term, ...]:
    """Prefer to stay away from each function by the cost of both directions, in steps of 25 of 100."""
    cost: dict[int, float] = {}
    for _, each, other in sure:
        cost[other] = cost.get(other, 0.0) + each
    steps: dict[int, list[str]] = {}
    for other, each in cost.items():
        steps.setdefault(int(min(max(np.ceil(each * 4.0), 1.0), 4.0)) * 25, []).append(view.functions.names[other])
    across = request.namespace in policy.across
    return tuple(
        term
        for weight in sorted(steps, reverse=True)
        for term in against(steps[weight], policy, weight=weight, across=across)
    )
