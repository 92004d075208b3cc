"""The worked cases of the recommendation, R1 to R20, each by its name."""

from dataclasses import replace
from datetime import timedelta

import jsonpatch
import pytest

from pipeline.objects import pod_of
from pipeline.records import Taint
from rules.policy import Policy
from rules.recommend import Recommendation, recommend
from rules.view import Reservation
from tests.support import scheduling
from tests.support.manifests import check
from tests.support.scheduling import PREFERRED, REQUIRED
from tests.support.worlds import (
    GIB,
    NOW,
    World,
    critical,
    flow,
    names,
    node,
    of_workflow,
    pod,
    running,
)

HELLO_SUFFERS = {("hello", "Model_training"): 0.8, ("hello", "world"): 0.0}


def patched(manifest, answer: Recommendation) -> dict:
    """Apply the patch, as the API server does it; the result is a pod that it would accept."""
    result = jsonpatch.apply_patch(manifest, list(answer.patch))
    check(result)
    return result


def preferences(world: World, manifest, answer: Recommendation) -> dict[str, int]:
    """What the preferred terms of the patched pod add up to on each node, by an independent reading of them."""
    result = patched(manifest, answer)
    return {each.name: scheduling.preference(result, each, world.nodes, world.pods) for each in world.nodes}


def may_run(world: World, manifest, answer: Recommendation) -> set[str]:
    result = patched(manifest, answer)
    return {each.name for each in world.nodes if scheduling.may_run(result, each, world.nodes, world.pods)}


def anti(answer: Recommendation, strength: str) -> list:
    return (answer.affinity.get("podAntiAffinity") or {}).get(strength) or []


def test_r1_hardware_of_the_published_sample():
    world = World(
        [
            node("A", {"gpu": "yes", "disktype": "ssd"}),
            node("B", {"gpu": "yes", "disktype": "hdd"}),
            node("C"),
            node("D", {"disktype": "ssd"}),
        ],
        slowdowns={("hello", "Model_training"): 0.8},
        workflows=[flow(critical("hello", extraResources={"gpu": True, "diskType": "ssd"}))],
    )
    manifest = of_workflow("hello")
    answer = world.advise(manifest)
    assert names(answer) == ["A"]
    assert answer.satisfiable
    [term] = answer.affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    expected = [
        {"key": "disktype", "operator": "In", "values": ["ssd"]},
        {"key": "gpu", "operator": "In", "values": ["yes"]},
    ]
    assert sorted(term["matchExpressions"], key=lambda each: each["key"]) == expected
    assert not anti(answer, REQUIRED)
    terms = [each["podAffinityTerm"] for each in anti(answer, PREFERRED)]
    assert {each["topologyKey"] for each in terms} == {"kubernetes.io/hostname"}
    named = {("openwhisk/action", "Model_training"), ("colocation.internal/function", "Model_training")}
    assert named == {
        (each["key"], value)
        for term in terms
        for each in term["labelSelector"]["matchExpressions"]
        for value in each.get("values", [])
    }
    assert may_run(world, manifest, answer) == {"A"}

    # In mode require: required, for A is a candidate without Model_training.
    assert anti(world.advise(manifest, "require"), REQUIRED)
    crowded = replace(world, pods=[running("Model_training", "A")])
    answer = crowded.advise(manifest, "require")
    assert not anti(answer, REQUIRED)
    assert anti(answer, PREFERRED)
    assert names(answer) == ["A"]


