"""Each rule by itself, where the worked cases do not go."""

from dataclasses import replace
from datetime import timedelta

import jsonpatch
import msgspec
import numpy as np
import pytest
from msgspec import structs

from pipeline.records import Taint
from rules import explain
from rules.affinity.interference import carried
from rules.affinity.speed import hardware
from rules.changes import Changes, updated
from rules.labels import label_value
from rules.policy import Policy
from rules.scoring import CRITERIA, graded
from tests.support import scheduling
from tests.support.manifests import check
from tests.support.scheduling import PREFERRED, REQUIRED
from tests.support.worlds import NOW, World, critical, flow, names, node, of_workflow, pod, running


def anti(answer, strength):
    return (answer.affinity.get("podAntiAffinity") or {}).get(strength) or []


def pair(**given):
    return {("hello", "batch"): {"slowdown": 0.5, **given}}


TWO = World([node("A", kind="t1"), node("B", kind="t2")], pods=[running("batch", "A")], slowdowns=pair())
SURE = World(
    [node("A"), node("B")],
    pods=[running("batch", "A")],
    slowdowns=pair(),
    known=("hello", "batch"),
    workflows=[flow(critical("hello"))],
)


# -- interference


def test_every_pair_that_is_acted_upon_shows_its_evidence():
    answer = TWO.advise(pod("hello"))
    [reason] = [each for each in answer.reasons if each.rule == "interference"]
    evidence = reason.evidence
    assert evidence is not None
    assert (evidence.victim, evidence.aggressor, evidence.status) == ("hello", "batch", "observed")
    assert (evidence.slowdown, evidence.probability, evidence.effective_overlaps) == (0.5, 0.99, 250.0)
    assert (evidence.low, evidence.high) == pytest.approx((0.4, 0.6))
    assert (evidence.window_start, evidence.window_end) == (NOW - timedelta(days=14), NOW - timedelta(hours=1))
    for said in (
        "hello",
        "batch",
        "50%",
        "40% to 60%",
        "0.99",
        "250 effective overlaps",
        "all node types",
        "2024-04-22",
    ):
        assert said in reason.sentence


@pytest.mark.parametrize(
    "unsure",
    [{"probability": 0.89}, {"effective_overlaps": 29.0}, {"slowdown": 0.04}, {"status": "unknown"},
     {"status": "shared_cause"}, {"probability": None}, {"slowdown": float("nan")}],
    ids=lambda each: "_".join(each),
)  # fmt: skip
def test_an_unsure_pair_gives_no_term(unsure):
    answer = replace(SURE, slowdowns=pair(**unsure)).advise(of_workflow("hello"), "require")
    assert not anti(answer, REQUIRED) and not anti(answer, PREFERRED)
    assert not any(each.evidence for each in answer.reasons)


@pytest.mark.parametrize("limit", [{"probability": 0.9}, {"effective_overlaps": 30.0}, {"slowdown": 0.05}])
def test_a_pair_at_the_limit_is_acted_upon(limit):
    assert anti(replace(SURE, slowdowns=pair(**limit)).advise(of_workflow("hello"), "require"), REQUIRED)


@pytest.mark.parametrize("status", ["unknown", "shared_cause"])
def test_what_is_not_interference_does_not_rank(status):
    world = replace(TWO, slowdowns=pair(status=status), load={"A": 0.1, "B": 0.5}, known=("hello",))
    assert names(world.advise(pod("hello"))) == ["A", "B"]


def test_a_predicted_pair_is_preferred_never_required():
    world = replace(SURE, slowdowns=pair(status="predicted", effective_overlaps=0.0))
    answer = world.advise(of_workflow("hello"), "require")
    assert not anti(answer, REQUIRED)
    assert anti(answer, PREFERRED)
    assert names(answer) == ["B", "A"]


@pytest.mark.parametrize(
    "action",
    [
        {"name": "hello"},
        {"name": "hello", "annotations": {"optimizationGoal": "Performance", "importance": "Medium"}},
        {"name": "hello", "annotations": {"optimizationGoal": "Energy", "importance": "High"}},
    ],
)
def test_strict_only_for_performance_of_high_importance(action):
    answer = replace(SURE, workflows=[flow(action)]).advise(of_workflow("hello"), "require")
    assert not anti(answer, REQUIRED)
    assert names(answer) == ["B", "A"]
    assert anti(SURE.advise(of_workflow("hello"), "require"), REQUIRED)


