"""What has to be placed: units of PEs that share a node, where each may be, and which must be apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rules.hosts import keys
from rules.hosts.cluster import Cluster, NodeSet
from rules.hosts.groups import joined
from rules.hosts.job import DEFAULT_POOL
from rules.hosts.model import Host, Job, Pe, Pool


@dataclass(frozen=True, slots=True)
class Spot:
    """Where ``host()`` lets a PE be: *nodes*, of them only such as *pool* is given, or its *index*."""

    host: Host
    nodes: NodeSet
    pool: str = ""
    index: int | None = None

    @property
    def pinned(self) -> bool:
        """Whether the pod names its node and passes by the scheduler."""
        return not self.host.pool


@dataclass(slots=True)
class Unit:
    """PEs that have to share a node: a transitive colocation group, or one PE.

    *hosted* is what ``host()`` leaves of the nodes, *nodes* what of that its pods could use; of the pools for which
    nodes are chosen it has to be in all of *pools*, at each of *slots*.
    """

    number: int
    pes: tuple[Pe, ...]
    spots: tuple[Spot, ...]
    hosted: NodeSet
    nodes: NodeSet
    tokens: tuple[str, ...] = ()
    exlocations: tuple[str, ...] = ()
    isolated: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    slots: tuple[tuple[str, int], ...] = ()
    spots_of: Mapping[int, tuple[Spot, ...]] = field(default_factory=dict)

    @property
    def grouped(self) -> bool:
        """Whether it needs the one term of the group: with several tokens the scheduler does not keep it together.

        Of a pod's terms only pods count that match all; a pod with a node passes by the scheduler.
        """
        return any(
            len(pe.colocations) > 1 and not any(spot.pinned for spot in self.spots_of[number])
            for number, pe in enumerate(self.pes)
        )


def spot(job: Job, cluster: Cluster, pools: Mapping[str, NodeSet], host: Host) -> Spot | None:
    """Return where *host* is, None where there is no such place; *pools* gives the nodes that may be in each."""
    if not host.pool:
        number = cluster.number(host.name)
        return None if number is None else Spot(host, 1 << number)
    if host.pool == DEFAULT_POOL:
        return Spot(host, cluster.every) if host.index is None else None
    pool = job.pools[host.pool]
    if host.index is None:
        return Spot(host, pools[pool.name], pool.name if pool.chosen else "")
    if not 0 <= host.index < (len(pool.hosts) or pool.size or 0):
        return None
    if pool.literal:
        number = cluster.number(pool.hosts[host.index])
        return None if number is None else Spot(host, 1 << number)
    return Spot(host, pools[pool.name], pool.name, host.index)


def units(job: Job, cluster: Cluster, spots: Sequence[tuple[Spot, ...]]) -> list[Unit]:
    """Return the units of *job*; *spots* are those of each PE. A colocation that is a preference joins nothing."""
    groups = (
        [[number] for number in range(len(job.pes))] if job.preferred else joined(pe.colocations for pe in job.pes)
    )
    return [_unit(cluster, number, group, job, spots) for number, group in enumerate(groups)]


def _unit(cluster: Cluster, number: int, group: Sequence[int], job: Job, spots: Sequence[tuple[Spot, ...]]) -> Unit:
    pes = tuple(job.pes[each] for each in group)
    mine = tuple(dict.fromkeys(spot for each in group for spot in spots[each]))
    hosted = nodes = cluster.every
    for each in mine:
        hosted &= each.nodes
    for pe in pes:
        nodes &= cluster.usable(pe.template)
    return Unit(
        number=number,
        pes=pes,
        spots=mine,
        hosted=hosted,
        nodes=nodes & hosted,
        tokens=tuple(sorted({token for pe in pes for token in pe.colocations})),
        exlocations=tuple(dict.fromkeys(token for pe in pes for token in pe.exlocations)),
        isolated=tuple(dict.fromkeys(name for pe in pes for name in pe.isolated)),
        pools=tuple(dict.fromkeys(each.pool for each in mine if each.pool)),
        slots=tuple(dict.fromkeys((each.pool, each.index) for each in mine if each.pool and each.index is not None)),
        spots_of={at: spots[each] for at, each in enumerate(group)},
    )


def users_of(job: Job) -> Mapping[str, Sequence[Pe]]:
    """Return the PEs that name each pool; those that none names are missing."""
    found: dict[str, list[Pe]] = {}
    for pe in job.pes:
        for name in dict.fromkeys(host.pool for host in pe.hosts if host.pool):
            found.setdefault(name, []).append(pe)
    return found


def pools_of(job: Job) -> list[Pool]:
    """Return the pools for which nodes are chosen, the exclusive ones first."""
    return sorted((pool for pool in job.pools.values() if pool.chosen), key=lambda pool: not pool.exclusive)


def beside_others(job: Job, cluster: Cluster, unit: Unit) -> NodeSet:
    """Return the nodes that pods of other jobs leave to *unit*, whose tokens reach beyond its job."""
    nodes = cluster.every
    for token in unit.exlocations:
        nodes &= ~cluster.carrying(job.namespace, keys.exlocation(token), token)
    for name in unit.isolated:
        nodes &= ~cluster.carrying(job.namespace, keys.isolation(name), keys.sanitised(name))
    if not job.preferred and not unit.grouped:
        for token in unit.tokens:
            nodes &= cluster.carrying(job.namespace, keys.colocation(token), token) or cluster.every
    return nodes