def test_code_2_of_the_published_sample_in_mode_require_by_zone():
    world = World(
        [
            node("A", {"gpu": "yes", "disktype": "ssd", "topology.kubernetes.io/zone": "z1"}),
            node("B", {"gpu": "yes", "disktype": "ssd", "topology.kubernetes.io/zone": "z2"}),
            node("C", {"topology.kubernetes.io/zone": "z1"}),
        ],
        pods=[running("Model_training", "C")],
        slowdowns={("hello", "Model_training"): 0.8},
        workflows=[flow(critical("hello", extraResources={"gpu": True, "diskType": "ssd"}))],
    )
    manifest = of_workflow("hello")
    answer = world.advise(manifest, "require", topology_key="topology.kubernetes.io/zone")
    published = {
        "labelSelector": {
            "matchExpressions": [{"key": "openwhisk/action", "operator": "In", "values": ["Model_training"]}]
        },
        "topologyKey": "topology.kubernetes.io/zone",
    }
    assert published in anti(answer, REQUIRED)
    [term] = answer.affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert sorted(term["matchExpressions"], key=lambda each: each["key"]) == [
        {"key": "disktype", "operator": "In", "values": ["ssd"]},
        {"key": "gpu", "operator": "In", "values": ["yes"]},
    ]
    # A shares its zone with Model_training on C: by zone only B is left.
    assert names(answer) == ["B"]
    assert may_run(world, manifest, answer) == {"B"}


@pytest.mark.parametrize("mode", ["prefer", "require"])
def test_r2_hardware_that_nobody_has(mode):
    world = World(
        [node("A"), node("B")],
        pods=[running("Model_training", "A")],
        slowdowns=HELLO_SUFFERS,
        workflows=[flow(critical("hello", extraResources={"fpga": True}))],
    )
    manifest = of_workflow("hello")
    answer = world.advise(manifest, mode)
    assert not answer.satisfiable
    assert not answer.nodes
    assert answer.affinity == {
        "nodeAffinity": {
            REQUIRED: {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "fpga", "operator": "In", "values": ["true"]}]}]
            }
        }
    }
    assert any(reason.rule == "unsatisfiable" and "hardware" in reason.sentence for reason in answer.reasons)
    assert not any(reason.rule == "interference" for reason in answer.reasons)
    assert may_run(world, manifest, answer) == set()


R4 = World(
    [node("A"), node("B"), node("C")],
    pods=[running("Model_training", "A"), running("world", "C")],
    slowdowns=HELLO_SUFFERS,
    workflows=[flow(critical("hello"))],
)


def test_r4_interference_is_avoided_strictly():
    manifest = of_workflow("hello")
    answer = R4.advise(manifest, "require")
    assert set(names(answer)) == {"B", "C"}
    assert may_run(R4, manifest, answer) == {"B", "C"}


def test_r4_interference_is_avoided_by_weight():
    manifest = of_workflow("hello")
    answer = R4.advise(manifest)
    assert names(answer)[-1] == "A"
    assert REQUIRED not in str(answer.affinity)
    weights = preferences(R4, manifest, answer)
    assert weights["A"] < min(weights["B"], weights["C"])


def test_r5_not_enough_nodes():
    world = World(
        [node("A"), node("B")],
        pods=[running("Model_training", "A"), *(running("Model_training", "B", each) for each in range(3))],
        slowdowns=HELLO_SUFFERS,
        workflows=[flow(critical("hello"))],
    )
    manifest = of_workflow("hello")
    answer = world.advise(manifest, "require")
    assert may_run(world, manifest, answer) == {"A", "B"}
    assert names(answer) == ["A", "B"]
    weights = preferences(world, manifest, answer)
    assert weights["A"] > weights["B"]
    assert any(reason.rule == "too_few" for reason in answer.reasons)


def test_r7_both_ways():
    world = World(
        [node("A"), node("B")],
        pods=[running("checkout", "A"), running("batch", "B")],
        slowdowns={
            ("checkout", "hello"): 0.6, ("batch", "hello"): 0.1, ("hello", "checkout"): 0.0, ("hello", "batch"): 0.0,
        },
        workflows=[
            flow(
                {"name": "checkout", "annotations": {"importance": "High"}},
                {"name": "batch", "annotations": {"importance": "Low"}},
                name="shop",
            )
        ],
    )  # fmt: skip
    manifest = pod("hello")
    answer = world.advise(manifest)
    assert names(answer) == ["B", "A"]
    weights = preferences(world, manifest, answer)
    assert weights["B"] > weights["A"]


