"""What is to be said of a whole answer, beside what each rule says."""

from collections.abc import Iterator, Mapping
from typing import Final

from rules.advice import Reason
from rules.asking import Cause
from rules.autoscaler import WARNING, recognised
from rules.candidates import Combined
from rules.request import Request
from rules.view import View

_NOT_KNOWN: Final = "it is not there, or cannot be read (colocate doctor names those)"
_LEFT_OUT: Final[Mapping[Cause, str]] = {"deadline": "missed its deadline", "error": "failed"}


def remarks(request: Request, view: View, combined: Combined, stale: bool) -> Iterator[Reason]:
    """Yield what is to be said of the whole answer."""
    if request.function_name:
        yield Reason("identity", f"function {request.function_name}, by its {request.named_by}")
    if request.ambiguous:
        yield Reason("identity", f"could be {' or '.join(request.ambiguous)}: not guessed")
    if not request.labelled:
        said = "pods that run would not have a pod with the product's own labels beside them: it goes without these"
        yield Reason("unlabelled", said)
    if request.workflow_missing:
        yield Reason("identity", f"workflow {request.workflow} is not known here: {_NOT_KNOWN}")
    for said in request.misread:
        yield Reason("unknown_value", said)
    if request.mode == "observe":
        yield Reason("mode", "observe: the pod is not changed, this is what would have been advised")
    if request.elsewhere:
        said = f"workflow {request.workflow} is meant for cluster {request.elsewhere}, this is {request.cluster}"
        yield Reason("cluster", f"{said}: no interference rules")
    if request.mode != "observe" and (autoscalers := _autoscalers(view)):
        verb = "adds" if len(autoscalers) == 1 else "add"
        yield Reason("autoscaler", f"{' and '.join(autoscalers)} {verb} nodes here; {WARNING}")
    if stale:
        yield Reason("stale", f"what is known is of {view.created:%Y-%m-%d %H:%M} UTC, too old: stated needs only")
    if not len(view.nodes):
        yield Reason("nodes", "no nodes are known")
    elif combined.emptied_by:
        yield Reason("unsatisfiable", f"no node is left now by: {', '.join(combined.emptied_by)}")
    elif combined.gave_way:
        rules = ", ".join(combined.gave_way)
        yield Reason("too_few", f"too few nodes would remain under {rules}: preferred, not required")


def missing(left_out: Mapping[str, Cause]) -> Iterator[Reason]:
    """Yield which rules the answer does without."""
    for name, cause in left_out.items():
        yield Reason("left_out", f"rule {name} {_LEFT_OUT[cause]}: this answer does without it")


def _autoscalers(view: View) -> tuple[str, ...]:
    kinds, nodes = view.standing.kinds, view.nodes
    taints = {taint.key for taints in nodes.taints for taint in taints}
    return kinds.memo.once(
        ("autoscalers", tuple(nodes.labels), frozenset(taints)),
        lambda: recognised(nodes.labels, taints, kinds.labels),
    )
