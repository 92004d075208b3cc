"""How fast a real scheduler binds pods with the advice written into them, against the same pods without.

The pods are such as OpenWhisk's invokers make: with their labels, and bound to nodes for invokers.
Needs a cluster that may be used up: ``COLOCATION_DISPOSABLE_CLUSTER=1`` and KUBECONFIG. With
``COLOCATION_SCHEDULER_PID`` the scheduler, which must not elect leaders then, is halted while the pods are created,
so that binding alone is timed; else creating is in both sides' time.
"""

import base64
import itertools
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import jsonpatch
import pyarrow as pa
from kubernetes.client import ApiClient

from benchmarks.figures import Figure, table, timing
from benchmarks.webhook_world import CLUSTER, function, snapshot
from featurestore.snapshot import Snapshot
from jobs.service import review
from jobs.service.desk import Desk
from jobs.service.reservations import Reservations
from jobs.service.state import State
from pipeline.clients.credentials import configuration
from rules.labels import label_value
from rules.policy import Policy
from rules.view import View, prepare

_NODES, _PODS, _ROUNDS, _FUNCTIONS, _PAIRS, _GOAL = 1000, 500, 7, 100, 2000, 0.7
_NAMESPACE = "default"
_PATH = f"/api/v1/namespaces/{_NAMESPACE}/pods"
#: What all rounds of a figure may take together; fewer are made where they would take longer.
_SECONDS = 480.0
_WORKERS = 8
#: What OpenWhisk has its action pods ask of a node.
_ROLE = {"openwhisk-role": "invoker"}
#: Seconds that the pods of a round are waited for.
_LONGEST = 120
#: Makes a pod of a serial number and a function.
_Maker = Callable[[str, str], dict[str, Any]]


def run(scale: float = 1.0) -> list[Figure]:
    """Measure with 1,000 nodes and 500 pods a round at scale 1: on nodes that are empty, and beside as many pods."""
    given = os.environ.get("KUBECONFIG")
    if os.environ.get("COLOCATION_DISPOSABLE_CLUSTER") != "1" or not given:
        print("binding: left out: COLOCATION_DISPOSABLE_CLUSTER=1 and KUBECONFIG name no cluster that may be used up")
        return []
    nodes, pods = max(20, int(_NODES * scale)), max(20, int(_PODS * scale))
    full, running = _world(nodes, pods)
    empty = replace(full, tables={**full.tables, "placements": full["placements"].slice(0, 0)})
    cluster = _Cluster(Path(given))
    try:
        cluster.each(
            cluster.node, zip(full["nodes"]["node"].to_pylist(), full["nodes"]["labels"].to_pylist(), strict=True)
        )
        vacant = prepare(empty, CLUSTER, empty.created)
        alone, modest = _rounds(cluster, pods, vacant, _pod), _rounds(cluster, pods, vacant, _modest)
        cluster.each(cluster.create, ((pod,) for pod in running))
        beside = _rounds(cluster, pods, prepare(full, CLUSTER, full.created), _pod)
        which = f"{pods} patched pods on {nodes} nodes"
        return [
            _figure(which, pods, alone, cluster, _GOAL),
            _figure(f"{which}, beside {pods} that run", pods, beside, cluster),
            _figure(f"{which}, which themselves ask nothing of a node", pods, modest, cluster),
        ]
    finally:
        cluster.clean()


def _rounds(cluster: "_Cluster", pods: int, view: View, made_by: _Maker) -> dict[str, list[float]]:
    """Return the seconds of each round in which plain *pods* were bound, and such as are patched from *view*."""
    taken: dict[str, list[float]] = {"plain": [], "patched": []}
    began = time.monotonic()
    for number in range(_ROUNDS + 1):
        for side, made in taken.items():
            seconds = cluster.bound(
                list(_new(pods, number, view if side == "patched" else None, made_by)), side, number
            )
            if number:  # the first is not counted
                made.append(seconds)
        if number >= 3 and (time.monotonic() - began) * (number + 2) / (number + 1) > _SECONDS:
            break
    return taken


