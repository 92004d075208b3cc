"""Conflicts within colocation groups and between them, as far as they show without a search."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence

from rules.hosts.cluster import Cluster, NodeSet
from rules.hosts.model import Conflict, Job, Kind, Pe, PeId, conflict, told
from rules.hosts.search import matched
from rules.hosts.units import Unit, beside_others


def within(job: Job, unit: Unit, homeless: Container[PeId]) -> Iterator[Conflict]:
    """Yield why the PEs of *unit* cannot share a node; of *homeless* it was told why they have none."""
    together = (
        f"{told(unit.pes)}: one node" if len(unit.pes) == 1 else f"{told(unit.pes)}: one node by hostColocation"
    )
    hosts = ", ".join(str(each.host) for each in unit.spots)
    indices = Counter(name for name, _ in unit.slots)
    exclusive = [name for name in unit.pools if job.pools[name].exclusive]
    parted = len(unit.pes) > 1 and not unit.hosted and all(each.nodes for each in unit.spots)
    if all(pe.id in homeless for pe in unit.pes) and not parted:
        pass  # told already
    elif any(count > 1 for count in indices.values()) or (exclusive and len(unit.pools) > 1) or not unit.hosted:
        naming = [pe for number, pe in enumerate(unit.pes) if unit.spots_of[number]]
        yield conflict("several-hosts", naming, unit.tokens, f"{together}, but no node is all of {hosts}")
    elif not unit.nodes:
        message = (
            f"{together}, but none that {hosts or 'there is'} takes the pods of all (state, taints, their own rules)"
        )
        yield conflict("node-unusable", unit.pes, unit.tokens, message)
    if len(unit.pes) == 1:
        return
    for token, count in Counter(token for pe in unit.pes for token in pe.exlocations).items():
        if count > 1:
            pes = [pe for pe in unit.pes if token in pe.exlocations]
            message = f'{told(pes)}: on one node by hostColocation, apart by hostExlocation("{token}")'
            yield conflict("colocated-and-exlocated", pes, (*unit.tokens, token), message)
    if unit.isolated:
        message = (
            f"{', '.join(unit.isolated)} is to be alone on its node, which {told(unit.pes)} share by hostColocation"
        )
        yield conflict("isolation-and-colocation", unit.pes, unit.tokens, message)


def with_others(
    job: Job, cluster: Cluster, units: Sequence[Unit], marks: Mapping[PeId, Mapping[str, str]]
) -> Iterator[Conflict]:
    """Leave to *units* what pods of other jobs do, whose tokens may reach beyond them; yield those left with nothing.

    *marks* are the labels of each pod.
    """
    for unit in units:
        left = unit.nodes & (beside_others(job, cluster, unit) if job.by_token else cluster.every)
        for pe in unit.pes:
            theirs = (pe.template.get("metadata") or {}).get("labels") or {}
            left &= ~cluster.shunning(job.namespace, {**theirs, **marks[pe.id]})
        if unit.nodes and not left:
            tokens = (*unit.exlocations, *unit.tokens, *unit.isolated)
            kind: Kind = "exlocation-exceeds-nodes" if unit.exlocations else "infeasible"
            message = f"{told(unit.pes)}: pods of other jobs with {', '.join(tokens)} leave no node"
            yield conflict(kind, unit.pes, tokens, message)
        unit.nodes = left


def between(cluster: Cluster, units: Sequence[Unit]) -> Iterator[Conflict]:
    """Yield which units name one host, although they must be apart."""
    for shown, sharing in _fixed(cluster, units).items():
        for unit in sharing:
            others = [other for other in sharing if other is not unit]
            if unit.isolated and others:
                pes = [*unit.pes, *(pe for other in others for pe in other.pes)]
                said = f"{', '.join(unit.isolated)} is to be alone on {shown}"
                message = f"{said}, which {told(pes[len(unit.pes) :])} names too"
                yield conflict("isolation-and-shared-host", pes, (), message)
        for token, count in Counter(token for unit in sharing for token in unit.exlocations).items():
            if count > 1:
                pes = [pe for unit in sharing for pe in unit.pes if token in pe.exlocations]
                message = f'{told(pes)}: apart by hostExlocation("{token}"), but all are bound to {shown}'
                yield conflict("colocated-and-exlocated", pes, [token], message)


def _fixed(cluster: Cluster, units: Sequence[Unit]) -> Mapping[str, list[Unit]]:
    """Return the units that ``host()`` binds to one place, by that place: a node, or a pool's host of an index."""
    found: dict[str, list[Unit]] = {}
    for unit in units:
        if unit.spots and unit.hosted.bit_count() == 1 and not unit.pools:
            found.setdefault(f"node {cluster.names[unit.hosted.bit_length() - 1]}", []).append(unit)
        for name, index in unit.slots:
            found.setdefault(f"{name}[{index}]", []).append(unit)
    return found


