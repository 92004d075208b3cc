"""Disjoint clusters for apps that contend, out of what each of them may use.

Which clusters the apps need is a search with backtracking, the app with the least to spare first, the best clusters
first. An app that needs n clusters looks at no more than its best n + (what its contenders need): of so many, n stay
free whatever the others take, so that nothing is missed. The clusters that nobody needs are dealt out in turn among
the apps' classes of a greedy colouring; then each app, in order of names, takes what none of its contenders holds.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

import numpy as np

from rules.candidates import Mask
from rules.partitions import Company, Partition

#: A search that tries more sets of clusters than this is given up.
_TRIES: Final = 20_000


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Why apps have no clusters: *apps* contend for too few, or one is left too few by its own *rules*.

    *undecided* where the search was given up before it found an answer.
    """

    apps: tuple[str, ...]
    rules: tuple[str, ...] = ()
    undecided: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Parted:
    """The partitions, in order of app; those of *unplaced* apps are as they were given."""

    partitions: tuple[Partition, ...]
    unplaced: tuple[Unplaced, ...]


class _Exhausted(Exception):
    pass


def part(partitions: Iterable[Partition], company: Iterable[Company]) -> Parted:
    """Take clusters from *partitions* until no two apps that contend by *company* have one in common.

    Two apps contend where either does not admit the other. Every app keeps as many clusters as it needs. The answer
    depends on no order.
    """
    given = {each.app: each for each in sorted(partitions, key=lambda each: each.app)}
    short = {name: each for name, each in given.items() if len(each.combined.best) < each.count}
    unplaced = [Unplaced((name,), each.combined.emptied_by) for name, each in short.items()]
    enough = {name: each for name, each in given.items() if name not in short}
    contending = _contending(enough, tuple(company))
    for apps in _components(contending):
        try:
            needed = _needed([enough[app] for app in apps], contending)
        except _Exhausted:
            unplaced.append(Unplaced(apps, undecided=True))
            continue
        if needed is None:
            unplaced.append(Unplaced(apps))
            continue
        for app, mask in _shares({app: enough[app].combined.allowed for app in apps}, contending, needed).items():
            given[app] = _narrowed(given[app], mask)
    return Parted(tuple(given.values()), tuple(unplaced))


def _contending(apps: Iterable[str], company: Sequence[Company]) -> dict[str, frozenset[str]]:
    stated: dict[str, list[Company]] = {app: [] for app in apps}
    for each in company:
        if each.app in stated:
            stated[each.app].append(each)
    found: dict[str, set[str]] = {app: set() for app in stated}
    for one, other in combinations(stated, 2):
        if not all(each.admits(beside) for app, beside in ((one, other), (other, one)) for each in stated[app]):
            found[one].add(other)
            found[other].add(one)
    return {app: frozenset(others) for app, others in found.items()}


def _components(contending: Mapping[str, frozenset[str]]) -> Iterator[tuple[str, ...]]:
    """Yield the apps that contend with each other, directly or through others; an app for itself is none."""
    seen: set[str] = set()
    for app, others in contending.items():
        if app in seen or not others:
            continue
        component, waiting = {app}, [app]
        while waiting:
            fresh = contending[waiting.pop()] - component
            component |= fresh
            waiting += fresh
        seen |= component
        yield tuple(sorted(component))


def _needed(
    partitions: Sequence[Partition], contending: Mapping[str, frozenset[str]]
) -> dict[str, tuple[int, ...]] | None:
    """Return the clusters that each app gets first, as many as it needs; None where there are not enough."""
    needs = {each.app: each.count for each in partitions}
    rivals = {app: sum(needs[other] for other in contending[app]) for app in needs}
    offers = {each.app: each.combined.best[: each.count + rivals[each.app]].tolist() for each in partitions}
    order = sorted(needs, key=lambda app: (len(offers[app]) - needs[app] - rivals[app], -rivals[app], app))
    chosen: dict[str, tuple[int, ...]] = {}
    tries = 0

    def place(position: int) -> bool:
        nonlocal tries
        if position == len(order):
            return True
        app = order[position]
        taken = {cluster for other in contending[app] for cluster in chosen.get(other, ())}
        free = [cluster for cluster in offers[app] if cluster not in taken]
        for clusters in combinations(free, needs[app]):
            tries += 1
            if tries > _TRIES:
                raise _Exhausted
            chosen[app] = clusters
            if place(position + 1):
                return True
            del chosen[app]
        return False

    return chosen if place(0) else None


def _shares(
    allowed: Mapping[str, Mask], contending: Mapping[str, frozenset[str]], needed: Mapping[str, tuple[int, ...]]
) -> dict[str, Mask]:
    """Return which clusters each app keeps: those that it needs, and its share of those that nobody needs."""
    colours = _colours(contending, allowed)
    size = len(next(iter(allowed.values())))
    open_ = np.ones(size, dtype=np.bool_)
    kept = {app: np.zeros(size, dtype=np.bool_) for app in allowed}
    for app, clusters in needed.items():
        kept[app][list(clusters)] = True
        open_[list(clusters)] = False
    wanted = np.zeros((max(colours.values()) + 1, size), dtype=np.bool_)
    for app, colour in colours.items():
        wanted[colour] |= allowed[app] & open_
    turn = np.arange(size) % np.maximum(wanted.sum(axis=0), 1)
    dealt = wanted & (np.cumsum(wanted, axis=0) - 1 == turn)
    for app, colour in colours.items():
        kept[app] |= dealt[colour] & allowed[app]
    for app in allowed:
        rivals = np.logical_or.reduce([kept[other] for other in contending[app]])
        kept[app] |= allowed[app] & ~rivals
    return kept


def _colours(contending: Mapping[str, frozenset[str]], apps: Iterable[str]) -> dict[str, int]:
    """Give contending apps different numbers, few in all: who has most contenders first, each the lowest free."""
    colours: dict[str, int] = {}
    for app in sorted(apps, key=lambda app: (-len(contending[app]), app)):
        used = {colours[other] for other in contending[app] if other in colours}
        colours[app] = next(number for number in range(len(used) + 1) if number not in used)
    return colours


def _narrowed(partition: Partition, mask: Mask) -> Partition:
    combined = partition.combined
    best = combined.best[mask[combined.best]]
    return replace(partition, combined=replace(combined, allowed=mask, best=best))
