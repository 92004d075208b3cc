"""Nodes that the pod's own nodeSelector and required node affinity admit."""

import numpy as np

from rules.advice import Advice, Reason
from rules.affinity.selector import required_mask, selector_mask
from rules.candidates import Candidates
from rules.policy import Policy
from rules.request import Request
from rules.view import View


def own(request: Request, view: View, policy: Policy) -> Advice:
    """Allow what the pod's own rules allow; they stay in the pod as they are."""
    nodes = view.nodes
    mask = selector_mask(nodes, request.spec.get("nodeSelector") or {}) & required_mask(nodes, request.affinity)
    admitted = int(np.count_nonzero(mask))
    reasons: tuple[Reason, ...] = ()
    if admitted < len(nodes):
        reasons = (Reason("own", f"the pod's own node rules admit {admitted} of {len(nodes)} nodes"),)
    return Advice("own", Candidates.of(mask), reasons=reasons)
