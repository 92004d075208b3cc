"""A small cluster of stand-ins, named by ordinary settings: what a flow test collects from by the real command."""

import io
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import structlog

from jobs.cli.main import main
from jobs.demo.openwhisk import Fault, StandIn
from tests.support.forked import Started
from tests.support.kube_server import KubeServer
from tests.support.web import Asked, Reply, answering

KEY = "user-of-guest:wordOfGuest"
NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
WORKFLOWS = "/apis/wp5.physics-faas.eu/v1alpha1/workflows"


def node(name: str) -> dict[str, Any]:
    """Return a Ready node of 8 cores and 32 GiB."""
    amount = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    address = f"10.0.0.{int(name.removeprefix('n')) + 1}"
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": {"kubernetes.io/hostname": name, "disktype": "ssd"},
        },
        "spec": {},
        "status": {
            "capacity": amount,
            "allocatable": amount,
            "addresses": [{"type": "InternalIP", "address": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(action: str, on: str, started: datetime) -> dict[str, Any]:
    """Return a running, initialised action pod of namespace guest."""
    name = f"wskx-invoker-00-1-guest-{action}-{on}"
    return {
        "metadata": {
            "name": name,
            "namespace": "openwhisk",
            "uid": f"uid-{name}",
            "labels": {"openwhisk/action": action, "openwhisk/namespace": "guest", "user-action-pod": "true"},
            "creationTimestamp": f"{started:%Y-%m-%dT%H:%M:%SZ}",
        },
        "spec": {
            "nodeName": on,
            "containers": [{"name": "user-action", "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}}}],
        },
        "status": {"phase": "Running", "startTime": f"{started:%Y-%m-%dT%H:%M:%SZ}"},
    }


def activation(number: int, action: str, start: datetime, seconds: float) -> dict[str, Any]:
    """Return a successful, warm activation record as the API gives it."""
    begin = int(start.timestamp() * 1000)
    return {
        "activationId": f"{number:032x}",
        "name": action,
        "namespace": "guest",
        "subject": "guest",
        "version": "0.0.1",
        "publish": False,
        "start": begin,
        "end": begin + int(seconds * 1000),
        "duration": int(seconds * 1000),
        "logs": [],
        "response": {"status": "success", "statusCode": 0, "success": True, "result": {}},
        "annotations": [
            {"key": "path", "value": f"guest/{action}"},
            {"key": "kind", "value": "python:3"},
            {"key": "limits", "value": {"concurrency": 1, "memory": 256, "timeout": 60000, "logs": 10}},
            {"key": "waitTime", "value": 3},
        ],
    }


@dataclass
class Town:
    """The running stand-ins and the directory with the settings that name them."""

    home: Path
    kube: KubeServer
    whisk: StandIn
    records: Sequence[Mapping[str, Any]]
    prometheus: str
    #: Replaces the true answer of Prometheus while set.
    usage: list[Reply] = field(default_factory=list)

    @property
    def database(self) -> Path:
        return self.home / "colocation.duckdb"

    def colocate(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run one command to its end, in this process: what a process of its own imports takes longer than its work.

        `start` is for what a process is needed for: to be killed, to run beside others, to have a time zone.
        """
        with within(self.home, self.environment()) as (said, warned):
            code = main(arguments)
        return subprocess.CompletedProcess(arguments, code, said.getvalue(), warned.getvalue())

    def start(self, *arguments: str, **environment: str) -> Started:
        """Start one command in a process of its own."""
        return Started(self.home, arguments, self.environment(**environment))

    def serve(self) -> "subprocess.Popen[str]":
        """Start ``colocate serve`` as a person does."""
        return subprocess.Popen(
            [sys.executable, "-m", "jobs.cli", "serve"], cwd=self.home, env=self.environment(),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    @staticmethod
    def environment(**more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("COLOCATE", "KUBE"))}
        return {**kept, "PYTHONPATH": str(Path(__file__).resolve().parents[2]), **more}


@contextmanager
def within(home: Path, environment: Mapping[str, str]) -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """Be a process in *home* with just *environment*; yield what goes to standard output and standard error."""
    kept, handlers, level = dict(os.environ), logging.root.handlers, logging.root.level
    configured = structlog.get_config()
    with chdir(home), redirect_stdout(io.StringIO()) as said, redirect_stderr(io.StringIO()) as warned:
        os.environ.clear()
        os.environ.update(environment)
        try:
            yield said, warned
        finally:
            os.environ.clear()
            os.environ.update(kept)
            logging.root.handlers = handlers
            logging.root.setLevel(level)
            structlog.configure(**configured)


@contextmanager
def town(
    home: Path,
    *,
    records: int = 500,
    actions: Sequence[str] = ("alpha", "beta", "gamma"),
    nodes: int = 2,
    extra: str = "",
    faults: Sequence[Fault] = (),
    patience: str = "3s",
) -> Iterator[Town]:
    """Run a cluster of *nodes* with a pod of each action on each, and *records* activations of the last half hour.

    Prometheus answers every range query with one series a node or pod, of value 1. *patience* is how long an answer
    of OpenWhisk may take.
    """
    now = datetime.now(UTC)
    begin = now - timedelta(minutes=30)
    names = [f"n{number}" for number in range(nodes)]
    pods = [pod(action, on, begin - timedelta(hours=1)) for action in actions for on in names]
    step = timedelta(minutes=29) / max(records, 1)
    made = [
        activation(number, actions[number % len(actions)], begin + number * step, 0.2) for number in range(records)
    ]
    held: list[Town] = []

    def usage(asked: Asked) -> Reply:
        if held and held[0].usage:
            return held[0].usage[0]
        return Reply(_usage(asked, names, pods), headers={"Content-Type": "application/json"})

    with ExitStack() as stack:
        kube = KubeServer({NODES: [node(name) for name in names], PODS: pods, WORKFLOWS: []})
        stack.callback(kube.close)
        whisk = stack.enter_context(
            StandIn(made, {"guest": KEY, "other": "user-of-other:wordOfOther"}, faults=faults)
        )
        prometheus = stack.enter_context(answering(usage))
        kubeconfig = kube.kubeconfig(home)
        (home / "colocate.toml").write_text(
            f"""
[[clusters]]
name = "edge"
[clusters.kubernetes]
kubeconfig = "{kubeconfig}"
timeout = "3s"
[clusters.prometheus]
url = "{prometheus}"
timeout = "3s"
[clusters.openwhisk]
url = "{whisk.url}"
timeout = "{patience}"
[[clusters.openwhisk.namespaces]]
name = "guest"
key = "{KEY}"
{extra}
""",
            encoding="utf-8",
        )
        held.append(Town(home, kube, whisk, made, prometheus))
        yield held[0]


def _usage(asked: Asked, nodes: Sequence[str], pods: Sequence[Mapping[str, Any]]) -> str:
    """Answer a range query with the value 1 at each step, for each node or pod."""
    if "start" not in asked.query:
        said = str(time.time()) if "time()" in asked.query["query"] else "20"
        result: list[object] = [{"metric": {}, "value": [float(asked.query.get("time", 0)), said]}]
        return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})
    start, end = (_seconds(asked.query[name]) for name in ("start", "end"))
    step = float(asked.query["step"].removesuffix("s"))
    values = [[start + step * number, "1"] for number in range(int((end - start) // step) + 1)]
    if "node_" in asked.query["query"]:
        labels = [{"node": name} for name in nodes]
    else:
        labels = [{"namespace": each["metadata"]["namespace"], "pod": each["metadata"]["name"]} for each in pods]
    found = [{"metric": each, "values": values} for each in labels]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": found}})


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return datetime.fromisoformat(text).timestamp()
