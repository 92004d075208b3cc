"""Two quick ways to place units: by turns, which settles ordinary jobs, and a matching, exact for one token."""

from collections.abc import Mapping, Sequence

from rules.hosts.cluster import NodeSet, bits
from rules.hosts.units import Unit


def by_turns(units: Sequence[Unit], pools: Mapping[str, Sequence[int]], exclusive: Sequence[str]) -> bool:
    """Whether placing the units with the fewest nodes first finds a node for each; that it does not proves nothing.

    *pools* are the nodes chosen for each, of which those of *exclusive* are closed to who is not in them.
    """
    sets = {name: sum(1 << node for node in nodes) for name, nodes in pools.items()}
    open_to = {unit.number: _open(unit, pools, sets, exclusive) for unit in units}
    asked = {unit.number: len(unit.exlocations) + len(units) * bool(unit.isolated) for unit in units}
    order = sorted(units, key=lambda unit: (open_to[unit.number].bit_count(), -asked[unit.number], unit.number))
    of_token: dict[str, NodeSet] = {}
    used = alone = 0
    for unit in order:
        closed = used if unit.isolated else alone
        for token in unit.exlocations:
            closed |= of_token.get(token, 0)
        free = open_to[unit.number] & ~closed
        if not free:
            return False
        node = free & -free
        used |= node
        if unit.isolated:
            alone |= node
        for token in unit.exlocations:
            of_token[token] = of_token.get(token, 0) | node
    return True


def _open(
    unit: Unit, pools: Mapping[str, Sequence[int]], sets: Mapping[str, NodeSet], exclusive: Sequence[str]
) -> NodeSet:
    nodes = unit.nodes
    for name in unit.pools:
        nodes &= sets[name]
    for name, index in unit.slots:
        nodes &= 1 << pools[name][index]
    for name in exclusive:
        if name not in unit.pools:
            nodes &= ~sets[name]
    return nodes


def matched(domains: Sequence[NodeSet]) -> tuple[dict[int, int], frozenset[int]]:
    """Give different nodes to as many of *domains* as can be; returns node by number, and too many for their nodes.

    The second is empty where all got one; else, by Hall's theorem, numbers whose domains together hold fewer nodes.
    Augmenting paths (Kuhn 1955).
    """
    owner: dict[int, int] = {}
    given: dict[int, int] = {}
    taken: NodeSet = 0
    for start in range(len(domains)):
        came: dict[int, int] = {}
        seen, queue, end = 0, [start], -1
        reached = [start]
        while queue and end < 0:
            number = queue.pop()
            free = domains[number] & ~seen & ~taken
            if free:
                end = next(bits(free))
                came[end] = number
                break
            for node in bits(domains[number] & ~seen):
                came[node] = number
                queue.append(owner[node])
                reached.append(owner[node])
            seen |= domains[number]
        if end < 0:
            return given, frozenset(reached)
        taken |= 1 << end
        while end >= 0:
            number = came[end]
            before = given.get(number, -1)
            owner[end], given[number] = number, end
            end = before
    return given, frozenset()
