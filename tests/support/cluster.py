"""Make and remove objects in a real cluster through its API, and play the kubelet that a test cluster lacks."""

import contextlib
import json
import ssl
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kubernetes.client import ApiClient

from pipeline.clients.credentials import configuration

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class Cluster:
    """One disposable cluster; everything made here is named with *prefix* and removed by `clean`."""

    def __init__(self, kubeconfig: Path, prefix: str) -> None:
        self.kubeconfig, self.prefix = kubeconfig, prefix
        self._api = ApiClient(configuration(kubeconfig, None))
        self._made: list[str] = []

    def call(self, method: str, path: str, body: object = None, kind: str = "application/json") -> tuple[int, Any]:
        """One request: the status and the decoded answer."""
        settings = self._api.configuration.auth_settings().values()
        answer = self._api.rest_client.pool_manager.request(
            method,
            f"{self._api.configuration.host}{path}",
            body=None if body is None else json.dumps(body),
            headers={"Content-Type": kind, **{each["key"]: each["value"] for each in settings}},
        )
        text = answer.data.decode()
        return answer.status, json.loads(text) if text.startswith(("{", "[")) else text

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object and remember it for `clean`."""
        status, answer = self.call("POST", path, body)
        assert status == 201, (status, answer)
        self._made.append(f"{path}/{body['metadata']['name']}")
        created: dict[str, Any] = answer
        return created

    def node(self, name: str, *, cpu: str = "8", memory: str = "32Gi", **extended: str) -> str:
        """Create a Ready node named prefix-*name*; *extended* adds resources. Returns its name."""
        return self.node_with(name, {}, cpu=cpu, memory=memory, extended=extended)

    def node_with(
        self,
        name: str,
        labels: Mapping[str, str],
        *,
        cpu: str = "8",
        memory: str = "32Gi",
        taints: Sequence[Mapping[str, str]] = (),
        extended: Mapping[str, str] | None = None,
    ) -> str:
        """The same with labels and taints."""
        full = f"{self.prefix}-{name}"
        amount = {"cpu": cpu, "memory": memory, "pods": "110", "ephemeral-storage": "100Gi", **(extended or {})}
        known = {"kubernetes.io/hostname": full, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        self.create(
            NODES,
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": full, "labels": {**known, **labels}},
                "status": {"capacity": amount, "allocatable": amount},
            },
        )
        self.ready(full, True)
        # No controller takes the taint off that admission puts on every new node.
        status, answer = self.call("PATCH", f"{NODES}/{full}", {"spec": {"taints": list(taints) or None}}, MERGE)
        assert status == 200, (status, answer)
        return full

    def ready(self, node: str, is_ready: bool) -> None:
        """Report the node's condition as its kubelet would."""
        condition = {
            "type": "Ready",
            "status": "True" if is_ready else "False",
            "reason": "Test",
            "message": "set by a test",
            "lastHeartbeatTime": "2030-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        body = {"status": {"conditions": [condition]}}
        status, answer = self.call("PATCH", f"{NODES}/{node}/status", body, STRATEGIC)
        assert status == 200, (status, answer)

    def pod(self, name: str, spec: Mapping[str, Any] | None = None, **meta: Mapping[str, str]) -> str:
        """Create a one-container pod named prefix-*name* in default; *meta*: labels, annotations."""
        full = f"{self.prefix}-{name}"
        resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
        containers = [{"name": "c", "image": "x", "resources": resources}]
        self.create(
            PODS,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": full, **meta},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": containers, **(spec or {})},
            },
        )
        return full

    def run(self, pod: str) -> None:
        """Report a bound pod as running, as its kubelet would."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        state = {"name": "c", "image": "x", "imageID": "", "ready": True, "restartCount": 0}
        status = {
            "phase": "Running",
            "startTime": now,
            "containerStatuses": [{**state, "state": {"running": {"startedAt": now}}}],
        }
        code, answer = self.call("PATCH", f"{PODS}/{pod}/status", {"status": status}, STRATEGIC)
        assert code == 200, (code, answer)

    def node_of(self, pod: str) -> str:
        """The node that a pod is bound to, or ""."""
        status, answer = self.call("GET", f"{PODS}/{pod}")
        assert status == 200, (status, answer)
        return str(answer["spec"].get("nodeName", ""))

    def wait_bound(self, pod: str, seconds: float = 60.0) -> str:
        """Wait until the scheduler bound the pod; returns the node."""
        wait_for(lambda: bool(self.node_of(pod)), seconds)
        return self.node_of(pod)

    def clean(self) -> None:
        """Delete what was made, newest first."""

        def delete(path: str) -> None:
            self.call("DELETE", f"{path}?gracePeriodSeconds=0", {"gracePeriodSeconds": 0})
            if "/persistentvolumeclaims/" in path:  # no controller lets go of a claim that no pod uses any more
                self.call("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(delete, reversed(self._made)))
        self._made.clear()


def wait_scheduler(port: int, log: Path) -> None:
    """Wait until a scheduler answers on its *port*; fails with the end of its *log* when it does not in time."""
    unverified = ssl._create_unverified_context()  # its certificate is of its own making

    def answers() -> bool:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"https://127.0.0.1:{port}/healthz", timeout=10, context=unverified).close()
            return True
        return False

    try:
        wait_for(answers, 60)
    except AssertionError:
        said = log.read_text(errors="replace").strip().splitlines() or ["nothing"]
        raise AssertionError(f"the scheduler does not answer; it said: {said[-1]}") from None


def many(make: Callable[[int], str], count: int) -> list[str]:
    """Make several objects at once."""
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(make, range(count)))


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait until *condition* holds; fails when it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.05)
