"""The nodes that a stream job's host constraints leave to a pod of it, and what they write into the pod."""

from collections.abc import Iterable

import numpy as np

from rules.advice import Advice, NodeNeed, Reason, silent
from rules.affinity.selector import all_of
from rules.candidates import Candidates, Mask
from rules.hosts import keys
from rules.nodes import Nodes
from rules.policy import Policy
from rules.request import Request
from rules.view import View


def hosts(request: Request, view: View, policy: Policy) -> Advice:
    """Require what was planned when the job was submitted."""
    rules = request.hosts
    if rules is None:
        return silent("hosts")
    mask = _admitted(view.nodes, rules.needs)
    if rules.node:
        mask &= np.array([name == rules.node for name in view.nodes.names], dtype=np.bool_)
    count = int(np.count_nonzero(mask))
    pe, job = rules.labels.get(keys.PE, ""), rules.labels.get(keys.JOB, "")
    said = f"PE {pe} of stream job {job}: its host constraints admit {count} of {len(view.nodes)} nodes"
    return Advice(
        "hosts", Candidates.of(mask), terms=tuple(rules.advised()), reasons=lambda: (Reason("hosts", said),)
    )


def _admitted(nodes: Nodes, needs: Iterable[NodeNeed]) -> Mask:
    mask = np.ones(len(nodes), dtype=np.bool_)
    for need in needs:
        either = np.zeros(len(nodes), dtype=np.bool_)
        for expressions in need.alternatives:
            either |= all_of(nodes, expressions)
        mask &= either
    return mask
