"""What each pod of a job gets: labels, affinity terms, tolerations, a node; and the manifests that hold it.

Pods that name their node pass by the scheduler, which then checks neither their terms nor taints. So that constraints
hold in whatever order pods start, the others are told of such nodes: those of the same group go there, those that
must be apart stay away.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pipeline.records import Taint
from rules.advice import Expression, Json, NodeNeed, PodTerm
from rules.affinity.emission import additions
from rules.affinity.merge import merge
from rules.affinity.usable import untolerated
from rules.hosts import keys
from rules.hosts.cluster import Cluster, bits, tag_expressions
from rules.hosts.marks import as_group
from rules.hosts.model import Job, Pe, PeId
from rules.hosts.podrules import PodRules
from rules.hosts.units import Spot, Unit

_NAME: Final = "metadata.name"
_WISH: Final = 100


def manifest(job: Job, pe: Pe, rules: PodRules) -> Json:
    """Return the pod of *pe*: its template with *rules* merged into it."""
    metadata, spec = dict(pe.template.get("metadata") or {}), dict(pe.template.get("spec") or {})
    metadata.setdefault("name", keys.pod_name(job.name, pe.id))
    metadata["namespace"] = job.namespace
    metadata["labels"] = {"app": "streams", **(metadata.get("labels") or {})}
    spec.setdefault("containers", [])
    pod = {"apiVersion": "v1", "kind": "Pod", **pe.template, "metadata": metadata, "spec": spec}
    return merge(pod, additions(rules.advised(), {}), prefix=None)


def emitted(
    job: Job, cluster: Cluster, units: Sequence[Unit], labels: Mapping[PeId, Mapping[str, str]]
) -> dict[PeId, PodRules]:
    """Return what each pod gets beside its *labels*, in the order of the job's PEs."""
    pins = _pins(cluster, units)
    found = {}
    for unit in units:
        away = _away(unit, pins)
        for number, pe in enumerate(unit.pes):
            found[pe.id] = _rules(job, cluster, unit, number, labels[pe.id], away)
    return {pe.id: found[pe.id] for pe in job.pes}


def _rules(
    job: Job, cluster: Cluster, unit: Unit, number: int, labels: Mapping[str, str], away: Sequence[str]
) -> PodRules:
    pe, mine = unit.pes[number], unit.spots_of[number]
    node = next((cluster.names[_only(spot)] for spot in mine if spot.pinned), "")
    exclusive = any(job.pools[name].exclusive for name in unit.pools)
    return PodRules(
        labels=labels,
        node=node,
        tolerations=(_toleration(job.name),) if exclusive else (),
        needs=tuple(_needs(job, cluster, pe, mine if node else unit.spots, () if node else away, exclusive)),
        terms=tuple(_terms(job, unit, pe)),
        freedom=(int(not node), int(not unit.isolated), unit.nodes.bit_count(), -len(unit.exlocations)),
    )


def _terms(job: Job, unit: Unit, pe: Pe) -> Iterator[PodTerm]:
    together = (
        [(keys.group(unit.tokens), unit.tokens[0])]
        if as_group(job, unit)
        else [(keys.colocation(token), token) for token in pe.colocations]
    )
    apart = [(keys.exlocation(token), token) for token in pe.exlocations]
    apart += [(keys.isolation(name), keys.sanitised(name)) for name in pe.isolated]
    inside = () if job.by_token else (Expression(keys.JOB, "In", (job.name,)),)
    for key, value in together:
        selected = (Expression(key, "In", (value,)), *inside)
        yield PodTerm(False, selected, keys.HOSTNAME, _WISH if job.preferred else None)
    for key, value in apart:
        yield PodTerm(True, (Expression(key, "In", (value,)), *inside), keys.HOSTNAME, None)


def _needs(
    job: Job, cluster: Cluster, pe: Pe, spots: Sequence[Spot], away: Sequence[str], exclusive: bool
) -> Iterator[NodeNeed]:
    bound = False
    for spot in spots:
        if (need := _need(job, cluster, spot, pinned=any(spot.host == each for each in pe.hosts))) is not None:
            bound = bound or (len(need.alternatives) == 1 and need.alternatives[0][0].field)
            yield need
    if away and not bound:
        yield NodeNeed((tuple(Expression(_NAME, "NotIn", (name,), field=True) for name in away),))
    if not exclusive and not untolerated((Taint(keys.EXCLUSIVE, "NoSchedule", job.name),), _tolerations(pe)):
        closed = [pool.name for pool in job.pools.values() if pool.chosen and pool.exclusive]
        if closed:
            yield NodeNeed((tuple(Expression(keys.member(job.name, name), "DoesNotExist") for name in closed),))


def _need(job: Job, cluster: Cluster, spot: Spot, pinned: bool) -> NodeNeed | None:
    """Return what puts a pod in *spot*; None where its own ``nodeName`` does, or nothing has to."""
    if spot.pinned and pinned:
        return None
    if spot.pool:
        return NodeNeed(((Expression(keys.member(job.name, spot.pool, spot.index), "In", (job.name,)),),))
    pool = job.pools.get(spot.host.pool)
    if pool is not None and not pool.literal:
        return NodeNeed((tag_expressions(pool.tags),)) if pool.tags else None
    if pool is None and not spot.pinned:
        return None  # the default pool
    numbers = [_only(spot)] if pool is None or spot.host.index is not None else map(cluster.number, pool.hosts)
    names = [cluster.names[number] for number in numbers if number is not None]
    return NodeNeed(tuple((Expression(_NAME, "In", (name,), field=True),) for name in names))


def _only(spot: Spot) -> int:
    return next(bits(spot.nodes))


def _pins(cluster: Cluster, units: Sequence[Unit]) -> list[tuple[str, Unit]]:
    """Return the nodes that pods name themselves, with whose they are."""
    return [(cluster.names[_only(spot)], unit) for unit in units for spot in unit.spots if spot.pinned]


def _away(unit: Unit, pins: Sequence[tuple[str, Unit]]) -> list[str]:
    """Return the nodes of *pins* that *unit* must stay off."""
    tokens = set(unit.exlocations)
    return list(
        dict.fromkeys(
            name
            for name, other in pins
            if other.number != unit.number
            and (unit.isolated or other.isolated or not tokens.isdisjoint(other.exlocations))
        )
    )


def _toleration(job: str) -> Json:
    return {"key": keys.EXCLUSIVE, "operator": "Equal", "value": job, "effect": "NoSchedule"}


def _tolerations(pe: Pe) -> tuple[Mapping[str, Any], ...]:
    return tuple((pe.template.get("spec") or {}).get("tolerations") or ())
