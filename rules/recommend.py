"""The one answer: run the rules on a request, combine what they say, and write it into the pod."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from rules.advice import Advice, BestOf, NodeNeed, NodeWish, PodFields, Reason, Rendered, Settled, Term
from rules.affinity.emission import additions
from rules.affinity.merge import merge
from rules.affinity.naming import bounded, implied, named
from rules.affinity.patch import json_patch
from rules.affinity.pod_rules import NAME as POD_RULES
from rules.affinity.ranking import ranking
from rules.asking import Ask, Cause, in_turn
from rules.candidates import Combined, combine, share
from rules.policy import Mode, Policy
from rules.remarks import missing, remarks
from rules.request import Request
from rules.scoring import shown
from rules.table import RULES
from rules.view import View


class RankedNode(msgspec.Struct, frozen=True, gc=False):
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
    ``stale``, ``other_cluster``, ``unsatisfiable``, ``hpa_conflict``, ``unknown_value``. *left_out* names the
    rules that missed their deadline or failed.
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
    left_out: tuple[str, ...] = ()
    outcome: str = "unchanged"
    cause: str = ""
    function: str = ""
    namespace: str = ""
    pod: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What `answer` found for *request* in *view*: all that the pod waits for; `recommendation` tells the rest.

    *outcome*, *cause*, *patch* and *affinity* are as in `Recommendation`, but that terms may be JSON text. *top* are
    the numbers of the nodes on one of which the pod is expected, the best first. *left_out* says why rules are
    missing.
    """

    request: Request
    view: View
    policy: Policy
    advices: Mapping[str, Advice]
    combined: Combined | None
    satisfiable: bool
    stale: bool
    hopeless: bool
    affinity: Mapping[str, Any]
    patch: tuple[Mapping[str, Any], ...]
    top: npt.NDArray[np.intp]
    outcome: str
    cause: str
    left_out: Mapping[str, Cause] = field(default_factory=dict)

    def recommendation(self, decision: str, *, raw: bool = False) -> Recommendation:
        """Return the whole answer, with its reasons and the ranked nodes; *decision* is the one that `answer` got.

        With *raw* affinity and patch are good for encoding alone, and it names neither pod nor namespace.
        """
        affinity, patch = self.affinity, self.patch
        if not raw:
            affinity, patch = _PLAIN.decode(msgspec.json.encode((affinity, patch)))
        request = self.request
        return Recommendation(
            decision=decision,
            snapshot=self.view.version,
            mode=request.mode,
            satisfiable=self.satisfiable,
            affinity=affinity,
            patch=patch,
            nodes=()
            if self.combined is None
            else _ranked(self.view, self.advices.values(), self.combined, self.policy),
            reasons=tuple(self._reasons()),
            hpa=request.hpa.told if request.hpa is not None else None,
            left_out=tuple(self.left_out),
            disks=self.advices["disks"].shown() if "disks" in self.advices else None,
            hosts=None if request.hosts is None else {"node": request.hosts.node, "labels": request.hosts.labels},
            outcome=self.outcome,
            cause=self.cause,
            function=request.function_name,
            namespace="" if raw else request.namespace,
            pod="" if raw else request.name,
        )

    def _reasons(self) -> Iterator[Reason]:
        if self.combined is None:
            asked = self.request.hpa
            if asked is not None and asked.conflict:
                yield Reason("hpa", f"left unchanged: {asked.conflict}")
            else:
                yield Reason("left_alone", self.request.why_left_alone())
            return
        yield from remarks(self.request, self.view, self.combined, self.stale)
        yield from missing(self.left_out)
        yield from _of_rules(self.advices.values(), self.hopeless)


#: So many of the best nodes a pod says it is expected on, one of them, to other replicas of the service.
EXPECTED: Final = 5
_PLAIN: Final = msgspec.json.Decoder(tuple[dict[str, Any], tuple[dict[str, Any], ...]])
_NOBODY: Final = np.zeros(0, dtype=np.intp)
#: Rules that say the same for every pod that asks for the same: what they come to is worked out once.
_SHARED: Final = ("usable", "capacity", "own", "least_loaded", "most_free")


def recommend(
    request: Request, view: View, policy: Policy, *, decision: str, at: datetime | None = None, ask: Ask = in_turn
) -> Recommendation:
    """Answer *request*; *decision* names the answer, *at* is the time it is given (default: the view's).

    *ask* lets the rules run. A snapshot older than ``policy.stale_after`` answers with stated needs only.
    """
    return answer(request, view, policy, decision=decision, at=at, ask=ask).recommendation(decision)


def stale(view: View, policy: Policy, at: datetime) -> bool:
    """Whether what *view* knows is too old at *at* to be acted upon."""
    return at - view.created > policy.stale_after


