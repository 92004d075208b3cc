"""The extender on a real API server and scheduler: pods go where their volumes may lie, or say why not."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cluster.conftest import Running
from tests.support import ports
from tests.support.cluster import Cluster, wait_for
from tests.support.disk_cluster import (
    CLAIMS,
    GROUP,
    PLURALS,
    RESERVATIONS,
    Provisioner,
    allow_rules,
    install,
    scheduler,
)
from tests.support.disks import ANNOTATIONS, capacity, claim, storage_classes

pytestmark = pytest.mark.cluster
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


@dataclass
class Disks:
    """Two nodes of one drive each, of 10 and 100 GiB; the service is asked about the pods of scheduler *name*."""

    cluster: Cluster
    name: str
    start: Callable[[], "subprocess.Popen[bytes]"]
    process: "subprocess.Popen[bytes]"
    nodes: tuple[str, str]
    url: str
    provisioner: Provisioner

    def kill(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End the service."""
        self.process.send_signal(how)
        self.process.wait(60)

    def pod(self, name: str, *, app: str = "web", gib: float = 4, **annotations: str) -> str:
        """Create a pod with one claim of a group."""
        made = claim(f"{self.cluster.prefix}-{name}", f"{self.cluster.prefix}-hddlvg", gib)
        made["spec"]["accessModes"] = ["ReadWriteOnce"]
        del made["status"]
        self.cluster.create(CLAIMS, made)
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": made["metadata"]["name"]}}]
        notes = {ANNOTATIONS[key]: value for key, value in annotations.items()}
        spec = {"schedulerName": self.name, "volumes": volumes}
        return self.cluster.pod(name, spec, labels={"app": app}, annotations=notes)

    def events(self, pod: str) -> list[str]:
        """What the scheduler says of a pod."""
        _, answer = self.cluster.call(
            "GET", f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={pod}"
        )
        return [each["message"] for each in answer["items"]]

    def wait_event(self, pod: str, part: str) -> None:
        """Wait until the scheduler says *part* of a pod."""
        said: list[str] = []

        def heard() -> bool:
            said[:] = self.events(pod)
            return any(part in message for message in said)

        try:
            wait_for(heard, 90)
        except AssertionError:
            raise AssertionError(f"the scheduler only said {said}") from None


def _made(kind: str, thing: dict[str, Any], cluster: Cluster) -> None:
    cluster.create(f"{GROUP}/{PLURALS[kind]}", thing)


@pytest.fixture
def disks(running: Running, cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Disks]:
    if running.home is None:
        pytest.skip("only the local cluster tool brings a scheduler that can be started again")
    options = getattr(request, "param", {})
    ignorable = bool(options.get("ignorable"))
    install(cluster)
    if "settings" in options:
        allow_rules(cluster)
    for each in storage_classes():
        if each["metadata"]["name"] == "hddlvg":
            name = f"{cluster.prefix}-hddlvg"
            cluster.create(CLASSES, {**each, "metadata": {"name": name}, "volumeBindingMode": "WaitForFirstConsumer"})
    small, large = cluster.node("small"), cluster.node("large")
    for node, gib in ((small, 10), (large, 100)):
        _made("AvailableCapacity", capacity(f"ac-d-{node}", "HDDLVG", gib, node=_uid(cluster, node)), cluster)
    port = ports.free()
    config = tmp_path / "colocate.toml"
    config.write_text(
        f"[store]\npath = '{tmp_path / 'db'}'\nsnapshot = '{tmp_path / 'snapshot'}'\nspool = '{tmp_path / 'spool'}'\n"
        f"control = '{tmp_path / 'control'}'\n"
        f"[serve]\nport = {port}\nhost = '127.0.0.1'\n[disks]\nlive = true\n{options.get('settings', '')}\n"
        f"[[clusters]]\nname = 'c1'\n[clusters.kubernetes]\nkubeconfig = '{cluster.kubeconfig}'\n"
    )
    url = f"http://127.0.0.1:{port}"

    def start() -> "subprocess.Popen[bytes]":
        log = (tmp_path / "serve.log").open("ab")
        process = subprocess.Popen(
            [sys.executable, "-m", "jobs.cli", "--config", str(config), "serve", "--no-schedule"], stderr=log
        )
        wait_for(lambda: _knows(url, small), 60)
        return process

    process = start()
    name = f"disks-{cluster.prefix}"
    chosen = {node: f"d-{node}" for node in (small, large)}
    with (
        scheduler(running.home, cluster.kubeconfig, name, f"{url}/extender", ports.free(), ignorable=ignorable),
        Provisioner(cluster, chosen) as provisioner,
    ):
        made = Disks(cluster, name, start, process, (small, large), url, provisioner)
        try:
            yield made
        finally:
            if made.process.poll() is None:
                made.kill()
            for each in cluster.call("GET", RESERVATIONS)[1]["items"]:
                cluster.call("DELETE", f"{RESERVATIONS}/{each['metadata']['name']}")


