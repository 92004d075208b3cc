"""The view: what the snapshot, the live cluster and own reservations come to."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import numpy as np
import pytest

from featurestore.snapshot import empty
from pipeline.objects import pod_of
from rules.labels import label_value
from rules.policy import Policy
from rules.recommend import recommend
from rules.request import from_pod
from rules.running import IDLE
from rules.view import Reservation, prepare
from tests.support.worlds import GIB, NOW, World, names, node, pod, running


def busy(view):
    functions, entries = view.running.all()
    return {
        (view.nodes.names[n], view.functions.names[f]): float(b)
        for n, f, b in zip(entries.node, functions, entries.busy, strict=True)
    }


def test_free_is_allocatable_minus_what_live_pods_ask_for():
    pods = [running("f", "A", each, cpu=0.1, memory=GIB) for each in range(3)]
    view = World([node("A", cpu=1, memory=8 * GIB), node("B")], pods=pods).view()
    assert view.nodes.free["cpu"].tolist() == pytest.approx([0.7, 8.0])
    assert view.nodes.free["memory"].tolist() == [5 * GIB, 16 * GIB]
    assert view.nodes.free["pods"].tolist() == [107, 110]


def test_tenths_of_a_core_fill_a_core():
    world = World([node("A", cpu=1)], pods=[running("f", "A", each, cpu=0.1) for each in range(9)], known=("f",))
    assert world.advise(pod("f", requests={"cpu": "100m"})).satisfiable
    assert not world.advise(pod("f", requests={"cpu": "101m"})).satisfiable


def test_extended_resources_count():
    gpu = node("A", **{"nvidia.com/gpu": 1.0})
    world = World([gpu, node("B")], known=("f",))
    manifest = pod("f", requests={"nvidia.com/gpu": "1"})
    assert names(world.advise(manifest)) == ["A"]
    taken = running("f", "A")
    taken = type(taken)(
        **{**{f: getattr(taken, f) for f in taken.__struct_fields__}, "requests": {"nvidia.com/gpu": 1.0}}
    )
    assert not replace(world, pods=[taken]).advise(manifest).satisfiable


def test_a_snapshot_alone_knows_functions_by_our_own_labels_too():
    """Such as pods of a workflow whose name tells nothing, before OpenWhisk labels them."""
    key = "colocation.internal/function"
    odd = "guest/" + "long" * 20  # stands as its digest
    pods = [
        msgspec.structs.replace(
            running("x", where),
            labels=labels,
            name=f"p{where}",
            uid=where,
            annotations={"colocation.internal/decision": "d"},
        )
        for where, labels in (
            ("A", {key: "newcomer"}),
            ("B", {key: label_value(odd)}),
            ("C", {key: "h-" + 40 * "0"}),  # of a function that nobody knows
            ("D", {key: "forged", "openwhisk/action": "hello"}),
            ("E", {"app": "web"}),
        )
    ]
    world = World([node(name) for name in "ABCDE"], pods=pods, known=("hello", odd))
    alone = prepare(world.snapshot(), "c1", NOW)
    expected = {("A", "newcomer"): 1.0, ("B", odd): 1.0, ("D", "hello"): 1.0}
    assert busy(alone) == busy(world.view()) == expected


def test_an_own_label_is_believed_only_where_it_is_overwritten():
    """Where pods are only observed, and in namespaces left alone, whoever makes a pod may have written it."""
    policy = Policy(mode="observe", namespaces={"trusted": "prefer", "kube-system": "prefer"})
    decided = {"colocation.internal/decision": "d"}
    stated = {"colocation.internal/mode": "prefer", **decided}
    forged = {"colocation.internal/function": "tool"}
    places = [("A", "ow", decided, {}), ("B", "trusted", decided, {}), ("C", "kube-system", decided, {}),
              ("D", "ow", stated, {}), ("E", "ow", {}, {"openwhisk/action": "hello"})]  # fmt: skip
    pods = [
        msgspec.structs.replace(
            running("x", where),
            namespace=namespace,
            annotations=annotations,
            labels=forged | labels,
            name=f"p{where}",
        )
        for where, namespace, annotations, labels in places
    ]
    world = World([node(name) for name in "ABCDE"], pods=pods, known=("hello", "tool"))
    live = prepare(world.snapshot(), "c1", NOW, pods=pods, overwritten=policy.overwrites)
    assert busy(live) == {("B", "tool"): 1.0, ("D", "tool"): 1.0, ("E", "hello"): 1.0}
    # What the history keeps of a pod has no annotations: a mode that the pod states itself is not known.
    alone = prepare(world.snapshot(), "c1", NOW, overwritten=policy.overwrites)
    assert busy(alone) == {("B", "tool"): 1.0, ("E", "hello"): 1.0}


@pytest.mark.parametrize(
    ("annotations", "owner", "labels", "function"),
    [
        ({"colocation.internal/decision": "d"}, "ReplicaSet", {}, "tool"),
        ({}, "ReplicaSet", {}, ""),  # admitted while nobody answered
        ({}, "DaemonSet", {}, ""),
        ({"colocation.internal/decision": "d"}, "DaemonSet", {}, ""),  # never given one: it brought that, too
        ({"colocation.internal/decision": "d"}, "Node", {}, ""),
        ({"colocation.internal/decision": "d"}, "ReplicaSet", {"colocation.internal/ignore": ""}, ""),
        ({"colocation.internal/decision": "d"}, "ReplicaSet", {"app.kubernetes.io/name": "colocation-advisor"}, ""),
    ],
)
def test_an_own_label_without_our_decision_is_not_believed(annotations, owner, labels, function):
    """Not even where own labels are overwritten: what overwrites them names its decision in the same patch."""
    one = msgspec.structs.replace(
        running("x", "A"),
        name="p",
        labels={"colocation.internal/function": "tool", **labels},
        annotations=annotations,
        owner_kind=owner,
        owner_name="o",
    )
    view = prepare(World([node("A")], known=("tool",)).snapshot(), "c1", NOW, pods=[one])
    assert busy(view) == ({("A", function): 1.0} if function else {})


def test_a_snapshot_alone_answers_as_the_live_cluster_does():
    one = running("guest/x", "A", 1)
    using_gpu = msgspec.structs.replace(one, requests={**one.requests, "nvidia.com/gpu": 1.0})
    world = World(
        [
            node("A", {"disktype": "ssd"}, **{"nvidia.com/gpu": 2.0}),
            node("B", ready=False),
            node("C", schedulable=False),
        ],
        pods=[running("guest/x", "A", cpu=2.0, memory=GIB), using_gpu],
        slowdowns={("guest/y", "guest/x"): 0.3},
        load={"A": 0.3},
    )
    alone = prepare(world.snapshot(), "c1", NOW)
    live = world.view()
    assert list(alone.nodes.names) == list(live.nodes.names)
    for column in ("ready", "schedulable", "load", "type_of"):
        np.testing.assert_array_equal(getattr(alone.nodes, column), getattr(live.nodes, column))
    for resource in ("cpu", "memory", "pods", "nvidia.com/gpu"):
        assert alone.nodes.free[resource].tolist() == live.nodes.free[resource].tolist()
    assert alone.nodes.free["nvidia.com/gpu"].tolist()[0] == 1.0
    assert busy(alone) == busy(live)
    assert alone.nodes.label("disktype", 0) == "ssd"


def test_other_clusters_do_not_show():
    view = prepare(World([node("A")], slowdowns={("a", "b"): 0.3}).snapshot(), "c2", NOW)
    assert (len(view.nodes), len(view.functions), len(view.pairs)) == (0, 0, 0)


def test_an_empty_snapshot_answers():
    view = prepare(empty(NOW), "c1", NOW)
    policy = Policy(mode="prefer")
    manifest = pod("f")
    request = from_pod(manifest, pod_of(manifest), view, namespace="ow", cluster="c1", policy=policy)
    answer = recommend(request, view, policy, decision="d")
    assert answer.satisfiable and not answer.nodes
    assert any("no nodes are known" in each.sentence for each in answer.reasons)


def test_busyness_measured_on_the_node_then_of_the_functions_other_pods_then_idle():
    pods = [running("f", "A"), running("f", "A", 1), running("f", "B"), running("g", "B")]
    nodes = [node("A"), node("B")]
    assert busy(World(nodes, pods=pods).view()) == {("A", "f"): 2.0, ("B", "f"): 1.0, ("B", "g"): 1.0}
    measured = World(nodes, pods=pods, busy={("A", "f"): 0.6, ("B", "x"): 1.0})
    assert busy(measured.view()) == pytest.approx({("A", "f"): 0.6, ("B", "f"): 0.3, ("B", "g"): IDLE})


def test_busyness_of_pods_that_are_gone_does_not_count():
    view = World([node("A")], pods=[running("g", "A")], busy={("A", "f"): 5.0}).view()
    assert set(busy(view)) == {("A", "g")}


def test_pods_that_came_after_the_measurement_are_as_busy_as_the_others():
    """The third on A, beside two that did nothing, is taken for what all five that were measured are on average."""
    measured = [*(running("f", "A", each) for each in range(2)), *(running("f", "B", each) for each in range(3))]
    came = running("f", "A", 2, age=timedelta(minutes=1))
    world = World([node("A"), node("B")], pods=[*measured, came], busy={("A", "f"): 0.0, ("B", "f"): 1.5})
    assert busy(world.view()) == pytest.approx({("A", "f"): 0.3, ("B", "f"): 1.5})
    assert busy(
        replace(
            world, pods=[*measured, came, running("f", "C", age=timedelta(0))], nodes=[*world.nodes, node("C")]
        ).view()
    ) == pytest.approx({("A", "f"): 0.3, ("B", "f"): 1.5, ("C", "f"): 0.3})


def test_the_first_pod_that_comes_again_is_as_busy_as_its_function_was_where_it_left():
    """One that was there all along and was not called is idle, however busy those were that left."""
    came = running("f", "A", age=timedelta(minutes=1))
    world = World([node("A"), node("B"), node("C")], pods=[came], busy={("B", "f"): 0.8, ("C", "f"): 0.4})
    assert busy(world.view()) == pytest.approx({("A", "f"): 0.6})
    assert busy(replace(world, pods=[running("f", "A")]).view()) == pytest.approx({("A", "f"): IDLE})


def test_what_ran_in_ten_minutes_is_said_of_ten_minutes():
    """.1 at once over the hour in a pod that was there for a sixth of it are .6; a minute of belief is let in.

    Where a pod took the place of another one, both together were there all the time; of the two on C, one left.
    """
    pods = [running("f", "A"), running("g", "B"), running("h", "C")]
    world = World(
        [node("A"), node("B"), node("C")],
        pods=pods,
        busy={("A", "f"): 0.1, ("B", "g"): 0.3, ("C", "h"): 0.8},
        lasted={("A", "f"): 1 / 6, ("B", "g"): 1.0, ("C", "h"): 2.0},
    )
    assert busy(world.view()) == pytest.approx({("A", "f"): 0.6, ("B", "g"): 0.3, ("C", "h"): 0.4}, rel=0.02)


def test_a_pod_that_comes_is_as_busy_as_its_functions_pods_were_wherever_they_stood():
    """Half an hour at .4 on B, which none is on any more, and ten minutes at .8 on A: .5 on average."""
    came = running("f", "C", age=timedelta(minutes=1))
    world = World(
        [node("A"), node("B"), node("C")],
        pods=[running("f", "A"), came],
        busy={("A", "f"): 0.8 / 6, ("B", "f"): 0.2},
        lasted={("A", "f"): 1 / 6, ("B", "f"): 0.5},
    )
    assert busy(world.view()) == pytest.approx({("A", "f"): 0.8, ("C", "f"): 0.5}, rel=0.05)
    nobody = replace(world, pods=[came])
    assert busy(nobody.view()) == pytest.approx({("C", "f"): 0.5}, rel=0.05)


def test_a_pod_seen_for_a_moment_is_taken_for_what_the_function_usually_is():
    """Busy for all of its three seconds, where an hour elsewhere says .1."""
    world = World(
        [node("A"), node("B")],
        pods=[running("f", "A"), running("f", "B")],
        busy={("A", "f"): 3 / 3600, ("B", "f"): 0.1},
        lasted={("A", "f"): 3 / 3600, ("B", "f"): 1.0},
    )
    # (3 s + .1 of a minute) / (3 s + a minute) = 9 / 63
    assert busy(world.view())["A", "f"] == pytest.approx(9 / 63, rel=0.01)


def test_reserved_pods_are_as_busy_as_the_others_and_hold_room():
    reserved = tuple(Reservation(f"d{each}", "A", "f", {"cpu": 1.0, "pods": 1.0}) for each in range(2))
    world = World([node("A")], pods=[running("f", "A")], busy={("A", "f"): 0.5}, reservations=reserved)
    view = world.view()
    assert busy(view) == pytest.approx({("A", "f"): 1.5})
    assert view.nodes.free["cpu"].tolist() == [6.0]
    assert view.nodes.free["pods"].tolist() == [107]


def test_a_live_pod_is_its_functions_by_labels_own_label_or_name():
    def live(name, **labels):
        base = running("f", "A")
        fields = {each: getattr(base, each) for each in base.__struct_fields__}
        return type(base)(
            **{
                **fields,
                "name": name,
                "uid": name,
                "labels": {k.replace("__", "/"): v for k, v in labels.items()},
                "annotations": {"colocation.internal/decision": name},
            }
        )

    pods = [
        live("p1", openwhisk__action="tool", openwhisk__namespace="guest"),
        live("p2", **{"colocation.internal/function": "h-cde346edbc694efb29082e63244f1f2ab129daa3"}),
        live("x-inv-0-1-guest-tool"),
        live("p3", **{"colocation.internal/function": "newcomer"}),
        live("p4", app="redis"),
        live("p5", **{"colocation.internal/function": "tool"}),
    ]
    world = World([node("A")], known=("guest/pack/tool", "guest/hello"))
    view = prepare(world.snapshot(), "c1", NOW, pods=pods)
    assert busy(view) == {("A", "guest/pack/tool"): 3.0, ("A", "guest/hello"): 1.0, ("A", "newcomer"): 1.0}


def test_load_is_the_larger_of_cpu_and_memory_and_unknown_without_use():
    view = World([node("A"), node("B")], load={"A": 0.25}).view()
    assert view.nodes.load[0] == pytest.approx(0.25)
    assert np.isnan(view.nodes.load[1])
