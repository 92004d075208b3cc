"""A job with regions, its processing elements and pods in a cluster (real or stood in for), and PEs that answer."""

import asyncio
import contextlib
import json
import multiprocessing
import os
import random
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client.parser import text_string_to_metric_families

from jobs.demo.pes import Manner, Simulator
from jobs.regions import applying, paths
from jobs.regions import job as jobs
from jobs.regions.operator import Operator, Options
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.errors import SourceError
from tests.support.kube_api import KubeApi

T = TypeVar("T")
JSON, MERGE = "application/json", "application/merge-patch+json"
API_VERSION = "streams.ibm.com/v1"
#: Where simulated PEs listen.
ADDRESS = "127.0.{high}.{low}"


def wait_for(condition: Callable[[], bool], seconds: float = 20.0, what: str = "it", every: float = 0.01) -> None:
    """Wait until *condition* holds; fails when it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen in time"
        time.sleep(every)


def free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def free_ports() -> tuple[int, int]:
    """Two free ports that no outgoing connection will get: an operator that starts again needs the same ones."""
    with Path("/proc/sys/net/ipv4/ip_local_port_range").open() as file:
        lowest = int(file.read().split()[0])
    found: list[int] = []
    for port in random.sample(range(10_000, min(lowest, 32_768)), 200):
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == 2:
            return found[0], found[1]
    raise OSError("no two ports below the range of outgoing connections are free")


class Job:
    """One job in a namespace; *regions* are regions of its file, PEs belong to those that name them."""

    def __init__(
        self,
        client: KubernetesClient,
        name: str,
        regions: list[dict[str, Any]],
        directory: Path,
        namespace: str = "default",
    ) -> None:
        self.client, self.name, self.namespace = client, name, namespace
        self.regions = regions
        self.pes = sorted({pe for region in regions for pe in region["pesInRegion"]})
        document = {
            "apiVersion": API_VERSION,
            "kind": "Job",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"consistentRegions": regions},
        }
        self.file = directory / f"{name}.json"
        self.file.write_text(json.dumps(document))
        self.launches = dict.fromkeys(self.pes, 1)

    def apply(self) -> list[str]:
        """Apply the file as the command does; return what became of each object."""
        return [each.outcome for each in applying.apply(self.client, jobs.read(self.file), self.namespace)]

    def send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, kind: str = "application/json"
    ) -> Any:
        encoded = None if body is None else json.dumps(body).encode()
        return json.loads(self.client.send(method, path, encoded, kind))

    def element_path(self, pe: int) -> str:
        return f"{paths.elements(self.namespace)}/{self.name}-{pe}"

    def pod_path(self, pe: int) -> str:
        return f"{paths.pods(self.namespace)}/{self.name}-{pe}-{self.launches[pe]}"

    def run_pes(self) -> None:
        """Create all processing elements with running pods, connected."""
        for pe in self.pes:
            spec = {
                "jobName": self.name,
                "peId": pe,
                "consistentRegionIndices": [r["regionIndex"] for r in self.regions if pe in r["pesInRegion"]],
                "launchCount": 1,
            }
            labels = {paths.JOB: self.name, paths.REGION: "true"}
            body = {
                "apiVersion": API_VERSION,
                "kind": "ProcessingElement",
                "metadata": {"name": f"{self.name}-{pe}", "labels": labels},
                "spec": spec,
            }
            self.send("POST", paths.elements(self.namespace), body)
            self.run_pod(pe)
            self.connect(pe, "Full")

    def run_pod(self, pe: int, phase: str = "Running") -> None:
        """Create the pod of a PE's current launch and report it as running."""
        owner = self.send("GET", self.element_path(pe))
        labels = {
            "app": "streams",
            "svc": "pe",
            paths.JOB: self.name,
            paths.REGION: "true",
            paths.ELEMENT: f"{self.name}-{pe}",
            paths.LAUNCH: str(self.launches[pe]),
        }
        reference = {
            "apiVersion": API_VERSION,
            "kind": "ProcessingElement",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{self.name}-{pe}-{self.launches[pe]}",
                "labels": labels,
                "ownerReferences": [reference],
            },
            "spec": {"containers": [{"name": "pe", "image": "pe"}], "nodeName": "nowhere"},
        }
        self.send("POST", paths.pods(self.namespace), body)
        self.phase(pe, phase)

    def phase(self, pe: int, phase: str) -> None:
        self.send("PATCH", f"{self.pod_path(pe)}/status", {"status": {"phase": phase}}, MERGE)

    def connect(self, pe: int, connectivity: str) -> None:
        self.send("PATCH", f"{self.element_path(pe)}/status", {"status": {"connectivity": connectivity}}, MERGE)

    def relaunch(self, pe: int) -> None:
        """Replace a PE's pod as a platform does: the pod goes, the launch count grows, a pending pod comes."""
        with contextlib.suppress(SourceError):
            self.client.send("DELETE", self.pod_path(pe), json.dumps({"gracePeriodSeconds": 0}).encode())
        self.launches[pe] += 1
        self.send("PATCH", self.element_path(pe), {"spec": {"launchCount": self.launches[pe]}}, MERGE)
        self.run_pod(pe, "Pending")

    def resource(self, region: int = 0) -> dict[str, Any]:
        """One region's resource."""
        found: dict[str, Any] = self.send(
            "GET", f"{paths.regions(self.namespace)}/{paths.region_name(self.name, region)}"
        )
        return found

    def status(self, region: int = 0) -> dict[str, Any]:
        status: dict[str, Any] = self.resource(region).get("status") or {}
        return status

    def wait(self, region: int = 0, seconds: float = 20.0, **wanted: object) -> dict[str, Any]:
        """Wait until the status of a region has the *wanted* values."""
        last: dict[str, Any] = {}

        def there() -> bool:
            nonlocal last
            last = self.status(region)
            return all(last.get(key) == value for key, value in wanted.items())

        try:
            wait_for(there, seconds)
        except AssertionError:
            raise AssertionError(f"region {region} is not {wanted} but {last}") from None
        return last


