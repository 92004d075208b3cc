"""Workflow objects in the indented and in the flat form, to one normal form."""

import json
from typing import Any

import pytest
import yaml

from pipeline.errors import BadInput
from pipeline.objects import workflow, workflow_of, workflow_texts
from pipeline.records import Action, Workflow

MIB = 2.0**20

INDENTED = """
apiVersion: wp5.physics-faas.eu/v1alpha1
kind: Workflow
metadata:
  name: pair
  namespace: shop
  annotations:
    id: "77aa"
    version: "1"
    cluster: cluster1
spec:
  execution: NativeSequence
  listOfActions:
    - id: a1
    - id: b2
  native: true
  platform: openWhisk
  actions:
    - name: first
      description: "the first"
      id: a1
      version: 1.0.0
      runtime: nodejs
      code: |
        function main(m) {
          return m;
        }
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
        memory: Low
        networkTransmitted: low
    - name: second
      id: b2
      resources:
        limits:
          memory: 256
"""

#: The same text after a formatter took the indentation of everything but the innermost lists and maps.
FLAT = """
apiVersion: wp5.physics-faas.eu/v1alpha1
kind: Workflow
metadata:
name: pair
namespace: shop
annotations:
    id: "77aa"
    version: "1"
    cluster: cluster1
spec:
execution: NativeSequence
listOfActions:
    - id: a1
    - id: b2
native: true
platform: openWhisk
actions:
- name: first
    description: "the first"
    id: a1
    version: 1.0.0
    runtime: nodejs
    code: |
    function main(m) {
    //a remark: with a colon
    return m;
    }
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
    memory: Low
    networkTransmitted: low
- name: second
    id: b2
    resources:
    limits:
        memory: 256
"""

FIRST = Action(
    name="first",
    id="a1",
    version="1.0.0",
    runtime="nodejs",
    optimization_goal="performance",
    importance="high",
    cpu_request=1.0,
    memory_request=128 * MIB,
    memory_limit=128 * MIB,
    extra_resources={"gpu": True, "diskType": "ssd"},
    performance_profile={"cpu": "medium", "memory": "low", "networkTransmitted": "low"},
)


def facts(found: Workflow) -> tuple[object, ...]:
    return found.namespace, found.name, found.id, found.cluster, found.execution, found.native, found.platform


@pytest.mark.parametrize("text", [INDENTED, FLAT], ids=["indented", "flat"])
def test_both_forms_say_the_same(text: str) -> None:
    [found] = workflow_texts(text, "w.yaml")
    assert facts(found) == ("shop", "pair", "77aa", "cluster1", "NativeSequence", True, "openWhisk")
    assert found.order == ("a1", "b2")
    first, second = found.actions
    assert {name: getattr(first, name) for name in FIRST.__struct_fields__ if name != "annotations"} == {
        name: getattr(FIRST, name) for name in FIRST.__struct_fields__ if name != "annotations"
    }
    assert second == Action(name="second", id="b2", memory_limit=256 * MIB)


def test_an_api_server_sorts_keys_and_nothing_is_lost() -> None:
    [flat] = workflow_texts(FLAT, "w.yaml")
    from_api = {
        "metadata": {"name": "pair", "namespace": "shop"},
        "spec": {
            "actions": [
                {
                    "annotations": None, "cpu": "medium", "diskType": "ssd", "extraResources": None, "gpu": True,
                    "importance": "High", "limits": {"memory": 128}, "memory": "Low", "name": "first", "id": "a1",
                    "networkTransmitted": "low", "optimizationGoal": "Performance", "performanceProfile": None,
                    "requests": {"cpu": 1, "memory": 128}, "resources": None, "runtime": "nodejs", "version": "1.0.0",
                }
            ]
        },
    }  # fmt: skip
    assert workflow(json.dumps(from_api).encode()).actions[0] == flat.actions[0]


def test_a_fully_flat_action_takes_bare_numbers_for_both_sides() -> None:
    given = {
        "name": "w",
        "metadata": None,
        "actions": [{"name": "a", "limits": None, "requests": None, "memory": 64}],
    }
    [action] = workflow_of(given).actions
    assert (action.memory_request, action.memory_limit, action.cpu_request) == (64 * MIB, 64 * MIB, None)


@pytest.mark.parametrize(
    ("memory", "amount"), [(128, 128 * MIB), ("128", 128 * MIB), ("128Mi", 128 * MIB), ("1G", 1e9), (0.5, MIB / 2)]
)
def test_bare_memory_is_in_megabytes(memory: object, amount: float) -> None:
    given = {
        "metadata": {"name": "w"},
        "spec": {"actions": [{"name": "a", "resources": {"limits": {"memory": memory}}}]},
    }
    assert workflow_of(given).actions[0].memory_limit == amount


def test_relations_and_services_are_kept() -> None:
    action = {
        "name": "a",
        "annotations": {"together": ["b"], "apart": "c", "usesService": "redis, db"},
        "preferredResources": {"diskType": "nvme"},
    }
    [found] = workflow_of({"metadata": {"name": "w"}, "spec": {"actions": [action]}}).actions
    assert found.annotations == {"together": ["b"], "apart": "c", "usesService": "redis, db"}
    assert found.uses_service == ("redis", "db")
    assert found.preferred_resources == {"diskType": "nvme"}


