"""Nodes with room: what is allocatable and not requested yet holds the pod."""

import numpy as np

from rules.advice import Advice, Reason, silent
from rules.candidates import Candidates
from rules.nodes import Nodes
from rules.policy import Policy
from rules.request import Request
from rules.view import View

_DUST = 1e-6  # sums of tenths of cores do not come out even


def capacity(request: Request, view: View, policy: Policy) -> Advice:
    """Allow the nodes whose free amounts hold every request; nothing is written into the pod, the scheduler knows."""
    asked = tuple(sorted(request.requests.items()))
    return view.memo.once(("capacity", asked), lambda: _capacity(asked, view.nodes))


def _capacity(asked: tuple[tuple[str, float], ...], nodes: Nodes) -> Advice:
    fits = np.ones(len(nodes), dtype=np.bool_)
    lacking = []
    for resource, amount in asked:
        free = nodes.free.get(resource)
        if free is None and resource == "pods":
            continue
        holds = np.zeros(len(nodes), dtype=np.bool_) if free is None else free >= amount - _DUST
        if not holds.all():
            lacking.append(resource)
        fits &= holds
    if not lacking:
        return silent("capacity")
    said = f"{np.count_nonzero(~fits)} of {len(nodes)} nodes lack free {', '.join(lacking)} for the pod"
    return Advice("capacity", Candidates.of(fits), reasons=lambda: (Reason("capacity", said),))
