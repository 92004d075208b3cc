"""Nodes whose disks hold the pod's volumes: told to the scheduler where they are few.

Where an extender is asked, it says the same when the pod is scheduled; the webhook says it at once, and to schedulers
that ask nobody.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from pipeline.errors import BadInput
from rules.advice import Advice, NodeNeed, NodeWish, Reason, Term, silent
from rules.affinity.describe import describe
from rules.candidates import Candidates, Mask
from rules.disks.plan import Plan, plan
from rules.policy import Policy
from rules.request import Request
from rules.view import View

#: What a wish for the nodes that hold the volumes weighs, and one for those that give up least of what is preferred.
_HOLDS: Final = 100
_LEAST: Final = 50
#: A pod under admission waits for no long search; an extender, asked later, knows better.
_TRIES: Final = 20_000
_CLAIMS: Final = 64


def disks(request: Request, view: View, policy: Policy) -> Advice:
    """Allow the nodes whose disks hold the volumes, and name them where they are at most ``policy.named``.

    In mode require the pod is held to them if it can run on one; elsewhere they are preferred, since a disk may
    become free while the pod waits. Annotations that cannot be read advise nothing: the answer says why.
    """
    asked = request.disks
    if asked is None:
        return silent("disks")
    if len(asked.pod.claims) > _CLAIMS:
        return _nothing(f"more than {_CLAIMS} volumes: looked at when the pod is scheduled", {})
    names = view.nodes.names
    try:
        found = plan(asked.pod, asked.disks, names, symmetric=asked.symmetric, tries=_TRIES)
    except BadInput as error:
        return _nothing(str(error), {"error": str(error)})
    if found.waits:
        return _nothing(f"nothing can be said before there are {', '.join(found.waits)}", {"status": found.status})
    if len(found.plan) == len(names) and not any(found.plan.values()):
        return silent("disks")  # none of its volumes is the driver's
    mask = np.fromiter((name in found.plan for name in names), np.bool_, len(names))
    said = f"disks of {len(found.plan)} of {len(names)} nodes hold the volumes"
    if not found.plan and found.failed:
        said += f"; {next(iter(found.failed.values()))}"
    wishes, needs = _terms(view, found, mask, policy)
    held_to = request.mode == "require" and bool(needs)
    return Advice(
        "disks",
        Candidates.of(mask),
        terms=needs + wishes[1:] if held_to else wishes,
        reasons=lambda: (Reason("disks", said),),
        firm=not held_to,
        otherwise=wishes,
        shown=_shown(found, policy.ranked),
    )


def _terms(view: View, found: Plan, mask: Mask, policy: Policy) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """Return what prefers the nodes that hold the volumes, then those that give up least, and what requires the
    first."""
    if not 0 < len(found.plan) < len(mask) or len(found.plan) > policy.named:
        return (), ()
    nodes = view.nodes
    exactly = describe(nodes, mask, np.ones_like(mask), policy.named, deny=False)
    if exactly is None:
        return (), ()
    wishes = [NodeWish(_HOLDS, exactly)]
    given_up = {name: len(found.violated.get(name, ())) for name in found.plan}
    least = min(given_up.values())
    if least < max(given_up.values()):
        best = np.fromiter((given_up.get(name) == least for name in nodes.names), np.bool_, len(mask))
        named = describe(nodes, best, np.ones_like(mask), policy.named, deny=False)
        wishes += [NodeWish(_LEAST, named)] if named is not None else []
    return tuple(wishes), (NodeNeed((exactly,)),)


def _nothing(said: str, shown: Mapping[str, Any]) -> Advice:
    return Advice("disks", reasons=lambda: (Reason("disks", said),), shown=lambda: shown)


def _shown(found: Plan, limit: int) -> Callable[[], Mapping[str, Any]]:
    """Return what a recommendation shows: the *limit* best nodes with what they would hold, and why others do not."""

    def show() -> Mapping[str, Any]:
        best = sorted(found.plan, key=lambda name: (-found.scores.get(name, 0), name))[:limit]
        return {
            "status": found.status,
            "nodes": len(found.plan),
            "plan": {name: found.plan[name] for name in best},
            "violated": {name: found.violated[name] for name in best if name in found.violated},
            "scores": {name: found.scores[name] for name in best if name in found.scores},
            "failed": dict(list(found.failed.items())[:limit]),
        }

    return show
