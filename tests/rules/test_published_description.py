"""The published description of data collection and rules generation, a test for each of its sentences, in its order.

What an interception is, and that a service answers it, is tested in `tests/jobs/service/test_published_interception`,
that functions are monitored from their first runs on in `tests/jobs/test_learn`; here is what is answered.
"""

from dataclasses import replace
from typing import Any

import jsonpatch
import pytest
import yaml
from msgspec import structs

from pipeline.objects import workflow_texts
from rules.policy import Policy
from rules.recommend import Recommendation
from tests.support import scheduling
from tests.support.manifests import check
from tests.support.scheduling import PREFERRED, REQUIRED
from tests.support.worlds import World, critical, flow, names, node, of_workflow, pod, running

POLICY = Policy(mode="prefer")
SUFFERS = {("hello", "Model_training"): 0.8}
GPU_SSD = {"gpu": "yes", "disktype": "ssd"}


def node_terms(answer: Recommendation, strength: str) -> Any:
    return (answer.affinity.get("nodeAffinity") or {}).get(strength)


def shunned(answer: Recommendation, strength: str) -> set[str]:
    """The actions that anti-affinity of this strength names by the label of OpenWhisk."""
    terms = (answer.affinity.get("podAntiAffinity") or {}).get(strength) or []
    return {
        value
        for term in terms
        for each in term.get("podAffinityTerm", term)["labelSelector"]["matchExpressions"]
        if each["key"] == "openwhisk/action"
        for value in each.get("values", [])
    }


def weights(world: World, manifest: Any, answer: Recommendation) -> dict[str, int]:
    """What the preferred terms add up to on each node, by an independent reading."""
    result = jsonpatch.apply_patch(manifest, list(answer.patch))
    return {each.name: scheduling.preference(result, each, world.nodes, world.pods) for each in world.nodes}


# -- in short


def test_nodes_are_selected_on_which_performance_is_not_degraded():
    world = World([node("A"), node("B")], pods=[running("Model_training", "A")], slowdowns=SUFFERS)
    assert names(world.advise(pod("hello"))) == ["B", "A"]


def test_among_nodes_with_the_hardware_the_lowest_response_time_beside_the_same_functions_is_selected():
    world = World(
        [node("A", GPU_SSD), node("B", GPU_SSD), node("C")],
        pods=[running("world", "A"), running("world", "B")],
        beside={("hello", "A", ("world",)): 90.0, ("hello", "B", ("world",)): 60.0, ("hello", "A", ()): 10.0},
        medians={("hello", "t1"): 50.0},
        workflows=[flow(critical("hello", extraResources={"gpu": True}))],
    )
    answer = world.advise(of_workflow("hello"))
    assert names(answer) == ["B", "A"]
    assert "median 60 ms on this node beside what runs there now" in answer.nodes[0].reasons


def test_without_previous_information_the_less_loaded_node_is_selected():
    world = World([node("A"), node("B")], known=("hello",), load={"A": 0.7, "B": 0.2})
    assert names(world.advise(pod("hello"))) == ["B", "A"]


def test_where_neither_is_known_nodes_with_more_available_resources_are_recommended():
    world = World([node("A", cpu=4), node("B", cpu=16)], known=("hello",))
    assert names(world.advise(pod("hello"))) == ["B", "A"]
    held = replace(world, pods=[running("other", "B", cpu=15.0)], known=("hello", "other"))
    assert names(held.advise(pod("hello"))) == ["A", "B"]


def test_the_pod_itself_is_updated_with_the_rules():
    world = World([node("A"), node("B")], pods=[running("Model_training", "A")], slowdowns=SUFFERS)
    manifest = pod("hello")
    answer = world.advise(manifest)
    result = jsonpatch.apply_patch(manifest, list(answer.patch))
    check(result)
    assert result["spec"]["affinity"] == answer.affinity
    assert result["spec"]["containers"] == manifest["spec"]["containers"]


# -- data collection


def test_the_annotation_workflow_of_the_pod_names_its_workflow():
    workflows = [flow(critical("hello"), name="w"), flow({"name": "hello"}, name="v")]
    world = World([node("A")], workflows=workflows)
    assert world.request(pod(annotations={"workflow": "w"}), POLICY).strict
    assert not world.request(pod(annotations={"workflow": "v"}), POLICY).strict