class Reached:
    """What is asked of an operator over HTTP, wherever it runs."""

    ports: tuple[int, int]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
        """One request to the REST interface: status and decoded body."""
        request = urllib.request.Request(f"{self.url}/api/consistentregion/{path}", data=body, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def metrics(self) -> dict[tuple[str, str], float]:
        """The gauges by name and the value of their label."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[1]}/metrics", timeout=10) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            return {
                (sample.name, sample.labels["ConsistentRegion"]): sample.value
                for family in families
                for sample in family.samples
                if "ConsistentRegion" in sample.labels
            }


class Running(Reached):
    """An operator that runs in a thread of this process."""

    def __init__(self, client: KubernetesClient, job: Job, notify_port: int, identity: str = "one") -> None:
        options = Options(
            job=job.name,
            namespace=job.namespace,
            identity=identity,
            host="127.0.0.1",
            rest_port=0,
            metrics_port=0,
            notify_port=notify_port,
            address=ADDRESS,
            lease_seconds=4.0,
        )
        self.operator = Operator(client, options)
        self.ended: bool | None = None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.ended = self.operator.run()
        except Exception as error:
            self.error = error

    def listening(self) -> "Running":
        """Wait until it acts."""
        wait_for(lambda: self.operator.listening.is_set() or self.error is not None, what="listening")
        assert self.error is None, self.error
        self.ports = self.operator.ports
        return self

    def stop(self) -> None:
        self.operator.stop()
        self._thread.join(20.0)
        assert not self._thread.is_alive()


class Served(Reached):
    """An operator that is a process of its own, as the command starts it; it can be killed and started again."""

    def __init__(self, kubeconfig: Path, job: Job, notify_port: int, ports: tuple[int, int], log: Path) -> None:
        self.ports, self._log = ports, log
        self._command = [
            *(sys.executable, "-m", "jobs.cli", "regions", "serve", "--job", job.name, "--host", "127.0.0.1"),
            *("--port", str(ports[0]), "--metrics-port", str(ports[1]), "--notify-port", str(notify_port)),
            *("--pe-address", ADDRESS, "--identity", "the-pod"),
        ]
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, env=self._environment, stderr=log, cwd=self._log.parent)

    def kill(self) -> None:
        """End it without a chance to say good-bye."""
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> int:
        """Ask it to end; return its exit code."""
        self.process.terminate()
        return self.process.wait(20)


def _serve(kubeconfig: Path, options: Options) -> None:
    import logging

    from jobs import logs

    logs.configure(logging.ERROR)
    Operator(KubernetesClient(kubeconfig=kubeconfig), options).run()


class Forked(Reached):
    """An operator in a process that is forked from one that has everything loaded: quick to start again."""

    _context = multiprocessing.get_context("forkserver")

    def __init__(self, kubeconfig: Path, job: Job, notify_port: int, ports: tuple[int, int]) -> None:
        self._context.set_forkserver_preload(["tests.support.region_world"])
        self.ports, self._kubeconfig = ports, kubeconfig
        self._options = Options(
            job=job.name,
            namespace=job.namespace,
            identity="the-pod",
            host="127.0.0.1",
            rest_port=ports[0],
            metrics_port=ports[1],
            notify_port=notify_port,
            address=ADDRESS,
        )
        self.start()

    def start(self) -> None:
        self.process = self._context.Process(target=_serve, args=(self._kubeconfig, self._options), daemon=True)
        self.process.start()

    def kill(self) -> None:
        """End it without a chance to say good-bye."""
        self.process.kill()
        self.process.join(10.0)

    def cpu(self) -> float:
        """Seconds of CPU time that it used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """Bytes that are resident."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Writes:
    """All statuses that were written of a job's regions, and a kill in the middle of a write's answer."""

    def __init__(self, api: KubeApi, job: Job) -> None:
        prefix = f"{paths.regions(job.namespace)}/{job.name}-cr"
        self.statuses: dict[int, list[dict[str, Any]]] = {each["regionIndex"]: [] for each in job.regions}
        self.killed = False
        self._kill: Callable[[], None] | None = None
        self._after = 0
        write = api.write

        def kept(method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
            answer = write(method, path, body)
            if path.startswith(prefix) and path.endswith("/status") and answer[0] == 200:
                index = int(path.removeprefix(prefix).split("/")[0])
                self.statuses[index].append(json.loads(json.dumps(answer[1]["status"])))
                self._after -= 1
                if self._kill is not None and self._after < 0:
                    kill, self._kill = self._kill, None
                    kill()
                    self.killed = True
            return answer

        api.write = kept  # type: ignore[method-assign]

    def at_a_write(self, after: int, kill: Callable[[], None]) -> None:
        """Call *kill* when the write after *after* others was done and not answered yet."""
        self.killed, self._after, self._kill = False, after, kill

    def faults(self, checkpoints: Mapping[int, list[set[int]]]) -> list[str]:
        """What must never be: an id drained twice or going back, a checkpoint completed that a PE has not taken."""
        found = []
        for index, statuses in self.statuses.items():
            drained = [
                each["currentSeqID"]
                for before, each in pairwise(statuses)
                if each["state"] == "DRAINING" and before["state"] != "DRAINING"
            ]
            completed = [each["lastCompletedSeqID"] for each in statuses]
            if drained != sorted(set(drained)):
                found.append(f"region {index}: drained {drained}")
            if completed != sorted(completed):
                found.append(f"region {index}: completed {completed}")
            untaken = [
                last for last in set(completed) - {0} if not all(last in taken for taken in checkpoints[index])
            ]
            found += [f"region {index}: {last} was completed without a checkpoint" for last in untaken]
            resets = [
                each
                for before, each in pairwise(statuses)
                if (before["state"], each["state"]) == ("RESETTING", "PROCESSING")
            ]
            if any(each["lastCompletedReset"] != each["lastCompletedSeqID"] for each in resets):
                found.append(f"region {index}: reset to another checkpoint than the last completed one")
            if any(each["lastCompletedSeqID"] >= each["currentSeqID"] for each in statuses):
                found.append(f"region {index}: completed what was not begun")
        return found


class Loop:
    """An event loop in a thread, for simulated PEs."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30.0)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)
        self._loop.close()


@contextmanager
def simulated(job: Job, running: Reached, notify_port: int, manner: Manner) -> Iterator[tuple[Simulator, Loop]]:
    """The PEs of *job* against a running operator."""
    loop = Loop()
    simulator = Simulator(
        job.pes,
        operator=("127.0.0.1", running.ports[0]),
        address=lambda pe: ADDRESS.format(high=pe // 250, low=pe % 250 + 1),
        port=notify_port,
        manner=manner,
    )
    try:
        loop.do(simulator.start())
        yield simulator, loop
    finally:
        loop.do(simulator.stop())
        loop.close()
