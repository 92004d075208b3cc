"""Near the services that the function uses: preferred affinity to the pods that their selectors choose."""

from collections.abc import Mapping

import numpy as np

from pipeline.records import PodSelection, Requirement
from rules.advice import Advice, Expression, PodTerm, Reason, Term, silent
from rules.candidates import Mask
from rules.policy import Policy
from rules.request import Request
from rules.scoring import graded
from rules.view import View

NAME = "service"
_WEIGHT = 50


def service(request: Request, view: View, policy: Policy) -> Advice:
    """Prefer the nodes of each used Service's pods; one that is not known, or selects nothing, gives no rule.

    Nor does one of another namespace, unless the pod's own opted in to rules that reach others.
    """
    if not request.services:
        return silent(NAME)
    grades = np.zeros(len(view.nodes))
    terms: list[Term] = []
    reasons = []
    for name in request.services:
        there, _, short = name.rpartition("/")
        there = there or request.namespace
        selector = view.services.get((there, short))
        elsewhere = there if there != request.namespace else ""
        if elsewhere and request.namespace not in policy.across:
            said = f"uses service {name} of another namespace, which rules of {request.namespace} may not reach"
            reasons.append(Reason(NAME, f"{said}: no rule"))
            continue
        if not selector:
            reasons.append(Reason(NAME, f"uses service {name}, of which no selector is known: no rule"))
            continue
        expressions = tuple(Expression(key, "In", (value,)) for key, value in sorted(selector.items()))
        near = _near(there, selector, view, policy)
        grades += near / len(request.services)
        terms.append(PodTerm(False, expressions, policy.topology_key, _WEIGHT, namespace=elsewhere))
        reasons.append(Reason(NAME, f"uses service {name}: near its pods, on {np.count_nonzero(near)} nodes now"))
    scores = graded("wishes", grades, share=0.2) if grades.any() else None
    return Advice(NAME, scores=scores, terms=tuple(terms), reasons=lambda: reasons)


def _near(namespace: str, selector: Mapping[str, str], view: View, policy: Policy) -> Mask:
    """Return the nodes in whose topology domain pods of the service run."""
    requirements = tuple(Requirement(key, "In", (value,)) for key, value in sorted(selector.items()))
    kinds = view.standing.kinds.selected(PodSelection(requirements, "", (namespace,)))
    return view.nodes.within(policy.topology_key, view.standing.on_nodes(kinds, len(view.nodes)) > 0)