def test_preferred_resources_may_stand_among_the_extra_ones() -> None:
    extra = {"gpu": True, "preferredResources": {"diskType": "ssd", "dms": "keydb"}}
    action = {"name": "a", "extraResources": extra, "preferredResources": {"diskType": "nvme"}}
    [found] = workflow_of({"metadata": {"name": "w"}, "spec": {"actions": [action]}}).actions
    assert found.extra_resources == {"gpu": True}
    assert found.preferred_resources == {"diskType": "nvme", "dms": "keydb"}


def test_what_is_spelled_otherwise_is_no_hardware_where_the_indentation_was_lost() -> None:
    action = {
        "name": "a",
        "annotations": None,
        "optimization-goal": "Performance",
        "Importance": "High",
        "example.com/uses_service": "db",
        "anti-affinity": "b",
        "extraResources": None,
        "gpu": True,
        "performanceProfile": None,
        "memory": "low",
    }
    [found] = workflow_of({"metadata": {"name": "w"}, "spec": {"actions": [action]}}).actions
    assert (found.optimization_goal, found.importance, found.uses_service) == ("performance", "high", ("db",))
    assert found.annotations == {"anti-affinity": "b"}
    assert found.extra_resources == {"gpu": True}
    assert found.performance_profile == {"memory": "low"}


@pytest.mark.parametrize(
    ("beside", "under", "importance"),
    [
        ({"importance": "low"}, {"Importance": "high"}, "high"),
        ({}, {"importance": None, "Importance": "high"}, "high"),
        ({"importance": "low"}, {"importance": None}, "low"),
        ({}, {"IMPORTANCE": "low", "importance": "high"}, "high"),
        ({}, {"importance": None}, ""),
    ],
)
def test_what_stands_under_its_heading_comes_first_however_it_is_spelled(
    beside: dict[str, Any], under: dict[str, Any], importance: str
) -> None:
    action = {"name": "a", **beside, "annotations": under}
    [found] = workflow_of({"metadata": {"name": "w"}, "spec": {"actions": [action]}}).actions
    assert found.importance == importance


def test_strangers_beside_a_filled_heading_are_left_alone() -> None:
    action = {
        "name": "a",
        "extraResources": {"gpu": True},
        "performanceProfile": {"cpu": "high"},
        "limitsNote": "x",
        "disk": "low",
    }
    [found] = workflow_of({"metadata": {"name": "w"}, "spec": {"actions": [action]}}).actions
    assert found.extra_resources == {"gpu": True}
    assert found.performance_profile == {"cpu": "high"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": None}, "name"),
        ({"resources": {"limits": {"memory": "16g"}}}, "limits.memory"),
        ({"resources": {"limits": 5}}, "limits"),
        ({"performanceProfile": {"cpu": "enormous"}}, "performanceProfile.cpu"),
        ({"extraResources": {"gpu": {"model": "x"}}}, "extraResources.gpu"),
        ({"usesService": 3}, "usesService"),
        ({"annotations": []}, "annotations"),
    ],
)
def test_what_cannot_be_read_names_workflow_and_field(change: dict[str, Any], field: str) -> None:
    given = {"metadata": {"name": "pair"}, "spec": {"actions": [{"name": "a", **change}]}}
    with pytest.raises(BadInput, match=f"workflow pair: .*{field}") as caught:
        workflow_of(given)
    assert "\n" not in str(caught.value)


def test_a_key_given_twice_is_refused_with_its_line() -> None:
    text = INDENTED.replace("      id: b2\n", "      id: b2\n      id: b3\n")
    with pytest.raises(BadInput, match=r"w\.yaml: line \d+: key id stands twice"):
        list(workflow_texts(text, "w.yaml"))


@pytest.mark.parametrize("text", ["a: [", "\t- x: 1", "just words", "- 1"])
def test_no_yaml_is_one_line_with_the_file(text: str) -> None:
    with pytest.raises(BadInput, match=r"^w\.yaml: ") as caught:
        list(workflow_texts(text, "w.yaml"))
    assert "\n" not in str(caught.value)


def test_lists_and_several_documents() -> None:
    one = yaml.safe_load(INDENTED)
    text = yaml.safe_dump_all([{"kind": "WorkflowList", "items": [one, one]}, None, one])
    assert [found.name for found in workflow_texts(text, "w.yaml")] == ["pair"] * 3


def test_the_published_sample_is_read_as_it_stands(real: Any) -> None:
    seed = (real.parent.parent / "seeds" / "co-location.md").read_text()
    block = seed.split("```yaml\n", 1)[1].split("```", 1)[0]
    text = "\n".join(line.removeprefix("    ") for line in block.splitlines())
    [found] = workflow_texts(text, "sample")
    hello, world = found.actions
    assert facts(found)[:4] == ("physics-namespace", "hello-sequence", "19fe4293742e0b2c", "cluster1")
    assert (hello.extra_resources, hello.importance) == ({"gpu": True, "diskType": "ssd"}, "high")
    assert hello.performance_profile == {"cpu": "medium", "memory": "low", "networkTransmitted": "low"}
    assert (hello.cpu_request, hello.memory_limit, world.memory_limit) == (1.0, 128 * MIB, 256 * MIB)