def test_a_strict_victim_is_kept_clear_of_too():
    actions = flow(critical("hello"), critical("checkout"), {"name": "batch"})
    world = World(
        [node("A"), node("B"), node("C")],
        pods=[running("checkout", "A"), running("batch", "B")],
        slowdowns={("checkout", "hello"): 0.4, ("batch", "hello"): 0.4},
        workflows=[actions],
    )
    answer = world.advise(of_workflow("hello"), "require")
    assert names(answer) == ["C", "B"]
    values = {
        value for term in anti(answer, REQUIRED) for value in term["labelSelector"]["matchExpressions"][0]["values"]
    }
    assert values == {"checkout"}


def test_what_is_stated_for_a_whole_workflow_holds_for_those_who_would_suffer_too():
    said = {"optimizationGoal": "performance", "importance": "High"}
    world = World(
        [node("A"), node("B"), node("C")],
        pods=[running("checkout", "A"), running("batch", "B")],
        slowdowns={("checkout", "hello"): 0.4, ("batch", "hello"): 0.5},
        workflows=[flow(critical("hello")), flow({"name": "checkout"}, name="shop", **said)],
    )
    assert names(world.advise(of_workflow("hello"))) == ["C", "B", "A"], ".4 of High weighs more than .5 of Medium"
    required = anti(world.advise(of_workflow("hello"), "require"), REQUIRED)
    assert {value for term in required for value in term["labelSelector"]["matchExpressions"][0]["values"]} == {
        "checkout"
    }
    lowly = {"name": "checkout", "annotations": {"importance": "Low"}}
    own = replace(world, workflows=[flow(lowly, name="shop", **said)])
    assert names(own.advise(pod("hello"))) == ["C", "A", "B"], "what its action says itself comes first"


def test_a_row_for_the_nodes_own_type_replaces_that_for_all():
    world = World(
        [node("A", kind="t1"), node("B", kind="t2")],
        pods=[running("batch", "A"), running("batch", "B")],
        slowdowns={("hello", "batch"): 0.2},
    )
    assert names(world.advise(pod("hello"))) == ["A", "B"]
    snapshot_rows = {("hello", "batch"): {"slowdown": 0.6, "node_type": "t1"}}
    typed = replace(world, slowdowns=snapshot_rows)
    assert names(typed.advise(pod("hello"))) == ["B", "A"]  # on t2 nothing is known
    # what holds on one of two types only is never required
    strict = replace(typed, nodes=[*world.nodes, node("C", kind="t2")], workflows=[flow(critical("hello"))])
    assert not anti(strict.advise(of_workflow("hello"), "require"), REQUIRED)
    # a type that no node has is no reason for anything
    gone = replace(world, slowdowns={("hello", "batch"): {"slowdown": 0.6, "node_type": "t9"}}, known=("hello",))
    assert not anti(gone.advise(pod("hello")), PREFERRED)


def test_busy_neighbours_weigh_more():
    world = World(
        [node("A"), node("B")],
        pods=[running("batch", "A"), running("batch", "B")],
        slowdowns=pair(),
        busy={("A", "batch"): 2.0, ("B", "batch"): 0.2},
    )
    answer = world.advise(pod("hello"))
    assert names(answer) == ["B", "A"]
    # slowdown .5, probability .99, and 2 running at once
    assert "would run 99% longer beside its neighbours (batch)" in answer.nodes[1].reasons
    assert "would run 10% longer beside its neighbours (batch)" in answer.nodes[0].reasons


def test_what_a_score_has_is_told_however_small_and_by_whom_most_of_it_is():
    """B loses .3 % by its neighbours: .1 by one, .2 by the other; on C nobody loses anything."""
    world = World(
        [node("A"), node("B"), node("C")],
        pods=[running("batch", "A"), running("batch", "B"), running("other", "B"), running("idle", "C")],
        slowdowns={("hello", "batch"): {"slowdown": 0.1, "probability": 1.0},
                   ("hello", "other"): {"slowdown": 0.2, "probability": 1.0}},
        busy={("A", "batch"): 1.0, ("B", "batch"): 0.01, ("B", "other"): 0.01},
        known=("idle",),
    )  # fmt: skip
    answer = world.advise(pod("hello"))
    reasons = {each.name: each.reasons for each in answer.nodes}
    assert names(answer) == ["C", "B", "A"]
    assert "would run 0.3% longer beside its neighbours (mostly other)" in reasons["B"]
    assert "would run 10% longer beside its neighbours (batch)" in reasons["A"]
    assert not any("neighbours" in said for said in reasons["C"])
    assert [row[2] for row in explain.rows(answer)] == ["100.0", "99.7", "90.9"]  # 100 / (1 + .003), / (1 + .1)


