"""The webhook by URL on a real API server and scheduler: pods are patched, and bound where the rules say."""

import json
import time
import uuid

import pytest

from tests.support.advised import LABELS
from tests.support.cluster import wait_for
from tests.support.webhook_cluster import Advised, live

pytestmark = pytest.mark.cluster
ACTION = {"name": "hello", "optimizationGoal": "performance", "importance": "high"}


def _filled(advised: Advised, node: str, cpu: str) -> None:
    """Load *node*, so that the scheduler on its own would take another."""
    resources = {"requests": {"cpu": cpu, "memory": "16Gi"}}
    container = {"name": "c", "image": "x", "resources": resources}
    spec = {"nodeSelector": {"kubernetes.io/hostname": node}, "containers": [container]}
    assert advised.cluster.wait_bound(advised.cluster.pod(f"filler-{uuid.uuid4().hex[:6]}", spec)) == node


def test_a_pod_goes_where_it_is_not_disturbed_though_the_scheduler_alone_would_not(advised: Advised) -> None:
    a, b = advised.node("a"), advised.node("b")
    _filled(advised, b, "4")
    advised.training_on(a, "training")
    advised.settle(a)
    control = advised.cluster.pod("control", advised.only(), labels=LABELS)
    assert advised.cluster.wait_bound(control) == a
    pod = advised.hello("hello")
    assert pod["metadata"]["annotations"]["colocation.internal/decision"]
    assert pod["metadata"]["labels"]["colocation.internal/function"]
    anti = pod["spec"]["affinity"]["podAntiAffinity"]
    assert "requiredDuringSchedulingIgnoredDuringExecution" not in anti
    assert advised.cluster.wait_bound(pod["metadata"]["name"]) == b


def test_a_stated_need_binds_to_the_node_that_has_it_and_the_users_terms_stay(advised: Advised) -> None:
    advised.node("plain")
    gpu = advised.node("gpu", gpu="yes", zone="z2")
    advised.node("gpu-elsewhere", gpu="yes", zone="z3")
    advised.state("flow", {**ACTION, "extraResources": {"gpu": True}})
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in ("z1", "z2")]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod = advised.hello("needy", {"affinity": {"nodeAffinity": required}}, workflow="flow")
    node_affinity = pod["spec"]["affinity"]["nodeAffinity"]
    merged = node_affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [json.dumps(term).count('"gpu"') for term in merged] == [1, 1]
    assert [[each["values"] for each in term["matchExpressions"] if each["key"] == "zone"] for term in merged] == [
        [["z1"]], [["z2"]],
    ]  # fmt: skip
    assert advised.cluster.wait_bound(pod["metadata"]["name"]) == gpu


def test_required_and_important_a_pod_never_shares_with_what_disturbs_it(advised: Advised) -> None:
    a, b = advised.node("a"), advised.node("b")
    _filled(advised, b, "6")
    advised.training_on(a, "training")
    advised.settle(a)
    advised.state("flow", ACTION)
    pod = advised.hello("strict", workflow="flow", **{"colocation.internal/mode": "require"})
    assert pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert advised.cluster.wait_bound(pod["metadata"]["name"]) == b


def test_a_dry_run_is_not_recorded_and_a_decision_is(advised: Advised) -> None:
    advised.node("a")
    before = advised.get("/v1/decisions").json()["total"]
    assert before == 0
    pod = advised.hello("recorded")
    [decision] = advised.get("/v1/decisions").json()["items"]
    assert decision["decision"] == pod["metadata"]["annotations"]["colocation.internal/decision"]
    assert (decision["function"], decision["outcome"], decision["cluster"]) == ("guest/hello", "patched", "c1")


def test_killing_the_service_leaves_pod_creation_working(advised: Advised) -> None:
    node = advised.node("a")
    advised.process.kill()
    advised.process.wait()
    wait_for(lambda: not live(advised))
    began = time.monotonic()
    pod = advised.hello("orphan")
    assert time.monotonic() - began < 10
    assert "colocation.internal/function" not in pod["metadata"]["labels"]
    assert advised.cluster.wait_bound(pod["metadata"]["name"]) == node
