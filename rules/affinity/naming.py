"""A need that nothing but names tells, of too many nodes to name: the best of them are named."""

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from rules.advice import BestOf, Expression, NodeNeed
from rules.affinity.describe import HOSTNAME
from rules.affinity.selector import all_of
from rules.candidates import Candidates, Mask
from rules.nodes import Nodes

#: So many required node terms of our own, multiplied out, at most.
_TERMS: Final = 64

Numbers = npt.NDArray[np.intp]


def implied(need: BestOf, nodes: Nodes, own: Candidates | None, affinity: Mapping[str, Any]) -> bool:
    """Whether the pod's own rules name nodes, such as an earlier run did, all of which meet *need*.

    *own* are the nodes that its rules admit, *affinity* is its node affinity. Labels that happen to admit only such
    nodes now may be on others later.
    """
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or []
    if own is None or not len(own) or not all(_names_nodes(term or {}) for term in terms) or not terms:
        return False
    lacking = ~need.nodes
    for expressions in need.alternatives:
        lacking &= ~all_of(nodes, expressions)
    return not (own.mask() & lacking).any()


def _names_nodes(term: Mapping[str, Any]) -> bool:
    asked = [*(term.get("matchExpressions") or []), *(term.get("matchFields") or [])]
    return any(each.get("key") in (HOSTNAME, "metadata.name") and each.get("operator") == "In" for each in asked)


def bounded(needs: Sequence[NodeNeed], nodes: Nodes, best: Numbers, limit: int) -> Sequence[NodeNeed]:
    """Return *needs*, or fewer alternatives that are within them where multiplied out they would be too many terms.

    One need alone may have as many as it likes, such as the nodes of a stream job's pool. Beyond, the *best* nodes
    that meet all of them are named, at most *limit*; where none does, the first alternative of each is what the pod
    waits for.
    """
    counts = [len(need.alternatives) for need in needs]
    if prod(counts) <= max(_TERMS, *counts, 0):
        return needs
    meeting = np.ones(len(nodes), dtype=np.bool_)
    for need in needs:
        meeting &= np.logical_or.reduce([all_of(nodes, expressions) for expressions in need.alternatives])
    if meeting.any():
        return (named(BestOf(meeting), nodes, best, (), limit),)
    return tuple(NodeNeed(need.alternatives[:1]) for need in needs)


def named(need: BestOf, nodes: Nodes, best: Numbers, admitted: Iterable[Mask], limit: int) -> NodeNeed:
    """Return *need* with at most *limit* names: those of its nodes that come first in *best*.

    Where none is among the best, some of what all of *admitted* allow are named, and the pod waits for these, unless
    an alternative holds somewhere: then that is all it asks for.
    """
    chosen = best[need.nodes[best]][:limit]
    if not chosen.size and not (need.alternatives and best.size):
        mask = need.nodes.copy()
        for each in admitted:
            mask &= each
        chosen = np.flatnonzero(mask if mask.any() else need.nodes)[:limit]
    return NodeNeed((*need.alternatives, *_names(nodes, chosen))) if chosen.size else NodeNeed(need.alternatives)


def _names(nodes: Nodes, chosen: Numbers) -> tuple[tuple[Expression, ...], ...]:
    """Name the nodes *chosen* by their label; where one lacks it, each in a field, which holds one name only."""
    labels = [nodes.label(HOSTNAME, number) for number in chosen.tolist()]
    if all(labels):
        return ((Expression(HOSTNAME, "In", tuple(sorted(filter(None, labels)))),),)
    names = sorted(nodes.names[number] for number in chosen.tolist())
    return tuple((Expression("metadata.name", "In", (name,), field=True),) for name in names)