def test_importance_turns_the_balance():
    """The same damage weighs three times as much where High suffers as where Low does."""
    world = World(
        [node("A"), node("B")],
        pods=[running("x", "A"), running("y", "B")],
        slowdowns={("x", "hello"): 0.3, ("y", "hello"): 0.2},
    )
    assert names(world.advise(pod("hello"))) == ["B", "A"]
    important = {"name": "y", "annotations": {"importance": "High"}}
    other = {"name": "x", "annotations": {"importance": "Low"}}
    weighed = replace(world, workflows=[flow(important, other, name="v")])
    assert names(weighed.advise(pod("hello"))) == ["A", "B"]


def test_r9_an_unknown_function_prefers_an_empty_node():
    world = World([node("A"), node("B")], pods=[running("other", "A")], known=("other",), load={"A": 0.1, "B": 0.5})
    manifest = pod("newf")
    answer = world.advise(manifest)
    assert names(answer) == ["B", "A"]
    weights = preferences(world, manifest, answer)
    assert weights["B"] > weights["A"]


def test_r10_an_unknown_function_goes_beside_its_complement():
    world = World(
        [node("A"), node("B")],
        pods=[running("crunch", "A"), running("cache", "B")],
        profiles={"crunch": "cpu", "cache": "memory"},
        workflows=[flow({"name": "newf", "performanceProfile": {"cpu": "high", "memory": "low"}})],
        load={"A": 0.4, "B": 0.4},
    )
    manifest = of_workflow("newf")
    answer = world.advise(manifest)
    assert names(answer) == ["B", "A"]
    weights = preferences(world, manifest, answer)
    assert weights["B"] > weights["A"]


def test_r11_fastest_so_far_unless_full():
    world = World(
        [node("slow", kind="T2"), node("fast", kind="T1")],
        medians={("hello", "T1"): 100.0, ("hello", "T2"): 150.0},
        load={"slow": 0.1, "fast": 0.7},
    )
    manifest = pod("hello", requests={"cpu": "2"})
    answer = world.advise(manifest)
    assert names(answer) == ["fast", "slow"]
    weights = preferences(world, manifest, answer)
    assert weights["fast"] > weights["slow"]
    full = replace(world, pods=[running("other", "fast", cpu=7.0)])
    assert names(full.advise(manifest)) == ["slow"]


def test_r12_least_loaded_then_most_free():
    manifest = pod("hello")
    by_load = World([node("A"), node("B")], known=("hello",), load={"A": 0.6, "B": 0.2})
    assert names(by_load.advise(manifest)) == ["B", "A"]
    more = [node("A", cpu=8, memory=16 * GIB), node("B", cpu=16, memory=32 * GIB)]
    by_room = World(more, known=("hello",), load={"A": 0.3, "B": 0.3})
    answer = by_room.advise(manifest)
    assert names(answer) == ["B", "A"]
    weights = preferences(by_room, manifest, answer)
    assert weights["B"] > weights["A"]
    # Load comes first: the larger node does not make up for it.
    assert names(replace(by_room, load={"A": 0.2, "B": 0.6}).advise(manifest)) == ["A", "B"]


def test_r14_the_users_own_rules_stay():
    own = {
        "nodeAffinity": {
            REQUIRED: {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in ("a", "b")
                ]
            },
            PREFERRED: [
                {
                    "weight": 7,
                    "preference": {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]},
                }
            ],
        },
        "podAntiAffinity": {
            PREFERRED: [
                {
                    "weight": 3,
                    "podAffinityTerm": {
                        "labelSelector": {"matchLabels": {"app": "mine"}},
                        "topologyKey": "kubernetes.io/hostname",
                    },
                }
            ]
        },
    }
    world = World(
        [node("A", {"zone": "a", "disktype": "ssd"}), node("B", {"zone": "b"}), node("C", {"disktype": "ssd"})],
        slowdowns=HELLO_SUFFERS,
        workflows=[flow(critical("hello", extraResources={"diskType": "ssd"}))],
    )
    manifest = of_workflow("hello", spec={"affinity": own, "nodeSelector": {"disktype": "ssd"}})
    answer = world.advise(manifest)
    disk = {"key": "disktype", "operator": "In", "values": ["ssd"]}
    assert answer.affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}, disk]} for zone in ("a", "b")
    ]
    assert answer.affinity["nodeAffinity"][PREFERRED][0] == own["nodeAffinity"][PREFERRED][0]
    assert answer.affinity["podAntiAffinity"][PREFERRED][0] == own["podAntiAffinity"][PREFERRED][0]
    assert patched(manifest, answer)["spec"]["nodeSelector"] == {"disktype": "ssd"}
    assert may_run(world, manifest, answer) == {"A"}
    assert names(answer) == ["A"]


