"""The scheduler's extender protocol: which of the nodes can hold a pod's volumes, and which of them are better.

Types are those of ``k8s.io/kube-scheduler/extender/v1``; Go reads field names in any case, and writes ``Pod`` or
``pod``. With ``nodeCacheCapable`` the scheduler sends names only, else whole nodes; the answer has the form of the
question.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from pipeline.errors import BadInput
from rules.disks.plan import HIGHEST, Plan


class NodeList(msgspec.Struct):
    """Nodes as the API server gives them; only their names are read, the rest is sent back as it came."""

    items: list[dict[str, Any]] | None = None


class ExtenderArgs(msgspec.Struct):
    """What the scheduler asks: a *pod*, and *nodes* or *nodenames* that passed its own filters."""

    pod: dict[str, Any]
    nodes: NodeList | None = None
    nodenames: list[str] | None = None


class ExtenderFilterResult(msgspec.Struct, omit_defaults=True, rename="camel"):
    """The nodes that can hold the pod, in the form of the question, and why others cannot."""

    nodes: NodeList | None = None
    nodenames: list[str] | None = None
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class HostPriority(msgspec.Struct):
    """The *score* of one node, 0 to 10."""

    host: str
    score: int


class Plans(Protocol):
    """Plan the volumes of a pod on the named nodes; raises `BadInput` for annotations that cannot be read."""

    def __call__(self, pod: dict[str, Any], nodes: list[str], /) -> Plan: ...


#: How good the company on each node is for a pod, 0 to 1; empty where nothing is known of it.
Company = Callable[[dict[str, Any]], Mapping[str, float]]


def filtered(asked: ExtenderArgs, plans: Plans) -> ExtenderFilterResult:
    """Return the nodes that can hold the pod's volumes.

    A pod that has to wait gets no node, no failure and no error: the scheduler tries again.
    """
    names = _names(asked)
    try:
        found = plans(asked.pod, names)
    except BadInput as error:
        return ExtenderFilterResult(error=str(error))
    kept = set(found.plan)
    result = ExtenderFilterResult(failed_nodes=dict(found.failed))
    if asked.nodenames is not None:
        result.nodenames = [name for name in names if name in kept]
    else:
        items = asked.nodes.items or [] if asked.nodes else []
        result.nodes = NodeList([each for each in items if _name(each) in kept])
    return result


def prioritized(asked: ExtenderArgs, plans: Plans, company: Company | None = None) -> list[HostPriority]:
    """Return a score for each node that is named: by its disks, and half by *company* where that is known of it."""
    names = _names(asked)
    try:
        scores = plans(asked.pod, names).scores
        beside = company(asked.pod) if company is not None else {}
    except BadInput:
        scores, beside = {}, {}
    return [
        HostPriority(name, round((score + HIGHEST * beside[name]) / 2) if name in beside else score)
        for name, score in ((name, scores.get(name, 0)) for name in names)
    ]


def _names(asked: ExtenderArgs) -> list[str]:
    if asked.nodenames is not None:
        return asked.nodenames
    return [_name(each) for each in (asked.nodes.items or [] if asked.nodes else [])]


def _name(node: dict[str, Any]) -> str:
    metadata = node.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
