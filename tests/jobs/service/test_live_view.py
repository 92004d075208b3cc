"""The live view against a stand-in API server: list, watch, odd objects, staleness."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jobs.service import live as live_module
from jobs.service.live import Held, Live
from pipeline.clients.kubernetes import KubernetesClient
from tests.support.kube_server import KubeServer, serving
from tests.support.service import wait_until

NODES, PODS, SERVICES = "/api/v1/nodes", "/api/v1/pods", "/api/v1/services"
NAMESPACES = "/api/v1/namespaces"
WORKFLOWS = "/apis/wp5.physics-faas.eu/v1alpha1/workflows"


def _node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"disk": "ssd"}},
        "spec": {},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def _pod(name: str, node: str = "n1", **metadata: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    return {
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", **metadata},
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
        "status": {"phase": "Running"},
    }


@pytest.fixture
def server() -> Iterator[KubeServer]:
    labels = {"openwhisk/action": "hello", "noise": "x"}
    service = {"metadata": {"name": "db", "namespace": "team"}, "spec": {"selector": {"app": "db"}}}
    spaces = [{"metadata": {"name": "team", "labels": {"tier": "gold"}}}, {"metadata": {"name": "bare"}}]
    headless = {"metadata": {"name": "none", "namespace": "team"}, "spec": {}}
    pods = [_pod("a", labels=labels, annotations={"colocation.internal/decision": "d1", "other": "y"}), _pod("b")]
    with serving(
        {NODES: [_node("n1"), _node("n2")], PODS: pods, SERVICES: [service, headless], NAMESPACES: spaces}
    ) as server:
        yield server


@pytest.fixture
def seen() -> list[str]:
    return []


@pytest.fixture
def live(server: KubeServer, tmp_path: Path, seen: list[str]) -> Iterator[Live]:
    client = KubernetesClient(kubeconfig=server.kubeconfig(tmp_path))
    live = Live(
        client,
        annotations=("colocation.internal/decision",),
        on_pod=lambda pod, there: seen.append(f"{pod.annotations.get('colocation.internal/decision', '')} {there}"),
    )
    live.start()
    try:
        wait_until(lambda: live.synced and live.services() and live.namespaces())
        yield live
    finally:
        live.close()


def _shunning(name: str) -> dict[str, Any]:
    """A pod that is spread, wants a friend, and has nobody like itself beside it."""
    selector = {"labelSelector": {"matchLabels": {"openwhisk/action": "hello"}}, "topologyKey": "zone"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [selector]}
    labels = {"openwhisk/action": "hello", "noise": "x"}
    pod = _pod(name, labels=labels, annotations={"colocation.internal/decision": "d1"})
    pod["spec"] |= {
        "affinity": {"podAffinity": required, "podAntiAffinity": required},
        "topologySpreadConstraints": [{**selector, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
    }
    return pod


def test_the_lists_are_held_with_what_answers_need_and_no_more(
    live: Live, seen: list[str], server: KubeServer
) -> None:
    assert sorted(node.name for node in live.nodes()) == ["n1", "n2"]
    server.event(PODS, "ADDED", _shunning("a"))
    server.event(PODS, "ADDED", _shunning("c"))
    wait_until(lambda: len(live.pods()) == 3 and all(pod.apart for pod in live.pods() if pod.name != "b"))
    pods = {pod.name: pod for pod in live.pods()}
    assert dict(pods["a"].labels) == {"openwhisk/action": "hello", "noise": "x"}
    assert pods["a"].apart is pods["c"].apart != ()
    assert pods["a"].labels is pods["c"].labels
    assert pods["a"].beside == pods["a"].spread == ()
    assert dict(pods["a"].annotations) == {"colocation.internal/decision": "d1"}
    assert pods["a"].requests == {"cpu": 0.5, "memory": 2.0**30}
    assert pods["a"].requests is pods["b"].requests
    assert live.services() == {("team", "db"): {"app": "db"}}
    assert "d1 True" in seen
    server.event(PODS, "DELETED", _shunning("a"))
    wait_until(lambda: "d1 False" in seen)


def test_pods_are_asked_for_without_those_that_ended(live: Live, server: KubeServer) -> None:
    selectors = {query.get("fieldSelector") for path, query in server.requests if path == PODS}
    assert selectors == {"status.phase!=Succeeded,status.phase!=Failed"}


def test_events_change_the_view_and_the_number_of_changes(live: Live, server: KubeServer) -> None:
    before = live.changes
    server.event(PODS, "ADDED", _pod("c", node="n2"))
    wait_until(lambda: {pod.name for pod in live.pods()} == {"a", "b", "c"})
    assert live.changes > before
    server.event(PODS, "DELETED", _pod("a"))
    server.event(NODES, "DELETED", _node("n2"))
    wait_until(lambda: {pod.name for pod in live.pods()} == {"b", "c"} and len(live.nodes()) == 1)


def test_an_update_of_nothing_that_matters_is_no_change(live: Live, server: KubeServer) -> None:
    before = live.changes
    server.event(PODS, "MODIFIED", _pod("b", annotations={"noise": "other"}))
    server.event(PODS, "ADDED", _pod("z"))
    wait_until(lambda: len(live.pods()) == 3)
    assert live.changes == before + 1


def test_labels_of_namespaces_are_followed(live: Live, server: KubeServer) -> None:
    assert live.namespaces() == {"team": {"tier": "gold"}, "bare": {}}
    server.event(NAMESPACES, "MODIFIED", {"metadata": {"name": "bare", "labels": {"tier": "iron"}}})
    server.event(NAMESPACES, "DELETED", {"metadata": {"name": "team"}})
    wait_until(lambda: live.namespaces() == {"bare": {"tier": "iron"}})


def test_without_the_right_to_read_namespaces_the_view_is_there(server: KubeServer, tmp_path: Path) -> None:
    del server.collections[NAMESPACES]
    live = Live(KubernetesClient(kubeconfig=server.kubeconfig(tmp_path)), annotations=())
    live.start()
    try:
        wait_until(lambda: live.synced)
        assert live.namespaces() == {}
        assert live.staleness()["namespaces"] is None
    finally:
        live.close()


def _workflow(name: str, **needs: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"actions": [{"name": "hello", "extraResources": needs}]},
    }


def test_workflows_are_followed_and_neither_a_status_nor_other_code_is_a_change(
    server: KubeServer, tmp_path: Path
) -> None:
    server.put(WORKFLOWS, [_workflow("w", gpu=True)])
    live = Live(KubernetesClient(kubeconfig=server.kubeconfig(tmp_path)), annotations=())
    assert live.workflows() is None
    live.start()
    try:
        wait_until(lambda: live.workflows() is not None)

        def needs() -> dict[tuple[str, str], Any]:
            return {key: each.actions[0].extra_resources for key, each in (live.workflows() or {}).items()}

        assert needs() == {("team", "w"): {"gpu": True}}
        before = live.workflow_changes
        server.event(WORKFLOWS, "MODIFIED", {**_workflow("w", gpu=True), "status": {"phase": "deployed"}})
        applied = _workflow("w", gpu=True)
        applied["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "other code"}
        server.event(WORKFLOWS, "MODIFIED", applied)
        server.event(WORKFLOWS, "ADDED", _workflow("odd", gpu=[1]))
        server.event(WORKFLOWS, "ADDED", _workflow("v", diskType="ssd"))
        wait_until(lambda: needs() == {("team", "w"): {"gpu": True}, ("team", "v"): {"diskType": "ssd"}})
        assert live.workflow_changes == before + 1
        server.event(WORKFLOWS, "DELETED", _workflow("w"))
        wait_until(lambda: list(needs()) == [("team", "v")])
    finally:
        live.close()


def test_a_workflow_that_became_odd_or_lost_its_definition_states_nothing(server: KubeServer, tmp_path: Path) -> None:
    server.put(WORKFLOWS, [_workflow("w", gpu=True), _workflow("v", gpu=True)])
    live = Live(KubernetesClient(kubeconfig=server.kubeconfig(tmp_path)), annotations=())
    live.start()
    try:
        wait_until(lambda: len(live.workflows() or ()) == 2)
        server.event(WORKFLOWS, "MODIFIED", _workflow("w", gpu=[1]))
        wait_until(lambda: list(live.workflows() or ()) == [("team", "v")])
        del server.collections[WORKFLOWS]
        server.version += 10
        server.oldest = server.version
        server.end_watches()
        wait_until(lambda: live.workflows() == {} and "workflows" not in live.staleness())
    finally:
        live.close()


def test_a_cluster_without_workflows_tells_nothing_of_them(live: Live) -> None:
    wait_until(lambda: "workflows" not in live.staleness())
    assert live.workflows() is None
    assert live.synced


def test_an_odd_object_costs_only_itself(live: Live, server: KubeServer) -> None:
    odd = _pod("odd")
    odd["spec"]["containers"][0]["resources"]["requests"]["memory"] = "16g"
    server.event(PODS, "ADDED", odd)
    server.event(PODS, "ADDED", _pod("fine"))
    wait_until(lambda: {pod.name for pod in live.pods()} == {"a", "b", "fine"})


def test_what_became_odd_is_gone_with_its_deletion(live: Live, server: KubeServer, seen: list[str]) -> None:
    odd = _pod("a", annotations={"colocation.internal/decision": "d1"})
    odd["spec"]["containers"][0]["resources"]["requests"]["memory"] = "16g"
    live.touched_pods()
    server.event(PODS, "DELETED", odd)
    wait_until(lambda: {pod.name for pod in live.pods()} == {"b"})
    assert live.touched_pods() == {"uid-a"}
    assert "d1 False" in seen


def test_nothing_is_kept_of_pods_that_are_gone(server: KubeServer, tmp_path: Path) -> None:
    """OpenWhisk labels each pod with its own name; what is kept of one takes some 900 bytes."""
    live = Live(KubernetesClient(kubeconfig=server.kubeconfig(tmp_path)), annotations=())
    pods = live._pods  # nobody else writes there: it is not started
    pods.event("ADDED", _raw(_pod("stays", labels={"name": "shared"})))
    tracemalloc.start()
    try:
        taken, count = [], live_module._SPARE + 100
        for round_ in range(3):
            for number in range(count):
                name = f"p-{round_}-{number}"
                pods.event("ADDED", _raw(_pod(name, labels={"name": name})))
                pods.event("DELETED", _raw(_pod(name, labels={"name": name})))
            live.touched_pods()
            taken.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert (taken[-1] - taken[0]) / (2 * count) < 100
    pods.event("ADDED", _raw(_pod("comes", labels={"name": "shared"})))
    stays, comes = live.pods()
    assert stays.labels is comes.labels


def _raw(thing: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(thing))


def test_only_of_pods_it_is_kept_which_changed() -> None:
    held: Held[str, str] = Held("thing", lambda raw: (bytes(raw).decode(), ""), lambda meta: meta.name, lambda: None)
    for number in range(3):
        held.event("ADDED", msgspec.Raw(str(number).encode()))
    assert len(held.items) == held.changes == 3
    assert not held.touched


def test_an_expired_watch_lists_anew_and_what_is_missing_is_gone(live: Live, server: KubeServer) -> None:
    server.put(PODS, [_pod("b")])
    server.version += 10
    server.oldest = server.version
    server.end_watches()
    wait_until(lambda: {pod.name for pod in live.pods()} == {"b"})
    assert live.lists["pods"] == 2


def test_staleness_is_known_after_the_first_list(live: Live, server: KubeServer, tmp_path: Path) -> None:
    wait_until(lambda: all(age is not None and age < 60 for age in live.staleness().values()))
    unsynced = Live(KubernetesClient(kubeconfig=server.kubeconfig(tmp_path)), annotations=())
    kinds = ("nodes", "pods", "services", "namespaces", "workflows")
    assert unsynced.staleness() == dict.fromkeys(kinds)
    assert not unsynced.synced