def test_r16_a_workflow_together():
    world = World([node("A"), node("B")], workflows=[flow({"name": "a"}, {"name": "b"}, together="must")])
    manifest = of_workflow("a")
    answer = world.advise(manifest)
    first = patched(manifest, answer)
    assert first["metadata"]["labels"]["colocation.internal/function"] == "a"
    assert first["metadata"]["labels"]["colocation.internal/workflow"] == "w"
    [term] = answer.affinity["podAffinity"][REQUIRED]
    assert scheduling.selects(term, first["metadata"]["labels"])  # the first pod itself: it is not Pending
    assert may_run(world, manifest, answer) == {"A", "B"}
    # b then may only join a, and is advised to.
    there = _with(pod_of(first), node="A", phase="Running", uid="u1")
    joined = replace(world, pods=[there])
    manifest = of_workflow("b")
    answer = joined.advise(manifest)
    assert names(answer) == ["A"]
    assert may_run(joined, manifest, answer) == {"A"}


def test_r16_a_workflow_apart():
    world = World([node("A"), node("B")], workflows=[flow({"name": "a"}, {"name": "b"}, apart="must")])
    manifest = of_workflow("a")
    first = patched(manifest, world.advise(manifest))
    parted = replace(world, pods=[_with(pod_of(first), node="A", phase="Running", uid="u1")])
    manifest = of_workflow("b")
    answer = parted.advise(manifest)
    assert names(answer) == ["B"]
    assert may_run(parted, manifest, answer) == {"B"}


@pytest.mark.parametrize(("how", "better"), [("together", "A"), ("apart", "B")])
def test_r16_a_workflow_that_should(how, better):
    world = World(
        [node("A"), node("B")], known=("a", "b"), workflows=[flow({"name": "a"}, {"name": "b"}, **{how: "should"})]
    )
    manifest = of_workflow("a")
    first = patched(manifest, world.advise(manifest))
    with_a = replace(world, pods=[_with(pod_of(first), node="A", phase="Running", uid="u1")])
    manifest = of_workflow("b")
    answer = with_a.advise(manifest)
    assert names(answer)[0] == better
    assert may_run(with_a, manifest, answer) == {"A", "B"}
    weights = preferences(with_a, manifest, answer)
    assert max(weights, key=weights.__getitem__) == better


def test_r17_another_cluster():
    world = replace(R4, workflows=[flow(critical("hello", extraResources={"gpu": False}), cluster="c2")])
    answer = world.advise(of_workflow("hello"), "require")
    assert "podAntiAffinity" not in answer.affinity
    assert answer.cause == "other_cluster"
    assert any("c2" in reason.sentence and "c1" in reason.sentence for reason in answer.reasons)
    assert not any(reason.evidence for reason in answer.reasons)
    assert "podAntiAffinity" in replace(world, workflows=[flow(critical("hello"), cluster="c1")]).advise(
        of_workflow("hello"), "require"
    ).affinity  # fmt: skip


def test_r18_observe_changes_nothing_and_says_what_it_would_do():
    answer = R4.advise(of_workflow("hello"), "observe")
    assert answer.mode == "observe"
    assert answer.patch == ()
    assert answer.outcome == "unchanged"
    would = R4.advise(of_workflow("hello"), "prefer")
    assert answer.affinity == would.affinity
    assert answer.nodes == would.nodes