def answer(
    request: Request, view: View, policy: Policy, *, decision: str, at: datetime | None = None, ask: Ask = in_turn
) -> Answer:
    """Answer *request* as `recommend` does, but without what only people read."""
    if request.left_alone:
        return Answer(
            request, view, policy, {}, None, True, False, False, request.affinity, (), _NOBODY,
            "left_alone", request.left_alone,
        )  # fmt: skip
    if request.hpa is not None and request.hpa.conflict:
        return Answer(
            request, view, policy, {}, None, True, False, False, request.affinity, (), _NOBODY,
            "unchanged", "hpa_conflict",
        )  # fmt: skip
    old = stale(view, policy, at or view.at)
    asked = ask(
        {
            name: partial(rule, request, view, policy)
            for name, (ground, rule) in RULES.items()
            if ground in ("fact", "stated") or not (old or (request.elsewhere and ground == "learned"))
        }
    )
    advices = asked.advices
    combined = _combined(advices, view, policy)
    satisfiable = bool(combined.best.size) or not len(view.nodes)
    if POD_RULES in combined.emptied_by and request.labelled and not any(each.must for each in request.groups):
        # Pods that run may shun one's own labels: a pod that only these would keep out goes without them.
        bare = replace(request, labelled=False)
        unlabelled = answer(bare, view, policy, decision=decision, at=at, ask=ask)
        if unlabelled.satisfiable:
            return unlabelled
    hopeless = any(RULES[name][0] == "stated" for name in combined.emptied_by)
    terms = [
        term
        for name, advice in advices.items()
        if not hopeless or RULES[name][0] == "stated"
        for term in (advice.otherwise if name in combined.gave_way else advice.terms)
        if not old or _required(term)
    ]
    settled = list(_resolved(terms, request, advices, combined, view, policy))
    top = _NOBODY
    if satisfiable and not old:
        ranked = ranking(view.nodes, combined, policy)
        settled += ranked.terms
        top = ranked.top
    before = _changeable(request.pod)
    added = additions(settled, request.own_labels(policy))
    expected = ",".join(view.nodes.names[node] for node in top[:EXPECTED].tolist())
    merged = merge(before, added, prefix=policy.label_prefix, decision=decision, expected=expected, raw=True)
    action = request.hpa.operations if request.hpa is not None else ()
    patch = () if request.mode == "observe" else (*action, *json_patch(before, merged))
    return Answer(
        request=request,
        view=view,
        policy=policy,
        advices=advices,
        combined=combined,
        satisfiable=satisfiable,
        stale=old,
        hopeless=hopeless,
        affinity=(merged.get("spec") or {}).get("affinity") or {},
        patch=patch,
        top=top,
        outcome="patched" if patch else "unchanged",
        cause=_cause(request, satisfiable=satisfiable, old=old),
        left_out=asked.left_out,
    )


def _cause(request: Request, *, satisfiable: bool, old: bool) -> str:
    """Return in a word why less than everything was advised, "" where all was."""
    if old or request.elsewhere:
        return "stale" if old else "other_cluster"
    if not satisfiable:
        return "unsatisfiable"
    return "unknown_value" if request.misread or request.workflow_missing else ""


def _resolved(
    terms: Iterable[Term],
    request: Request,
    advices: Mapping[str, Advice],
    combined: Combined,
    view: View,
    policy: Policy,
) -> Iterator[Settled]:
    """Name the best nodes where a need asks for it, those that all that is stated admits where there are none now."""
    stated = {
        name: advice.candidates
        for name, advice in advices.items()
        if RULES[name][0] == "stated" and advice.candidates is not None
    }
    needs = []
    for term in terms:
        if isinstance(term, NodeNeed):
            needs.append(term)
        elif not isinstance(term, BestOf):
            yield term
        elif not implied(term, view.nodes, stated.get("own"), request.affinity.get("nodeAffinity") or {}):
            masks = (each.mask() for each in stated.values())
            needs.append(named(term, view.nodes, combined.best, masks, policy.named))
    yield from bounded(tuple(dict.fromkeys(needs)), view.nodes, combined.best, policy.named)


def _combined(advices: Mapping[str, Advice], view: View, policy: Policy) -> Combined:
    shared = tuple(advices[name] for name in _SHARED if name in advices)
    # The advices are kept beside the result, so that no other one can have the same identity.
    _, common = view.memo.once(tuple(map(id, shared)), lambda: (shared, share(shared, len(view.nodes))))
    others = [advice for name, advice in advices.items() if name not in _SHARED]
    return combine(others, len(view.nodes), policy.remaining, common)


def _changeable(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return of *pod* what an answer may change, and no more."""
    kept: dict[str, Any] = {}
    for part, fields in (("metadata", ("labels", "annotations")), ("spec", ("affinity", "tolerations", "nodeName"))):
        if part in pod:
            given = pod[part]
            kept[part] = given if given is None else {name: given[name] for name in fields if name in given}
    return kept


def _required(term: Term) -> bool:
    if isinstance(term, (NodeNeed, BestOf, NodeWish, PodFields)):
        return not isinstance(term, NodeWish)
    return term.required if isinstance(term, Rendered) else term.weight is None


def _of_rules(advices: Iterable[Advice], hopeless: bool) -> Iterator[Reason]:
    for advice in advices:
        if not hopeless or RULES[advice.rule][0] != "learned":
            yield from advice.reasons()


def _ranked(view: View, advices: Iterable[Advice], combined: Combined, policy: Policy) -> tuple[RankedNode, ...]:
    best = combined.ranked(policy.ranked)
    told: list[list[str]] = [[] for _ in range(len(best))]
    for advice in advices:
        for measure in advice.measures(best):
            said, notes = measure.sentence, measure.notes or [""] * len(best)
            for sentences, value, note in zip(told, measure.values.tolist(), notes, strict=True):
                if value == value:
                    sentences.append(f"{said(value)}{note}")
    scores = shown(combined.falling[: len(best)]).tolist()
    return tuple(
        RankedNode(view.nodes.names[node], score, tuple(sentences))
        for node, score, sentences in zip(best.tolist(), scores, told, strict=True)
    )
