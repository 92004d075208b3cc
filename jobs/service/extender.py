"""The scheduler's extender protocol: which of the nodes can hold a pod's volumes, and which of them are better.

Types and field names are those of ``k8s.io/kube-scheduler/extender/v1``. With ``nodeCacheCapable`` the scheduler
sends names only, else whole nodes; the answer has the form of the question.
"""

from typing import Any, Protocol

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from jobs.service import body
from jobs.service.handlers import Handler
from jobs.service.problems import problem
from pipeline.errors import BadInput
from rules.disks.plan import Plan


class NodeList(msgspec.Struct):
    """Nodes as the API server gives them; only their names are read, the rest is sent back as it came."""

    items: list[dict[str, Any]] | None = None


class ExtenderArgs(msgspec.Struct):
    """What the scheduler asks: a *pod*, and *nodes* or *nodenames* that passed its own filters."""

    pod: dict[str, Any]
    nodes: NodeList | None = None
    nodenames: list[str] | None = None


class ExtenderFilterResult(msgspec.Struct, omit_defaults=True):
    """The nodes that can hold the pod, in the form of the question, and why others cannot."""

    nodes: NodeList | None = None
    nodenames: list[str] | None = None
    failedNodes: dict[str, str] = {}
    failedAndUnresolvableNodes: dict[str, str] = {}
    error: str = ""


class HostPriority(msgspec.Struct):
    """The *score* of one node, 0 to 10."""

    host: str
    score: int


class Plans(Protocol):
    """Plan the volumes of a pod on the named nodes; raises `BadInput` for annotations that cannot be read."""

    def __call__(self, pod: dict[str, Any], nodes: list[str], /) -> Plan: ...


_ARGS = msgspec.json.Decoder(ExtenderArgs)


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
    result = ExtenderFilterResult(failedNodes=dict(found.failed))
    if asked.nodenames is not None:
        result.nodenames = [name for name in names if name in kept]
    else:
        items = asked.nodes.items or [] if asked.nodes else []
        result.nodes = NodeList([each for each in items if _name(each) in kept])
    return result


def prioritized(asked: ExtenderArgs, plans: Plans) -> list[HostPriority]:
    """Return a score for each node that the question names."""
    names = _names(asked)
    try:
        scores = plans(asked.pod, names).scores
    except BadInput:
        scores = {}
    return [HostPriority(name, scores.get(name, 0)) for name in names]


def handler(work: Any, plans: Plans) -> Handler:
    """Return the handler of a verb of the extender: *work* is `filtered` or `prioritized`."""

    def answer(given: bytes) -> Response:
        try:
            asked = _ARGS.decode(given)
        except (msgspec.MsgspecError, RecursionError) as error:
            return problem(400, f"ExtenderArgs: {str(error).splitlines()[0]}")
        return Response(msgspec.json.encode(work(asked, plans)), media_type="application/json")

    async def handle(request: Request) -> Response:
        try:
            given = await body.read(request.receive)
        except body.TooLarge as error:
            return problem(413, str(error))
        return await run_in_threadpool(answer, given)

    return handle


def _names(asked: ExtenderArgs) -> list[str]:
    if asked.nodenames is not None:
        return asked.nodenames
    return [_name(each) for each in (asked.nodes.items or [] if asked.nodes else [])]


def _name(node: dict[str, Any]) -> str:
    metadata = node.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