def test_a_pods_own_kind_is_told_once():
    world = World([node("A"), node("B")], pods=[running("hello", "A")], slowdowns={("hello", "hello"): 0.4})
    answer = world.advise(pod("hello"))
    assert names(answer) == ["B", "A"]
    assert "would run 40% longer beside its neighbours (hello)" in answer.nodes[1].reasons
    assert not any("would slow" in reason for reason in answer.nodes[1].reasons)


def test_a_pods_own_kind_weighs_both_ways():
    """Two that slow each other by .2 each lose .4 together, more than the .3 that one would lose beside x."""
    world = World(
        [node("A"), node("B")],
        pods=[running("hello", "A"), running("x", "B")],
        slowdowns={("hello", "hello"): 0.2, ("hello", "x"): 0.3},
    )
    assert names(world.advise(pod("hello"))) == ["B", "A"]


def test_terms_name_namespaces_and_every_kind_of_label():
    world = World(
        [node("A"), node("B")],
        slowdowns={("guest/hello", "team/Batch_job"): 0.9, ("guest/hello", "team/pack/x"): 0.9},
    )
    answer = world.advise(pod("guest/hello"))
    own, labelled = (term["podAffinityTerm"] for term in anti(answer, PREFERRED))
    [expression] = own["labelSelector"]["matchExpressions"]
    assert expression["key"] == "colocation.internal/function"
    assert {"Batch_job", "x"} < set(expression["values"])
    assert len(expression["values"]) == 4
    assert labelled["labelSelector"]["matchExpressions"] == [
        {"key": "openwhisk/action", "operator": "In", "values": ["Batch_job", "x"]},
        {"key": "openwhisk/namespace", "operator": "In", "values": ["team"]},
        {"key": "colocation.internal/function", "operator": "DoesNotExist"},
    ]


def test_a_namespace_opts_in_to_terms_across_namespaces():
    assert all(
        "namespaceSelector" not in term["podAffinityTerm"] for term in anti(TWO.advise(pod("hello")), PREFERRED)
    )
    answer = TWO.advise(pod("hello"), across=frozenset({"ow"}))
    assert anti(answer, PREFERRED)
    assert all(term["podAffinityTerm"]["namespaceSelector"] == {} for term in anti(answer, PREFERRED))


def test_the_pairs_in_one_pod_are_bounded():
    world = World([node("A"), node("B")], slowdowns={("hello", f"f{each}"): 0.1 + each / 1000 for each in range(100)})
    answer = world.advise(pod("hello"), pairs=10)
    named = {
        value
        for term in anti(answer, PREFERRED)
        for expression in term["podAffinityTerm"]["labelSelector"]["matchExpressions"]
        if expression["key"] == "openwhisk/action"
        for value in expression["values"]
    }
    assert named == {f"f{each}" for each in range(90, 100)}


# -- fastest, unknown, service


def test_the_median_on_a_node_comes_before_that_of_its_type():
    nodes = [node("A", kind="t1"), node("B", kind="t1"), node("C", kind="t2"), node("D", kind="t3")]
    world = World(nodes, medians={("f", "t1"): 100.0, ("f", "t2"): 90.0, ("f", "A"): 80.0})
    answer = world.advise(pod("f"))
    assert names(answer)[:2] == ["A", "C"]
    reasons = {each.name: each.reasons for each in answer.nodes}
    assert "median 80 ms on this node" in reasons["A"]
    assert "median 100 ms on this node type" in reasons["B"]
    assert not any("median" in reason for reason in reasons["D"])
    [told] = [each.sentence for each in answer.reasons if each.rule == "fastest"]
    assert "80 ms on this node" in told and "node A" in told


HERE, ON_TYPE = "on this node beside what runs there now", "on this node type beside what runs there now"