def test_r19_a_stale_snapshot_gives_stated_needs_only():
    needed = critical("hello", extraResources={"diskType": "ssd"}, preferredResources={"gpu": True})
    world = World(
        [node("A", {"disktype": "ssd"}), node("B", {"disktype": "ssd"}), node("C")],
        pods=[running("Model_training", "A")],
        slowdowns=HELLO_SUFFERS,
        workflows=[flow(needed)],
        load={"A": 0.1, "B": 0.9},
        age=timedelta(hours=2),
    )
    answer = world.advise(of_workflow("hello"), "require")
    ssd = {"matchExpressions": [{"key": "disktype", "operator": "In", "values": ["ssd"]}]}
    assert answer.affinity == {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [ssd]}}}
    assert answer.cause == "stale"
    fresh = replace(world, age=timedelta(minutes=59)).advise(of_workflow("hello"), "require")
    assert fresh.cause == ""
    assert anti(fresh, REQUIRED)


def test_r19_age_is_counted_at_the_time_of_the_answer():
    view, policy = R4.view(), Policy(mode="prefer")
    request = R4.request(of_workflow("hello"), policy, view)
    soon = recommend(request, view, policy, decision="d", at=NOW + timedelta(minutes=50))
    late = recommend(request, view, policy, decision="d", at=NOW + timedelta(minutes=60))
    assert (soon.cause, late.cause) == ("", "stale")


@pytest.mark.parametrize(
    "best",
    [
        node("A", ready=False),
        node("A", schedulable=False),
        node("A", taints=[Taint("dedicated", "NoSchedule", "db")]),
        node("A", taints=[Taint("dedicated", "NoExecute", "db")]),
        node("A", cpu=1.5),
        node("A", memory=GIB / 2),
    ],
    ids=["not ready", "cordoned", "tainted", "tainted for running pods", "too few cores", "too little memory"],
)
def test_r20_no_room_no_candidate(best):
    world = World(
        [best, node("B"), node("C")],
        pods=[running("Model_training", "B"), running("Model_training", "C")],
        slowdowns=HELLO_SUFFERS,
        workflows=[flow(critical("hello"))],
    )
    manifest = of_workflow("hello", requests={"cpu": "2", "memory": "1Gi"})
    for mode in ("prefer", "require"):
        answer = world.advise(manifest, mode)
        assert set(names(answer)) == {"B", "C"}
        assert not anti(answer, REQUIRED)  # A is no node that would remain
    good = replace(world, nodes=[node("A"), *world.nodes[1:]])
    assert names(good.advise(manifest))[0] == "A"


def test_r20_requests_of_live_pods_count_and_those_of_ended_ones_do_not():
    holding = running("other", "A", cpu=7.0)
    world = World([node("A"), node("B")], pods=[holding], known=("hello", "other"), load={"A": 0.1, "B": 0.9})
    manifest = pod("hello", requests={"cpu": "2"})
    assert names(world.advise(manifest)) == ["B"]
    ended = replace(world, pods=[_with(holding, phase="Succeeded")])
    assert names(ended.advise(manifest))[0] == "A"


def test_r20_a_toleration_opens_a_tainted_node():
    world = World([node("A", taints=[Taint("dedicated", "NoSchedule", "db")])], known=("hello",))
    for toleration, opens in (
        ({"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"}, True),
        ({"key": "dedicated", "value": "db"}, True),
        ({"key": "dedicated", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "dedicated", "value": "web"}, False),
        ({"key": "dedicated", "value": "db", "effect": "NoExecute"}, False),
    ):
        answer = world.advise(pod("hello", spec={"tolerations": [toleration]}))
        assert answer.satisfiable is opens, toleration


def test_a_reservation_counts_until_its_pod_has_a_node():
    world = World([node("A", cpu=4), node("B", cpu=4)], known=("hello",), load={"A": 0.1, "B": 0.5})
    manifest = pod("hello", requests={"cpu": "3"})
    assert names(world.advise(manifest))[0] == "A"
    reserved = replace(world, reservations=(Reservation("d0", "A", "hello", {"cpu": 3.0, "pods": 1.0}),))
    assert names(reserved.advise(manifest)) == ["B"]
    seen = _with(running("hello", "B", cpu=3.0), annotations={"colocation.internal/decision": "d0"})
    assert names(replace(reserved, pods=[seen]).advise(manifest)) == ["A"]


def _with(record, **changes):
    return type(record)(**{**{name: getattr(record, name) for name in record.__struct_fields__}, **changes})
