"""Nodes that the pod's own nodeSelector and required node affinity admit."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np

from rules.advice import Advice, Reason
from rules.affinity.selector import required_mask, selector_mask
from rules.candidates import Candidates
from rules.nodes import Nodes
from rules.policy import Policy
from rules.request import Request
from rules.view import View

_ANYWHERE: Final = Advice("own")


def own(request: Request, view: View, policy: Policy) -> Advice:
    """Allow what the pod's own rules allow; they stay in the pod as they are."""
    nodes = view.nodes
    selector, affinity = request.spec.get("nodeSelector") or {}, request.affinity.get("nodeAffinity") or {}
    if not selector and not affinity:
        return _ANYWHERE
    return nodes.memo.once(
        ("own", msgspec.json.encode((selector, affinity))), lambda: _own(nodes, selector, affinity)
    )


def _own(nodes: Nodes, selector: Mapping[str, str], affinity: Mapping[str, Any]) -> Advice:
    mask = selector_mask(nodes, selector) & required_mask(nodes, affinity)
    admitted = int(np.count_nonzero(mask))
    if admitted == len(nodes):
        return _ANYWHERE
    said = Reason("own", f"the pod's own node rules admit {admitted} of {len(nodes)} nodes")
    return Advice("own", Candidates.of(mask), reasons=lambda: (said,))
