"""A running service that a real API server asks about new pods: what tests of the webhook on a cluster share."""

import base64
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

from featurestore.store import published
from pipeline.collectors import workflows
from tests.support.advised import AGGRESSOR_LABELS, LABELS, learned
from tests.support.certificate import make_certificate
from tests.support.cluster import Cluster, wait_for

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
PODS = "/api/v1/namespaces/default/pods"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = Path(__file__).resolve().parents[2] / "deploy" / "workflows" / "crd.yaml"


@dataclass
class Advised:
    """A cluster whose new pods with the label ``advised: PREFIX`` are asked about at a running service."""

    cluster: Cluster
    process: "subprocess.Popen[bytes]"
    url: str
    certificate: Path
    directory: Path
    labels: dict[str, str] = field(default_factory=dict)

    def state(self, workflow: str, action: Mapping[str, Any]) -> None:
        """Create *workflow* of the one *action* in the cluster, and wait until the service has seen it."""
        body = {"apiVersion": "wp5.physics-faas.eu/v1alpha1", "kind": "Workflow", "metadata": {"name": workflow}}
        path = workflows.PATH.replace("/workflows", "/namespaces/default/workflows")
        self.cluster.create(path, {**body, "spec": {"actions": [action]}})
        asked = {"name": "hello", "labels": LABELS, "annotations": {"workflow": workflow}}

        def seen() -> bool:
            with self.client() as client:
                pod = {"metadata": asked, "spec": {"containers": []}}
                answer = client.post(f"{self.url}/v1/recommendations", json=pod).json()
            return not any("not known here" in each["sentence"] for each in answer["reasons"])

        wait_for(seen)

    def get(self, path: str) -> httpx.Response:
        with self.client() as client:
            return client.get(self.url + path)

    def settle(self, node: str) -> None:
        """Wait until the service sees the disturbing function on *node*."""
        pod = {"metadata": {"name": "hello", "labels": LABELS}, "spec": {**self.only(), "containers": []}}

        def disturbed() -> bool:
            with self.client() as client:
                answer = client.post(f"{self.url}/v1/recommendations", json=pod).json()
            reasons = {each["name"]: each["reasons"] for each in answer["nodes"]}
            return any("longer beside" in reason for reason in reasons.get(node, ()))

        wait_for(disturbed)

    def client(self) -> httpx.Client:
        return httpx.Client(verify=ssl.create_default_context(cafile=str(self.certificate)))

    def training_on(self, node: str, name: str) -> None:
        """Run a pod of the disturbing function on *node*."""
        pod = self.cluster.pod(name, {"nodeSelector": {"kubernetes.io/hostname": node}}, labels=AGGRESSOR_LABELS)
        assert self.cluster.wait_bound(pod) == node
        self.cluster.run(pod)

    def hello(self, name: str, spec: dict[str, Any] | None = None, **annotations: str) -> dict[str, Any]:
        """Create a pod of the disturbed function, as it came out of admission."""
        pod = self.cluster.pod(
            name, {**self.only(), **(spec or {})}, labels={**LABELS, **self.labels}, annotations=annotations
        )
        status, answer = self.cluster.call("GET", f"{PODS}/{pod}")
        assert status == 200, answer
        found: dict[str, Any] = answer
        return found

    def only(self) -> dict[str, Any]:
        """Keep to the nodes of this test."""
        return {"nodeSelector": {"test": self.cluster.prefix}}

    def node(self, name: str, **labels: str) -> str:
        return self.cluster.node_with(name, {"test": self.cluster.prefix, **labels})


@contextmanager
def serving(cluster: Cluster, tmp_path: Path) -> Iterator[Advised]:
    """Keep a service up whose files lie in *tmp_path*, and have the API server of *cluster* ask it."""
    _define_workflows(cluster)
    certificate, key = make_certificate(tmp_path)
    published.write(learned(version="first"), tmp_path / "snapshot")
    config = tmp_path / "colocate.toml"
    config.write_text(
        f"[store]\ncontrol = '{tmp_path / 'control'}'\npath = '{tmp_path / 'db'}'\n"
        f"snapshot = '{tmp_path / 'snapshot'}'\nspool = '{tmp_path / 'spool'}'\n"
        f"[serve]\nport = 0\nhost = '127.0.0.1'\ntls_cert = '{certificate}'\ntls_key = '{key}'\n"
        "[advice]\nmode = 'prefer'\n"
        f"[[clusters]]\nname = 'c1'\n[clusters.kubernetes]\nkubeconfig = '{cluster.kubeconfig}'\n"
    )
    log = tmp_path / "serve.log"
    with log.open("wb") as stderr:
        command = [sys.executable, "-m", "jobs.cli", "--config", str(config), "serve", "--no-schedule"]
        process = subprocess.Popen(command, stderr=stderr)
    try:
        wait_for(lambda: '"listening"' in log.read_text())
        found = re.search(r'"port": (\d+)', log.read_text())
        assert found is not None
        made = Advised(cluster, process, f"https://127.0.0.1:{found[1]}", certificate, tmp_path)
        made.labels = {"advised": cluster.prefix}
        wait_for(lambda: live(made))
        _register(made)
        yield made
    finally:
        if process.poll() is None:  # else the test has killed it
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, log.read_text()[-8000:]


def _define_workflows(cluster: Cluster) -> None:
    """Let the API server know workflows, unless it does, and wait until it answers for them."""
    definition = yaml.safe_load(DEFINITION.read_text(encoding="utf-8"))
    path = f"{CRDS}/{definition['metadata']['name']}"
    # That of the test before may be going still.
    wait_for(lambda: "deletionTimestamp" not in (cluster.call("GET", path)[1].get("metadata") or {}))
    if cluster.call("GET", path)[0] == 404:
        cluster.create(CRDS, definition)
    wait_for(lambda: cluster.call("GET", workflows.PATH)[0] == 200)


def live(made: Advised) -> bool:
    try:
        return bool(made.get("/readyz").json()["live"])
    except httpx.TransportError:
        return False


def _register(made: Advised) -> None:
    """Have the API server ask the service, and wait until it does."""
    webhook = {
        "name": "pods.colocation.internal",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
        "timeoutSeconds": 2,
        "sideEffects": "NoneOnDryRun",
        "reinvocationPolicy": "IfNeeded",
        "clientConfig": {
            "url": f"{made.url}/mutate",
            "caBundle": base64.b64encode(made.certificate.read_bytes()).decode(),
        },
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        "objectSelector": {"matchLabels": made.labels},
    }
    body = {"metadata": {"name": made.cluster.prefix}, "webhooks": [webhook]}
    made.cluster.create(WEBHOOKS, {"apiVersion": "admissionregistration.k8s.io/v1",
                                   "kind": "MutatingWebhookConfiguration", **body})  # fmt: skip
    probe = {
        "metadata": {"name": f"{made.cluster.prefix}-probe", "labels": {**LABELS, **made.labels}},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }

    def asked() -> bool:
        status, answer = made.cluster.call("POST", f"{PODS}?dryRun=All", probe)
        assert status == 201, answer
        return "colocation.internal/function" in answer["metadata"]["labels"]

    wait_for(asked)