def test_the_workflow_that_the_pod_belongs_to_is_read():
    named = pod(annotations={"workflow": "w"})
    assert World([node("A")], workflows=[flow({"name": "hello"})]).advise(named).function == "hello"
    assert any("not known" in reason.sentence for reason in World([node("A")]).advise(named).reasons)


def test_the_workflow_stores_the_order_of_its_functions_and_annotations():
    [read] = workflow_texts(CODE_1, "code 1")
    ids = {each.id: each.name for each in read.actions}
    assert [ids[each] for each in read.order] == ["hello", "world"]
    assert read.annotations["version"] == "1"


@pytest.mark.parametrize(("firmness", "left"), [("must", "A"), ("should", "AB")])
def test_all_functions_of_a_workflow_must_or_should_run_on_one_node(firmness, left):
    world = World(
        [node("A"), node("B")], pods=[_of_w("a", "A")], known=("a", "b"),
        workflows=[flow({"name": "a"}, {"name": "b"}, together=firmness)],
    )  # fmt: skip
    answer = world.advise(of_workflow("b"))
    assert names(answer) == list(left)


@pytest.mark.parametrize(("firmness", "left"), [("must", "B"), ("should", "BA")])
def test_all_functions_of_a_workflow_must_or_should_run_on_different_nodes(firmness, left):
    world = World(
        [node("A"), node("B")], pods=[_of_w("a", "A")], known=("a", "b"),
        workflows=[flow({"name": "a"}, {"name": "b"}, apart=firmness)],
    )  # fmt: skip
    answer = world.advise(of_workflow("b"))
    assert names(answer) == list(left)


def test_interference_is_considered_for_a_workflow_of_this_cluster_alone():
    world = World([node("A"), node("B")], pods=[running("Model_training", "A")], slowdowns=SUFFERS)
    here = replace(world, workflows=[flow(critical("hello"), cluster="c1")]).advise(of_workflow("hello"))
    there = replace(world, workflows=[flow(critical("hello"), cluster="c2")]).advise(of_workflow("hello"))
    assert shunned(here, PREFERRED) == {"Model_training"}
    assert shunned(there, PREFERRED) == set()
    assert there.cause == "other_cluster"


def test_goal_performance_minimises_interference_with_what_is_deployed():
    world = World(
        [node("A"), node("B"), node("C")],
        pods=[running("Model_training", "A"), running("light", "B"), running("light", "C"), running("light", "C", 1)],
        slowdowns={**SUFFERS, ("hello", "light"): 0.1},
        workflows=[flow({"name": "hello", "annotations": {"optimizationGoal": "Performance"}})],
    )
    assert names(world.advise(of_workflow("hello"))) == ["B", "C", "A"]


def test_extra_resources_filter_nodes_and_become_node_affinity():
    world = World(
        [node("A", GPU_SSD), node("B")], workflows=[flow({"name": "hello", "extraResources": {"gpu": True}})]
    )
    answer = world.advise(of_workflow("hello"))
    assert names(answer) == ["A"]
    assert node_terms(answer, REQUIRED) == {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["yes"]}]}]
    }


def test_a_node_without_the_gpu_is_not_taken_into_consideration():
    world = World(
        [node("A", {"gpu": "yes"}), node("B"), node("C", {"gpu": "no"})],
        pods=[running("Model_training", "A")],
        slowdowns=SUFFERS,
        workflows=[flow(critical("hello", extraResources={"gpu": True}))],
        load={"A": 0.9, "B": 0.0, "C": 0.0},
    )
    for mode in ("prefer", "require"):
        answer = world.advise(of_workflow("hello"), mode)
        assert names(answer) == ["A"]
        assert REQUIRED not in (answer.affinity.get("podAntiAffinity") or {}), "the only candidate is not shut"


def test_nodes_with_the_hardware_are_the_candidates():
    world = World(
        [node("A", GPU_SSD), node("B", {"gpu": "yes"}), node("C", GPU_SSD)],
        workflows=[flow({"name": "hello", "extraResources": {"gpu": True, "diskType": "ssd"}})],
    )
    assert set(names(world.advise(of_workflow("hello")))) == {"A", "C"}


