"""Clusters of a few nodes, stated as what is free on them, and a packer that tries everything."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from pipeline.records import Node
from rules.hpa.fleet import Fleet, of_records
from rules.hpa.model import Consumer, Group, Intents
from tests.support import worlds

G = 10**9


def node(name: str, labels: Mapping[str, str] | None = None, *, mem: float = 0, gpu: float = 0, **more: Any) -> Node:
    """A node with this much free; *mem* in decimal bytes."""
    extended = {"nvidia.com/gpu": gpu} if gpu else {}
    return worlds.node(name, labels, memory=mem, **{"cpu": 0, **more, **extended})


def fleet(**clusters: Sequence[Node]) -> Fleet:
    """A fleet of clusters without pods."""
    return of_records({name: (nodes, ()) for name, nodes in clusters.items()})


GROUP = "projects/p/composite-apps/a/v/deployment-intent-groups/g"


def intents(*consumers: Consumer, any_of: Sequence[str] = (), all_of: Sequence[str] = ()) -> Intents:
    """The intents of these consumers, all of one group."""
    named = tuple(any_of or all_of) or None
    apps = sorted({(GROUP, each.app) for each in consumers})
    return Intents({GROUP: Group(GROUP, named, bool(all_of))}, tuple(apps), consumers)


def fits(free: Sequence[Mapping[str, int]], items: Sequence[tuple[Mapping[str, int], frozenset[int]]]) -> bool:
    """Whether items, each with its needs and the nodes it may go to, fit: by trying every way."""
    return any(_holds(free, items, where) for where in _ways(items))


def _ways(items: Sequence[tuple[Mapping[str, int], frozenset[int]]]) -> Iterator[tuple[int, ...]]:
    return product(*(sorted(nodes) for _, nodes in items))


def _holds(
    free: Sequence[Mapping[str, int]],
    items: Sequence[tuple[Mapping[str, int], frozenset[int]]],
    where: Sequence[int],
) -> bool:
    left = [dict(each) for each in free]
    for (need, _), at in zip(items, where, strict=True):
        for resource, amount in need.items():
            left[at][resource] = left[at].get(resource, 0) - amount
            if left[at][resource] < 0:
                return False
    return True