def _figure(
    which: str, pods: int, taken: Mapping[str, Sequence[float]], cluster: "_Cluster", goal: float | None = None
) -> Figure:
    plain, patched = timing(taken["plain"]), timing(taken["patched"])
    ratio = plain.median / patched.median
    how = "binding alone" if cluster.scheduler else "with creating"
    return Figure(
        f"rate of binding {which}",
        pods / patched.median,
        "/s",
        pods / plain.median,
        ratio,
        patched.spread,
        "" if goal is None else f">= {goal}",
        None if goal is None else ratio >= goal,
        f"{len(taken['plain'])} interleaved rounds, {how}; spread of the plain {plain.spread:.0%}",
    )


def _world(nodes: int, pods: int) -> tuple[Snapshot, list[dict[str, Any]]]:
    """Return what is known of so many nodes for invokers, and the *pods* that run there, with the labels of both."""
    known = snapshot(nodes, pods, _FUNCTIONS, _PAIRS)
    running = [_running(row, Policy()) for row in known["placements"].to_pylist()]
    told = [json.dumps({**json.loads(each), **_ROLE}) for each in known["nodes"]["labels"].to_pylist()]
    labels = {"nodes": told, "placements": [json.dumps(pod["metadata"]["labels"]) for pod in running]}
    tables = {
        name: known[name].set_column(known[name].column_names.index("labels"), "labels", pa.array(each))
        for name, each in labels.items()
    }
    return replace(known, tables={**known.tables, **tables}), running


def _running(row: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """Return a pod that runs on a node already, with OpenWhisk's labels and the one that the webhook gave it."""
    pod = _pod(row["pod"], row["function"])
    owner, _, action = row["function"].partition("/")
    pod["metadata"]["labels"] |= {"openwhisk/namespace": owner, "openwhisk/action": action}
    pod["metadata"]["labels"][policy.own("function")] = label_value(row["function"])
    pod["spec"]["nodeName"] = row["node"]
    return pod


def _pod(serial: str, function: str) -> dict[str, Any]:
    """Return a pod of *function* as an invoker creates it: OpenWhisk's own labels come once it is initialised."""
    owner, _, action = function.partition("/")
    name = f"wskbench-invoker-00-{serial}-{owner}-{action}"
    amount = {"cpu": "100m", "memory": "256Mi"}
    container = {
        "name": "user-action",
        "image": "openwhisk/action-nodejs-v14:nightly",
        "env": [{"name": "__OW_API_HOST", "value": "https://bench-nginx.openwhisk.svc.cluster.local:443"}],
        "ports": [{"containerPort": 8080, "name": "action"}],
        "resources": {"limits": amount, "requests": amount},
        "securityContext": {"capabilities": {"drop": ["NET_RAW", "NET_ADMIN"]}},
    }
    role = [{"key": key, "operator": "In", "values": [value]} for key, value in _ROLE.items()]
    required = {"nodeSelectorTerms": [{"matchExpressions": role}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": _NAMESPACE,
            "labels": {"name": name, "user-action-pod": "true", "invoker": "invoker0", "release": "bench"},
        },
        "spec": {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 0,
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
            "containers": [container],
        },
    }


def _modest(serial: str, function: str) -> dict[str, Any]:
    """Return such a pod that asks nothing of a node, as those of a service may."""
    pod = _pod(serial, function)
    del pod["spec"]["affinity"]
    return pod


def _new(count: int, number: int, view: View | None, made_by: _Maker) -> Iterator[dict[str, Any]]:
    """Yield new pods of random functions; with *view* as they come out of the service's own desk."""
    desk = None
    if view is not None:
        state = cast(State[View], SimpleNamespace(current=SimpleNamespace(view=view), cluster=CLUSTER))
        desk = Desk(state, Policy(mode="prefer"), Reservations(), now=lambda: view.at)
    chosen = random.Random(number)
    for row in range(count):
        pod = made_by(f"{number * count + row}", function(chosen.randrange(_FUNCTIONS)))
        if desk is not None and view is not None:
            admission = review.decode(_review(pod)).request
            told = json.loads(desk.decide(admission, view.at, dry_run=True).answer(admission.uid))["response"]
            pod["metadata"]["annotations"] = {}
            pod = jsonpatch.apply_patch(pod, json.loads(base64.b64decode(told["patch"])))
        yield pod


def _review(pod: Mapping[str, Any]) -> bytes:
    request = {
        "uid": pod["metadata"]["name"],
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": pod["metadata"]["name"],
        "namespace": _NAMESPACE,
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:openwhisk:invoker", "groups": ["system:authenticated"]},
        "object": pod,
    }
    return json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}).encode()


