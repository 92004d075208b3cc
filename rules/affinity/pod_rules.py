"""Where the scheduler would let the pod go by rules about other pods: its own, and those of pods that run.

As kube-scheduler reads them: of required affinity a running pod counts only if it meets all of the terms at once; a
pod that meets its own terms may be the first of its kind; required anti-affinity holds in both directions; topology
spread compares a domain with the emptiest one. Nothing is written into the pod, the scheduler knows.
"""

from collections.abc import Callable, Iterator

import numpy as np

from pipeline.records import Labels, PodSelection, Spread
from rules.advice import Advice, Reason, silent
from rules.affinity.hardware import hardware
from rules.affinity.own import own
from rules.affinity.usable import tolerated
from rules.candidates import Candidates, Mask
from rules.policy import Policy
from rules.request import Request
from rules.standing import selects
from rules.view import View

NAME = "pod_rules"


def pod_rules(request: Request, view: View, policy: Policy) -> Advice:
    """Allow the nodes on which no required rule about other pods is broken."""
    if not (request.beside or request.apart or request.spread or view.standing.kinds.shunned):
        return silent(NAME)
    labels = own_labels(request, policy)
    mask = np.ones(len(view.nodes), dtype=np.bool_)
    reasons = []
    checks: tuple[tuple[str, Callable[[], Mask]], ...] = (
        ("the pod's own affinity to other pods", lambda: _beside(request, labels, view)),
        ("the pod's own anti-affinity", lambda: _apart(request, view)),
        ("anti-affinity of pods that run", lambda: _averse(request, labels, view)),
        ("the pod's own topology spread", lambda: _spread(request, labels, view, policy)),
    )
    for name, check in checks:
        allowed = check()
        if not allowed.all():
            said = f"{name} admits {np.count_nonzero(allowed)} of {len(view.nodes)} nodes"
            reasons.append(Reason(NAME, said))
            mask &= allowed
    return Advice(NAME, Candidates.of(mask), reasons=lambda: reasons) if reasons else silent(NAME)


def own_labels(request: Request, policy: Policy) -> Labels:
    """Return the labels that the pod will have when it is scheduled."""
    ours = {policy.own("function"), policy.own("workflow")}
    kept = {key: value for key, value in request.labels.items() if key not in ours}
    return {**kept, **{key: value for key, value in request.own_labels(policy).items() if value is not None}}


def _beside(request: Request, labels: Labels, view: View) -> Mask:
    allowed = np.ones(len(view.nodes), dtype=np.bool_)
    if not request.beside:
        return allowed
    kinds = np.logical_and.reduce([view.standing.kinds.selected(term) for term in request.beside])
    there = view.standing.on_nodes(kinds, len(view.nodes))
    scopes = view.standing.kinds.scopes
    first = not there.any() and all(selects(term, request.namespace, labels, scopes) for term in request.beside)
    for term in request.beside:
        key = term.topology_key
        allowed &= view.nodes.domains(key) >= 0 if first else view.nodes.within(key, there > 0)
    return allowed


def _apart(request: Request, view: View) -> Mask:
    allowed = np.ones(len(view.nodes), dtype=np.bool_)
    for term in request.apart:
        there = view.standing.on_nodes(view.standing.kinds.selected(term), len(view.nodes))
        allowed &= ~view.nodes.within(term.topology_key, there > 0)
    return allowed


def _averse(request: Request, labels: Labels, view: View) -> Mask:
    allowed = np.ones(len(view.nodes), dtype=np.bool_)
    kinds = view.standing.kinds
    seen = tuple(sorted((key, labels[key]) for key in kinds.shunned if key in labels))
    by_domain = kinds.memo.once(
        ("against", request.namespace, seen), lambda: _against(request.namespace, labels, view)
    )
    for topology_key, averse in by_domain.items():
        there = view.standing.on_nodes(averse, len(view.nodes))
        allowed &= ~view.nodes.within(topology_key, there > 0)
    return allowed


def _against(namespace: str, labels: Labels, view: View) -> dict[str, Mask]:
    """Return by topology key the kinds that will not have a pod of *namespace* with *labels* in their domain."""
    kinds = view.standing.kinds
    verdicts: dict[PodSelection, bool] = {}
    found: dict[str, Mask] = {}
    for number in kinds.averse():
        for term in kinds.apart[number]:
            verdict = verdicts.get(term)
            if verdict is None:
                verdict = verdicts[term] = selects(term, namespace, labels, kinds.scopes)
            if verdict:
                mask = found.setdefault(term.topology_key, np.zeros(len(kinds), dtype=np.bool_))
                mask[number] = True
    return found


def _spread(request: Request, labels: Labels, view: View, policy: Policy) -> Mask:
    allowed = np.ones(len(view.nodes), dtype=np.bool_)
    if not request.spread:
        return allowed
    keyed = np.logical_and.reduce([view.nodes.domains(each.topology_key) >= 0 for each in request.spread])
    for each in request.spread:
        eligible = keyed & np.logical_and.reduce([*_eligible(each, request, view, policy), keyed])
        kinds = view.standing.kinds.matching(each.requirements, request.namespace)
        there = np.where(eligible, view.standing.on_nodes(kinds, len(view.nodes)), 0)
        domains = view.nodes.domains(each.topology_key)
        size = int(domains.max(initial=-1)) + 1
        pods = np.bincount(domains[eligible], there[eligible], size)
        open_ = np.bincount(domains[eligible], minlength=size) > 0
        fewest = pods[open_].min(initial=np.inf) if np.count_nonzero(open_) >= each.min_domains else 0.0
        itself = selects(PodSelection(each.requirements, "", (request.namespace,)), request.namespace, labels)
        fits = pods + itself - (fewest if np.isfinite(fewest) else 0.0) <= each.max_skew
        allowed &= (domains >= 0) & fits[domains] if size else np.zeros(len(view.nodes), dtype=np.bool_)
    return allowed


def _eligible(spread: Spread, request: Request, view: View, policy: Policy) -> Iterator[Mask]:
    """Yield what keeps nodes from counting as places for the pod; what it needs of hardware is node affinity too."""
    if spread.honors_affinity:
        for rule in (own, hardware):
            candidates = rule(request, view, policy).candidates
            if candidates is not None:
                yield candidates.mask()
    if spread.honors_taints:
        yield tolerated(view.nodes, request.tolerations)
