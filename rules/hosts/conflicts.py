"""Every conflict that can be read off a job and its nodes without a search, all of them at once."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rules.hosts.cluster import Cluster, NodeSet
from rules.hosts.job import DEFAULT_POOL
from rules.hosts.model import Conflict, Host, Job, Operator, Pe, Pool, conflict, told
from rules.hosts.search import matched
from rules.hosts.units import Spot, spot
from rules.labels import legal_value


def of_operators(job: Job) -> Iterator[Conflict]:
    """Yield what is wrong with single operators and within single PEs."""
    for pe in job.pes:
        for operator in pe.operators:
            yield from _of_operator(pe, operator)
        for token, count in Counter(token for each in pe.operators for token in each.placement.exlocations).items():
            if count > 1:
                named = _saying(pe, token)
                message = f'{told([pe])} holds {", ".join(named)}, which hostExlocation("{token}") keeps apart'
                yield conflict("colocated-and-exlocated", [pe], [token], message, named)
        if job.fused:
            yield from _of_fusion(pe)


def _of_operator(pe: Pe, operator: Operator) -> Iterator[Conflict]:
    placed = operator.placement
    if len(placed.hosts) > 1:
        named = ", ".join(map(str, placed.hosts))
        message = f"operator {operator.name} names several hosts: {named}"
        yield conflict("several-hosts", [pe], (), message, [operator.name])
    for clause, tokens in (("hostColocation", placed.colocations), ("hostExlocation", placed.exlocations)):
        for token in tokens:
            if not legal_value(token):
                message = f"operator {operator.name}: {clause}({token!r}): the value is no legal label value"
                yield conflict("illegal-token", [pe], [token], message, [operator.name])


def _of_fusion(pe: Pe) -> Iterator[Conflict]:
    """Yield what contradicts that the operators of *pe* are one partition."""
    if len(pe.operators) < 2:
        return
    tokens = {token for each in pe.operators for token in each.placement.partition_colocations}
    for token, count in Counter(
        token for each in pe.operators for token in each.placement.partition_exlocations
    ).items():
        if count > 1:
            message = (
                f'{told([pe])} is one partition by its colocations, which partitionExlocation("{token}") forbids'
            )
            yield conflict("colocated-and-exlocated", [pe], [*sorted(tokens), token], message)
    if alone := [each.name for each in pe.operators if each.placement.partition_isolated]:
        message = f"operator {alone[0]} is a partition of its own and shares PE {pe.id} by partitionColocation"
        yield conflict("isolation-and-colocation", [pe], sorted(tokens), message)


def of_pools(
    job: Job, cluster: Cluster, candidates: Mapping[str, NodeSet], users_of: Mapping[str, Sequence[Pe]]
) -> Iterator[Conflict]:
    """Yield what is wrong with pools, whether they are used or not."""
    for pool in job.pools.values():
        users = users_of.get(pool.name, ())
        if pool.literal:
            yield from _of_literal(pool, cluster, users)
        elif pool.exclusive and pool.size is None:
            yield conflict("unsized-exclusive-pool", users, (), f"pool {pool.name} is exclusive and has no size")
        elif pool.size is not None and candidates[pool.name].bit_count() < pool.size:
            yield conflict("pool-too-small", users, (), _short(pool, candidates[pool.name]))
    exclusive = [pool for pool in job.pools.values() if pool.chosen and pool.exclusive]
    if all(candidates[pool.name].bit_count() >= (pool.size or 0) for pool in exclusive):
        places = [pool for pool in exclusive for _ in range(pool.size or 0)]
        _, short = matched([candidates[pool.name] for pool in places])
        if short:
            pools = list({places[number].name: places[number] for number in sorted(short)}.values())
            nodes = 0
            for pool in pools:
                nodes |= candidates[pool.name]
            named, users = (
                ", ".join(pool.name for pool in pools),
                [pe for pool in pools for pe in users_of.get(pool.name, ())],
            )
            message = f"exclusive pools {named} need more nodes than the {nodes.bit_count()} that could be theirs"
            yield conflict("pool-too-small", users, (), message)


def _short(pool: Pool, candidates: NodeSet) -> str:
    tags = f" tagged {' and '.join(pool.tags)}" if pool.tags else ""
    kind = " without PEs of other jobs" if pool.exclusive else ""
    return f"pool {pool.name} asks for {pool.size} nodes{tags}: there are {candidates.bit_count()} usable ones{kind}"


def _of_literal(pool: Pool, cluster: Cluster, users: Sequence[Pe]) -> Iterator[Conflict]:
    seen: dict[object, str] = {}
    for host in pool.hosts:
        number = cluster.number(host)
        if number is None:
            message = f"pool {pool.name}: no node is called {host!r} or has that address"
            yield conflict("no-such-node", users, (), message)
        key = host if number is None else number
        if key in seen:
            same = "" if seen[key] == host else f", the same node as {seen[key]!r}"
            yield conflict("duplicate-host", users, (), f"pool {pool.name} lists {host!r} twice{same}")
        seen.setdefault(key, host)


def spots(
    job: Job, cluster: Cluster, candidates: Mapping[str, NodeSet]
) -> tuple[list[tuple[Spot, ...]], list[Conflict]]:
    """Return where ``host()`` lets each PE be, and what is wrong with what it names."""
    found: list[tuple[Spot, ...]] = []
    wrong: list[Conflict] = []
    for pe in job.pes:
        mine = []
        for host in pe.hosts:
            if (complaint := _wrong(job, pe, host)) is not None:
                wrong.append(complaint)
            elif (one := spot(job, cluster, candidates, host)) is None:
                if not host.pool:  # a host that a pool lacks is told of with the pool
                    message = f"{_who(pe, host)}: no node is called {host.name!r} or has that address"
                    wrong.append(conflict("no-such-node", [pe], (), message, _naming(pe, host)))
            else:
                if not one.nodes and not one.pool:
                    message = f"{_who(pe, host)}: no node carries the tags of pool {host.pool}"
                    wrong.append(conflict("no-such-node", [pe], (), message, _naming(pe, host)))
                mine.append(one)
        found.append(tuple(mine))
        wrong += _unusable(cluster, pe, mine)
    return found, wrong


def _wrong(job: Job, pe: Pe, host: Host) -> Conflict | None:
    if host.index is None:
        return None
    pool = job.pools.get(host.pool)
    size = None if pool is None else len(pool.hosts) or pool.size
    if host.pool == DEFAULT_POOL or size is None:
        message = f"{_who(pe, host)}: pool {host.pool} has no size, so none of its hosts has an index"
        return conflict("unsized-pool-indexed", [pe], (), message, _naming(pe, host))
    if host.index >= size:
        message = f"{_who(pe, host)}: pool {host.pool} has the hosts 0 to {size - 1}"
        return conflict("index-out-of-range", [pe], (), message, _naming(pe, host))
    return None


def _unusable(cluster: Cluster, pe: Pe, mine: Sequence[Spot]) -> Iterator[Conflict]:
    usable = cluster.usable(pe.template)
    if not usable:
        message = (
            f"{told([pe])}: none of {len(cluster.names)} nodes takes the pod as it is (state, taints, its own rules)"
        )
        yield conflict("node-unusable", [pe], (), message)
        return
    for one in mine:
        if one.nodes and not one.nodes & usable:
            first = (one.nodes & -one.nodes).bit_length() - 1
            message = f"{_who(pe, one.host)}: node {cluster.names[first]}: {cluster.why_unusable(first, pe.template)}"
            if one.nodes.bit_count() > 1:
                message += f"; none of the {one.nodes.bit_count()} nodes can be used"
            yield conflict("node-unusable", [pe], (), message, _naming(pe, one.host))


def _who(pe: Pe, host: Host) -> str:
    named = _naming(pe, host)
    return f"operator {', '.join(named)}: {host}" if named else f"PE {pe.id}: {host}"


def _naming(pe: Pe, host: Host) -> list[str]:
    return [each.name for each in pe.operators if host in each.placement.hosts]


def _saying(pe: Pe, token: str) -> list[str]:
    return [each.name for each in pe.operators if token in each.placement.exlocations]
