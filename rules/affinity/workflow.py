"""Functions of one workflow together on a node, or apart, as their designer says.

Terms speak of the labels that the webhook itself puts on pods at creation; a required affinity names the pod's own
function too, so that the first pod satisfies it itself and is not left Pending. The scheduler looks for one pod that
meets all required affinity terms of a pod at once: beside a term of the pod's own, ours would ask for a pod that may
never be there, so it is preferred with the highest weight then.
"""

import numpy as np

from rules.advice import Advice, Expression, PodTerm, Reason, Term, silent
from rules.affinity.pods import against, own_values, toward
from rules.candidates import Candidates, Mask, Scores
from rules.functions import action_of
from rules.labels import label_value
from rules.policy import Policy
from rules.relations import Group
from rules.request import Request
from rules.scoring import graded
from rules.view import View

NAME = "workflow"
_WEIGHT = 50
_HEAVIEST = 100


def workflow(request: Request, view: View, policy: Policy) -> Advice:
    """Keep the pod with, or away from, the other functions of its groups: required where they must."""
    if not request.groups or not request.function_name:
        return silent(NAME)
    allowed = np.ones(len(view.nodes), dtype=np.bool_)
    grades = np.zeros(len(view.nodes))
    terms: list[Term] = []
    reasons = []
    for group in _joined(request.groups):
        there = _nodes_with(group, request, view, policy)
        firm = _firm(group, request)
        verb = "must" if group.must else "should"
        others = ", ".join(each for each in group.actions if each != action_of(request.function_name))
        said = f"{verb} run {'apart from' if group.apart else 'together with'} {others}: {group.because}"
        if group.must and not firm:
            said += "; preferred only, since the pod has required affinity of its own"
        reasons.append(Reason(NAME, said))
        terms += _apart(group, request, view, policy) if group.apart else _together(group, request, view, policy)
        if not firm:
            grades += (~there if group.apart else there) / len(request.groups)
        elif group.apart:
            allowed &= ~there
        elif there.any():
            allowed &= there
    must = any(_firm(group, request) for group in request.groups)
    scores: Scores | None = graded("wishes", grades, share=0.4) if grades.any() else None
    return Advice(NAME, Candidates.of(allowed) if must else None, scores, tuple(terms), lambda: reasons)


def _joined(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """Return *groups* with those that must run together as one: the scheduler wants a pod that is in all of them.

    Wherever one of the others is, it is with its own, so that all come together on the way.
    """
    together = [group for group in groups if group.must and not group.apart]
    if len(together) < 2:
        return groups
    actions = tuple(sorted({action for group in together for action in group.actions}))
    because = "; ".join(dict.fromkeys(group.because for group in together))
    return (Group(False, True, actions, because), *(group for group in groups if group not in together))


def _firm(group: Group, request: Request) -> bool:
    return group.must and (group.apart or not request.beside)


def _members(group: Group, request: Request, view: View, *, with_itself: bool) -> list[str]:
    """Return the full names of a group's functions, and bare ones of those that have no record yet."""
    itself = action_of(request.function_name)
    names = [request.function_name] if with_itself else []
    for action in group.actions:
        if action_of(action) != itself:
            names += [view.functions.names[number] for number in view.functions.named(action_of(action))] or [action]
    return names


def _nodes_with(group: Group, request: Request, view: View, policy: Policy) -> Mask:
    """Return the nodes whose topology domain holds a pod of the group's other functions."""
    numbers = [view.functions.index.get(name, -1) for name in _members(group, request, view, with_itself=False)]
    entries = [view.running.of(number).node for number in numbers if number >= 0]
    there = np.zeros(len(view.nodes), dtype=np.bool_)
    for nodes in entries:
        there[nodes] = True
    return view.nodes.within(policy.topology_key, there)


def _here(request: Request, policy: Policy) -> tuple[Expression, ...]:
    return (Expression(policy.own("workflow"), "In", (label_value(request.workflow.rpartition("/")[2]),)),)


def _together(group: Group, request: Request, view: View, policy: Policy) -> list[PodTerm]:
    values = own_values(_members(group, request, view, with_itself=True))
    expressions = (Expression(policy.own("function"), "In", values), *_here(request, policy))
    weight = None if _firm(group, request) else _HEAVIEST if group.must else _WEIGHT
    across = request.namespace in policy.across
    others = _members(group, request, view, with_itself=False)
    return [
        PodTerm(False, expressions, policy.topology_key, weight, across),
        *toward(others, policy, weight=weight or _WEIGHT, across=across, known=view.functions.index.__contains__),
    ]


def _apart(group: Group, request: Request, view: View, policy: Policy) -> list[PodTerm]:
    return list(
        against(
            _members(group, request, view, with_itself=False),
            policy,
            weight=None if group.must else _WEIGHT,
            across=request.namespace in policy.across,
            where=_here(request, policy),
            known=view.functions.index.__contains__,
        )
    )
