"""Words that a pod and its workflow state are told where they are none of those that there are."""

import pytest

from tests.support.worlds import World, flow, node, of_workflow, pod

MODE = "colocation.internal/mode"


def advised(manifest, mode="prefer", **given):
    return World([node("A"), node("B")], **given).advise(manifest, mode)


def told(answer):
    return [reason.sentence for reason in answer.reasons if reason.rule == "unknown_value"]


@pytest.mark.parametrize("mode", ["requrie", "Require", " require", ""])
def test_a_mode_that_is_none_is_told_with_the_annotation_and_the_modes(mode):
    answer = advised(pod("guest/hello", annotations={MODE: mode}))
    assert told(answer) == [f"annotation {MODE}: {mode!r} is none of observe, prefer, require: it changes nothing"]
    assert (answer.mode, answer.outcome, answer.cause) == ("prefer", "patched", "unknown_value")


@pytest.mark.parametrize("mode", ["observe", "prefer", "require"])
def test_a_mode_is_not(mode):
    answer = advised(pod("guest/hello", annotations={MODE: mode}))
    assert (answer.mode, told(answer), answer.cause) == (mode, [], "")


def test_a_pod_that_is_only_observed_says_so_too():
    answer = advised(pod("guest/hello", annotations={MODE: "prefered"}), mode="observe")
    assert (answer.mode, answer.patch, answer.cause) == ("observe", (), "unknown_value")
    assert len(told(answer)) == 1


def test_the_key_has_the_prefix_that_is_configured():
    manifest = pod("guest/hello", annotations={MODE: "requrie", "example.org/mode": "x"})
    [sentence] = told(World([node("A")]).advise(manifest, label_prefix="example.org"))
    assert sentence.startswith("annotation example.org/mode: 'x' is none of")


def test_only_the_beginning_of_a_long_value_is_shown():
    [sentence] = told(advised(pod("guest/hello", annotations={MODE: "r" * 100_000})))
    assert "'" + "r" * 80 + "...'" in sentence
    assert len(sentence) < 250


def test_an_importance_that_is_none_is_told_wherever_it_stands():
    action = {"name": "hello", "annotations": {"importance": "Hihg"}}
    answer = advised(of_workflow("hello"), workflows=[flow(action)])
    assert told(answer) == ["workflow w: importance 'hihg' is none of high, medium, low: taken for medium"]
    assert answer.cause == "unknown_value"
    [sentence] = told(advised(of_workflow("hello"), workflows=[flow({"name": "hello"}, importance="urgent")]))
    assert sentence.startswith("workflow w: importance 'urgent' is none of")
    # what its action says itself counts alone
    good = {"name": "hello", "annotations": {"importance": "HIGH"}}
    assert told(advised(of_workflow("hello"), workflows=[flow(good, importance="urgent")])) == []


@pytest.mark.parametrize("goal", ["Performence", "Energy"])
def test_a_goal_that_is_not_known_is_told_wherever_it_stands(goal):
    action = {"name": "hello", "annotations": {"optimizationGoal": goal}}
    answer = advised(of_workflow("hello"), workflows=[flow(action)])
    said = f"workflow w: optimizationGoal {goal.lower()!r} is not performance, the only one that is known"
    assert told(answer) == [f"{said}: it changes nothing"]
    assert answer.cause == "unknown_value"
    in_all = flow({"name": "hello"}, optimizationGoal=goal)
    assert told(advised(of_workflow("hello"), workflows=[in_all])) == told(answer)
    good = {"name": "hello", "annotations": {"optimizationGoal": "PERFORMANCE"}}
    assert told(advised(of_workflow("hello"), workflows=[flow(good)])) == []


def test_a_mode_of_a_workflow_or_an_action_is_told_since_nobody_looks_for_it_there():
    said = f"workflow w: annotation {MODE} counts on pods, and for whole namespaces as advice.namespaces"
    in_all = flow({"name": "hello"}, **{MODE: "require"})
    in_one = flow({"name": "hello", "annotations": {MODE: "require"}})
    for workflow in (in_all, in_one):
        answer = advised(of_workflow("hello"), workflows=[workflow])
        assert told(answer) == [f"{said}: it changes nothing there"]
        assert (answer.mode, answer.cause) == ("prefer", "unknown_value")


def test_what_weighs_more_is_the_cause():
    manifest = pod("guest/hello", annotations={MODE: "requrie"}, requests={"cpu": "1000"})
    answer = advised(manifest)
    assert (answer.cause, len(told(answer))) == ("unsatisfiable", 1)


HARD = {"extraResources": {"gpu": True}}


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        (of_workflow("helo"), "has no action 'helo'"),
        (pod(annotations={"workflow": "w"}), "has several actions, and none is named"),
        (pod("guest/other", annotations={"workflow": "w"}), "has no action 'other'"),
    ],
    ids=["mistyped", "not named", "by its labels another"],
)
def test_an_action_that_its_workflow_does_not_have_is_told_since_its_needs_do_not_count(manifest, said):
    workflow = flow({"name": "hello", **HARD}, {"name": "world", **HARD})
    answer = advised(manifest, workflows=[workflow])
    key = "colocation.internal/action"
    assert told(answer) == [f"workflow w {said}: nothing that it states counts (annotation {key})"]
    assert (answer.satisfiable, answer.cause) == (True, "unknown_value")
    assert advised(of_workflow("hello"), workflows=[workflow]).cause == "unsatisfiable"


def test_the_only_action_need_not_be_named():
    answer = advised(pod(annotations={"workflow": "w"}), workflows=[flow({"name": "hello"})])
    assert (answer.function, told(answer), answer.cause) == ("hello", [], "")


def test_a_workflow_that_is_not_there_counts_as_well():
    answer = advised(of_workflow("hello", workflow="wv"), workflows=[flow({"name": "hello"})])
    assert answer.cause == "unknown_value"
    [said] = [reason.sentence for reason in answer.reasons if reason.sentence.startswith("workflow")]
    assert said == "workflow wv is not known here: it is not there, or cannot be read (colocate doctor names those)"