def test_the_median_in_the_company_of_now_comes_first_then_that_of_the_type_then_the_prediction():
    """f is 50 % slower beside x by what was learned, yet its medians beside x say otherwise where there are any."""
    nodes = [node(name, kind=kind) for name, kind in (("A", "t1"), ("B", "t1"), ("C", "t2"), ("D", "t2"))]
    world = World(
        nodes,
        pods=[running("x", "A"), running("x", "B"), running("x", "C")],
        slowdowns={("f", "x"): {"slowdown": 0.5, "probability": 1.0}},
        medians={("f", "t1"): 130.0, ("f", "t2"): 110.0},
        beside={
            ("f", "t1", ()): 100.0,
            ("f", "t1", ("x",)): 120.0,
            ("f", "A", ("x",)): 170.0,
            ("f", "A", ("y",)): 1.0,
        },
    )
    answer = world.advise(pod("f"))
    reasons = {each.name: each.reasons for each in answer.nodes}
    assert f"median 170 ms {HERE}" in reasons["A"]
    assert f"median 120 ms {ON_TYPE}" in reasons["B"]
    # 110 * (1 + .5)
    assert "165 ms predicted beside what runs there now: 50% more than the 110 ms without" in reasons["C"]
    assert "takes 1.1 times as long on this node type as on its fastest" in reasons["C"]  # 110 / 100
    assert "median 110 ms on this node type" in reasons["D"]
    [told] = [each.sentence for each in answer.reasons if each.rule == "fastest"]
    said = "median 110 ms on this node type; it orders nodes whose company is level, so that others may come first"
    assert told.endswith(f"node D by what is known so far: {said}")
    # Alike in company and hardware, B comes before A by its time; C's type is a tenth slower, alone, than theirs.
    assert names(answer) == ["D", "B", "A", "C"]


def test_alone_is_the_base_wherever_it_is_known():
    nodes = [node("A", kind="t1"), node("B", kind="t1")]
    world = World(
        nodes,
        pods=[running("x", "A"), running("harmless", "B")],
        slowdowns={("f", "x"): {"slowdown": 0.5, "probability": 1.0}},
        medians={("f", "t1"): 130.0, ("f", "A"): 400.0},
        beside={("f", "t1", ()): 100.0},
    )
    reasons = {each.name: each.reasons for each in world.advise(pod("f")).nodes}
    assert "150 ms predicted beside what runs there now: 50% more than the 100 ms without" in reasons["A"]
    assert "median 100 ms alone on this node type" in reasons["B"]
    there = replace(world, beside={("f", "A", ()): 90.0, ("f", "t1", ()): 100.0})
    assert (
        "135 ms predicted beside what runs there now: 50% more than the 90 ms without"
        in {each.name: each.reasons for each in there.advise(pod("f")).nodes}["A"]
    )


def test_seldom_running_functions_are_no_company():
    """x runs a quarter of the time: most runs on A had nobody beside them."""
    world = World(
        [node("A")],
        pods=[running("x", "A")],
        busy={("A", "x"): 0.25},
        beside={("f", "A", ()): 90.0, ("f", "A", ("x",)): 300.0},
        known=("x",),
        medians={("f", "t1"): 100.0},
    )
    [answer] = world.advise(pod("f")).nodes
    assert "median 90 ms alone on this node" in answer.reasons
    [answer] = replace(world, busy={("A", "x"): 0.75}).advise(pod("f")).nodes
    assert f"median 300 ms {HERE}" in answer.reasons


def test_company_and_hardware_count_together_as_the_time_that_a_run_would_take():
    # Beside batch hello takes 10 ms * (1 + .5 * .99) = 15 ms on A.
    beside = replace(TWO, medians={("hello", "t1"): 10.0, ("hello", "t2"): 14.0})
    assert names(beside.advise(pod("hello"))) == ["B", "A"]
    slower = replace(TWO, medians={("hello", "t1"): 10.0, ("hello", "t2"): 20.0})
    assert names(slower.advise(pod("hello"))) == ["A", "B"]


def test_what_is_done_to_many_short_runs_counts_more_than_what_is_done_to_a_part_of_a_long_one():
    # While hello runs once, ten runs of quick take .2 longer each, a tenth of one of long takes .5: costs 2 and .05.
    slowdowns = {("quick", "hello"): 0.2, ("long", "hello"): 0.5}
    world = World(
        [node("A"), node("B")],
        pods=[running("quick", "A"), running("long", "B")],
        slowdowns={each: {"slowdown": much, "probability": 1.0} for each, much in slowdowns.items()},
    )
    assert names(world.advise(pod("hello"))) == ["A", "B"]  # no time is known
    timed = replace(world, medians={("hello", ""): 100.0, ("quick", ""): 10.0, ("long", ""): 1000.0})
    answer = timed.advise(pod("hello"))
    assert names(answer) == ["B", "A"]
    assert [int(each.score) for each in answer.nodes] == [95, 33]  # 1 / 1.05 and 1 / 3


