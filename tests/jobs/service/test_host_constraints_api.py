"""Stream jobs over HTTP, and what the webhook gives to their pods."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonpatch
import pytest

from featurestore.store import published
from jobs.config import Settings
from jobs.service.process import Process
from tests.support.advised import learned, node_row
from tests.support.hosting import APART, TOGETHER, term
from tests.support.service import review, running_app, wait_until

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
JOB = {
    "job": "ex",
    "namespace": "team",
    "hostPools": {"Own": "createPool({size=1u}, Sys.Exclusive)"},
    "pes": [
        {"id": 0, "operators": [{"name": "A", "placement": 'hostColocation("together")'}]},
        {"id": 1, "operators": [{"name": "B", "placement": 'host("b"), hostExlocation("apart")'}]},
        {"id": 2, "operators": [{"name": "C", "placement": "host(Own)"}]},
    ],
}
NODES = {"items": [{"metadata": {"name": name}} for name in "abc"]}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    taint = json.dumps([{"key": "streams.ibm.com/exclusive", "value": "ex", "effect": "NoSchedule"}])
    rows = [node_row("a") | {"taints": taint}, node_row("b"), node_row("c")]
    published.write(learned(version="v1", nodes=rows), tmp_path / "snapshot")
    store = {
        "path": tmp_path / "db", "snapshot": tmp_path / "snapshot", "spool": tmp_path / "spool",
        "control": tmp_path / "control.sqlite",
    }  # fmt: skip
    settings = {"store": store, "advice": {"mode": "prefer"}, "clusters": [{"name": "c1"}]}
    process = Process(Settings.model_validate(settings), None, 0)
    process.start()
    with running_app(process.app) as url, httpx.Client(base_url=url) as found:
        yield found
    process.close()


def _post(client: httpx.Client, **more: Any) -> httpx.Response:
    return client.post("/v1/host-constraints", json={"job": JOB, "nodes": NODES, **more})


def _admitted(client: httpx.Client, pe: str, **metadata: Any) -> dict[str, Any]:
    """The pod of *pe* as it comes out of admission."""
    labels = {"streams.ibm.com/job": "ex", "streams.ibm.com/pe": pe}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": labels, **metadata},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }
    answer = client.post("/mutate", json=review(pod)).json()["response"]
    assert answer["allowed"] is True
    patch = json.loads(base64.b64decode(answer["patch"])) if "patch" in answer else []
    found: dict[str, Any] = jsonpatch.apply_patch(pod, patch)
    return found


def test_a_submitted_job_is_answered_and_its_pods_are_advised(client: httpx.Client) -> None:
    answer = _post(client)
    assert answer.status_code == 200, answer.text
    shown = answer.json()
    assert [each["pe"] for each in shown["pods"]] == [0, 1, 2]
    assert [(each["name"], each["taints"][0]["value"]) for each in shown["nodes"]] == [("a", "ex")]
    assert (shown["stored"], shown["nodesChanged"]) == (True, 0)
    key = f"streams.ibm.com/hostcolocation.{TOGETHER}"
    wait_until(lambda: key in _admitted(client, "ex-0")["metadata"]["labels"])

    together = _admitted(client, "ex-0")
    assert together["metadata"]["labels"][key] == "together"
    assert together["spec"]["affinity"]["podAffinity"][REQUIRED] == [term(key, "together")]
    named = _admitted(client, "1")
    assert named["spec"]["nodeName"] == "b"
    assert named["metadata"]["labels"][f"streams.ibm.com/hostexlocation.{APART}"] == "apart"
    pooled = _admitted(client, "ex-2")
    wanted = shown["pods"][2]["manifest"]["spec"]
    assert pooled["spec"]["tolerations"] == wanted["tolerations"]
    terms = pooled["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert terms == wanted["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]

    assert "nodeName" not in _admitted(client, "ex-7")["spec"], "no such PE"
    assert client.request("DELETE", "/v1/host-constraints/ex").status_code == 200
    wait_until(lambda: "nodeName" not in _admitted(client, "ex-1")["spec"])
    assert client.request("DELETE", "/v1/host-constraints/ex").status_code == 404


def test_a_dry_run_stores_nothing(client: httpx.Client) -> None:
    assert _post(client, dryRun=True).json()["stored"] is False
    assert client.request("DELETE", "/v1/host-constraints/ex").status_code == 404


def test_a_refusal_is_a_problem_document_with_every_conflict(client: httpx.Client) -> None:
    both = 'hostColocation("t"), hostExlocation("x")'
    pes = [{"id": at, "operators": [{"name": f"Op{at}", "placement": both}]} for at in range(2)]
    pes.append({"id": 2, "operators": [{"name": "Far", "placement": 'host("nowhere")'}]})
    answer = client.post("/v1/host-constraints", json={"job": {"job": "no", "pes": pes}, "nodes": NODES})
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    refused = answer.json()["refused"]
    assert {each["conflict"] for each in refused} == {"colocated-and-exlocated", "no-such-node"}
    assert client.request("DELETE", "/v1/host-constraints/no").status_code == 404


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"job": {"job": "x"}, "nodes": []}, "pes"),
        ({"job": "x", "pes": [{"id": 0, "operators": [{"name": "A", "placement": "host("}]}]}, "line 1, column 6"),
        ({"job": JOB, "nodes": [{"kind": "Service"}]}, "Service"),
        ({"job": JOB}, "clusters.kubernetes"),
        ({"job": JOB, "nodes": [], "dryrun": True}, "dryrun"),
    ],
)
def test_what_cannot_be_read_is_one_line_that_names_the_place(client: httpx.Client, body: Any, said: str) -> None:
    answer = client.post("/v1/host-constraints", json=body)
    assert answer.status_code == 400
    assert said in answer.json()["detail"]
