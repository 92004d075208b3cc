"""Which other pods a pod's required affinity, anti-affinity and topology spread speak of."""

from collections.abc import Iterable, Iterator

from pipeline.objects import wire
from pipeline.records import Labels, PodSelection, Requirement, Spread


def of_affinity(
    given: wire.Affinity | None, namespace: str, labels: Labels
) -> tuple[tuple[PodSelection, ...], tuple[PodSelection, ...]]:
    """Return the required affinity and anti-affinity terms of a pod with *labels* in *namespace*."""
    if given is None:
        return (), ()
    beside, apart = (_terms(each, namespace, labels) for each in (given.pod_affinity, given.pod_anti_affinity))
    return beside, apart


def spread(given: Iterable[wire.SpreadConstraint], labels: Labels) -> Iterator[Spread]:
    """Yield the constraints that the scheduler must keep, not those that it only scores by."""
    for each in given:
        if each.when_unsatisfiable in (None, "DoNotSchedule"):
            yield Spread(
                requirements=_requirements(each.label_selector, labels, each.match_label_keys),
                topology_key=each.topology_key or "",
                max_skew=each.max_skew or 1,
                min_domains=each.min_domains or 1,
                honors_affinity=each.node_affinity_policy != "Ignore",
                honors_taints=each.node_taints_policy == "Honor",
            )


def _terms(given: wire.PodTerms | None, namespace: str, labels: Labels) -> tuple[PodSelection, ...]:
    required = given.required_during_scheduling_ignored_during_execution if given is not None else None
    return tuple(_selection(term, namespace, labels) for term in required or ())


def _selection(term: wire.PodTerm, namespace: str, labels: Labels) -> PodSelection:
    """A term that names no namespaces in any way speaks of the pod's own."""
    named = tuple(term.namespaces or ())
    selector = term.namespace_selector
    return PodSelection(
        requirements=_requirements(term.label_selector, labels, term.match_label_keys, term.mismatch_label_keys),
        topology_key=term.topology_key or "",
        namespaces=named if named or selector is not None else (namespace,),
        namespace_requirements=_requirements(selector, {}),
    )


def _requirements(
    selector: wire.Selector | None,
    labels: Labels,
    same: Iterable[str] | None = None,
    other: Iterable[str] | None = None,
) -> tuple[Requirement, ...] | None:
    """Return what *selector* requires; of the keys *same* also the pod's own values, of *other* none of these."""
    if selector is None:
        return None
    return (
        *(Requirement(key, "In", (value,)) for key, value in sorted((selector.match_labels or {}).items())),
        *(
            Requirement(each.key, each.operator, tuple(each.values or ()))
            for each in selector.match_expressions or ()
        ),
        *(
            Requirement(key, operator, (labels[key],))
            for operator, keys in (("In", same), ("NotIn", other))
            for key in keys or ()
            if key in labels
        ),
    )
