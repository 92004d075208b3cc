"""The intents' say on the nodes of one cluster: those that have what a pod's consumers ask for at all."""

from collections.abc import Iterator

import numpy as np

from rules.advice import Advice, Reason, silent
from rules.affinity.selector import selector_mask
from rules.candidates import Candidates
from rules.policy import Policy
from rules.request import Asked, Request
from rules.running import counted
from rules.view import View


def hpa(request: Request, view: View, policy: Policy) -> Advice:
    """Allow the nodes with the labels and the amounts that intents ask of the pod.

    What is free of them is the scheduler's knowledge (`rules.affinity.capacity`); the pod itself carries requests and
    nodeSelector, so that there are no terms to add.
    """
    asked = request.hpa
    if asked is None or asked.conflict:
        return silent("hpa")
    nodes = view.nodes
    mask = selector_mask(nodes, asked.labels)
    for resource, amount in asked.amounts.items():
        there = nodes.allocatable.get(resource)
        mask &= counted(resource, there) >= amount - 1e-6 if there is not None else False
    have = int(np.count_nonzero(mask))
    return Advice("hpa", Candidates.of(mask), reasons=lambda: list(_reasons(asked, have, len(nodes))))


def _reasons(asked: Asked, have: int, nodes: int) -> Iterator[Reason]:
    names = ", ".join(name.rpartition("/")[2] for name in asked.consumers)
    wanted = ", ".join(asked.wanted) or "nothing that is there"
    yield Reason("hpa", f"intents ask for {wanted} (consumer {names}): {have} of {nodes} nodes have it")
    for wish in asked.withheld:
        yield Reason("hpa", f"would like {wish}, which no node that the pod may use has free: left out")
    for warning in asked.warnings:
        yield Reason("hpa", warning)