@dataclass(slots=True)
class _Cluster:
    """The cluster of a kubeconfig; what is made in it is deleted by `clean`."""

    api: ApiClient
    scheduler: int | None
    made: list[str]

    def __init__(self, kubeconfig: Path) -> None:
        self.api = ApiClient(configuration(kubeconfig, None))
        given = os.environ.get("COLOCATION_SCHEDULER_PID", "")
        self.scheduler = int(given) if given.isdigit() else None
        self.made = []

    def call(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Any:
        """Make one request; raises `RuntimeError` where it is refused."""
        settings = self.api.configuration.auth_settings().values()
        answer = self.api.rest_client.pool_manager.request(
            method,
            f"{self.api.configuration.host}{path}",
            body=None if body is None else json.dumps(body),
            headers={"Content-Type": kind, **{each["key"]: each["value"] for each in settings}},
        )
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {answer.data[:300]!r}")
        return json.loads(answer.data)

    def each(self, make: Any, given: Any) -> None:
        """Call *make* with each of the tuples *given*, several at once."""
        with ThreadPoolExecutor(_WORKERS) as pool:
            list(pool.map(lambda one: make(*one), given))

    def node(self, name: str, labels: str) -> None:
        """Make a Ready node without the taint that new nodes get."""
        amount = {"cpu": "32", "memory": "128Gi", "pods": "250"}
        metadata = {"name": name, "labels": json.loads(labels)}
        status = {"capacity": amount, "allocatable": amount, "conditions": [{"type": "Ready", "status": "True"}]}
        self.call(
            "POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
        )
        self.made.append(f"/api/v1/nodes/{name}")
        self.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, "application/merge-patch+json")
        conditions = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        self.call("PATCH", f"/api/v1/nodes/{name}/status", conditions, "application/strategic-merge-patch+json")

    def create(self, pod: Mapping[str, Any]) -> None:
        """Create a pod."""
        self.call("POST", _PATH, pod)
        self.made.append(f"{_PATH}/{pod['metadata']['name']}")

    def bound(self, pods: Sequence[Mapping[str, Any]], side: str, number: int) -> float:
        """Return the seconds until all *pods* have a node; they are deleted afterwards."""
        for pod in pods:
            pod["metadata"]["labels"]["round"] = f"{side}-{number}"
        with self.watch(f"{side}-{number}") as bound:
            began = time.perf_counter()
            if self.scheduler:
                os.kill(self.scheduler, signal.SIGSTOP)
            try:
                self.each(self.create, ((pod,) for pod in pods))
            finally:
                if self.scheduler:
                    began = time.perf_counter()
                    os.kill(self.scheduler, signal.SIGCONT)
            for count in itertools.accumulate(bound):
                if count >= len(pods):
                    break
            else:
                raise RuntimeError(f"pods of side {side} were not bound within {_LONGEST} seconds")
            seconds = time.perf_counter() - began
        names = {f"{_PATH}/{pod['metadata']['name']}" for pod in pods}
        self.each(self.delete, ((name,) for name in names))
        self.made = [path for path in self.made if path not in names]
        return seconds

    @contextmanager
    def watch(self, value: str) -> Iterator[Iterator[int]]:
        """Yield numbers of pods of the round *value* that have got a node, as they do; only names are sent."""
        settings = self.api.configuration.auth_settings().values()
        answer = self.api.rest_client.pool_manager.request(
            "GET",
            f"{self.api.configuration.host}{_PATH}?watch=1&timeoutSeconds={_LONGEST}"
            f"&labelSelector=round%3D{value}&fieldSelector=spec.nodeName%21%3D",
            headers={
                "Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
                **{each["key"]: each["value"] for each in settings},
            },
            preload_content=False,
        )
        try:
            yield (line.count(b'"type":"ADDED"') for line in answer)
        finally:
            answer.close()

    def delete(self, path: str) -> None:
        """Delete one object at once."""
        self.call("DELETE", f"{path}?gracePeriodSeconds=0", {"gracePeriodSeconds": 0})

    def clean(self) -> None:
        """Delete what was made, newest first."""
        self.each(self.delete, ((path,) for path in reversed(self.made)))


if __name__ == "__main__":
    found = run(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
    print(table(found))
    sys.exit(any(figure.met is False for figure in found))