def crowded(job: Job, units: Sequence[Unit], known: Sequence[Conflict]) -> Iterator[Conflict]:
    """Yield the exlocation tokens and the isolation that ask for too many nodes, but for what is *known* already.

    Of units that a known conflict of the same token is about, such as two bound to one node, one alone counts.
    """
    of_token: dict[str, list[Conflict]] = {}
    for each in known:
        for token in each.tokens:
            of_token.setdefault(token, []).append(each)
    tokens: dict[str, list[Unit]] = {}
    for unit in units:
        for token in unit.exlocations:
            tokens.setdefault(token, []).append(unit)
    for token, members in tokens.items():
        for few, nodes in _too_many(job, _one_of_each(members, of_token.get(token, ()))):
            pes = [pe for unit in few for pe in unit.pes if token in pe.exlocations]
            message = f'hostExlocation("{token}"): {told(pes)} need {len(few)} nodes, and have {nodes}'
            yield conflict("exlocation-exceeds-nodes", pes, [token], message)
    units = _one_of_each(units, [each for each in known if each.conflict == "isolation-and-shared-host"])
    alone = [unit for unit in units if unit.isolated]
    rest = min((unit for unit in units if not unit.isolated), key=lambda unit: unit.nodes.bit_count(), default=None)
    for few, nodes in _too_many(job, [*alone, *([rest] if alone and rest is not None else [])]):
        pes = [pe for unit in few for pe in unit.pes]
        message = f"hostIsolation: {told(pes)} need {len(few)} nodes, and have {nodes}"
        yield conflict("infeasible", pes, (), message)


def _one_of_each(units: Sequence[Unit], known: Sequence[Conflict]) -> Sequence[Unit]:
    """Leave out of *units* all but one of those that each of *known* is about."""
    if not known:
        return units
    unit_of = {pe.id: unit.number for unit in units for pe in unit.pes}
    gone: set[int] = set()
    for each in known:
        about = dict.fromkeys(unit_of[pe] for pe in each.pes if pe in unit_of)
        gone.update([number for number in about if number not in gone][1:])
    return [unit for unit in units if unit.number not in gone]


def _too_many(job: Job, members: Sequence[Unit]) -> Iterator[tuple[list[Unit], int]]:
    """Yield the first of *members*, which need a node each, that have too few together, and how many they have."""
    _, short = matched([unit.nodes for unit in members])
    if short:
        few = [members[number] for number in sorted(short)]
        nodes: NodeSet = 0
        for unit in few:
            nodes |= unit.nodes
        yield few, nodes.bit_count()
        return
    for pool in job.pools.values():
        inside = [unit for unit in members if pool.name in unit.pools]
        if pool.size is not None and pool.chosen and len(inside) > pool.size:
            yield inside, pool.size


def involved(units: Sequence[Unit], tokens: Sequence[str], isolated: Sequence[str]) -> list[Pe]:
    """Return the PEs that *tokens* or the operators *isolated* are about."""
    return [
        pe
        for unit in units
        for pe in unit.pes
        if set(pe.exlocations) & set(tokens) or set(pe.isolated) & set(isolated)
    ]
