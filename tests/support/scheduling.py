"""What the Kubernetes scheduler makes of a pod, in plain Python, node by node: an oracle that shares no code."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.records import Node, Pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether one requirement on labels is met, by the documentation of each operator."""
    key, values = expression["key"], expression.get("values") or []
    match expression["operator"]:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt":
            return labels.get(key, "").lstrip("-").isdigit() and int(labels[key]) > int(values[0])
        case "Lt":
            return labels.get(key, "").lstrip("-").isdigit() and int(labels[key]) < int(values[0])
    raise AssertionError(f"operator {expression['operator']}")


def term_admits(term: Mapping[str, Any], node: Node) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    named = {"metadata.name": node.name}
    return all(holds(each, node.labels) for each in expressions) and all(holds(each, named) for each in fields)


def admits(affinity: Mapping[str, Any], node: Node) -> bool:
    """Whether the required node affinity lets the pod onto *node*."""
    required = (affinity.get("nodeAffinity") or {}).get(REQUIRED)
    return required is None or any(term_admits(term, node) for term in required["nodeSelectorTerms"])


def node_weight(affinity: Mapping[str, Any], node: Node) -> int:
    """The sum of weights of the preferred node terms that *node* meets."""
    terms = (affinity.get("nodeAffinity") or {}).get(PREFERRED) or []
    return sum(term["weight"] for term in terms if term_admits(term["preference"], node))


def selects(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    selector = term["labelSelector"]
    plain = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return plain and all(holds(each, labels) for each in selector.get("matchExpressions") or [])


def beside(term: Mapping[str, Any], node: Node, nodes: Sequence[Node], pods: Iterable[Pod], namespace: str) -> int:
    """How many pods that *term* speaks of run in *node*'s topology domain."""
    key = term["topologyKey"]
    if key not in node.labels:
        return 0
    domain = {each.name for each in nodes if each.labels.get(key) == node.labels[key]}
    return sum(
        each.node in domain
        and selects(term, each.labels)
        and ("namespaceSelector" in term or each.namespace == namespace)
        for each in pods
    )


def may_run(pod: Mapping[str, Any], node: Node, nodes: Sequence[Node], pods: Sequence[Pod]) -> bool:
    """Whether the pod's required affinities let it onto *node* (its room and state left aside)."""
    affinity, metadata = pod["spec"].get("affinity") or {}, pod["metadata"]
    labels, namespace = metadata.get("labels") or {}, metadata.get("namespace", "")
    if not admits(affinity, node):
        return False
    for term in (affinity.get("podAntiAffinity") or {}).get(REQUIRED) or []:
        if beside(term, node, nodes, pods, namespace):
            return False
    terms = (affinity.get("podAffinity") or {}).get(REQUIRED) or []
    if all(beside(term, node, nodes, pods, namespace) for term in terms):
        return True
    # The first pod of a group: nothing matches anywhere, and it matches its own terms.
    anywhere = any(selects(term, each.labels) for term in terms for each in pods)
    return not anywhere and all(selects(term, labels) and term["topologyKey"] in node.labels for term in terms)


def speaks_of(term: Mapping[str, Any], labels: Mapping[str, str], there: str, namespace: str) -> bool:
    """Whether *term* of a pod in *namespace* speaks of a pod with *labels* that is *there*."""
    selector = term.get("namespaceSelector")
    named = term.get("namespaces") or []
    inside = there in named or (there == namespace if not named and selector is None else False)
    if selector is not None:
        name = {"kubernetes.io/metadata.name": there}
        inside = inside or selects({"labelSelector": selector}, name)
    return inside and term.get("labelSelector") is not None and selects(term, labels)


def same_domain(one: Node, other: Node, key: str) -> bool:
    return key in one.labels and one.labels[key] == other.labels.get(key)


def lets_in(
    pod: Mapping[str, Any], node: Node, nodes: Sequence[Node], running: Sequence[tuple[Mapping[str, Any], Node]]
) -> bool:
    """Whether rules about other pods let *pod* onto *node*: its own and those of *running*, by the documentation."""
    labels, namespace = pod["metadata"].get("labels") or {}, pod["metadata"]["namespace"]

    def required(of: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = ((of["spec"].get("affinity") or {}).get(kind) or {}).get(REQUIRED) or []
        return found

    def met(term: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        return speaks_of(term, other["metadata"].get("labels") or {}, other["metadata"]["namespace"], namespace)

    for term in required(pod, "podAntiAffinity"):
        if any(met(term, other) and same_domain(node, where, term["topologyKey"]) for other, where in running):
            return False
    for other, where in running:
        for term in required(other, "podAntiAffinity"):
            told = speaks_of(term, labels, namespace, other["metadata"]["namespace"])
            if told and same_domain(node, where, term["topologyKey"]):
                return False
    wanted = required(pod, "podAffinity")
    meeting = [where for other, where in running if all(met(term, other) for term in wanted)]
    if wanted and not meeting and all(met(term, pod) for term in wanted):
        if not all(term["topologyKey"] in node.labels for term in wanted):
            return False
    elif any(not any(same_domain(node, where, term["topologyKey"]) for where in meeting) for term in wanted):
        return False
    return all(evenly(each, pod, node, nodes, running) for each in pod["spec"].get("topologySpreadConstraints") or [])


def evenly(
    constraint: Mapping[str, Any],
    pod: Mapping[str, Any],
    node: Node,
    nodes: Sequence[Node],
    running: Sequence[tuple[Mapping[str, Any], Node]],
) -> bool:
    """Whether one more *pod* on *node* keeps within the allowed skew."""
    if constraint["whenUnsatisfiable"] != "DoNotSchedule":
        return True
    keys = [
        each["topologyKey"]
        for each in pod["spec"]["topologySpreadConstraints"]
        if each["whenUnsatisfiable"] == "DoNotSchedule"
    ]
    key, namespace = constraint["topologyKey"], pod["metadata"]["namespace"]
    if key not in node.labels:
        return False
    affinity = pod["spec"].get("affinity") or {}
    open_ = [each for each in nodes if all(every in each.labels for every in keys) and admits(affinity, each)]
    counts = {each.labels[key]: 0 for each in open_}
    for other, where in running:
        counted = where in open_ and other["metadata"]["namespace"] == namespace
        if counted and selects(constraint, other["metadata"].get("labels") or {}):
            counts[where.labels[key]] += 1
    fewest = min(counts.values(), default=0) if len(counts) >= constraint.get("minDomains", 1) else 0
    itself = selects(constraint, pod["metadata"].get("labels") or {})
    return counts.get(node.labels[key], 0) + itself - fewest <= constraint["maxSkew"]


def preference(pod: Mapping[str, Any], node: Node, nodes: Sequence[Node], pods: Sequence[Pod]) -> int:
    """Node weights and pod weights together, as the terms state them."""
    affinity = pod["spec"].get("affinity") or {}
    namespace = pod["metadata"].get("namespace", "")
    total = node_weight(affinity, node)
    for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
        for term in (affinity.get(kind) or {}).get(PREFERRED) or []:
            total += sign * term["weight"] * beside(term["podAffinityTerm"], node, nodes, pods, namespace)
    return total
