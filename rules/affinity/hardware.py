"""Hardware that the function needs, and hardware that it would like."""

import numpy as np

from rules.advice import Advice, BestOf, NodeWish, Reason, Term, silent
from rules.affinity.needs import find
from rules.candidates import Candidates
from rules.policy import Policy
from rules.request import Request
from rules.scoring import graded
from rules.view import View

_WISH_WEIGHT = 50


def hardware(request: Request, view: View, policy: Policy) -> Advice:
    """Require every one of the workflow's extraResources."""
    if not request.needs:
        return silent("hardware")
    mask = np.ones(len(view.nodes), dtype=np.bool_)
    terms: list[Term] = []
    reasons = []
    for found in find(view.nodes, request.needs, policy):
        mask &= found.have
        have = int(np.count_nonzero(found.have))
        said = f"{request.function_name or 'the pod'} needs {found.shown}: {have} of {len(view.nodes)} nodes have it"
        if found.requested(request.requests):
            said += "; the pod requests it, which the scheduler holds it to"
        else:
            terms += found.needs
            if any(isinstance(need, BestOf) for need in found.needs):
                said += f"; no label tells which: the best {policy.named} are named at most"
        reasons.append(Reason("hardware", said))
    return Advice("hardware", Candidates.of(mask), terms=tuple(terms), reasons=lambda: reasons)


def preferred_hardware(request: Request, view: View, policy: Policy) -> Advice:
    """Prefer each of the workflow's preferredResources."""
    if not request.wishes:
        return silent("preferred_hardware")
    grades = np.zeros(len(view.nodes))
    terms: list[Term] = []
    reasons = []
    for found in find(view.nodes, request.wishes, policy):
        grades += found.have / len(request.wishes)
        for need in found.needs:
            terms += [NodeWish(_WISH_WEIGHT, expressions) for expressions in need.alternatives]
        have = int(np.count_nonzero(found.have))
        reasons.append(
            Reason("preferred_hardware", f"would like {found.shown}: {have} of {len(view.nodes)} nodes have it")
        )
    scores = graded("wishes", grades, share=0.4)
    return Advice("preferred_hardware", scores=scores, terms=tuple(terms), reasons=lambda: reasons)
