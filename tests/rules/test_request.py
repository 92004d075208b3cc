"""Which function a pod is, what its workflow demands, and which pods are left alone."""

from pathlib import Path

import jsonpatch
import pytest
import yaml

from pipeline.objects import pod_of, workflow_of
from rules.labels import label_value, legal_key, legal_value
from rules.policy import Policy
from rules.relations import groups
from tests.support.worlds import World, critical, flow, node, of_workflow, pod

POLICY = Policy(mode="prefer")
KNOWN = ("guest/video-processing", "guest/hello", "team/hello", "guest/pack/tool", "whisk/a.b", "whisk/ab", "bare")


def asked(manifest, **given):
    return World([node("A")], **{"known": KNOWN, **given}).request(manifest, POLICY)


def named(name, **metadata):
    return pod(**{"name": name, **metadata})


def owned(kind, name):
    owner = {"kind": kind, "name": name, "apiVersion": "apps/v1", "uid": "u", "controller": True}
    return named("p-1", ownerReferences=[owner])


def test_the_name_of_a_pod_at_creation_names_its_function(real: Path):
    created, prewarm, initialised = yaml.safe_load_all((real / "ow_action_pod_reconstructed.yaml").read_text())
    request = asked(created)
    assert (request.function_name, request.named_by) == ("guest/video-processing", "name")
    assert request.left_alone == ""
    assert asked(prewarm).left_alone == "prewarm"
    initialised["spec"].pop("nodeName")
    request = asked(initialised)
    assert (request.function_name, request.named_by) == ("guest/video-processing", "labels")


def test_two_functions_that_look_alike_in_a_name_are_not_guessed():
    request = asked(named("ow-invoker-00-3-whisk-ab"))
    assert request.function_name == ""
    assert set(request.ambiguous) == {"whisk/a.b", "whisk/ab"}
    manifest = named("ow-invoker-00-3-whisk-ab")
    answer = World([node("A")], known=KNOWN).advise(manifest)
    assert any("not guessed" in reason.sentence for reason in answer.reasons)
    assert (
        "colocation.internal/function"
        not in jsonpatch.apply_patch(manifest, list(answer.patch))["metadata"]["labels"]
    )


@pytest.mark.parametrize(
    ("manifest", "function", "how"),
    [
        (pod("guest/hello"), "guest/hello", "labels"),
        (pod("guest/tool"), "guest/pack/tool", "labels"),
        (pod("hello"), "hello", "labels"),  # two functions have this action: the label alone names neither
        (pod("guest/unheard"), "guest/unheard", "labels"),
        (named("x-invoker-1-9-guest-hello"), "guest/hello", "name"),
        (named("x-invoker-1-9-guest-bare"), "bare", "name"),
        (named("x-invoker-1-9-guest-unheard"), "", ""),
        (owned("StatefulSet", "bare"), "bare", "owner"),
        (owned("ReplicaSet", "bare-7d4b9c6f5"), "bare", "owner"),
        (owned("Job", "bare-28361400"), "bare", "owner"),
        (owned("StatefulSet", "bare-7d4b9c6f5"), "", ""),
        (named("just-a-pod"), "", ""),
    ],
)  # fmt: skip
def test_a_function_is_named_by(manifest, function, how):
    request = asked(manifest)
    assert (request.function_name, request.named_by) == (function, how)


def test_the_workflow_names_its_action():
    world = {"workflows": [flow({"name": "video-processing"}, {"name": "hello"})]}
    assert asked(of_workflow("video-processing"), **world).function_name == "guest/video-processing"
    # two namespaces have a hello: the label or the name of the pod decides, else nothing
    assert asked(of_workflow("hello"), **world).ambiguous == ("guest/hello", "team/hello")
    labelled = of_workflow("hello", labels={"openwhisk/namespace": "team"})
    assert asked(labelled, **world).function_name == "team/hello"
    assert asked(of_workflow("hello", name="x-inv-0-1-team-hello"), **world).function_name == "team/hello"
    # without the annotation that names the action, the name of the pod tells which one it is
    by_name = pod(name="x-inv-0-1-team-hello", annotations={"workflow": "w"})
    assert asked(by_name, **world).function_name == "team/hello"
    alone = {"workflows": [flow({"name": "video-processing"})]}
    assert asked(pod(annotations={"workflow": "w"}), **alone).function_name == "guest/video-processing"


