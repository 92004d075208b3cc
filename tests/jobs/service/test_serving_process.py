"""One whole serving process with the real rules: snapshot, live cluster, webhook, recommendations."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonpatch
import kubernetes_validate
import pytest
from structlog.testing import capture_logs

from featurestore.store import decisions, published
from featurestore.store.duck import Store
from jobs.config import Settings, admitted
from jobs.service.process import Process
from pipeline.errors import BadInput
from tests.support.advised import AGGRESSOR, LABELS, learned, node_row, placement_row
from tests.support.kube_server import KubeServer, serving
from tests.support.service import encoded, review, running_app, wait_until

Patched = dict[str, Any]


def _pod(name: str = "hello-1") -> dict[str, Any]:
    container = {"name": "user-action", "image": "x", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": dict(LABELS)},
        "spec": {"containers": [container]},
    }


def _settings(directory: Path, mode: str = "prefer", kubeconfig: Path | None = None) -> Settings:
    store = {"path": directory / "db", "snapshot": directory / "snapshot", "spool": directory / "spool"}
    cluster: dict[str, Any] = {"name": "c1"}
    if kubeconfig is not None:
        cluster["kubernetes"] = {"kubeconfig": kubeconfig}
    return Settings.model_validate({"store": store, "advice": {"mode": mode}, "clusters": [cluster]})


def _publish(directory: Path, version: str = "v1", busy: str = "a") -> None:
    nodes = [node_row("a"), node_row("b")]
    placements = [placement_row("training", busy, AGGRESSOR)]
    published.write(learned(version=version, nodes=nodes, placements=placements), directory / "snapshot")


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    _publish(tmp_path)
    process = Process(_settings(tmp_path), None, 0)
    process.start()
    yield process
    process.close()


@pytest.fixture
def client(process: Process) -> Iterator[httpx.Client]:
    with running_app(process.app) as url, httpx.Client(base_url=url) as client:
        yield client


def _mutated(client: httpx.Client, pod: dict[str, Any], **changes: Any) -> Patched:
    """The pod as the API server would make it of the answer."""
    response = client.post("/mutate", content=encoded(review(pod, namespace="default", **changes))).json()["response"]
    assert response["allowed"] is True
    patch = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    patched: Patched = jsonpatch.apply_patch(pod, patch)
    return patched


def _best(client: httpx.Client) -> str:
    name: str = client.post("/v1/recommendations", json=_pod()).json()["nodes"][0]["name"]
    return name


def test_a_pod_is_steered_away_from_what_slows_it_and_stays_valid(client: httpx.Client) -> None:
    patched = _mutated(client, _pod())
    kubernetes_validate.validate(patched, "1.31", strict=True)
    affinity = patched["spec"]["affinity"]
    assert "requiredDuringSchedulingIgnoredDuringExecution" not in affinity.get("podAntiAffinity", {})
    terms = affinity["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert "Model_training" in json.dumps(terms)
    assert _best(client) == "b"


@pytest.mark.parametrize(("named", "warned"), [(None, ["c1"]), ("c1", [])])
def test_a_cluster_that_nobody_named_is_asked_for(tmp_path: Path, named: str | None, warned: list[str]) -> None:
    _publish(tmp_path)
    settings = Settings.model_validate(
        _settings(tmp_path).model_dump() | {"clusters": [], "serve": {"cluster": named}}
    )
    with capture_logs() as said:
        Process(settings, None, 0)
    assert [each["known"] for each in said if "serve.cluster" in each["event"]] == warned


def test_asked_about_its_own_result_the_webhook_changes_nothing(client: httpx.Client) -> None:
    patched = _mutated(client, _pod())
    assert patched != _pod()
    assert _mutated(client, patched, uid="u-2") == patched


def test_a_real_review_gets_a_patch_that_applies_or_none(client: httpx.Client, real: Path) -> None:
    body = (real / "admission_v1_pod_named.json").read_bytes()
    response = client.post("/mutate", content=body).json()["response"]
    assert response["uid"] == "1299d386-525b-4032-98ae-1949f69f9cfc"
    patch = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    pod = json.loads(body)["request"]["object"]
    patched = jsonpatch.apply_patch(pod, patch)
    assert patched["spec"]["containers"] == pod["spec"]["containers"]
    assert patched["metadata"]["labels"]["env"] == "test"


def test_a_pod_that_cannot_be_read_is_admitted_and_counted(client: httpx.Client) -> None:
    pod = _pod()
    pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = "16g"
    assert _mutated(client, pod) == pod
    assert 'colocation_webhook_errors_total{cause="bad_input"} 1.0' in client.get("/metrics").text


def test_a_mistyped_mode_is_counted_and_kept_with_the_decision(client: httpx.Client, tmp_path: Path) -> None:
    pod = _pod()
    pod["metadata"]["annotations"] = {"colocation.internal/mode": "requrie"}
    assert _mutated(client, pod) != pod
    counted = 'colocation_decisions_total{mode="prefer",outcome="patched",reason="unknown_value"} 1.0'
    assert counted in client.get("/metrics").text
    [row] = client.get("/v1/decisions").json()["items"]
    reasons = client.get(f"/v1/decisions/{row['decision']}").json()["document"]["reasons"]
    [said] = [each["sentence"] for each in reasons if each["rule"] == "unknown_value"]
    assert "'requrie' is none of observe, prefer, require" in said


def test_observing_decides_and_records_but_changes_nothing(tmp_path: Path) -> None:
    _publish(tmp_path)
    process = Process(_settings(tmp_path, mode="observe"), None, 0)
    process.start()
    try:
        with running_app(process.app) as url, httpx.Client(base_url=url) as client:
            assert _mutated(client, _pod()) == _pod()
            [decision] = client.get("/v1/decisions").json()["items"]
            assert (decision["mode"], decision["outcome"], decision["function"]) == (
                "observe", "unchanged", "guest/hello",
            )  # fmt: skip
    finally:
        process.close()
    store = Store(tmp_path / "db")
    assert decisions.flush(store, tmp_path / "spool").rows == 1
    document = store.read(lambda con: con.execute("SELECT document FROM decisions").fetchall())[0][0]
    assert "Model_training" in document
    assert json.loads(document)["nodes"][0]["name"] == "b"


def test_a_new_snapshot_turns_the_advice(client: httpx.Client, tmp_path: Path) -> None:
    assert _best(client) == "b"
    _publish(tmp_path, "v2", busy="b")
    wait_until(lambda: client.get("/readyz").json()["snapshot"] == "v2")
    assert _best(client) == "a"


def test_a_recommendation_over_http_has_the_documented_fields(client: httpx.Client) -> None:
    answer = client.post("/v1/recommendations", json={"pod": _pod(), "cluster": "c1", "mode": "prefer"}).json()
    assert {"decision", "snapshot", "mode", "satisfiable", "affinity", "patch", "nodes", "hpa", "hosts", "disks",
            "reasons"} <= set(answer)  # fmt: skip
    assert (answer["mode"], answer["snapshot"], answer["satisfiable"]) == ("prefer", "v1", True)
    assert {node["name"] for node in answer["nodes"]} == {"a", "b"}
    evidence = next(reason["evidence"] for reason in answer["reasons"] if reason["rule"] == "interference")
    assert (evidence["victim"], evidence["aggressor"], evidence["slowdown"]) == ("guest/hello", AGGRESSOR, 0.8)


def test_a_cluster_that_is_not_known_and_a_pod_that_is_none_are_problems(client: httpx.Client) -> None:
    unknown = client.post("/v1/recommendations", json={"pod": _pod(), "cluster": "c9"})
    assert (unknown.status_code, unknown.json()["detail"]) == (400, "cluster: 'c9' is not known here; there are c1")
    odd = _pod()
    odd["spec"]["containers"] = "none"
    answer = client.post("/v1/recommendations", json=odd)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")


def test_the_live_cluster_counts_and_not_the_snapshots_last_look(tmp_path: Path) -> None:
    """The snapshot saw Model_training on a; since then it went to b."""
    _publish(tmp_path)
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True"}
    nodes = [
        {
            "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
        }
        for name in ("a", "b")
    ]
    workflows = "/apis/wp5.physics-faas.eu/v1alpha1/workflows"
    with serving({"/api/v1/nodes": nodes, "/api/v1/pods": [], "/api/v1/services": [], workflows: []}) as server:
        process = Process(_settings(tmp_path, kubeconfig=server.kubeconfig(tmp_path)), None, 0)
        process.start()
        try:
            with running_app(process.app) as url, httpx.Client(base_url=url) as client:
                wait_until(lambda: client.get("/readyz").json()["live"])
                _train_on(server, "b", "ADDED")
                wait_until(lambda: _best(client) == "a")
                _train_on(server, "b", "DELETED")
                _train_on(server, "a", "ADDED")
                wait_until(lambda: _best(client) == "b")
                asking = _pod()
                asking["metadata"]["annotations"] = {"workflow": "late"}
                assert _needs(client, asking) is None
                actions = [{"name": "hello", "extraResources": {"rack": "r1"}}]
                late = {"metadata": {"name": "late", "namespace": "default"}, "spec": {"actions": actions}}
                server.event(workflows, "ADDED", late)
                rack = {"key": "rack", "operator": "In", "values": ["r1"]}
                wait_until(lambda: _needs(client, asking) == [{"matchExpressions": [rack]}])
        finally:
            process.close()


def _needs(client: httpx.Client, pod: dict[str, Any]) -> Any:
    """What the webhook requires of the nodes of *pod*."""
    affinity = (_mutated(client, pod)["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    return (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms")


def _train_on(server: KubeServer, node: str, kind: str) -> None:
    pod = _pod(f"training-{node}")
    pod["metadata"] |= {"uid": f"uid-{node}", "labels": {**LABELS, "openwhisk/action": "Model_training"}}
    pod["spec"]["nodeName"] = node
    pod["status"] = {"phase": "Running"}
    server.event("/api/v1/pods", kind, pod)


def test_a_decided_pod_counts_until_it_is_seen_but_not_after_a_dry_run(
    process: Process, client: httpx.Client
) -> None:
    _mutated(client, _pod(), dryRun=True)
    assert process.reservations.current() == []
    _mutated(client, _pod(), uid="d-1")
    [reservation] = process.reservations.current()
    assert (reservation.decision, reservation.node, reservation.function) == ("d-1", "b", "guest/hello")
    assert reservation.requests["cpu"] == pytest.approx(0.1)


def test_which_cluster_is_admitted_has_to_be_clear() -> None:
    def of(names: list[str], serve: dict[str, str] | None = None) -> Settings:
        return Settings.model_validate({"clusters": [{"name": name} for name in names], "serve": serve or {}})

    assert admitted(of(["one"])) == "one"
    assert admitted(of(["one", "two"], {"cluster": "two"})) == "two"
    with pytest.raises(BadInput, match=r"serve\.cluster: name the one.*one, two"):
        admitted(of(["one", "two"]))
    with pytest.raises(BadInput, match=r"serve\.cluster: 'three' is not one of one, two"):
        admitted(of(["one", "two"], {"cluster": "three"}))
