"""Terms to the affinity that Kubernetes reads: what is to be added to a pod, in plain JSON values."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product

from rules.advice import Json, NodeNeed, Rendered, Term


@dataclass(frozen=True, slots=True)
class Additions:
    """*alternatives* is an OR of lists of expressions, for the required node terms; the others are lists of terms."""

    alternatives: tuple[tuple[Json, ...], ...] = ()
    node_preferred: tuple[Rendered, ...] = ()
    pod_required: tuple[Rendered, ...] = ()
    pod_preferred: tuple[Rendered, ...] = ()
    anti_required: tuple[Rendered, ...] = ()
    anti_preferred: tuple[Rendered, ...] = ()
    labels: dict[str, str | None] = field(default_factory=dict)


def additions(terms: Iterable[Term], labels: dict[str, str | None]) -> Additions:
    """Sort *terms* into the lists of an affinity, each once; *labels* are the pod's own to set, None to remove."""
    needs: list[NodeNeed] = []
    lists: dict[str, list[Rendered]] = {}
    prints: set[str] = set()
    for term in terms:
        if isinstance(term, NodeNeed):
            needs.append(term)
            continue
        rendered = term if isinstance(term, Rendered) else term.rendered
        found = lists.setdefault(rendered.place, [])
        if rendered.fingerprint not in prints or rendered not in found:
            prints.add(rendered.fingerprint)
            found.append(rendered)
    return Additions(
        alternatives=_alternatives(dict.fromkeys(needs)),
        labels=labels,
        **{name: tuple(found) for name, found in lists.items()},
    )


def _alternatives(needs: Iterable[NodeNeed]) -> tuple[tuple[Json, ...], ...]:
    """Multiply out: every need has to hold, each by one of its alternatives."""
    combined = [
        tuple(dict.fromkeys(expression for alternative in chosen for expression in alternative))
        for chosen in product(*(need.alternatives for need in needs))
    ]
    return tuple(tuple(each.json for each in chosen) for chosen in dict.fromkeys(combined) if chosen)
