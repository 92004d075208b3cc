"""Placements of small jobs by brute force, and what a scheduler can make of pods, started in any order.

Written from what the constraints mean and what Kubernetes documents, not from the code under test.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, product
from typing import Any

from rules.hosts.cluster import HostNode
from rules.hosts.model import Job, Pe, Pool

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
Chosen = Mapping[str, tuple[str, ...]]
Placement = tuple[str, ...]


def placements(job: Job, nodes: Sequence[HostNode], chosen: Chosen | None = None) -> Iterator[Placement]:
    """Yield the ways to give a node to every PE that meet *job*, with any choice of pools or the *chosen* one."""
    for choice in [chosen] if chosen is not None else _choices(job, nodes):
        for where in product(*(_allowed(job, nodes, choice, pe) for pe in job.pes)):
            if _meets(job, choice, where):
                yield where


def _choices(job: Job, nodes: Sequence[HostNode]) -> Iterator[Chosen]:
    for pool in job.pools.values():
        known = [host for host in pool.hosts if any(node.node.name == host for node in nodes)]
        if known != list(dict.fromkeys(pool.hosts)) or len(known) != len(pool.hosts):
            return
        if pool.exclusive and pool.size is None:
            return
    sized = [pool for pool in job.pools.values() if pool.size is not None]
    clean = [each.node for each in nodes if each.node.ready and not each.node.taints]
    options = [permutations([n.name for n in clean if _tagged(n.labels, pool)], pool.size) for pool in sized]
    for choice in product(*options):
        clash = any(
            (one.exclusive or other.exclusive) and set(mine) & set(theirs)
            for at, (one, mine) in enumerate(zip(sized, choice, strict=True))
            for other, theirs in list(zip(sized, choice, strict=True))[at + 1 :]
        )
        if not clash:
            yield {pool.name: mine for pool, mine in zip(sized, choice, strict=True)}


def _tagged(labels: Mapping[str, str], pool: Pool) -> bool:
    if len(pool.tags) == 1:
        return labels.get("streams.ibm.com/hostpool") == pool.tags[0]
    return all(f"streams.ibm.com/hostpool.{tag}" in labels for tag in pool.tags)


def _allowed(job: Job, nodes: Sequence[HostNode], chosen: Chosen, pe: Pe) -> list[str]:
    """The nodes that one PE could be on, whatever the others do."""
    found = {each.node.name for each in nodes if each.node.ready and not each.node.taints}
    for operator in pe.operators:
        exlocations = [token for each in pe.operators for token in each.placement.exlocations]
        if len(operator.placement.hosts) > 1 or len(exlocations) != len(set(exlocations)):
            return []
        for host in operator.placement.hosts:
            pool = job.pools.get(host.pool)
            ordered = () if pool is None else pool.hosts or chosen.get(pool.name, ())
            if pool is None:
                found &= {host.name}
            elif host.index is not None:
                found &= {ordered[host.index]} if host.index < len(ordered) else set()
            else:
                found &= set(ordered) or {each.node.name for each in nodes if _tagged(each.node.labels, pool)}
    return sorted(found)


def _meets(job: Job, chosen: Chosen, where: Placement) -> bool:
    """Whether PEs that are each where they could be go together."""
    group = _groups(job.pes)
    for at, (pe, name) in enumerate(zip(job.pes, where, strict=True)):
        for other, there in list(zip(job.pes, where, strict=True))[at + 1 :]:
            if name != there and set(pe.colocations) & set(other.colocations):
                return False
            if name == there and (pe.isolated or other.isolated or set(pe.exlocations) & set(other.exlocations)):
                return False
        for pool in job.pools.values():
            users = {group[of] for of, pe in enumerate(job.pes) if any(each.pool == pool.name for each in pe.hosts)}
            if pool.exclusive and name in chosen[pool.name] and group[at] not in users:
                return False
    return True


def _groups(pes: Sequence[Pe]) -> list[int]:
    """The number of each PE's transitive colocation group."""
    number = list(range(len(pes)))
    for _ in pes:
        for at, one in enumerate(pes):
            for to, other in enumerate(pes):
                if set(one.colocations) & set(other.colocations):
                    number[at] = number[to] = min(number[at], number[to])
    return number


def schedulable(pods: Sequence[Mapping[str, Any]], nodes: Sequence[HostNode]) -> set[Placement]:
    """Every placement in which a scheduler can end that binds *pods* one by one, in whatever order they start."""
    start: tuple[str, ...] = ("",) * len(pods)
    seen, open_ = {start}, [start]
    while open_:
        state = open_.pop()
        for number, pod in enumerate(pods):
            if state[number]:
                continue
            for node in nodes:
                after = (*state[:number], node.node.name, *state[number + 1 :])
                if after not in seen and _binds(pods, number, pod, node, state):
                    seen.add(after)
                    open_.append(after)
    return {state for state in seen if all(state)}


def _binds(pods: Sequence[Any], number: int, pod: Mapping[str, Any], node: HostNode, state: Placement) -> bool:
    spec = pod["spec"]
    if spec.get("nodeName"):
        return bool(spec["nodeName"] == node.node.name)  # the scheduler is not asked
    if not node.node.ready or not all(_tolerated(spec, taint) for taint in node.node.taints):
        return False
    affinity = spec.get("affinity", {})
    terms = affinity.get("nodeAffinity", {}).get(REQUIRED, {}).get("nodeSelectorTerms")
    if terms is not None and not any(_node_matches(term, node) for term in terms):
        return False
    others = [(pods[at], there) for at, there in enumerate(state) if there and at != number]
    here = [other for other, there in others if there == node.node.name]
    together = affinity.get("podAffinity", {}).get(REQUIRED, [])
    if together and not any(all(_selects(term, other) for term in together) for other in here):
        anywhere = any(all(_selects(term, other) for term in together) for other, _ in others)
        if anywhere or not all(_selects(term, pod) for term in together):
            return False
    if any(_selects(term, other) for term in _apart(pod) for other in here):
        return False
    return not any(_selects(term, pod) for other in here for term in _apart(other))


def _apart(pod: Mapping[str, Any]) -> list[Any]:
    found: list[Any] = pod["spec"].get("affinity", {}).get("podAntiAffinity", {}).get(REQUIRED, [])
    return found


def _tolerated(spec: Mapping[str, Any], taint: Any) -> bool:
    wanted = {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
    return wanted in spec.get("tolerations", [])


def _selects(term: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    return all(_holds(each, pod["metadata"]["labels"]) for each in term["labelSelector"]["matchExpressions"])


def _node_matches(term: Mapping[str, Any], node: HostNode) -> bool:
    named = {"metadata.name": node.node.name}
    return all(_holds(each, node.node.labels) for each in term.get("matchExpressions", [])) and all(
        _holds(each, named) for each in term.get("matchFields", [])
    )


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    return {
        "In": value in expression.get("values", []),
        "NotIn": value not in expression.get("values", []),
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[str(expression["operator"])]