def _uid(cluster: Cluster, node: str) -> str:
    _, answer = cluster.call("GET", f"/api/v1/nodes/{node}")
    return str(answer["metadata"]["uid"])


def _knows(url: str, node: str) -> bool:
    """Whether the service plans from the live disks: it knows a node and its capacity."""
    try:
        given = {"metadata": {"name": "probe"}, "spec": {"containers": []}}
        answer = httpx.post(f"{url}/v1/disk-plans", json=given).json()
    except (httpx.TransportError, ValueError):
        return False
    return node in answer.get("plan", {})


def test_pods_go_where_their_volumes_fit_and_the_events_say_why_not(disks: Disks) -> None:
    small, large = disks.nodes
    assert disks.cluster.wait_bound(disks.pod("big", gib=50)) == large
    refused = disks.pod("huge", gib=500)
    disks.wait_event(refused, "No available capacity found on the node")
    disks.wait_event(refused, f"on the node {small}: capacity:")
    assert disks.cluster.node_of(refused) == ""


def test_pods_of_an_application_are_kept_off_its_drives(disks: Disks) -> None:
    """By its own label an application's replicas are spread; then no drive is left for others that stay off it."""
    away = {"ATYPES": "pod-label-required", "ALABELS": "app=storage"}
    first = disks.pod("first", app="storage", **away)
    where = disks.cluster.wait_bound(first)
    second = disks.pod("second", app="storage", **away)
    assert {where, disks.cluster.wait_bound(second)} == set(disks.nodes)
    refused = disks.pod("third", **away)
    disks.wait_event(refused, f"anti-affinity: drive d-{where} used by default/{first}")
    assert disks.cluster.node_of(refused) == ""


def test_an_annotation_that_cannot_be_read_is_told_by_the_scheduler(disks: Disks) -> None:
    wrong = disks.pod("wrong", TYPES="pod-bond")
    disks.wait_event(wrong, "unsupported affinity type")
    assert disks.cluster.node_of(wrong) == ""


def test_a_service_that_is_killed_holds_pods_up_until_it_is_back(disks: Disks) -> None:
    disks.kill(signal.SIGKILL)
    waiting = disks.pod("waiting")
    disks.wait_event(waiting, "connection refused")
    assert disks.cluster.node_of(waiting) == ""
    disks.process = disks.start()
    assert disks.cluster.wait_bound(waiting, 90) in disks.nodes


@pytest.mark.parametrize("disks", [{"ignorable": True}], indirect=True)
def test_a_service_that_may_be_ignored_stops_nothing_when_it_is_dead(disks: Disks) -> None:
    _, large = disks.nodes
    assert disks.cluster.wait_bound(disks.pod("before", gib=50)) == large
    disks.kill(signal.SIGKILL)
    assert disks.cluster.wait_bound(disks.pod("after")) in disks.nodes
