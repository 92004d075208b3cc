"""`kubectl apply -k` and `helm install`, as an operator types them, on a real API server, and what undoes them.

Helm installs a copy of the chart. The server that the tests run on is older than the chart's ``kubeVersion``, and
knows CronJob and PodDisruptionBudget under former versions; the copy names those. Its server-side apply lacks the
default of a port's protocol, so Helm is told to apply from the client's side.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster, wait_for
from tests.support.installed import PATHS
from tests.support.renderers import DEPLOY, charted, kustomized, program

pytestmark = pytest.mark.cluster
OVERLAY = str(Path(__file__).parent / "kubernetes-1.20")
SYSTEM = "colocation-system"
#: Kinds that the server knows under a former version.
FORMER = {"apiVersion: batch/v1": "apiVersion: batch/v1beta1", "apiVersion: policy/v1": "apiVersion: policy/v1beta1"}
EVERYTHING = (
    *("schedule=cron", "features.disks=true", "features.diskReservations=true", "features.hosts=true"),
    *("features.regions=true", "features.regionOperators=true"),
)


def _run(cluster: Cluster, name: str, *arguments: str) -> str:
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    done = subprocess.run(
        [str(program(name)), *arguments], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _there(cluster: Cluster, documents: Sequence[Mapping[str, Any]], namespace: str) -> dict[tuple[str, str], bool]:
    """Return, for each object by kind and name, whether the server has it; what is being deleted is not there."""
    found = {}
    for each in documents:
        kind, name = each["kind"], each["metadata"]["name"]
        status, answer = cluster.call("GET", f"{PATHS[kind].replace(SYSTEM, namespace)}/{name}")
        assert status in (200, 404), (kind, name, answer)
        found[kind, name] = status == 200 and "deletionTimestamp" not in answer["metadata"]
    return found


def _finish(cluster: Cluster, namespace: str) -> None:
    """Do what the controllers of a whole cluster do: let go of claims that no pod uses, and of an empty namespace."""
    claims = PATHS["PersistentVolumeClaim"].replace(SYSTEM, namespace)
    for each in cluster.call("GET", claims)[1]["items"]:
        kept = {"metadata": {"finalizers": None}}
        cluster.call("PATCH", f"{claims}/{each['metadata']['name']}", kept, "application/merge-patch+json")
    path = f"{PATHS['Namespace']}/{namespace}"
    status, found = cluster.call("GET", path)
    if status == 404:
        return
    if found["status"]["phase"] != "Terminating":
        cluster.call("DELETE", path)
    status, found = cluster.call("GET", path)
    if status == 200:
        cluster.call("PUT", f"{path}/finalize", {**found, "spec": {"finalizers": []}})
    wait_for(lambda: cluster.call("GET", path)[0] == 404)


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """A copy of the chart that asks for the server's version and names kinds as it does."""
    copy = tmp_path / "chart"
    shutil.copytree(DEPLOY / "chart", copy)
    about = (copy / "Chart.yaml").read_text()
    assert ">=1.21.0-0" in about
    (copy / "Chart.yaml").write_text(about.replace(">=1.21.0-0", ">=1.20.0-0"))
    for file in (copy / "templates").glob("*.yaml"):
        lines = file.read_text().split("\n")
        file.write_text("\n".join(FORMER.get(line, line) for line in lines))
    return copy


def _kinds(cluster: Cluster) -> set[str]:
    return {each["metadata"]["name"] for each in cluster.call("GET", PATHS["CustomResourceDefinition"])[1]["items"]}


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace's name that is the test's own; it and kinds that were not there before are removed afterwards."""
    before = _kinds(cluster)
    yield cluster.prefix
    _finish(cluster, cluster.prefix)
    for name in _kinds(cluster) - before:
        cluster.call("DELETE", f"{PATHS['CustomResourceDefinition']}/{name}")
    wait_for(lambda: _kinds(cluster) <= before)


@pytest.fixture
def system(cluster: Cluster) -> Iterator[str]:
    """The namespace that the manifests name; it is removed afterwards."""
    yield SYSTEM
    _run(cluster, "kubectl", "delete", "-k", OVERLAY, "--ignore-not-found", "--wait=false")
    _finish(cluster, SYSTEM)


def test_kubectl_applies_all_features_applies_them_again_and_deletes_them(cluster: Cluster, system: str) -> None:
    documents = kustomized(OVERLAY)
    first = _run(cluster, "kubectl", "apply", "-k", OVERLAY).splitlines()
    assert len(first) == len(documents)
    assert all(_there(cluster, documents, system).values())
    again = _run(cluster, "kubectl", "apply", "-k", OVERLAY).splitlines()
    assert len(again) == len(documents)
    assert [line for line in again if line.endswith(" created")] == []

    # No controller lets go of the claim and the namespace here, for which the command would wait.
    _run(cluster, "kubectl", "delete", "-k", OVERLAY, "--wait=false")
    _finish(cluster, system)
    # The server lets go of a kind by itself once its objects are gone.
    wait_for(lambda: not any(_there(cluster, documents, system).values()))


def test_helm_installs_all_features_and_uninstalls_all_but_the_kinds(
    cluster: Cluster, chart: Path, namespace: str
) -> None:
    """The kinds stay, as Helm never takes them away: with them would go what is of them."""
    documents = charted(*EVERYTHING, namespace=namespace)
    values = [part for value in EVERYTHING for part in ("--set", value)]
    where = ("-n", namespace)
    _run(
        cluster,
        "helm",
        "install",
        "advisor",
        str(chart),
        *where,
        "--create-namespace",
        "--server-side=false",
        *values,
    )
    try:
        there = _there(cluster, documents, namespace)
        assert {kind for kind, _ in there} >= {"CronJob", "PodDisruptionBudget", "StatefulSet", "ClusterRole"}
        assert all(there.values()), there
        assert "advisor" in _run(cluster, "helm", "list", "-q", *where).split()
    finally:
        _run(cluster, "helm", "uninstall", "advisor", *where)
    left = {key for key, is_there in _there(cluster, documents, namespace).items() if is_there}
    assert {kind for kind, _ in left} == {"CustomResourceDefinition"}
    assert _run(cluster, "helm", "list", "-q", *where).split() == []