def test_what_a_fit_says_of_hardware_comes_before_medians_in_some_company():
    # Beside batch hello takes 1.495 times its time alone; by its medians B, by what it takes alone A is the faster.
    beside = replace(TWO, medians={("hello", "t1"): 10.0, ("hello", "t2"): 14.0})
    assert names(beside.advise(pod("hello"))) == ["B", "A"]
    fitted = {(name, kind): alone for name in ("hello", "x", "y") for kind, alone in (("t1", 10.0), ("t2", 16.0))}
    assert names(replace(beside, alone=fitted).advise(pod("hello"))) == ["A", "B"]


def test_a_type_that_a_function_never_ran_on_takes_as_much_longer_as_types_usually_do():
    fitted = {("x", "t1"): 10.0, ("x", "t2"): 20.0, ("y", "t1"): 5.0, ("y", "t2"): 10.0, ("hello", "t1"): 7.0}
    view = replace(TWO, alone=fitted, medians=dict.fromkeys(fitted, 1.0)).view()
    assert view.nodes.types == ("t1", "t2")
    assert hardware(view.functions.index["hello"], view) == pytest.approx([1.0, 2.0])


def test_what_few_runs_say_of_hardware_is_drawn_to_what_types_usually_differ_by():
    # 100 runs on each type weigh 100 / 130 beside the usual factor of 2: 2 * 4 ** (100 / 130).
    usual = {(name, kind): alone for name in ("x", "y") for kind, alone in (("t1", 10.0), ("t2", 20.0))}
    fitted = usual | {("hello", "t1"): 1.0, ("hello", "t2"): 8.0}
    view = replace(TWO, alone=fitted, medians=dict.fromkeys(fitted, 1.0)).view()
    assert hardware(view.functions.index["hello"], view) == pytest.approx([1.0, 2.0 * 4.0 ** (100 / 130)])


def test_what_is_not_known_to_be_harmless_is_feared_more_than_what_is_known_to_do_little():
    # Pairs that surely interfere come to .45 on average; that much is feared of dim, by its chance.
    pairs = {
        ("hello", "batch"): 0.8,
        ("hello", "dim"): {"slowdown": 0.01, "probability": 0.2, "status": "predicted"},
        ("hello", "mild"): {"slowdown": 0.1, "probability": 0.99},
    }
    world = World([node("A"), node("B")], pods=[running("dim", "A"), running("mild", "B")], slowdowns=pairs)
    usual = (0.8 + 0.1) / 2
    assert world.view().pairs.usual == pytest.approx(usual)
    assert usual * 0.2 + 0.01 * 0.8 < 0.1 * 0.99
    assert names(world.advise(pod("hello"))) == ["A", "B"]
    likelier = {**pairs, ("hello", "dim"): {"slowdown": 0.01, "probability": 0.3, "status": "predicted"}}
    assert usual * 0.3 > 0.1 * 0.99
    assert names(replace(world, slowdowns=likelier).advise(pod("hello"))) == ["B", "A"]


def test_a_pair_counts_with_the_mean_of_what_may_be_true_of_it():
    pairs = {
        ("hello", "batch"): {"slowdown": 0.5, "probability": 0.8},
        ("hello", "dim"): {"slowdown": 0.02, "probability": 0.2},
        ("hello", "nil"): {"slowdown": -0.1, "probability": 0.0},
        ("hello", "still"): {"slowdown": 0.03, "probability": 0.0},
    }
    found = World([node("A")], slowdowns=pairs).view().pairs
    others = (found.names[each] for each in found.aggressor)
    # The one that probably interferes, .5 or nothing; dim .5 as that one does, or .02; harmless ones what they do.
    assert dict(zip(others, found.expected(np.arange(len(found))), strict=True)) == pytest.approx(
        {"batch": 0.4, "dim": 0.2 * 0.5 + 0.8 * 0.02, "nil": 0.0, "still": 0.03}
    )


def test_many_harmless_neighbours_are_more_than_one():
    many = [f"calm{number}" for number in range(4)]
    pairs = {("hello", name): {"slowdown": 0.03, "probability": 0.0} for name in many}
    pods = [running(many[0], "A"), *(running(name, "B") for name in many[1:])]
    assert names(World([node("A"), node("B")], pods=pods, slowdowns=pairs).advise(pod("hello"))) == ["A", "B"]


