"""The question that an exact solver answers: a node for each unit and for each place of a pool.

Units that share an exlocation token need different nodes, and a unit can have several tokens: this is a list
colouring, which is hard in general. Most units of real jobs can be left out, though: one with more nodes open to it
than units to be apart from can always be placed last, whatever the others do (the reduction by degree of list
colouring).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rules.hosts.cluster import NodeSet
from rules.hosts.model import Pool
from rules.hosts.units import Unit


@dataclass(frozen=True, slots=True)
class Problem:
    """Variables, one for each of *domains*, whose values are nodes.

    Those of each of *different* differ by twos, those of each of *equal* are equal, and in *one_of* the first equals
    one of the others. Of the solutions one is sought that meets as many as can be of *wanted*: (variable, node).
    """

    domains: tuple[NodeSet, ...]
    different: tuple[tuple[int, ...], ...]
    equal: tuple[tuple[int, int], ...]
    one_of: tuple[tuple[int, tuple[int, ...]], ...]
    wanted: tuple[tuple[int, int], ...]


#: The values of a solution, ``impossible`` where it is proved that there is none, ``undecided`` where time was up.
Answer = tuple[int, ...] | Literal["impossible", "undecided"]
Solve = Callable[[Problem], Answer]


@dataclass(frozen=True, slots=True)
class Places:
    """The places of the pools for which nodes are chosen: for each its *candidates* and the nodes *wanted* in it."""

    pools: tuple[Pool, ...]
    candidates: Mapping[str, NodeSet]
    wanted: Mapping[str, Sequence[int | None]]


def solved(units: Sequence[Unit], places: Places, solve: Solve) -> Mapping[str, tuple[int, ...]] | str:
    """Return the nodes of each pool, in order, with which all *units* can be placed, or why there are none."""
    hard = _hard(units, places)
    first: dict[str, int] = {}
    domains: list[NodeSet] = []
    wanted = []
    for pool in places.pools:
        first[pool.name] = len(domains)
        for place, node in enumerate(places.wanted[pool.name]):
            if node is not None:
                wanted.append((first[pool.name] + place, node))
        domains += [places.candidates[pool.name]] * (pool.size or 0)
    of_pool = {
        pool.name: tuple(range(first[pool.name], first[pool.name] + (pool.size or 0))) for pool in places.pools
    }
    variable = {unit.number: len(domains) + at for at, unit in enumerate(hard)}
    domains += [unit.nodes for unit in hard]
    answer = solve(
        Problem(
            domains=tuple(domains),
            different=tuple(_different(hard, variable, places.pools, of_pool)),
            equal=tuple((variable[unit.number], of_pool[name][index]) for unit in hard for name, index in unit.slots),
            one_of=tuple((variable[unit.number], of_pool[name]) for unit in hard for name in unit.pools),
            wanted=tuple(wanted),
        )
    )
    if isinstance(answer, str):
        return answer
    return {name: tuple(answer[each] for each in variables) for name, variables in of_pool.items()}


def _different(
    hard: Sequence[Unit], variable: Mapping[int, int], pools: Sequence[Pool], of_pool: Mapping[str, tuple[int, ...]]
) -> Iterable[tuple[int, ...]]:
    alone = [place for pool in pools if pool.exclusive for place in of_pool[pool.name]]
    if alone:
        yield tuple(alone)
    for pool in pools:
        if not pool.exclusive:
            yield (*alone, *of_pool[pool.name])
    tokens: dict[str, list[int]] = {}
    for unit in hard:
        for token in unit.exlocations:
            tokens.setdefault(token, []).append(variable[unit.number])
        closed = [
            place for pool in pools if pool.exclusive and pool.name not in unit.pools for place in of_pool[pool.name]
        ]
        if closed:
            yield (variable[unit.number], *closed)
    yield from (tuple(members) for members in tokens.values() if len(members) > 1)
    isolated = [variable[unit.number] for unit in hard if unit.isolated]
    if len(isolated) > 1:
        yield tuple(isolated)
    for unit in hard:
        if not unit.isolated:
            yield from ((each, variable[unit.number]) for each in isolated)


def _hard(units: Sequence[Unit], places: Places) -> list[Unit]:
    """Leave out, again and again, each unit that can be placed last."""
    neighbours = _neighbours(units)
    roomy = {unit.number: _open_nodes(unit, places) for unit in units}
    left = {unit.number: len(neighbours[unit.number]) for unit in units}
    going = [number for number, degree in left.items() if roomy[number] > degree]
    gone = set(going)
    while going:
        for other in neighbours[going.pop()]:
            left[other] -= 1
            if other not in gone and roomy[other] > left[other]:
                gone.add(other)
                going.append(other)
    return [unit for unit in units if unit.number not in gone]


def _open_nodes(unit: Unit, places: Places) -> int:
    """Return a number of nodes that are open to *unit* however the pools are chosen."""
    sizes = {pool.name: pool.size or 0 for pool in places.pools}
    if unit.slots or len(unit.pools) > 1:
        return 0
    if unit.pools:
        [name] = unit.pools
        return sizes[name] if not places.candidates[name] & ~unit.nodes else 0
    return unit.nodes.bit_count() - sum(sizes[pool.name] for pool in places.pools if pool.exclusive)


def _neighbours(units: Sequence[Unit]) -> dict[int, set[int]]:
    """Return for each unit those that it has to be apart from."""
    members: dict[str, set[int]] = {}
    for unit in units:
        for token in unit.exlocations:
            members.setdefault(token, set()).add(unit.number)
    isolated = {unit.number for unit in units if unit.isolated}
    everybody = {unit.number for unit in units}
    found = {}
    for unit in units:
        near = set(isolated) if not unit.isolated else set(everybody)
        for token in unit.exlocations:
            near |= members[token]
        found[unit.number] = near - {unit.number}
    return found
