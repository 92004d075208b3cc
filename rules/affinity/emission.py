"""Terms to the affinity that Kubernetes reads: what is to be added to a pod, in plain JSON values."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product

from rules.advice import Json, NodeNeed, PodFields, Rendered, Settled, node_term


@dataclass(frozen=True, slots=True)
class Additions:
    """*alternatives* is an OR of required node terms; of the others most are lists of terms. *node* "" sets none."""

    alternatives: tuple[Json, ...] = ()
    node_preferred: tuple[Rendered, ...] = ()
    pod_required: tuple[Rendered, ...] = ()
    pod_preferred: tuple[Rendered, ...] = ()
    anti_required: tuple[Rendered, ...] = ()
    anti_preferred: tuple[Rendered, ...] = ()
    labels: dict[str, str | None] = field(default_factory=dict)
    tolerations: tuple[Json, ...] = ()
    node: str = ""


def additions(terms: Iterable[Settled], labels: dict[str, str | None]) -> Additions:
    """Sort *terms* into the lists of an affinity, each once; *labels* are the pod's own to set, None to remove."""
    needs: list[NodeNeed] = []
    fields: list[PodFields] = []
    lists: dict[str, list[Rendered]] = {}
    prints: set[str] = set()
    for term in terms:
        if isinstance(term, NodeNeed):
            needs.append(term)
            continue
        if isinstance(term, PodFields):
            fields.append(term)
            continue
        rendered = term if isinstance(term, Rendered) else term.rendered
        found = lists.setdefault(rendered.place, [])
        if rendered.fingerprint not in prints or rendered not in found:
            prints.add(rendered.fingerprint)
            found.append(rendered)
    return Additions(
        alternatives=_alternatives(dict.fromkeys(needs)),
        labels={**labels, **{key: value for each in fields for key, value in each.labels.items()}},
        tolerations=tuple(toleration for each in fields for toleration in each.tolerations),
        node=next((each.node for each in fields if each.node), ""),
        **{name: tuple(found) for name, found in lists.items()},
    )


def _alternatives(needs: Iterable[NodeNeed]) -> tuple[Json, ...]:
    """Multiply out: every need has to hold, each by one of its alternatives."""
    combined = [
        tuple(dict.fromkeys(expression for alternative in chosen for expression in alternative))
        for chosen in product(*(need.alternatives for need in needs))
    ]
    return tuple(node_term(chosen) for chosen in dict.fromkeys(combined) if chosen)