def test_a_workflow_that_is_not_known_is_said():
    request = asked(of_workflow("hello", workflow="gone"))
    assert request.named_by == "annotation", "which names the action, whatever workflow it may be of"
    assert asked(of_workflow("hello"), workflows=[flow({"name": "hello"})]).named_by == "workflow"
    assert request.workflow_missing
    answer = World([node("A")]).advise(of_workflow("hello", workflow="gone"))
    assert any("gone is not known" in reason.sentence for reason in answer.reasons)


def test_what_the_workflow_demands():
    action = critical(
        "bare",
        extraResources={"gpu": True},
        preferredResources={"diskType": "ssd"},
        performanceProfile={"cpu": "medium", "memory": "low", "networkTransmitted": "low", "networkReceived": "high"},
        usesService="redis",
    )
    request = asked(of_workflow("bare"), workflows=[flow(action)])
    assert (request.goal, request.importance, request.strict) == ("performance", 3, True)
    assert (request.needs, request.wishes) == ({"gpu": True}, {"diskType": "ssd"})
    assert request.profile == {"cpu": 1, "memory": 0, "network": 2}
    assert request.services == ("redis",)


@pytest.mark.parametrize(("given", "weight"), [("High", 3), ("MEDIUM", 2), ("low", 1), (None, 2)])
def test_importance(given, weight):
    annotations = {"importance": given} if given else {}
    request = asked(of_workflow("bare"), workflows=[flow({"name": "bare", "annotations": annotations})])
    assert request.importance == weight


@pytest.mark.parametrize(
    ("goal", "level", "service"),
    [
        ("optimizationGoal", "importance", "usesService"),
        ("optimizationgoal", "Importance", "usesservice"),
        ("optimization-goal", "IMPORTANCE", "uses-service"),
        ("optimization_goal", "physics-faas.eu/importance", "physics-faas.eu/usesService"),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_spellings_of_what_an_action_states(goal, level, service, whole):
    said = {goal: " Performance", level: "High ", service: "redis"}
    workflow = flow({"name": "hello"}, **said) if whole else flow({"name": "hello", "annotations": said})
    request = World([node("A")], workflows=[workflow]).request(of_workflow("hello"), Policy())
    assert (request.strict, request.services) == (True, ("redis",))


def test_importance_and_goal_may_stand_on_the_whole_workflow():
    whole = flow({"name": "bare"}, optimizationGoal="Performance", importance="High")
    assert asked(of_workflow("bare"), workflows=[whole]).strict


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        (owned("DaemonSet", "d"), "daemonset"),
        (named("x", annotations={"kubernetes.io/config.mirror": "abc"}), "mirror"),
        (pod(spec={"nodeName": "A"}), "pinned"),
        (named("x", namespace="kube-system"), "namespace"),
        (named("x", labels={"colocation.internal/ignore": ""}), "ignored"),
        (named("x", labels={"app.kubernetes.io/name": "colocation-advisor"}), "own"),
        (named("x-invoker-00-7-prewarm-nodejs14"), "prewarm"),
        (named("x-invoker-00-7-prewarm-nodejs14", labels={"openwhisk/action": "hello"}), ""),
        (named("x"), ""),
    ],
)  # fmt: skip
def test_pods_that_are_left_alone(manifest, why):
    request = asked(manifest)
    assert request.left_alone == why
    answer = World([node("A"), node("B", cpu=16)], known=KNOWN).advise(manifest, "require")
    assert (answer.outcome == "left_alone") is bool(why)
    assert bool(answer.patch) is not bool(why)


def test_modes_by_annotation_by_namespace_and_global():
    policy = Policy(mode="observe", namespaces={"ow": "require"})
    world = World([node("A")])
    assert world.request(pod("f", namespace="other"), policy).mode == "observe"
    assert world.request(pod("f"), policy).mode == "require"
    annotated = pod("f", annotations={"colocation.internal/mode": "prefer"})
    assert world.request(annotated, policy).mode == "prefer"
    wrong = pod("f", annotations={"colocation.internal/mode": "everything"})
    assert world.request(wrong, policy).mode == "require"


