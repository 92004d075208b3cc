"""A view that is kept current by what changed answers as one that is made anew from all that is there."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.records import Pod, PodSelection, Requirement
from rules import standing
from rules.changes import Changes, updated
from rules.policy import Policy
from rules.recommend import recommend
from rules.view import Reservation, View
from tests.support.scheduling import REQUIRED
from tests.support.worlds import GIB, NOW, World, critical, flow, node, of_workflow, pod, running

NODES = [node(f"n{each}", {"zone": f"z{each % 2}"}, kind=f"t{each % 2}", cpu=4) for each in range(4)]
LEARNED = ("hello", "batch", "guest/crunch")
#: The last two are not in the snapshot.
FUNCTIONS = (*LEARNED, "newcomer", "guest/fresh")
PODS = [
    running(function, each.name, number, cpu=0.1 * (number + 1), memory=GIB, age=timedelta(hours=number))
    for function in FUNCTIONS
    for each in NODES
    for number in range(2)
]
PODS[3] = msgspec.structs.replace(
    PODS[3],
    apart=(PodSelection((Requirement("openwhisk/action", "In", ("batch",)),), "kubernetes.io/hostname", ("ow",)),),
)
BESIDE_HELLO = {"labelSelector": {"matchLabels": {"openwhisk/action": "hello"}}, "topologyKey": "zone"}
RESERVATIONS = [
    Reservation(f"{function}-{each.name}", each.name, function, {"cpu": 0.3, "pods": 1.0})
    for function in FUNCTIONS
    for each in NODES
]
PAIRS = st.dictionaries(
    st.tuples(st.sampled_from(LEARNED), st.sampled_from(LEARNED)), st.sampled_from((0.0, 0.1, 0.8)), max_size=5
)
BUSY = st.dictionaries(
    st.tuples(st.sampled_from([each.name for each in NODES]), st.sampled_from(LEARNED)),
    st.sampled_from((0.25, 1.5)),
    max_size=5,
)
SOME_PODS = st.sets(st.sampled_from(range(len(PODS))), max_size=12)
SOME_RESERVATIONS = st.sets(st.sampled_from(range(len(RESERVATIONS))), max_size=6)


@st.composite
def histories(draw: st.DrawFn) -> tuple[World, list[tuple[set[int], set[int]]]]:
    """A world, and which pods and reservations there are at each of several moments."""
    world = World(
        NODES,
        slowdowns=draw(PAIRS),
        busy=draw(BUSY),
        known=LEARNED,
        medians={("hello", "t0"): 100.0, ("hello", "t1"): 120.0, ("batch", "n3"): 50.0},
        beside={("hello", "t0", ("batch",)): 200.0, ("hello", "n1", ("guest/crunch", "hello")): 90.0},
        workflows=[flow(critical("hello"), {"name": "fresh", "annotations": {"importance": "Low"}})],
        load={"n0": 0.1, "n1": 0.5},
    )
    return world, draw(st.lists(st.tuples(SOME_PODS, SOME_RESERVATIONS), min_size=2, max_size=5))


def at_once(world: World, pods: set[int], reservations: set[int]) -> View:
    held = tuple(RESERVATIONS[each] for each in sorted(reservations))
    return replace(world, pods=[PODS[each] for each in sorted(pods)], reservations=held).view()


def changed(view: View, before: tuple[set[int], set[int]], after: tuple[set[int], set[int]]) -> View:
    (pods, reservations), (pods_now, reservations_now) = before, after
    changes = Changes(
        came=tuple(PODS[each] for each in pods_now - pods),
        gone=tuple(PODS[each] for each in pods - pods_now),
        reserved=tuple(RESERVATIONS[each] for each in reservations_now - reservations),
        released=tuple(RESERVATIONS[each] for each in reservations - reservations_now),
    )
    return updated(view, NOW, changes)


def answers(world: World, view: View) -> dict[str, Any]:
    """Every answer there may be in *view*, without what names the view itself."""
    policy = Policy(mode="require", namespaces={"team": "prefer"})
    manifests = {
        **{name: pod(name, requests={"cpu": "500m"}) for name in FUNCTIONS},
        "of a workflow": of_workflow("hello"),
        "nobody's": pod(),
        "beside hello": pod(spec={"affinity": {"podAffinity": {REQUIRED: [BESIDE_HELLO]}}}),
    }
    given = {}
    for name, manifest in manifests.items():
        for namespace in ("ow", "team"):
            manifest["metadata"]["namespace"] = namespace
            answer = recommend(world.request(manifest, policy, view), view, policy, decision="d")
            given[f"{name} in {namespace}"] = msgspec.to_builtins(answer)
    return given


@settings(max_examples=60, deadline=None)
@given(histories())
def test_answers_after_changes_are_those_of_a_view_made_anew(history):
    world, moments = history
    view = at_once(world, *moments[0])
    for before, after in pairwise(moments):
        view = changed(view, before, after)
        anew = at_once(world, *after)
        for resource in ("cpu", "memory", "pods"):
            np.testing.assert_array_equal(view.nodes.free[resource], anew.nodes.free[resource])
        assert answers(world, view) == answers(world, anew)


def test_the_former_view_stays_as_it_was():
    world = World(NODES, known=LEARNED, slowdowns={("hello", "batch"): 0.8})
    view = at_once(world, {0}, set())
    before = answers(world, view)
    later = changed(view, ({0}, set()), ({5, 9, 16, 30}, {3}))
    assert answers(world, later) != before
    assert answers(world, view) == before


def test_a_pod_that_moved_by_event_is_gone_there_and_came_here():
    world = World(NODES, known=LEARNED)
    old = running("hello", "n0", cpu=1.0)
    view = replace(world, pods=[old]).view()
    new = msgspec.structs.replace(old, node="n1")
    later = updated(view, NOW, Changes(came=(new,), gone=(old,)))
    assert later.nodes.free["cpu"].tolist() == [4.0, 3.0, 4.0, 4.0]
    assert later.running.of(later.functions.index["hello"]).node.tolist() == [1]


def test_pods_on_nodes_that_are_not_known_and_pods_without_a_node_do_not_count():
    world = World(NODES, known=LEARNED)
    view = world.view()
    strays = [running("hello", where, cpu=1.0) for where in ("elsewhere", "")]
    done = msgspec.structs.replace(running("hello", "n0", cpu=1.0), phase="Succeeded")
    later = updated(view, NOW, Changes(came=(*strays, done)))
    assert later.nodes.free["cpu"].tolist() == [4.0] * 4
    assert not later.running.of(later.functions.index["hello"]).node.size


@pytest.mark.parametrize("limit", [0, 2])
def test_laid_out_anew_after_many_changes_entries_stay_the_same(monkeypatch: pytest.MonkeyPatch, limit: int):
    world = World(NODES, known=LEARNED, slowdowns={("hello", "batch"): 0.8, ("batch", "guest/crunch"): 0.4})
    monkeypatch.setattr("rules.changes._CHANGED", limit)
    view = changed(at_once(world, {0, 8}, set()), ({0, 8}, set()), (set(range(0, 40, 3)), {1}))
    assert answers(world, view) == answers(world, at_once(world, set(range(0, 40, 3)), {1}))


def test_labels_of_namespaces_are_followed():
    """The pod on n3 shuns what runs in golden namespaces; ow becomes one, and is one no more."""
    golden = PodSelection((), "kubernetes.io/hostname", (), (Requirement("tier", "In", ("gold",)),))
    world = World(NODES, pods=[msgspec.structs.replace(PODS[3], node="n3", apart=(golden,))], scopes={"ow": {}})
    view, policy = world.view(), Policy(mode="prefer")

    def left(view: View) -> set[str]:
        answer = recommend(world.request(pod("hello"), policy, view), view, policy, decision="d")
        return {each.name for each in answer.nodes}

    everywhere = {each.name for each in NODES}
    assert left(view) == everywhere
    gold = updated(view, NOW, Changes(scopes={"ow": {"tier": "gold"}}))
    assert left(gold) == everywhere - {"n3"}
    assert left(updated(gold, NOW, Changes(came=(PODS[0],)))) == everywhere - {"n3"}
    assert left(updated(gold, NOW, Changes(scopes={"ow": {"tier": "iron"}}))) == everywhere
    assert left(view) == everywhere


def test_who_is_told_by_a_label_is_asked_of_new_kinds_alone() -> None:
    """OpenWhisk labels each pod with its own name, so that each is of a kind of its own."""
    asked: list[str] = []

    def told(labels: Mapping[str, str]) -> tuple[str, str] | None:
        asked.append(labels["name"])
        return ("name", labels["name"]) if labels["name"] != "b" else None

    def named(name: str) -> Pod:
        return msgspec.structs.replace(running("hello", "n0"), labels={"name": name}, uid=name)

    numbers = {"n0": 0}
    one = standing.standing([named("a"), named("b")], numbers)
    assert one.told_by("by name", told) == {("name", "a")}
    two = standing.changed(one, [(1, named("c")), (1, named("b")), (-1, named("a"))], numbers)
    assert two.told_by("by name", told) == {("name", "c")}
    assert one.told_by("by name", told) == {("name", "a")}
    assert asked == ["a", "b", "c"]
    whole = standing.standing([named("c"), named("b"), named("b")], numbers)
    assert two.told_by("by name", told) == whole.told_by("by name", told)
