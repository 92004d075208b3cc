"""Node autoscalers, by what they leave in a cluster: a preferred rule that no node meets can make them add nodes.

Karpenter puts labels of its domain on the nodes that it makes and at first takes preferred terms for required ones
(https://karpenter.sh/docs/concepts/scheduling/). The cluster-autoscaler taints nodes that it is about to remove. Both
run as pods with their names in the usual labels.
"""

from collections.abc import Iterable, Mapping
from typing import Final

#: What gives each away: prefixes of node label keys, keys of taints, and the names that its pods go by.
_SIGNS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...], str]]] = {
    "Karpenter": (
        ("karpenter.sh/", "karpenter.k8s.", "karpenter.azure.com/"),
        ("karpenter.sh/disrupted",),
        "karpenter",
    ),
    "cluster-autoscaler": (
        ("cluster-autoscaler.kubernetes.io/",),
        ("ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"),
        "cluster-autoscaler",
    ),
}
#: Pod labels that name the program.
_NAMES: Final = ("app.kubernetes.io/name", "k8s-app", "app")

WARNING: Final = (
    "where no node meets a preferred rule it may add one: start in mode observe, and switch on by namespace"
)


def recognised(
    node_labels: Iterable[str], taints: Iterable[str], pod_labels: Iterable[Mapping[str, str]]
) -> tuple[str, ...]:
    """Return the autoscalers that the keys of node labels and of taints, and the labels of pods, speak of."""
    keys, tainted = tuple(node_labels), frozenset(taints)
    programs = {labels[name] for labels in pod_labels for name in _NAMES if name in labels}
    return tuple(
        name
        for name, (prefixes, own_taints, program) in _SIGNS.items()
        if any(key.startswith(prefixes) for key in keys)
        or not tainted.isdisjoint(own_taints)
        or any(program in each for each in programs)
    )