# -- labels


def test_label_values():
    assert label_value("Model_training") == "Model_training"
    # printf guest/hello | sha256sum
    assert label_value("guest/hello") == "h-cde346edbc694efb29082e63244f1f2ab129daa3"
    assert label_value("x" * 64).startswith("h-") and len(label_value("x" * 64)) == 42
    assert label_value("-x").startswith("h-")
    assert label_value("").startswith("h-")


@pytest.mark.parametrize(
    ("key", "legal"),
    [
        ("gpu", True),
        ("a.b/gpu_1", True),
        ("A/gpu", False),
        ("a/b/c", False),
        ("", False),
        ("a b", False),
        ("/x", False),
        ("x" * 63, True),
        ("x" * 64, False),
    ],
)
def test_label_keys(key, legal):
    assert legal_key(key) is legal


def test_label_values_that_are_legal():
    assert legal_value("") and legal_value("a.b-c_D") and not legal_value("a.") and not legal_value("a/b")


# -- together and apart


def found(workflow, action):
    read = workflow_of(workflow)
    [chosen] = [each for each in read.actions if each.name == action]
    return [(group.apart, group.must, group.actions) for group in groups(read, chosen)]


ABC = ({"name": "a"}, {"name": "b"}, {"name": "c"})


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"together": "must"}, [(False, True, ("a", "b", "c"))]),
        ({"together": "should"}, [(False, False, ("a", "b", "c"))]),
        ({"together": "true"}, [(False, False, ("a", "b", "c"))]),
        ({"together": "false"}, []),
        ({"apart": "must: a, b"}, [(True, True, ("a", "b"))]),
        ({"apart": "must: b, c"}, []),
        ({"together": "must: a,b; should: a, c"}, [(False, True, ("a", "b")), (False, False, ("a", "c"))]),
        ({"antiAffinity": "required"}, [(True, True, ("a", "b", "c"))]),
        ({"affinity": "preferred: a, b"}, [(False, False, ("a", "b"))]),
        ({"must-run-together": "a, b"}, [(False, True, ("a", "b"))]),
        ({"mustRunApart": "a,c"}, [(True, True, ("a", "c"))]),
        ({"colocation.internal/together": "must"}, [(False, True, ("a", "b", "c"))]),
        ({"id": "19fe", "version": "1", "cluster": "c1"}, []),
    ],
)
def test_spellings_on_the_workflow(annotations, expected):
    assert found(flow(*ABC, **annotations), "a") == expected


@pytest.mark.parametrize(
    ("value", "for_a", "for_b"),
    [
        ("must: b", [(True, True, ("a", "b"))], [(True, True, ("a", "b"))]),
        (["b", "c"], [(True, False, ("a", "b", "c"))], [(True, False, ("a", "b"))]),
        (
            {"must": ["b"], "should": "c"},
            [(True, True, ("a", "b")), (True, False, ("a", "c"))],
            [(True, True, ("a", "b"))],
        ),
    ],
)
def test_spellings_on_one_action(value, for_a, for_b):
    workflow = flow({"name": "a", "annotations": {"apart": value}}, {"name": "b"}, {"name": "c"})
    assert found(workflow, "a") == for_a
    assert found(workflow, "b") == for_b


def test_a_native_sequence_prefers_its_functions_together():
    workflow = flow(*ABC)
    workflow["spec"] |= {"native": True, "execution": "NativeSequence"}
    assert found(workflow, "b") == [(False, False, ("a", "b", "c"))]
    workflow["metadata"]["annotations"] = {"apart": "must"}
    assert found(workflow, "b") == [(True, True, ("a", "b", "c"))]


def test_owner_that_is_a_node_is_a_mirror(real: Path):
    manifest = yaml.safe_load((real / "pod_static_mirror_etcd.json").read_text())
    del manifest["metadata"]["annotations"]
    assert pod_of(manifest).owner_kind == "Node"
    assert asked(manifest).left_alone == "mirror"
