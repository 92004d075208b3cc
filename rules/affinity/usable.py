"""Nodes that take pods at all: Ready, not cordoned, and without a taint that the pod does not tolerate."""

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from pipeline.records import Taint
from rules.advice import Advice, Reason
from rules.candidates import Candidates, Mask
from rules.nodes import Nodes
from rules.policy import Policy
from rules.request import Request
from rules.view import View

Tolerations = tuple[Mapping[str, object], ...]

#: The taint that a cordoned node has for the scheduler.
CORDONED = Taint("node.kubernetes.io/unschedulable", "NoSchedule")


def usable(request: Request, view: View, policy: Policy) -> Advice:
    """Allow the nodes that the scheduler would not pass over for their state."""
    nodes, tolerations = view.nodes, request.tolerations
    key = ("usable", msgspec.json.encode(tolerations))
    return nodes.memo.once(key, lambda: _usable(nodes, tolerations))


def _usable(nodes: Nodes, tolerations: Tolerations) -> Advice:
    tainted = ~tolerated(nodes, tolerations)
    cordoned = ~nodes.schedulable & bool(untolerated((CORDONED,), tolerations))
    reasons = tuple(
        Reason("usable", f"{count} of {len(nodes)} nodes {why}")
        for count, why in (
            (np.count_nonzero(~nodes.ready), "not Ready"),
            (np.count_nonzero(cordoned), "cordoned"),
            (np.count_nonzero(tainted), "tainted without a toleration of the pod"),
        )
        if count
    )
    return Advice("usable", Candidates.of(nodes.ready & ~cordoned & ~tainted), reasons=lambda: reasons)


def tolerated(nodes: Nodes, tolerations: Tolerations) -> Mask:
    """Return the nodes without a taint that *tolerations* do not tolerate."""
    clean = np.array([not untolerated(taints, tolerations) for taints in nodes.taints], dtype=np.bool_)
    return clean[nodes.taint_of] if len(clean) else np.ones(len(nodes), dtype=np.bool_)


def untolerated(taints: Iterable[Taint], tolerations: Tolerations) -> list[Taint]:
    """Return those of *taints* that keep a pod with *tolerations* off a node."""
    return [
        taint
        for taint in taints
        if taint.effect in ("NoSchedule", "NoExecute") and not any(_tolerates(each, taint) for each in tolerations)
    ]


def _tolerates(toleration: Mapping[str, object], taint: Taint) -> bool:
    """https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/"""
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    if toleration.get("effect") not in (None, "", taint.effect) or (key and key != taint.key):
        return False
    if operator == "Exists":
        return True
    return bool(key) and (toleration.get("value") or "") == taint.value
