"""Hardware intents on a real scheduler: applied manifests' pods are bound where placement said that they fit."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from jobs.cli import main
from jobs.hpa import nodes
from rules.hpa.fleet import of_records
from rules.hpa.packing import YES
from rules.hpa.placement import place
from tests.support.cluster import NODES, PODS, Cluster
from tests.support.fleets import intents
from tests.support.intents import allocatable, consumer, label, meta

pytestmark = pytest.mark.cluster
GROUP = "projects/p1/composite-apps/ca1/v1/deployment-intent-groups/dig1"
GPU, QAT = "nvidia.com/gpu", "intel.com/qat"
Specs = Sequence[Mapping[str, Any]]


def _documents(consumers: Mapping[str, Specs]) -> list[dict[str, Any]]:
    below = f"{GROUP}/hpa-intents/i1/hpa-resource-consumers"
    found = [{"path": f"{GROUP}/hpa-intents", **meta("i1", appName="app")}]
    for name, specs in consumers.items():
        target = {"kind": "StatefulSet", "name": name, "container-name": "main"}
        found.append({"path": below, **meta(name, consumer=target)})
        found += [
            {"path": f"{below}/{name}/resource-requirements", **meta(f"r{number}", **spec)}
            for number, spec in enumerate(specs)
        ]
    return found


def _manifest(name: str) -> dict[str, Any]:
    """A StatefulSet, whose pods a test has to make: the cluster has no controllers."""
    pod = {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "x"}, {"name": "side", "image": "y"}],
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    spec = {"serviceName": name, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}


class World:
    """The nodes of one test as a file, the commands on it, and pods of what they give."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster, self.directory = cluster, directory
        self.test = {"test": cluster.prefix}

    def node(self, name: str, labels: Mapping[str, str] | None = None, *, cpu: str = "8", **extended: str) -> str:
        names = {"gpu": GPU, "qat": QAT}
        more = {names[key]: amount for key, amount in extended.items()}
        return self.cluster.node_with(name, {**self.test, **(labels or {})}, cpu=cpu, extended=more)

    def seen(self) -> Path:
        """Write the test's nodes and all pods as the API server gives them."""
        found: list[Any] = []
        for path, kind in ((NODES, "Node"), (PODS, "Pod")):
            status, answer = self.cluster.call("GET", path)
            assert status == 200
            found += [
                {**each, "kind": kind} for each in answer["items"]
                if kind == "Pod" or each["metadata"]["labels"].get("test") == self.cluster.prefix
            ]  # fmt: skip
        file = self.directory / "nodes.json"
        file.write_text(json.dumps({"kind": "List", "items": found}))
        return file

    def write(self, name: str, *documents: Any) -> str:
        file = self.directory / name
        file.write_text("\n---\n".join(json.dumps(each) for each in documents))
        return str(file)

    def fits(self, capsys: pytest.CaptureFixture[str], consumers: Mapping[str, Specs]) -> bool:
        """Whether `colocate hpa place` says that the application fits on this cluster."""
        file = self.write("intents.yaml", *_documents(consumers))
        code = main(["hpa", "place", "-f", file, "--cluster", "A", "--nodes", str(self.seen()), "-o", "json"])
        capsys.readouterr()
        return code == 0

    def applied(
        self, capsys: pytest.CaptureFixture[str], consumers: Mapping[str, Specs]
    ) -> dict[str, dict[str, Any]]:
        """The pods' specifications out of `colocate hpa apply`, by the name of the consumer."""
        files = [self.write("intents.yaml", *_documents(consumers))]
        made = self.write("manifests.yaml", *(_manifest(name) for name in consumers))
        arguments = ["-f", *files, "-m", made, "--cluster", "A", "--nodes", str(self.seen()), "-o", "json"]
        assert main(["hpa", "apply", *arguments]) == 0
        found = json.loads(capsys.readouterr().out)
        listed = found if isinstance(found, list) else [found]
        return {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in listed}

    def run(self, name: str, spec: Mapping[str, Any]) -> str:
        """Create the pod, kept to the test's nodes; returns its name."""
        return self.cluster.pod(name, {**spec, "nodeSelector": {**self.test, **spec.get("nodeSelector", {})}})

    def able(self, specs: Specs) -> set[str]:
        """The nodes that alone would hold one replica, by placement over each node as a cluster of its own."""
        listed, pods = nodes(self.seen())
        each_its_own = {node.name: ([node], [pod for pod in pods if pod.node == node.name]) for node in listed}
        found = place(intents(consumer(*map(dict, specs), kind="StatefulSet")), of_records(each_its_own))
        [application] = found.applications
        answers = application.scored.answers
        return {name for name, answer in zip(found.fleet.clusters, answers, strict=True) if answer == YES}


@pytest.fixture
def world(cluster: Cluster, tmp_path: Path) -> World:
    return World(cluster, tmp_path)


def test_pods_are_bound_to_the_nodes_that_placement_says_can_hold_them(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.node("small", cpu="3")
    plain = world.node("plain")
    fast = world.node("fast", {"fast": "yes"})
    accelerated = world.node("accelerated", cpu="2", qat="1")
    consumers = {
        "core": [allocatable("cpu", 4, 4), allocatable("memory", 1000, 1000)],
        "quick": [allocatable("cpu", "500m"), label("fast", "yes")],
        "logger": [allocatable(QAT, 1, 1)],
    }
    expected = {name: world.able(specs) for name, specs in consumers.items()}
    assert expected == {"core": {plain, fast}, "quick": {fast}, "logger": {accelerated}}
    assert world.fits(capsys, consumers)
    for name, spec in world.applied(capsys, consumers).items():
        assert world.cluster.wait_bound(world.run(name, spec)) in expected[name]


def test_a_wish_is_written_only_while_the_cluster_has_it(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    plain, gpu = world.node("plain"), world.node("gpu", gpu="1")
    consumers = {"core": [allocatable("cpu", 1), {**allocatable(GPU, limits=1), "mandatory": False, "weight": 9}]}
    first = world.applied(capsys, consumers)["core"]
    assert world.cluster.wait_bound(world.run("first", first)) == gpu
    second = world.applied(capsys, consumers)["core"]
    assert GPU not in second["containers"][0]["resources"].get("limits", {})
    assert world.cluster.wait_bound(world.run("second", second)) in {plain, gpu}
    # Had it been written in again, nothing could have run the pod.
    assert not world.able([allocatable(GPU, limits=1)])


def test_what_placement_refuses_stays_pending_and_what_it_admits_does_not(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two of 5 cores on nodes of 8 and 6: a third one is refused, though 4 cores are free in all."""
    world.node("a", cpu="8")
    world.node("b", cpu="6")
    need = [allocatable("cpu", 5)]
    for name in ("one", "two"):
        assert world.fits(capsys, {name: need})
        assert world.cluster.wait_bound(world.run(name, world.applied(capsys, {name: need})[name]))
    assert not world.fits(capsys, {"three": need})
    pending = world.run("three", world.applied(capsys, {"three": need})["three"])
    bound = world.run("four", world.applied(capsys, {"four": [allocatable("cpu", "2500m")]})["four"])
    assert world.cluster.wait_bound(bound)
    assert world.cluster.node_of(pending) == ""