def test_functions_that_run_on_candidates_at_this_time_are_checked_for_interference():
    world = World([node("A"), node("B")], slowdowns=SUFFERS, known=("hello",), load={"A": 0.1, "B": 0.5})
    assert names(world.advise(pod("hello"))) == ["A", "B"]
    later = replace(world, pods=[running("Model_training", "A")])
    assert names(later.advise(pod("hello"))) == ["B", "A"]


def test_for_performance_of_high_importance_nodes_with_disturbing_functions_are_discarded():
    world = World(
        [node("A"), node("B")], pods=[running("Model_training", "A")], slowdowns=SUFFERS,
        workflows=[flow(critical("hello"))],
    )  # fmt: skip
    manifest = of_workflow("hello")
    answer = world.advise(manifest, "require")
    assert names(answer) == ["B"]
    assert shunned(answer, REQUIRED) == {"Model_training"}
    result = jsonpatch.apply_patch(manifest, list(answer.patch))
    assert not scheduling.may_run(result, world.nodes[0], world.nodes, world.pods)


def test_with_too_few_nodes_interference_is_minimised_instead():
    world = World(
        [node("A"), node("B")],
        pods=[running("Model_training", "A"), running("Model_training", "B"), running("Model_training", "B", 1)],
        slowdowns=SUFFERS,
        workflows=[flow(critical("hello"))],
    )
    answer = world.advise(of_workflow("hello"), "require")
    assert names(answer) == ["A", "B"]
    assert shunned(answer, REQUIRED) == set()
    assert shunned(answer, PREFERRED) == {"Model_training"}


@pytest.mark.parametrize("importance", ["Medium", "Low", None])
def test_of_lower_importance_interference_is_minimised_by_weight(importance):
    annotations = {"optimizationGoal": "Performance"} | ({"importance": importance} if importance else {})
    world = World(
        [node("none"), node("low"), node("high")],
        pods=[running("light", "low"), running("Model_training", "high")],
        slowdowns={**SUFFERS, ("hello", "light"): 0.1},
        workflows=[flow({"name": "hello", "annotations": annotations})],
    )
    manifest = of_workflow("hello")
    answer = world.advise(manifest, "require")
    assert names(answer) == ["none", "low", "high"]
    found = weights(world, manifest, answer)
    assert found["none"] > found["low"] > found["high"]
    assert shunned(answer, REQUIRED) == set()


def test_without_records_the_profile_of_the_workflow_is_considered():
    declared = {"name": "newf", "performanceProfile": {"cpu": "high", "memory": "low"}}
    world = World(
        [node("A"), node("B")],
        pods=[running("crunch", "A"), running("cache", "B")],
        profiles={"crunch": "cpu", "cache": "memory"},
        workflows=[flow(declared)],
    )
    assert names(world.advise(of_workflow("newf"))) == ["B", "A"]
    other = {"name": "newf", "performanceProfile": {"cpu": "low", "memory": "high"}}
    assert names(replace(world, workflows=[flow(other)]).advise(of_workflow("newf"))) == ["A", "B"]


def test_a_new_function_is_first_run_alone_so_that_its_use_can_be_measured():
    world = World(
        [node("A"), node("B")], pods=[running("cache", "A")], profiles={"cache": "memory"},
        workflows=[flow({"name": "newf", "performanceProfile": {"cpu": "high"}})], load={"A": 0.1, "B": 0.8},
    )  # fmt: skip
    answer = world.advise(of_workflow("newf"))
    assert names(answer) == ["B", "A"]
    assert any("alone" in reason.sentence for reason in answer.reasons if reason.rule == "unknown")


def test_where_every_node_has_functions_those_of_another_profile_are_joined():
    world = World(
        [node("A"), node("B"), node("C")],
        pods=[running("crunch", "A"), running("cache", "B"), running("send", "C"), running("send", "C", 1)],
        profiles={"crunch": "cpu", "cache": "memory", "send": "network"},
        workflows=[flow({"name": "newf", "performanceProfile": {"cpu": "high", "memory": "low", "network": "low"}})],
    )
    assert names(world.advise(of_workflow("newf")))[-1] == "A"


