"""Many pods on a real scheduler: what the advice comes to when it is followed pod by pod."""

import uuid
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.advised import AGGRESSOR_LABELS, LABELS
from tests.support.cluster import many, wait_for
from tests.support.webhook_cluster import PODS, Advised

pytestmark = pytest.mark.cluster


def _nodes(advised: Advised, count: int, cpu: str = "8") -> list[str]:
    labels = {"test": advised.cluster.prefix}
    return many(lambda number: advised.cluster.node_with(f"n{number}", labels, cpu=cpu), count)


def _created(advised: Advised, name: str, labels: Mapping[str, str]) -> str:
    return advised.cluster.pod(name, advised.only(), labels={**labels, **advised.labels})


def _both_kinds(advised: Advised, each: int) -> tuple[list[str], list[str]]:
    """Create pods of the disturbed and of the disturbing function in turn, every one running before the next."""
    victims, aggressors = [], []
    for number in range(each):
        for kind, labels, made in (("v", LABELS, victims), ("a", AGGRESSOR_LABELS, aggressors)):
            pod = _created(advised, f"{kind}{number}", labels)
            made.append(advised.cluster.wait_bound(pod))
            advised.cluster.run(pod)
    return victims, aggressors


def test_two_that_interfere_keep_to_separate_nodes_while_there_is_room(advised: Advised) -> None:
    nodes = _nodes(advised, 20)
    for number, node in enumerate(nodes[:16]):  # the scheduler alone would fill the four others first
        resources = {"requests": {"cpu": "2", "memory": "8Gi"}}
        spec = {"nodeSelector": {"kubernetes.io/hostname": node}}
        filler = [{"name": "c", "image": "x", "resources": resources}]
        assert (
            advised.cluster.wait_bound(advised.cluster.pod(f"filler{number}", {**spec, "containers": filler})) == node
        )
    control = {
        kind: [advised.cluster.pod(f"control-{kind}{number}", advised.only(), labels=labels) for number in range(5)]
        for kind, labels in (("v", LABELS), ("a", AGGRESSOR_LABELS))
    }
    shared = [{advised.cluster.wait_bound(pod) for pod in pods} for pods in control.values()]
    assert shared[0] & shared[1]
    for pod in (pod for pods in control.values() for pod in pods):
        advised.cluster.call("DELETE", f"{PODS}/{pod}?gracePeriodSeconds=0", {"gracePeriodSeconds": 0})
    victims, aggressors = _both_kinds(advised, 10)
    assert not set(victims) & set(aggressors)


def test_all_run_when_there_is_no_room_to_keep_apart(advised: Advised) -> None:
    nodes = _nodes(advised, 4, cpu="500m")  # five pods of a tenth of a core each
    victims, aggressors = _both_kinds(advised, 10)
    assert Counter(victims + aggressors) == dict.fromkeys(nodes, 5)


def test_a_burst_of_fifty_alike_does_not_go_to_one_node(advised: Advised) -> None:
    _nodes(advised, 20)
    pods = many(lambda number: _created(advised, f"burst{number}", LABELS), 50)
    with ThreadPoolExecutor(8) as pool:
        held = Counter(pool.map(advised.cluster.wait_bound, pods))
    assert len(held) >= 10
    assert max(held.values()) <= 10


def test_a_needed_gpu_is_found_and_three_terms_of_the_pods_own_are_kept(advised: Advised) -> None:
    advised.node("plain", zone="z2")
    gpu = advised.node("gpu", gpu="yes", zone="z2")
    advised.node("gpu-elsewhere", gpu="yes", zone="z9")
    action = {"name": "hello", "optimizationGoal": "performance", "importance": "high"}
    advised.state("flow", {**action, "extraResources": {"gpu": True}})
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in ("z1", "z2", "z3")
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod = advised.hello(f"needy-{uuid.uuid4().hex[:6]}", {"affinity": {"nodeAffinity": required}}, workflow="flow")
    merged = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    # Terms are ORed: each of the three stays, and holds the need as well.
    kept = [
        {each["key"]: each["values"] for each in term["matchExpressions"] if each["key"] == "zone"}
        for term in merged["nodeSelectorTerms"]
    ]
    assert kept == [{"zone": ["z1"]}, {"zone": ["z2"]}, {"zone": ["z3"]}]
    assert all(any(each["key"] == "gpu" for each in term["matchExpressions"]) for term in merged["nodeSelectorTerms"])
    assert advised.cluster.wait_bound(pod["metadata"]["name"]) == gpu


def test_required_and_important_ten_never_share_with_the_disturber_though_its_nodes_are_emptier(
    advised: Advised,
) -> None:
    nodes = _nodes(advised, 6)
    for number, node in enumerate(nodes[:3]):
        advised.training_on(node, f"training{number}")
    for node in nodes[:3]:
        advised.settle(node)
    action = {"name": "hello", "optimizationGoal": "performance", "importance": "high"}
    advised.state("flow", action)
    spec = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}]}
    pods = [
        advised.hello(f"strict{number}", spec, workflow="flow", **{"colocation.internal/mode": "require"})
        for number in range(10)
    ]
    held = {advised.cluster.wait_bound(pod["metadata"]["name"]) for pod in pods}
    assert held <= set(nodes[3:])


def test_a_disturber_that_comes_later_keeps_away_from_who_must_not_share(advised: Advised) -> None:
    nodes = _nodes(advised, 2)
    action = {"name": "hello", "optimizationGoal": "performance", "importance": "high"}
    advised.state("flow", action)
    pod = advised.hello("strict", workflow="flow", **{"colocation.internal/mode": "require"})
    where = advised.cluster.wait_bound(pod["metadata"]["name"])
    advised.cluster.run(pod["metadata"]["name"])
    later = [_created(advised, f"late{number}", AGGRESSOR_LABELS) for number in range(4)]
    held = {advised.cluster.wait_bound(each) for each in later}
    assert held == set(nodes) - {where}
    wait_for(lambda: bool(advised.get("/v1/decisions").json()["total"]))
