"""Terms to the affinity that Kubernetes reads: what is to be added to a pod, in plain JSON values."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from rules.advice import Expression, NodeNeed, NodeWish, PodTerm, Term

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Additions:
    """*alternatives* is an OR of lists of expressions, for the required node terms; the others are lists of terms."""

    alternatives: tuple[tuple[Json, ...], ...] = ()
    node_preferred: tuple[Json, ...] = ()
    pod_required: tuple[Json, ...] = ()
    pod_preferred: tuple[Json, ...] = ()
    anti_required: tuple[Json, ...] = ()
    anti_preferred: tuple[Json, ...] = ()
    labels: dict[str, str | None] = field(default_factory=dict)


def additions(terms: Iterable[Term], labels: dict[str, str | None]) -> Additions:
    """Sort *terms* into the lists of an affinity, each once; *labels* are the pod's own to set, None to remove."""
    needs: list[NodeNeed] = []
    lists: dict[str, list[Json]] = {}
    for term in dict.fromkeys(terms):
        match term:
            case NodeNeed():
                needs.append(term)
            case NodeWish():
                preference = {"matchExpressions": [_expression(each) for each in term.expressions]}
                lists.setdefault("node_preferred", []).append({"weight": term.weight, "preference": preference})
            case PodTerm():
                name = ("anti" if term.apart else "pod") + ("_required" if term.weight is None else "_preferred")
                lists.setdefault(name, []).append(_pod_term(term))
    return Additions(
        alternatives=_alternatives(needs),
        labels=labels,
        **{name: tuple(found) for name, found in lists.items()},
    )


def _alternatives(needs: Iterable[NodeNeed]) -> tuple[tuple[Json, ...], ...]:
    """Multiply out: every need has to hold, each by one of its alternatives."""
    combined = [
        tuple(dict.fromkeys(expression for alternative in chosen for expression in alternative))
        for chosen in product(*(need.alternatives for need in needs))
    ]
    return tuple(tuple(_expression(each) for each in chosen) for chosen in dict.fromkeys(combined) if chosen)


def _expression(expression: Expression) -> Json:
    rendered: Json = {"key": expression.key, "operator": expression.operator}
    if expression.values:
        rendered["values"] = list(expression.values)
    return rendered


def _pod_term(term: PodTerm) -> Json:
    rendered: Json = {"labelSelector": {"matchExpressions": [_expression(each) for each in term.expressions]}}
    if term.across:
        rendered["namespaceSelector"] = {}
    rendered["topologyKey"] = term.topology_key
    return rendered if term.weight is None else {"weight": term.weight, "podAffinityTerm": rendered}