@pytest.mark.parametrize(("many", "weights"), [(250, {"dear": 100, "cheap": 50}), (251, {"dear": 100, "cheap": 100})])
def test_where_many_pods_run_one_weight_stands_for_all_pairs(many, weights):
    """A scheduler compares each term with every pod; the mean cost of .9 and .2 is above half."""
    world = World(
        [node("A"), node("B")],
        pods=[running("bystander", "A", number, cpu=0.0, memory=0.0) for number in range(many)],
        slowdowns={("hello", name): {"slowdown": slowdown, "probability": 1.0} for name, slowdown in
                   (("dear", 0.9), ("cheap", 0.2))},
    )  # fmt: skip
    told = {}
    for term in anti(world.advise(pod("hello")), PREFERRED):
        [first, *_] = term["podAffinityTerm"]["labelSelector"]["matchExpressions"]
        told |= dict.fromkeys(first["values"], term["weight"]) if first["key"].endswith("/function") else {}
    assert told == weights


@pytest.mark.parametrize(
    ("bystanders", "labels", "keys"),
    [
        (249, {"colocation.internal/function": "dear"}, {"colocation.internal/function", "openwhisk/action"}),
        (250, {"colocation.internal/function": "dear"}, {"colocation.internal/function"}),
        (250, {"colocation.internal/function": "dear", "openwhisk/action": "dear"}, {"colocation.internal/function"}),
        (250, {"openwhisk/action": "dear"}, {"colocation.internal/function", "openwhisk/action"}),
        (250, {"openwhisk/action": "other"}, {"colocation.internal/function"}),
    ],
)
def test_where_many_pods_run_a_term_is_on_labels_that_pods_carry(bystanders, labels, keys):
    """A term costs the scheduler a comparison with every pod; 249 and one more are not many."""
    own = {"colocation.internal/function": "bystander"}
    dear = structs.replace(running("dear", "N0"), labels=labels)
    world = World(
        [node("N0"), node("N1")],
        pods=[
            *(structs.replace(running("bystander", "N1", number), labels=own) for number in range(bystanders)),
            dear,
        ],
        slowdowns={("hello", "dear"): {"slowdown": 0.9, "probability": 1.0}},
    )
    terms = [
        term["podAffinityTerm"]["labelSelector"]["matchExpressions"]
        for term in anti(world.advise(pod("hello")), PREFERRED)
    ]
    assert {first["key"] for first, *_ in terms} == keys


@pytest.mark.parametrize(
    ("labels", "keys"),
    [
        ({"colocation.internal/function": "typed"}, {"colocation.internal/function"}),
        ({"openwhisk/action": "typed"}, {"colocation.internal/function", "openwhisk/action"}),
    ],
)
def test_beside_a_strict_rule_too_terms_are_on_labels_that_pods_carry(labels, keys):
    """The sure disturber is shunned strictly, and the predicted one by wish."""
    own = {"colocation.internal/function": "bystander"}
    world = World(
        [node("N0"), node("N1")],
        pods=[
            *(structs.replace(running("bystander", "N1", number), labels=own) for number in range(250)),
            structs.replace(running("typed", "N0"), labels=labels),
        ],
        slowdowns={
            ("hello", "dear"): {"slowdown": 0.9, "probability": 1.0},
            ("hello", "typed"): {"slowdown": 0.9, "probability": 1.0, "status": "predicted"},
        },
        workflows=[flow(critical("hello"))],
    )
    answer = world.advise(of_workflow("hello"), mode="require")
    assert anti(answer, REQUIRED)
    terms = [term["podAffinityTerm"]["labelSelector"]["matchExpressions"] for term in anti(answer, PREFERRED)]
    assert {first["key"] for first, *_ in terms} == keys


_LONG = "a" * 64  # no label's value, so its label is hashed


@pytest.mark.parametrize(
    ("nodes", "action", "own", "bare"),
    [
        (250, "dear", "guest/dear", True),
        (251, "dear", "guest/dear", False),
        (251, "dear", "dear", True),
        (251, "dear", "other", False),
        (251, _LONG, f"guest/{_LONG}", True),
    ],
)
def test_on_many_nodes_a_term_names_a_bare_action_only_where_a_pod_carries_it(nodes, action, own, bare):
    """A pod of unknown namespace carries the bare action as its label; that of a hashed one is not told apart."""
    function = f"guest/{action}"
    world = World(
        [node(f"N{number}") for number in range(nodes)],
        pods=[structs.replace(running(function, "N0"), labels={"colocation.internal/function": label_value(own)})],
        slowdowns={("guest/hello", function): {"slowdown": 0.9, "probability": 1.0}},
    )
    told = set()
    for term in anti(world.advise(pod("guest/hello")), PREFERRED):
        for each in term["podAffinityTerm"]["labelSelector"]["matchExpressions"]:
            if each["key"].endswith("/function") and each["operator"] == "In":
                told |= set(each["values"])
    assert label_value(function) in told
    assert (label_value(action) in told) is bare


