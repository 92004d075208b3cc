"""What holds of every placement, on random small clusters, and what trying everything says of the packing."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.records import Node
from rules import partitions
from rules.hpa.errors import Contradiction
from rules.hpa.fleet import of_records
from rules.hpa.model import Consumer
from rules.hpa.needs import needs
from rules.hpa.packing import NO, UNDECIDED, YES, Thing, pack
from rules.hpa.placement import Placed, place
from tests.support.fleets import fits, fleet, intents, node
from tests.support.intents import allocatable, consumer, label

_AMOUNT = st.integers(1, 6)
_NODES = st.builds(
    lambda cpu, gpu, kind: {"cpu": cpu, "gpu": gpu, "kind": kind},
    st.integers(0, 8),
    st.integers(0, 2),
    st.sampled_from("xy"),
)
_CLUSTERS = st.lists(st.lists(_NODES, min_size=1, max_size=4), min_size=1, max_size=4)
_SPECS = st.one_of(
    st.builds(lambda amount: allocatable("cpu", amount), _AMOUNT),
    st.builds(lambda amount: allocatable("nvidia.com/gpu", limits=amount), st.integers(1, 2)),
    st.builds(lambda kind: label("kind", kind), st.sampled_from("xy")),
)
_WEIGHTED = st.builds(lambda spec, weight: {**spec, "mandatory": False, "weight": weight}, _SPECS, st.integers(1, 10))
_CONSUMER = st.tuples(st.lists(st.one_of(_SPECS, _WEIGHTED), max_size=3), st.integers(1, 2))
_APPS = st.lists(st.tuples(st.integers(0, 1), _CONSUMER), min_size=1, max_size=3)


def _nodes(stated: Sequence[Mapping[str, Any]]) -> list[Node]:
    return [
        node(f"n{number}", {"kind": each["kind"]}, cpu=each["cpu"], gpu=each["gpu"])
        for number, each in enumerate(stated)
    ]


def _clusters(stated: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, list[Node]]:
    return {f"c{number}": _nodes(nodes) for number, nodes in enumerate(stated)}


def _consumers(stated: Sequence[tuple[int, tuple[list[dict[str, Any]], int]]]) -> list[Consumer]:
    return [
        consumer(*specs, app=f"app{app}", name=f"c{number}", object=f"web{number}", replicas=replicas)
        for number, (app, (specs, replicas)) in enumerate(stated)
    ]


def _allowed(found: Placed) -> dict[str, set[str]]:
    """What the intents of each app alone allow."""
    return {
        each.key: {name for name, on in zip(found.fleet.clusters, each.scored.answers == YES, strict=True) if on}
        for each in found.applications
    }


@settings(max_examples=50, deadline=None)
@given(_CLUSTERS, _APPS, _NODES, st.integers(0, 3))
def test_adding_a_node_never_removes_a_cluster(stated: Any, apps: Any, more: Any, where: int) -> None:
    wanted = intents(*_consumers(apps))
    before = place(wanted, fleet(**_clusters(stated)))
    stated[where % len(stated)].append(more)
    after = place(wanted, fleet(**_clusters(stated)))
    assert all(names <= _allowed(after)[app] for app, names in _allowed(before).items())
    for one, other in zip(before.applications, after.applications, strict=True):
        still = one.scored.answers == YES
        assert (other.scored.scores[still] >= one.scored.scores[still]).all()


@settings(max_examples=50, deadline=None)
@given(_CLUSTERS, _APPS, _SPECS)
def test_adding_a_mandatory_requirement_never_adds_a_cluster(stated: Any, apps: Any, more: Any) -> None:
    clusters = fleet(**_clusters(stated))
    before = _allowed(place(intents(*_consumers(apps)), clusters))
    apps[0][1][0].append(more)
    after = _allowed(place(intents(*_consumers(apps)), clusters))
    assert all(names <= before[app] for app, names in after.items())


@settings(max_examples=50, deadline=None)
@given(_CLUSTERS, _APPS)
def test_either_form_denotes_the_set_that_is_left(stated: Any, apps: Any) -> None:
    found = place(intents(*_consumers(apps)), fleet(**_clusters(stated)))
    names = found.fleet.clusters
    read = partitions.candidates(found.candidates(), names)
    for each in found.partitions:
        count, candidates = read[each.app]
        assert count == each.count
        assert (candidates.mask() == each.combined.allowed).all()
        for form, on in (("allow", True), ("deny", False)):
            told = [name for name, left in zip(names, each.combined.allowed, strict=True) if left == on]
            again = partitions.candidates({each.app: {form: told}}, names)[each.app][1]
            assert (again.mask() == each.combined.allowed).all()


@settings(max_examples=50, deadline=None)
@given(_CLUSTERS, _APPS, st.randoms(use_true_random=False))
def test_no_order_changes_the_answer(stated: Any, apps: Any, rng: random.Random) -> None:
    clusters, consumers = _clusters(stated), _consumers(apps)
    expected = place(intents(*consumers), fleet(**clusters))
    names = list(clusters)
    rng.shuffle(names)
    rng.shuffle(consumers)
    shuffled = {name: rng.sample(clusters[name], len(clusters[name])) for name in names}
    found = place(intents(*consumers), of_records({name: (nodes, ()) for name, nodes in shuffled.items()}))
    assert found.candidates() == expected.candidates()
    assert found.scores() == expected.scores()
    assert sorted(map(str, found.unsatisfied)) == sorted(map(str, expected.unsatisfied))


def _brute(nodes: Sequence[Node], consumers: Sequence[Consumer], wishes: bool = False) -> bool:
    """Whether all mandatory needs of *consumers* fit on *nodes*, by trying every way."""
    free = [{"cpu": int(n.allocatable["cpu"] * 1000), "nvidia.com/gpu": int(n.allocatable.get("nvidia.com/gpu", 0))}
            for n in nodes]  # fmt: skip
    items = []
    for each in consumers:
        chosen = [(each, need) for need in each.requirements if need.mandatory or wishes]
        try:
            wanted = needs(chosen)
        except Contradiction:
            return False
        able = frozenset(
            number for number, n in enumerate(nodes)
            if all(n.labels.get(key) == value for key, value in wanted.labels.items())
        )  # fmt: skip
        items += [(wanted.total(), able)] * (each.replicas if chosen else 0)
    return fits(free, items)


@settings(max_examples=80, deadline=None)
@given(st.lists(_NODES, min_size=1, max_size=4), st.lists(_CONSUMER, min_size=1, max_size=3))
def test_the_packing_agrees_with_trying_everything(stated: Any, wanted: Any) -> None:
    consumers = _consumers([(0, each) for each in wanted])
    found = place(intents(*consumers), fleet(A=_nodes(stated)))
    [application] = found.applications
    assert (application.scored.answers[0] == YES) == _brute(_nodes(stated), consumers)
    if application.scored.answers[0] == YES:
        everything = sum(need.weight for each in consumers for need in each.requirements if not need.mandatory)
        assert (application.scored.scores[0] == everything) == _brute(_nodes(stated), consumers, wishes=True)


@settings(max_examples=50, deadline=None)
@given(_CLUSTERS, _APPS)
def test_applications_on_a_shared_cluster_fit_there_together(stated: Any, apps: Any) -> None:
    clusters, consumers = _clusters(stated), _consumers(apps)
    found = place(intents(*consumers), fleet(**clusters))
    if found.unsatisfied:
        return
    for number, name in enumerate(found.fleet.clusters):
        there = {each.app for each in found.partitions if each.combined.allowed[number]}
        assert _brute(clusters[name], [each for each in consumers if each.app in there])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_larger_packings_are_never_wrong_and_undecided_only_beyond_the_exact_size(seed: int) -> None:
    """Random instances with a solution by construction are never refused for certain."""
    rng = np.random.default_rng(seed)
    nodes, things = [], []
    for number in range(int(rng.integers(2, 6))):
        cuts = np.sort(rng.integers(1, 8000, int(rng.integers(1, 6))))
        parts = np.diff(np.concatenate(([0], cuts, [8000])))
        nodes.append(node(f"n{number}", cpu=8))
        things += [int(each) for each in parts if each]
    clusters = of_records({"A": (nodes, ())})
    everywhere = np.ones(len(nodes), dtype=np.bool_)
    wanted = [Thing(1, {"cpu": amount}, everywhere) for amount in things]
    [answer] = pack(clusters, wanted).tolist()
    assert answer == YES or (answer == UNDECIDED and 2 ** len(wanted) > 1024)
    one_more = [*wanted, Thing(1, {"cpu": 1}, everywhere)]
    assert pack(clusters, one_more).tolist() == [NO]
