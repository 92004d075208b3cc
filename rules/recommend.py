"""The one answer: run the rules on a request, combine what they say, and write it into the pod."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rules.advice import Advice, NodeNeed, PodTerm, Reason, Term
from rules.affinity.emission import additions
from rules.affinity.merge import merge
from rules.affinity.patch import json_patch
from rules.affinity.ranking import wishes
from rules.candidates import Combined, combine
from rules.labels import label_value
from rules.policy import Mode, Policy
from rules.request import Request
from rules.table import RULES
from rules.view import View


@dataclass(frozen=True, slots=True)
class RankedNode:
    """A candidate node; the higher *score* comes first, *reasons* say what it is made of."""

    name: str
    score: float
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer for one pod.

    *affinity* is the whole merged affinity of the pod (in mode observe: what it would have become), *patch* the JSON
    Patch (RFC 6902) that makes it so, empty in mode observe. *outcome* is ``patched``, ``unchanged`` or
    ``left_alone``; *cause* is a short word where less than everything was advised: why the pod was left alone,
    ``stale``, ``other_cluster``, ``unsatisfiable``.
    """

    decision: str
    snapshot: str
    mode: Mode
    satisfiable: bool
    affinity: Mapping[str, Any]
    patch: tuple[Mapping[str, Any], ...]
    nodes: tuple[RankedNode, ...]
    reasons: tuple[Reason, ...]
    hpa: Mapping[str, Any] | None = None
    hosts: Mapping[str, Any] | None = None
    disks: Mapping[str, Any] | None = None
    outcome: str = "unchanged"
    cause: str = ""
    function: str = ""
    namespace: str = ""
    pod: str = ""


def recommend(
    request: Request, view: View, policy: Policy, *, decision: str, at: datetime | None = None
) -> Recommendation:
    """Answer *request*; *decision* names the answer, *at* is the time it is given (default: the view's).

    A snapshot older than ``policy.stale_after`` answers with stated needs only.
    """
    if request.left_alone:
        reason = Reason("left_alone", request.why_left_alone())
        return _answer(request, view, decision, reasons=(reason,), outcome="left_alone", cause=request.left_alone)
    stale = (at or view.at) - view.created > policy.stale_after
    advices = {
        name: rule(request, view, policy)
        for name, (ground, rule) in RULES.items()
        if ground in ("fact", "stated") or not (stale or (request.elsewhere and ground == "learned"))
    }
    combined = combine(list(advices.values()), len(view.nodes), policy.remaining)
    satisfiable = bool(combined.allowed.any()) or not len(view.nodes)
    hopeless = any(RULES[name][0] == "stated" for name in combined.emptied_by)
    terms = [
        term
        for name, advice in advices.items()
        if not hopeless or RULES[name][0] == "stated"
        for term in (advice.otherwise if name in combined.gave_way else advice.terms)
        if not stale or _required(term)
    ]
    if satisfiable and not stale:
        terms += wishes(view.nodes, combined, policy)
    merged = merge(
        request.pod, additions(terms, _labels(request, policy)), prefix=policy.label_prefix, decision=decision
    )
    patch = () if request.mode == "observe" else tuple(json_patch(request.pod, merged))
    reasons = [*_remarks(request, view, combined, stale), *_of_rules(advices.values(), hopeless)]
    return _answer(
        request,
        view,
        decision,
        satisfiable=satisfiable,
        affinity=(merged.get("spec") or {}).get("affinity") or {},
        patch=patch,
        nodes=_ranked(view, advices.values(), combined, policy),
        reasons=tuple(reasons),
        outcome="patched" if patch else "unchanged",
        cause="stale" if stale else "other_cluster" if request.elsewhere else "" if satisfiable else "unsatisfiable",
    )


def _answer(request: Request, view: View, decision: str, **found: Any) -> Recommendation:
    standing = {"satisfiable": True, "affinity": request.affinity, "patch": (), "nodes": (), **found}
    return Recommendation(
        decision=decision,
        snapshot=view.version,
        mode=request.mode,
        function=request.function_name,
        namespace=request.namespace,
        pod=request.name,
        **standing,
    )


def _required(term: Term) -> bool:
    return isinstance(term, NodeNeed) or (isinstance(term, PodTerm) and term.weight is None)


def _labels(request: Request, policy: Policy) -> dict[str, str | None]:
    """Return one's own labels; what the pod brought under these keys is never trusted."""
    workflow = request.workflow.rpartition("/")[2]
    return {
        policy.own("function"): label_value(request.function_name) if request.function_name else None,
        policy.own("workflow"): label_value(workflow) if workflow else None,
    }


def _of_rules(advices: Iterable[Advice], hopeless: bool) -> Iterator[Reason]:
    for advice in advices:
        if not hopeless or RULES[advice.rule][0] != "learned":
            yield from advice.reasons


def _remarks(request: Request, view: View, combined: Combined, stale: bool) -> Iterator[Reason]:
    """Yield what is to be said of the whole answer."""
    if request.function_name:
        yield Reason("identity", f"function {request.function_name}, by its {request.named_by}")
    if request.ambiguous:
        yield Reason("identity", f"could be {' or '.join(request.ambiguous)}: not guessed")
    if request.workflow_missing:
        yield Reason("identity", f"workflow {request.workflow} is not known here")
    if request.mode == "observe":
        yield Reason("mode", "observe: the pod is not changed, this is what would have been advised")
    if request.elsewhere:
        said = f"workflow {request.workflow} is meant for cluster {request.elsewhere}, this is {request.cluster}"
        yield Reason("cluster", f"{said}: no interference rules")
    if stale:
        yield Reason("stale", f"what is known is of {view.created:%Y-%m-%d %H:%M} UTC, too old: stated needs only")
    if not len(view.nodes):
        yield Reason("nodes", "no nodes are known")
    elif combined.emptied_by:
        yield Reason("unsatisfiable", f"no node is left now by: {', '.join(combined.emptied_by)}")
    elif combined.gave_way:
        rules = ", ".join(combined.gave_way)
        yield Reason("too_few", f"too few nodes would remain under {rules}: preferred, not required")


def _ranked(view: View, advices: Iterable[Advice], combined: Combined, policy: Policy) -> tuple[RankedNode, ...]:
    measures = [measure for advice in advices for measure in advice.measures]
    return tuple(
        RankedNode(
            view.nodes.names[node],
            float(combined.scores[node]),
            tuple(
                measure.sentence.format(measure.values[node])
                for measure in measures
                if measure.values[node] == measure.values[node]
            ),
        )
        for node in combined.ranked(policy.ranked).tolist()
    )
