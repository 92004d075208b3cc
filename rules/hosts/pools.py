"""Pools: which nodes may be in each, and which are best; those that are in it already stay."""

from collections.abc import Iterable, Mapping, Sequence

from rules.hosts import keys
from rules.hosts.cluster import Cluster, NodeSet, bits
from rules.hosts.model import Job, Pe, Pool
from rules.hosts.units import Unit, pools_of

#: The nodes that each pool had before, in order; None where a place had none that is known.
Kept = Mapping[str, Sequence[str | None]]


def candidates(cluster: Cluster, pool: Pool, users: Iterable[Pe]) -> NodeSet:
    """Return the nodes that may be in *pool*, of which *users* are the PEs that name it.

    Nodes are chosen among those that are Ready, not cordoned, without a taint that no user of the pool tolerates, and
    in no other job's exclusive pool; those of an exclusive pool run no PE of another job, nor are in a pool of one.
    """
    if pool.literal:
        found = [cluster.number(host) for host in pool.hosts]
        return sum({1 << number for number in found if number is not None})
    nodes = cluster.tagged(pool.tags) if pool.tags else cluster.every
    if not pool.chosen:
        return nodes
    state = cluster.open_to(())
    for template in {id(pe.template): pe.template for pe in users}.values():
        if tolerations := (template.get("spec") or {}).get("tolerations"):
            state |= cluster.open_to(tuple(tolerations))
    nodes &= state & ~cluster.exclusive_of_others
    return cluster.without_foreign(nodes) if pool.exclusive else nodes


def kept(job: Job, cluster: Cluster) -> Kept:
    """Return what the labels of nodes say of the pools: who is a member, and at which index."""
    found: dict[str, Sequence[str | None]] = {}
    for pool in pools_of(job):
        places: list[str | None] = [None] * (pool.size or 0)
        labelled = {key: at for at in range(len(places)) for key in [keys.member(job.name, pool.name, at)]}
        whole = keys.member(job.name, pool.name)
        members = [node for node in cluster.records if node.labels.get(whole) == job.name]
        rest = []
        for node in members:
            at = next((labelled[key] for key in node.labels if key in labelled), None)
            if at is not None and places[at] is None:
                places[at] = node.name
            else:
                rest.append(node.name)
        free = (at for at, name in enumerate(places) if name is None)
        for at, name in zip(free, rest, strict=False):
            places[at] = name
        found[pool.name] = places
    return found


def preferred(
    job: Job, cluster: Cluster, nodes: Mapping[str, NodeSet], before: Kept, units: Sequence[Unit]
) -> dict[str, list[int]]:
    """Return the nodes that each pool had best, in order: those it had *before*, then the first that nobody names.

    *nodes* are the candidates of each. Pools with the fewest to spare choose first, the exclusive ones among
    themselves before the others; a pool can come out short where exclusive ones took its candidates.
    """
    named = _named(units)
    held = {name: _held(cluster, nodes[name], before.get(name, ())) for name in nodes}
    chosen: dict[str, list[int]] = {}
    taken = 0  # by exclusive pools

    def turn(pool: Pool) -> tuple[bool, int, str]:
        return not pool.exclusive, nodes[pool.name].bit_count() - (pool.size or 0), pool.name

    for pool in sorted(pools_of(job), key=turn):
        places = _places(pool, held[pool.name], nodes[pool.name] & ~taken)
        others = sum({1 << node for name in held if name != pool.name for node in held[name] if node is not None})
        mine = sum(1 << node for node in places if node is not None)
        free = nodes[pool.name] & ~taken & ~mine
        wishes = (free & ~others & ~named, free & ~others & named, free & others) if pool.exclusive else (free,)
        order = iter([node for part in wishes for node in bits(part)])
        filled = [node if node is not None else next(order, None) for node in places]
        chosen[pool.name] = [node for node in filled if node is not None]
        if pool.exclusive:
            taken |= sum({1 << node for node in chosen[pool.name]})
    return chosen


def settled(job: Job, chosen: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """Put nodes in order in those places of *chosen* whose index nobody uses: the labels of nodes do not tell it."""
    used = {(host.pool, host.index) for pe in job.pes for host in pe.hosts}
    found = {}
    for name, nodes in chosen.items():
        rest = iter(sorted(node for index, node in enumerate(nodes) if (name, index) not in used))
        found[name] = tuple(node if (name, index) in used else next(rest) for index, node in enumerate(nodes))
    return found


def _named(units: Sequence[Unit]) -> NodeSet:
    """Return the nodes that some unit names outside of pools: an exclusive pool had better not have them."""
    nodes = 0
    for unit in units:
        if not unit.pools and any(spot.pinned for spot in unit.spots):
            nodes |= unit.nodes
    return nodes


def _held(cluster: Cluster, nodes: NodeSet, before: Sequence[str | None]) -> list[int | None]:
    """Return the numbers of *before* that may still be in the pool, each once."""
    found: list[int | None] = []
    for name in before:
        number = cluster.index.get(name) if name is not None else None
        fits = number is not None and nodes >> number & 1 and number not in found
        found.append(number if fits else None)
    return found


def _places(pool: Pool, held: Sequence[int | None], nodes: NodeSet) -> list[int | None]:
    size = pool.size or 0
    kept = [node if node is not None and nodes >> node & 1 else None for node in held]
    return [*kept[:size], *[None] * (size - len(kept))]