def test_from_its_records_on_the_registry_of_interference_decides_and_not_the_profile():
    """By profile B would be joined; what was learned says that its function disturbs, and A's does not."""
    declared = {"name": "newf", "performanceProfile": {"cpu": "high", "memory": "low"}}
    world = World(
        [node("A"), node("B")],
        pods=[running("crunch", "A"), running("cache", "B")],
        profiles={"crunch": "cpu", "cache": "memory"},
        workflows=[flow(declared)],
    )
    assert names(world.advise(of_workflow("newf"))) == ["B", "A"]
    learned = replace(world, slowdowns={("newf", "cache"): 0.5, ("newf", "crunch"): 0.0})
    answer = learned.advise(of_workflow("newf"))
    assert names(answer) == ["A", "B"]
    assert not any(reason.rule == "unknown" for reason in answer.reasons)


# -- rules generator


def test_hard_hardware_is_required_and_what_is_wished_for_is_preferred():
    nodes = [node("A", {**GPU_SSD}), node("B", {"gpu": "yes"}), node("C", {"disktype": "ssd"})]
    action = {"name": "hello", "extraResources": {"gpu": True}, "preferredResources": {"diskType": "ssd"}}
    world = World(nodes, workflows=[flow(action)])
    manifest = of_workflow("hello")
    answer = world.advise(manifest)
    result = jsonpatch.apply_patch(manifest, list(answer.patch))
    assert {each.name for each in nodes if scheduling.admits(result["spec"]["affinity"], each)} == {"A", "B"}
    found = weights(world, manifest, answer)
    assert found["A"] > found["B"]


def test_hardware_that_must_not_be_there_is_a_rule_too():
    world = World(
        [node("A", {"gpu": "yes"}), node("B")],
        workflows=[flow({"name": "hello", "extraResources": {"gpu": False}})],
    )
    manifest = of_workflow("hello")
    answer = world.advise(manifest)
    result = jsonpatch.apply_patch(manifest, list(answer.patch))
    assert {each.name for each in world.nodes if scheduling.admits(result["spec"]["affinity"], each)} == {"B"}


def test_candidates_are_translated_to_node_affinity():
    """By names, since nothing else tells these nodes apart."""
    world = World([node(name) for name in "ABCD"], known=("hello",), load={"A": 0.9, "B": 0.1, "C": 0.9, "D": 0.1})
    answer = world.advise(pod("hello"))
    told = [
        (term["weight"], each["key"], each["operator"], *each["values"])
        for term in node_terms(answer, PREFERRED)
        for each in term["preference"]["matchFields"]
        if each["operator"] == "In"
    ]
    [weight] = {weight for weight, *_ in told}
    assert told == [(weight, "metadata.name", "In", name) for name in "BD"]
    assert names(answer)[:2] == ["B", "D"]


def test_interference_is_set_as_pod_anti_affinity():
    world = World([node("A"), node("B")], slowdowns={**SUFFERS, ("hello", "quiet"): 0.0}, known=("hello",))
    answer = world.advise(pod("hello"))
    assert shunned(answer, PREFERRED) == {"Model_training"}
    [told] = [reason for reason in answer.reasons if reason.rule == "interference"]
    assert told.evidence is not None and told.evidence.aggressor == "Model_training"


def test_functions_that_should_or_should_not_be_together_are_pod_affinity_and_anti_affinity():
    actions = ({"name": "a"}, {"name": "b"}, {"name": "c"})
    workflow = flow(*actions, together="should: a, b", apart="must: a, c")
    answer = World([node("A"), node("B")], workflows=[workflow]).advise(of_workflow("a"))
    assert answer.affinity["podAffinity"][PREFERRED]
    assert REQUIRED not in answer.affinity["podAffinity"]
    key = "colocation.internal/function"
    required = answer.affinity["podAntiAffinity"][REQUIRED]
    assert {"key": key, "operator": "In", "values": ["c"]} in required[0]["labelSelector"]["matchExpressions"]