def test_labels_of_pods_that_are_gone_are_carried_by_none():
    bare = [running("dear", "A", number) for number in range(2)]
    view = World([node("A")], pods=bare, known=("dear",)).view()
    assert carried(view, Policy()) == {("openwhisk/action", "dear")}
    assert carried(updated(view, NOW, Changes(gone=(bare[0],))), Policy()) == {("openwhisk/action", "dear")}
    assert carried(updated(view, NOW, Changes(gone=tuple(bare))), Policy()) == frozenset()


def test_an_unknown_function_beside_the_least_of_others():
    world = World(
        [node("A"), node("B")],
        pods=[running("x", "A"), running("y", "B")],
        known=("x", "y"),
        busy={("A", "x"): 3.0, ("B", "y"): 0.5},
    )
    answer = world.advise(pod("newf"))
    assert names(answer) == ["B", "A"]
    assert any("nothing is known yet of newf" in each.sentence for each in answer.reasons)
    assert "1 pod of functions there" in answer.nodes[0].reasons


SELECTOR = {"app": "redis", "tier": "cache"}
SERVED = World(
    [node("A"), node("B")],
    pods=[msgspec.structs.replace(running("", "B"), labels=SELECTOR)],
    known=("f",),
    workflows=[flow({"name": "f", "usesService": "redis, gone"})],
    services={("ow", "redis"): SELECTOR, ("else", "redis"): SELECTOR},
    load={"A": 0.1, "B": 0.6},
)


def test_near_a_service_that_the_function_uses():
    answer = SERVED.advise(of_workflow("f"))
    assert names(answer) == ["B", "A"]  # where its pods run, before the least loaded
    [term] = answer.affinity["podAffinity"][PREFERRED]
    assert term["podAffinityTerm"]["labelSelector"]["matchExpressions"] == [
        {"key": "app", "operator": "In", "values": ["redis"]},
        {"key": "tier", "operator": "In", "values": ["cache"]},
    ]
    assert any("gone" in each.sentence and "no rule" in each.sentence for each in answer.reasons)


def test_a_service_that_the_whole_workflow_uses():
    world = replace(SERVED, workflows=[flow({"name": "f"}, usesService="redis")])
    answer = world.advise(of_workflow("f"))
    assert names(answer) == ["B", "A"]
    assert answer.affinity["podAffinity"][PREFERRED]


def test_a_service_of_another_namespace_only_where_rules_may_reach_it():
    world = replace(SERVED, workflows=[flow({"name": "f", "usesService": "else/redis"})])
    answer = world.advise(of_workflow("f"))
    assert names(answer) == ["A", "B"]
    assert "podAffinity" not in answer.affinity
    assert any("may not reach: no rule" in each.sentence for each in answer.reasons)
    there = msgspec.structs.replace(world.pods[0], namespace="else")
    answer = replace(world, pods=[there]).advise(of_workflow("f"), across=frozenset({"ow"}))
    assert names(answer) == ["B", "A"]
    [term] = answer.affinity["podAffinity"][PREFERRED]
    assert (term["podAffinityTerm"]["namespaces"], "namespaceSelector" in term["podAffinityTerm"]) == (
        ["else"],
        False,
    )


def test_a_service_draws_to_its_own_pods_and_not_to_namesakes_of_other_namespaces():
    namesake = msgspec.structs.replace(SERVED.pods[0], namespace="else", node="A", uid="u2")
    world = replace(SERVED, pods=[*SERVED.pods, namesake])
    manifest = of_workflow("f")
    answer = world.advise(manifest, across=frozenset({"ow"}))
    assert names(answer) == ["B", "A"]
    result = jsonpatch.apply_patch(manifest, list(answer.patch))
    alone = {"podAffinity": result["spec"]["affinity"]["podAffinity"]}
    drawn = {**result, "spec": {**result["spec"], "affinity": alone}}
    weights = {each.name: scheduling.preference(drawn, each, world.nodes, world.pods) for each in world.nodes}
    assert weights == {"A": 0, "B": 50}


def test_pods_of_before_the_webhook_are_joined_by_the_labels_of_openwhisk():
    """A pod that was started without the product's labels carries OpenWhisk's once it is initialised."""
    world = World(
        [node("A"), node("B")], pods=[running("guest/b", "B")], known=("guest/a", "guest/b"),
        workflows=[flow({"name": "a"}, {"name": "b"}, together="should")],
    )  # fmt: skip
    manifest = of_workflow("a")
    answer = world.advise(manifest)
    assert names(answer) == ["B", "A"]
    result = jsonpatch.apply_patch(manifest, list(answer.patch))
    weights = {each.name: scheduling.preference(result, each, world.nodes, world.pods) for each in world.nodes}
    pods_alone = weights["B"] - scheduling.node_weight(answer.affinity, world.nodes[1])
    assert pods_alone > 0


