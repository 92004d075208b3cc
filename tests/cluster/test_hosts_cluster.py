"""Host constraints on a real API server and scheduler: submitted by the command, bound where they have to be."""

import itertools
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from featurestore.store import control
from featurestore.store.control import Control
from jobs.cli import main
from jobs.config import HostsSettings
from jobs.hosts.reconciling import reconcile
from jobs.service.hostbodies import HostConstraints
from jobs.service.hosts import HostJobs
from pipeline.clients.kubernetes import KubernetesClient
from tests.support.cluster import NODES, PODS, STRATEGIC, Cluster, wait_for

pytestmark = pytest.mark.cluster
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POOLS = "/apis/streams.ibm.com/v1alpha1/namespaces/default/hostpools"
EVENTS = "/api/v1/namespaces/default/events"
Run = Callable[..., tuple[int, str, str]]
MAIN = """
composite Main {
graph
    stream<uint64 num> Source = Beacon() { config placement: partitionIsolation; }
    stream<uint64 num> Work = Functor(Source) { config placement: partitionIsolation; }
    () as Sink = Custom(Work) { config placement: partitionIsolation, hostIsolation; }
}
"""


class Streams:
    """A cluster with the kind HostPool, and the command with a store of its own."""

    def __init__(self, cluster: Cluster, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.cluster, self.directory, self._capsys = cluster, directory, capsys
        self.job = cluster.prefix
        self.store = directory / "control.sqlite"
        self._config = directory / "colocate.toml"
        self._config.write_text(
            f"[store]\ncontrol = '{self.store}'\n"
            f"[[clusters]]\nname = 'c1'\n[clusters.kubernetes]\nkubeconfig = '{cluster.kubeconfig}'\n"
        )

    def node(self, name: str, **labels: str) -> str:
        return self.cluster.node_with(name, {"test": self.job, "streams.ibm.com/hostpool": self.job, **labels})

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run ``colocate hosts`` and return its exit code and what it said."""
        code = main(["--config", str(self._config), "hosts", *arguments])
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def document(self, *placements: str, **fields: Any) -> Path:
        """Write a job of one PE for each of *placements*; it keeps to the nodes of this test."""
        pes = [
            {"id": at, "operators": [{"name": f"Op{at}", "placement": each}]} for at, each in enumerate(placements)
        ]
        resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
        spec = {
            "nodeSelector": {"test": self.job},
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "x", "resources": resources}],
        }
        file = self.directory / "job.yaml"
        given = {"job": self.job, "pes": pes, "template": {"spec": spec}, **fields}
        file.write_text(yaml.safe_dump({key: value for key, value in given.items() if value is not None}))
        return file

    def create(self, *placements: str, **fields: Any) -> list[str]:
        """Submit a job and return its pods."""
        file = self.document(*placements, **fields)
        code, out, err = self.run("apply", "-f", str(file), "--create", "--change-nodes", "-o", "json")
        assert code == 0, (out, err)
        return [each["manifest"]["metadata"]["name"] for each in json.loads(out)["pods"]]

    def get(self, path: str, **selector: str) -> Any:
        status, answer = self.cluster.call("GET", path)
        assert status == 200, answer
        return answer

    def pods(self) -> list[Any]:
        found: list[Any] = self.get(f"{PODS}?labelSelector=streams.ibm.com/job={self.job}")["items"]
        return found

    def stored(self) -> list[control.Document]:
        if not self.store.exists():
            return []
        return Control(self.store).read(lambda con: control.listed(con, "host-job"))

    def remove_pods(self) -> None:
        for pod in self.pods():
            path = f"{PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0"
            self.cluster.call("DELETE", path, {"gracePeriodSeconds": 0})
        wait_for(lambda: not self.pods())


@pytest.fixture
def streams(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], repository: Path
) -> Iterator[Streams]:
    crd = yaml.safe_load((repository / "deploy" / "hosts" / "crd.yaml").read_text())
    status, answer = cluster.call("POST", CRDS, crd)
    assert status in (201, 409), answer
    wait_for(lambda: cluster.call("GET", POOLS)[0] == 200)
    made = Streams(cluster, tmp_path, capsys)
    yield made
    made.remove_pods()
    made.run("release", made.job)


def test_sink_is_alone_on_its_node_in_every_start_order(streams: Streams) -> None:
    for name in "abc":
        streams.node(name)
    file = streams.document(pes=None, spl=MAIN)
    code, out, _ = streams.run("apply", "-f", str(file), "-o", "json")
    assert code == 0
    pods = [each["manifest"] for each in json.loads(out)["pods"]]
    for order in itertools.permutations(range(3)):
        for number in order:
            status, answer = streams.cluster.call("POST", PODS, pods[number])
            assert status == 201, answer
            streams.cluster.wait_bound(pods[number]["metadata"]["name"])
        source, work, sink = (streams.cluster.node_of(pod["metadata"]["name"]) for pod in pods)
        assert sink not in (source, work), order
        streams.remove_pods()


def test_colocated_together_and_exlocated_apart_on_as_many_nodes(streams: Streams) -> None:
    nodes = {streams.node(name) for name in "abcd"}
    pods = streams.create(
        *['hostColocation("together")'] * 3,
        *['hostExlocation("apart")'] * 4,
        'hostColocation("a")',
        'hostColocation("b")',
        'hostColocation("a"), hostColocation("b")',
    )
    where = [streams.cluster.wait_bound(pod) for pod in pods]
    assert len(set(where[:3])) == 1
    assert set(where[3:7]) == nodes
    assert len(set(where[7:])) == 1, "joined by the one that has both tokens, which starts last"


def test_an_exclusive_pool_keeps_a_foreign_pod_out_until_the_job_is_released(streams: Streams) -> None:
    for name in "abc":
        streams.node(name)
    theirs = {"key": "wish", "value": "x", "effect": "PreferNoSchedule"}
    for name in "abc":
        patch = {"spec": {"taints": [theirs]}}
        streams.cluster.call("PATCH", f"{NODES}/{streams.job}-{name}", patch, "application/merge-patch+json")
    pools = {"Own": f'createPool({{size=2u, tags=["{streams.job}"]}}, Sys.Exclusive)'}
    *mine, other = streams.create("host(Own[1])", "host(Own)", "", hostPools=pools)
    pool = streams.get(f"{POOLS}/{streams.job}-0")
    chosen = pool["status"]["nodes"]
    assert pool["spec"]["hostpool"]["membershipMode"] == "exclusive"
    assert streams.cluster.wait_bound(mine[0]) == chosen[1]
    assert streams.cluster.wait_bound(mine[1]) in chosen
    assert streams.cluster.wait_bound(other) not in chosen
    foreign = streams.cluster.pod("foreign", {"nodeSelector": {"kubernetes.io/hostname": chosen[0]}})
    wait_for(lambda: _unschedulable(streams, foreign))

    streams.remove_pods()
    code, out, err = streams.run("release", streams.job)
    assert code == 0, (out, err)
    assert streams.cluster.wait_bound(foreign) == chosen[0]
    for name in chosen:
        node = streams.get(f"{NODES}/{name}")
        assert not any("hostpool-member" in key for key in node["metadata"]["labels"])
        assert node["spec"]["taints"] == [theirs], "those of others stay"
    assert streams.cluster.call("GET", f"{POOLS}/{streams.job}-0")[0] == 404
    assert streams.run("release", streams.job)[0] == 1, "nothing is known of it any more"


def _unschedulable(streams: Streams, pod: str) -> bool:
    conditions = streams.get(f"{PODS}/{pod}")["status"].get("conditions", [])
    return any(each.get("reason") == "Unschedulable" for each in conditions)


def test_an_address_resolves(streams: Streams) -> None:
    for number, name in enumerate("ab"):
        node = streams.node(name)
        addresses = [{"type": "InternalIP", "address": f"10.4.40.8{number}"}]
        status, answer = streams.cluster.call(
            "PATCH", f"{NODES}/{node}/status", {"status": {"addresses": addresses}}, STRATEGIC
        )
        assert status == 200, answer
    [pod] = streams.create('host("10.4.40.81")')
    assert streams.cluster.node_of(pod) == f"{streams.job}-b"


def test_a_job_that_cannot_be_met_creates_nothing_and_says_all_reasons(streams: Streams) -> None:
    names = [streams.node(name) for name in "ab"]
    before = [streams.get(f"{NODES}/{name}")["metadata"]["labels"] for name in names]
    file = streams.document(
        'host(Own[0]), hostColocation("t"), hostExlocation("x")',
        'hostColocation("t"), hostExlocation("x")',
        'host("nowhere")',
        hostPools={"Own": f'createPool({{size=5u, tags=["{streams.job}"]}}, Sys.Exclusive)'},
    )
    code, out, _ = streams.run("apply", "-f", str(file), "--create", "--change-nodes", "-o", "json")
    assert code == 1
    kinds = {each["conflict"] for each in json.loads(out)["refused"]}
    assert kinds == {"colocated-and-exlocated", "no-such-node", "pool-too-small"}
    assert streams.pods() == []
    assert [streams.get(f"{NODES}/{name}")["metadata"]["labels"] for name in names] == before
    assert streams.get(f"{POOLS}?labelSelector=streams.ibm.com/job={streams.job}")["items"] == []
    assert not streams.store.exists()
    [event] = [each for each in streams.get(EVENTS)["items"] if each["involvedObject"]["name"] == streams.job]
    assert event["reason"] == "SubmissionFailed"
    assert event["involvedObject"]["kind"] == "Job"
    assert all(kind in event["message"] for kind in kinds)


def test_what_the_server_refuses_leaves_nothing_behind(streams: Streams) -> None:
    node = streams.node("a")
    template = {"spec": {"containers": [{"name": "Not_A_Name", "image": "x"}]}}
    pools = {"Own": f'createPool({{size=1u, tags=["{streams.job}"]}}, Sys.Exclusive)'}
    file = streams.document("host(Own)", hostPools=pools, template=template)
    code, _, err = streams.run("apply", "-f", str(file), "--create", "--change-nodes")
    assert code == 2
    assert "Not_A_Name" in err
    assert streams.pods() == []
    assert "taints" not in streams.get(f"{NODES}/{node}")["spec"]
    assert (
        not streams.store.exists() or Control(streams.store).read(lambda con: control.listed(con, "host-job")) == []
    )


def test_the_service_submits_and_releases_where_it_may_change_nodes(streams: Streams) -> None:
    nodes = [streams.node(name) for name in "ab"]
    file = streams.document(
        "host(Own)", hostPools={"Own": f'createPool({{size=1u, tags=["{streams.job}"]}}, Sys.Exclusive)'}
    )
    document = yaml.safe_load(file.read_text())
    client = KubernetesClient(kubeconfig=streams.cluster.kubeconfig)
    for may in (False, True):
        jobs = HostJobs(Control(streams.store), "c1", HostsSettings(change_nodes=may), lambda: client)
        found = jobs.submit(document)
        assert isinstance(found, HostConstraints)
        assert [each["name"] for each in found.nodes] == nodes[:1]
        assert found.nodes_changed == (1 if may else 0)
        taints = streams.get(f"{NODES}/{nodes[0]}")["spec"].get("taints", [])
        assert [each["key"] for each in taints] == (["streams.ibm.com/exclusive"] if may else [])
        assert list(jobs.rules) == [("default", streams.job)]
        assert jobs.release(streams.job) is not None
        assert "taints" not in streams.get(f"{NODES}/{nodes[0]}")["spec"]
        assert jobs.release(streams.job) is None
        assert not jobs.rules


def test_submitting_again_changes_nothing_and_nodes_are_brought_back(streams: Streams) -> None:
    for name in "bcd":
        streams.node(name)
    pools = {"Own": f'createPool({{size=2u, tags=["{streams.job}"]}}, Sys.Exclusive)'}
    placements = ("host(Own[1])", "host(Own)", 'hostColocation("t")')
    file = streams.document(*placements, hostPools=pools)
    code, _, err = streams.run("apply", "-f", str(file), "--create")
    assert code == 2
    assert "--change-nodes" in err
    assert streams.pods() == []

    for pod in streams.create(*placements, hostPools=pools):
        streams.cluster.wait_bound(pod)
    before = _state(streams)
    streams.create(*placements, hostPools=pools)
    assert _state(streams) == before
    streams.node("a")  # sorts before the others
    streams.create(*placements, hostPools=pools)
    assert _state(streams) == before

    chosen = streams.get(f"{POOLS}/{streams.job}-0")["status"]["nodes"][0]
    member = next(key for key in streams.get(f"{NODES}/{chosen}")["metadata"]["labels"] if "hostpool-member" in key)
    patch = {"metadata": {"labels": {member: None}}, "spec": {"taints": None}}
    streams.cluster.call("PATCH", f"{NODES}/{chosen}", patch, "application/merge-patch+json")
    code, out, _ = streams.run("reconcile", "--change-nodes", "-o", "json")
    assert code == 0
    assert json.loads(out) == [{"job": streams.job, "outcome": "changed", "nodes": 1, "why": ""}]
    node = streams.get(f"{NODES}/{chosen}")
    assert node["metadata"]["labels"][member] == streams.job
    assert [taint["value"] for taint in node["spec"]["taints"]] == [streams.job]


def test_a_job_that_is_released_while_nodes_are_brought_back_stays_released(streams: Streams) -> None:
    node = streams.node("a")
    pools = {"Own": f'createPool({{size=1u, tags=["{streams.job}"]}}, Sys.Exclusive)'}
    streams.create("host(Own)", hostPools=pools)
    streams.remove_pods()
    # one that sorts before it and is reconciled first
    client, store = KubernetesClient(kubeconfig=streams.cluster.kubeconfig), Control(streams.store)
    first = {"job": "a-first", "pes": []}
    assert isinstance(HostJobs(store, "c1", HostsSettings(), lambda: client).submit(first), HostConstraints)
    steps = reconcile(client, store, "c1", datetime.now(UTC), timedelta(seconds=5))
    assert next(steps).job == "a-first"
    assert streams.run("release", streams.job)[0] == 0
    assert [(each.outcome, "meanwhile" in each.why) for each in steps] == [("failed", True)]
    assert "taints" not in streams.get(f"{NODES}/{node}")["spec"]
    assert [each.name for each in streams.stored()] == ["c1/a-first"]
    assert streams.get(f"{POOLS}?labelSelector=streams.ibm.com/job={streams.job}")["items"] == []


def _state(streams: Streams) -> dict[str, Any]:
    """Everything that a submission makes, with versions where others do not change them."""
    nodes = streams.get(f"{NODES}?labelSelector=test={streams.job}")["items"]
    pools = streams.get(f"{POOLS}?labelSelector=streams.ibm.com/job={streams.job}")["items"]
    return {
        "nodes": {
            each["metadata"]["name"]: (each["metadata"]["labels"], each["spec"].get("taints"))
            for each in nodes
            if any("hostpool-member" in key for key in each["metadata"]["labels"])
        },
        "pods": {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in streams.pods()},
        "pools": {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in pools},
        "stored": [(each.name, each.revision) for each in streams.stored()],
    }
