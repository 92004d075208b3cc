"""A real API server for the cluster suite: started for the session, or one that says it may be used up.

``COLOCATION_CLUSTER_TESTS=1`` turns the suite on. With ``COLOCATION_DISPOSABLE_CLUSTER=1`` it uses the cluster of
KUBECONFIG, whose nodes and pods it creates and deletes; otherwise it starts one with the shared tool.
"""

import json
import os
import subprocess
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipeline.clients.kubernetes import KubernetesClient
from tests.support import ports
from tests.support.cluster import Cluster, wait_scheduler
from tests.support.installed import NAME, SYSTEM, Installed
from tests.support.renderers import kustomized
from tests.support.webhook_cluster import Advised, serving

REPOSITORY = Path(__file__).resolve().parents[2]
OVERLAY = str(Path(__file__).parent / "kubernetes-1.20")
TOOL = Path(os.environ.get("COLOCATION_SHARED", REPOSITORY.parent / "shared")) / "tools" / "local-cluster"


#: What is written down: requests of service accounts of an installation and of jobs, once each is answered.
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {
            "level": "Metadata",
            "userGroups": [f"system:serviceaccounts:{each}" for each in ("colocation-system", "default")],
        },
        {"level": "None"},
    ],
}


@dataclass(frozen=True)
class Running:
    """A cluster that may be used up.

    *etcd* is the port of its store, *home* its directory, *audit* the log of what service accounts of
    colocation-system and default asked for, where those are known.
    """

    kubeconfig: Path
    etcd: int | None = None
    home: Path | None = None
    audit: Path | None = None


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The cluster of this session."""
    if os.environ.get("COLOCATION_CLUSTER_TESTS") != "1":
        pytest.skip("cluster tests run only with COLOCATION_CLUSTER_TESTS=1")
    if os.environ.get("COLOCATION_DISPOSABLE_CLUSTER") == "1":
        given = os.environ.get("KUBECONFIG")
        if not given:
            pytest.skip("COLOCATION_DISPOSABLE_CLUSTER=1, but KUBECONFIG names no cluster")
        yield Running(Path(given))
        return
    if not (TOOL / "up.sh").is_file():
        pytest.skip(f"no local cluster tool at {TOOL} and no disposable cluster (COLOCATION_DISPOSABLE_CLUSTER=1)")
    home = tmp_path_factory.mktemp("cluster")
    etcd, port = ports.free(neighbours=2), ports.free(neighbours=2)
    policy, audit = home / "audit-policy.json", home / "audit.log"
    policy.write_text(json.dumps(AUDIT))
    arguments = f"--audit-policy-file={policy} --audit-log-path={audit}"
    environment = {
        **os.environ, "CLUSTER_HOME": str(home), "PORT": str(port), "ETCD_PORT": str(etcd),
        "APISERVER_ARGS": arguments,
    }  # fmt: skip
    environment.pop("KUBECONFIG", None)
    started = subprocess.run(
        [str(TOOL / "up.sh")], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    try:
        if started.returncode != 0:
            said = (started.stderr or started.stdout).strip().splitlines() or ["it said nothing"]
            pytest.fail(f"the local cluster did not start: {said[-1]}")  # skipped, it would look like passed
        wait_scheduler(port + 1, home / "log" / "kube-scheduler.log")
        yield Running(home / "kubeconfig", etcd, home, audit)
    finally:
        subprocess.run([str(TOOL / "down.sh"), "--purge"], env=environment, timeout=120, check=False)


@pytest.fixture(scope="session")
def kubeconfig(running: Running) -> Path:
    """The kubeconfig of it."""
    return running.kubeconfig


@pytest.fixture
def forget(running: Running, client: KubernetesClient) -> Callable[[], None]:
    """Make the server forget all versions but the latest, as any server does in time."""

    def compact() -> None:
        if running.etcd is not None:
            latest = client.list("/api/v1/namespaces").resource_version
            body = json.dumps({"revision": latest, "physical": True}).encode()
            urllib.request.urlopen(f"http://127.0.0.1:{running.etcd}/v3/kv/compaction", body, timeout=10).close()

    return compact


@pytest.fixture(scope="session")
def client(kubeconfig: Path) -> KubernetesClient:
    """Our own client of it, with small pages."""
    return KubernetesClient(kubeconfig=kubeconfig, page=7)


@pytest.fixture
def cluster(kubeconfig: Path) -> Iterator[Cluster]:
    """Makes nodes and pods under names of its own, and deletes them afterwards."""
    made = Cluster(kubeconfig, prefix=f"t{uuid.uuid4().hex[:8]}")
    yield made
    made.clean()


@pytest.fixture(scope="module")
def documents() -> list[dict[str, Any]]:
    """Every object of an installation with all features."""
    return kustomized(OVERLAY)


@pytest.fixture(scope="module")
def installation(
    running: Running, documents: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    """The default overlay's objects; the webhook's own are left to the test that has somebody to ask."""
    cluster = Cluster(running.kubeconfig, f"t{uuid.uuid4().hex[:8]}")
    made = Installed(cluster, documents, tmp_path_factory.mktemp("installed"))
    base = {(each["kind"], each["metadata"]["name"]) for each in kustomized("overlays/default")}
    made.apply(
        [each for key, each in made.objects.items() if key in base and key[0] != "MutatingWebhookConfiguration"]
    )
    yield made
    for each in ("ca", "tls", "tokens"):  # the keeper made them
        cluster.call("DELETE", f"{SYSTEM}/secrets/{NAME}-{each}")
    cluster.clean()


@pytest.fixture
def advised(cluster: Cluster, tmp_path: Path) -> Iterator[Advised]:
    """A service that is asked about the pods of this test."""
    with serving(cluster, tmp_path) as made:
        yield made