# -- Code 1 and Code 2, with their indentation and the unquoted yes put right

CODE_1 = """
apiVersion: wp5.physics-faas.eu/v1alpha1
kind: Workflow
metadata:
  name: hello-sequence
  namespace: ow
  annotations:
    id: "19fe4293742e0b2c"
    version: "1"
    cluster: c1
spec:
  execution: NativeSequence
  listOfActions:
    - id: 339d2ef8b0b29795
    - id: 3a807141f16764a5
  native: true
  platform: openWhisk
  type: flow
  actions:
    - name: hello
      description: "hello"
      id: 339d2ef8b0b29795
      version: 1.0.0
      runtime: nodejs
      annotations:
        optimizationGoal: Performance
        importance: "High"
      resources:
        limits:
          memory: 128
        requests:
          cpu: 1
          memory: 128
      extraResources:
        gpu: true
        diskType: ssd
      performanceProfile:
        cpu: medium
        memory: low
        networkTransmitted: low
    - name: world
      description: "world"
      version: 1.0.0
      id: 3a807141f16764a5
      runtime: nodejs
      resources:
        limits:
          memory: 256
"""
CODE_2 = """
apiVersion: v1
kind: Pod
metadata:
  name: wskowdev-invoker-00-1-guest-hello
spec:
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
          - matchExpressions:
              - key: disktype
                operator: In
                values: [ssd]
              - key: gpu
                operator: In
                values: ["yes"]
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        - labelSelector:
            matchExpressions:
              - key: openwhisk/action
                operator: In
                values: [Model_training]
          topologyKey: topology.kubernetes.io/zone
  containers:
    - name: wskowdev-invoker-00-3278-guest-hello
      image: "gkousiou/NodeREDhelloaction"
"""


def _zoned(name: str, zone: str, **labels: str) -> Any:
    return node(name, {"topology.kubernetes.io/zone": zone, **labels})


def test_code_1_and_code_2():
    """Code 2 comes of its pod without the affinity and of the workflow of Code 1: in mode require, by zone."""
    world = World(
        [_zoned("A", "z1", **GPU_SSD), _zoned("B", "z2", **GPU_SSD), _zoned("C", "z1")],
        pods=[running("Model_training", "C")],
        slowdowns=SUFFERS,
        workflows=[yaml.safe_load(CODE_1)],
    )
    published = yaml.safe_load(CODE_2)
    bare = {**published, "spec": {"containers": published["spec"]["containers"]}}
    manifest = {**bare, "metadata": {**bare["metadata"], "annotations": {"workflow": "hello-sequence"}}}
    topology = {"topology_key": "topology.kubernetes.io/zone"}
    answer = world.advise(manifest, "require", **topology)
    assert answer.function == "hello"
    affinity = published["spec"]["affinity"]
    [term] = answer.affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    [wanted] = affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert sorted(term["matchExpressions"], key=lambda each: each["key"]) == wanted["matchExpressions"]
    [apart] = affinity["podAntiAffinity"][REQUIRED]
    assert apart in answer.affinity["podAntiAffinity"][REQUIRED]
    assert names(answer) == ["B"], "A shares its zone with Model_training"
    # The sequence prefers its functions together, as the comment in Code 1 says.
    assert any("native sequence" in reason.sentence for reason in answer.reasons)
    together = [each["podAffinityTerm"]["labelSelector"] for each in answer.affinity["podAffinity"][PREFERRED]]
    assert {"key": "colocation.internal/function", "operator": "In", "values": ["hello", "world"]} in together[0][
        "matchExpressions"
    ]
    assert REQUIRED not in answer.affinity["podAffinity"]
    # By default a domain is a node: then A is as good as B.
    by_node = world.advise(manifest, "require")
    assert set(names(by_node)) == {"A", "B"}
    check(jsonpatch.apply_patch(manifest, list(answer.patch)))


def _of_w(action: str, where: str) -> Any:
    """A running pod of workflow w, with the labels that it got at its creation, and the decision that they are of."""
    labels = {"colocation.internal/function": action, "colocation.internal/workflow": "w"}
    return structs.replace(running(action, where), labels=labels, annotations={"colocation.internal/decision": "d"})