@pytest.mark.parametrize("beside", ["b", "c"])
def test_two_groups_that_must_run_together_ask_for_a_pod_of_either(beside):
    """Two required terms would ask the scheduler for one pod that is in both groups, which only a's own are."""
    workflow = flow({"name": "a"}, {"name": "b"}, {"name": "c"}, together="must: a, b; must: a, c")
    labels = {"colocation.internal/function": beside, "colocation.internal/workflow": "w"}
    there = msgspec.structs.replace(running("", "B"), labels={**labels, "openwhisk/action": beside})
    world = World([node("A"), node("B")], pods=[there], workflows=[workflow], known=("a", "b", "c"))
    manifest = of_workflow("a")
    answer = world.advise(manifest)
    assert names(answer) == ["B"]
    assert len(answer.affinity["podAffinity"][REQUIRED]) == 1
    patched = jsonpatch.apply_patch(manifest, list(answer.patch))
    running_there = {
        "metadata": {"name": "p", "namespace": "ow", "labels": dict(there.labels)},
        "spec": {"containers": []},
    }
    placed = [(running_there, world.nodes[1])]
    assert [scheduling.lets_in(patched, each, world.nodes, placed) for each in world.nodes] == [False, True]


# -- node autoscalers


@pytest.mark.parametrize(
    ("world", "told"),
    [
        (World([node("A", {"karpenter.sh/nodepool": "default"}), node("B")]), "Karpenter adds nodes here"),
        (
            World([node("A", taints=[Taint("DeletionCandidateOfClusterAutoscaler", "PreferNoSchedule")]), node("B")]),
            "cluster-autoscaler adds nodes here",
        ),
        (
            World(
                [node("A", {"karpenter.sh/capacity-type": "spot"})],
                pods=[
                    msgspec.structs.replace(
                        running("", "A"), labels={"app.kubernetes.io/name": "aws-cluster-autoscaler"}
                    )
                ],
            ),
            "Karpenter and cluster-autoscaler add nodes here",
        ),
        (World([node("A", {"gpu": "yes"})], pods=[running("f", "A")]), None),
    ],
)  # fmt: skip
def test_a_node_autoscaler_is_recognised_and_warned_of(world, told):
    warnings = [each.sentence for each in world.advise(pod("f")).reasons if each.rule == "autoscaler"]
    assert [each.partition(";")[0] for each in warnings] == ([told] if told else [])
    assert not [each for each in world.advise(pod("f"), "observe").reasons if each.rule == "autoscaler"]


def test_together_and_apart_pods_pass_the_api_server():
    for how in ("together", "apart"):
        for strength in ("must", "should"):
            world = World([node("A")], workflows=[flow({"name": "a b/ä"}, {"name": "x" * 70}, **{how: strength})])
            manifest = of_workflow("a b/ä")
            check(jsonpatch.apply_patch(manifest, list(world.advise(manifest).patch)))


def test_company_that_differs_by_less_than_a_percent_is_told_apart():
    # 1 / 1.2 and 1 / 1.204 are .833 and .831: alike in whole percents.
    pairs = {("hello", "more"): 0.204, ("hello", "less"): 0.2}
    world = World([node("A"), node("B")], pods=[running("more", "A"), running("less", "B")], slowdowns=pairs)
    assert names(world.advise(pod("hello"))) == ["B", "A"]


# -- the sum of criteria


def test_no_later_criteria_outweigh_a_step_of_an_earlier_one():
    for number, criterion in enumerate(CRITERIA):
        least = 0.01 if number else 0.001
        step = graded(criterion, np.array([0.5 + least]))[0] - graded(criterion, np.array([0.5]))[0]
        rest = sum(graded(later, np.array([1.0]))[0] for later in CRITERIA[number + 1 :])
        assert step > rest


def test_grades_within_a_step_are_equal_and_shares_keep_below_the_whole():
    near = graded("load", np.array([0.80, 0.81]), step=0.05)
    assert near[0] == near[1]
    shares = sum(graded("wishes", np.array([1.0]), share=0.4)[0] for _ in range(2))
    assert shares < graded("wishes", np.array([1.0]))[0]
