"""A job with regions, its processing elements and pods in a cluster, real or stood in for, and what was written."""

import contextlib
import json
import socket
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from jobs.regions import applying, paths
from jobs.regions import job as jobs
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.errors import SourceError
from tests.support import ports
from tests.support.kube_api import KubeApi

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
    return ports.free(socket.SOCK_DGRAM)


def free_ports() -> tuple[int, int]:
    """Two free ports, for an operator: one that starts again needs the same ones."""
    first = ports.free(neighbours=2)
    return first, first + 1


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

    def has_started(self) -> bool:
        """Whether an operator has noted in its resource that it runs."""
        path = f"{paths.operators(self.namespace)}/{paths.operator_name(self.name)}"
        return (self.send("GET", path).get("status") or {}).get("hasStarted") is True

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
