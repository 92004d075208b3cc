"""The Kubernetes objects of the recording: its nodes, and the pods whose containers the workers were. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from jobs.demo.recorder.activations import identity
from jobs.demo.recorder.functions import FUNCTIONS
from jobs.demo.recorder.layout import ANCHOR, Placed, node_name, pod_name

#: The Kubernetes namespace that OpenWhisk's pods run in.
NAMESPACE = "openwhisk"


def when(microseconds: int) -> str:
    """Write a time as the API server does: RFC 3339 in whole seconds."""
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(number: int, machine: Mapping[str, Any]) -> dict[str, Any]:
    """Return node *number*: the machine that was recorded on, under one of its names in the recording."""
    name = node_name(number)
    amounts = {"cpu": str(machine["cores"]), "memory": f"{machine['memory_bytes'] // 1024}Ki", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": str(identity("node", number)),
            "creationTimestamp": when(ANCHOR - 86_400_000_000),
            "resourceVersion": str(number + 1),
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": {"x86_64": "amd64", "aarch64": "arm64"}.get(machine["architecture"], "unknown"),
                "openwhisk-role": "invoker",
            },
        },
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [
                {"type": "InternalIP", "address": address(number)},
                {"type": "Hostname", "address": name},
            ],
            "conditions": [
                {"type": kind, "status": status, "lastTransitionTime": when(ANCHOR)}
                for kind, status in (("MemoryPressure", "False"), ("DiskPressure", "False"), ("Ready", "True"))
            ],
            "nodeInfo": {
                "architecture": machine["architecture"],
                "kernelVersion": machine["kernel"],
                "operatingSystem": "linux",
            },
        },
    }


def address(number: int) -> str:
    """Return the address of node *number*."""
    return f"10.0.0.{number + 1}"


def pods(placed: Sequence[Placed], cores: int) -> list[dict[str, Any]]:
    """Return every pod of the recording: those of the last round run, the others have completed."""
    return [_pod(each, position, cores) for each in placed for position in range(len(each.session["containers"]))]


def _pod(placed: Placed, position: int, cores: int) -> dict[str, Any]:
    container = placed.session["containers"][position]
    function = FUNCTIONS[container["function"]]
    name = pod_name(placed, position)
    started = when(container["spawned"] + placed.shift)
    resources = {"cpu": str(cores), "memory": f"{function.memory_mb}Mi"}
    state: dict[str, Any] = {"running": {"startedAt": started}}
    if placed.until is not None:
        ended = {"startedAt": started, "finishedAt": when(placed.until), "exitCode": 0, "reason": "Completed"}
        state = {"terminated": ended}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": str(identity("pod", placed.session["key"], function.name)),
            "creationTimestamp": started,
            "resourceVersion": str(1000 + placed.session["round"]),
            "labels": {
                "name": name,
                "user-action-pod": "true",
                "invoker": f"invoker{placed.node}",
                "release": "recorded",
                "openwhisk/action": function.action,
                "openwhisk/namespace": function.namespace,
            },
        },
        "spec": {
            "nodeName": node_name(placed.node),
            "restartPolicy": "Never" if placed.until is not None else "Always",
            "containers": [
                {
                    "name": "user-action",
                    "image": f"recorded/{function.action}",
                    "resources": {"limits": resources, "requests": {**resources, "cpu": "100m"}},
                }
            ],
        },
        "status": {
            "phase": "Running" if placed.until is None else "Succeeded",
            "startTime": started,
            "conditions": [{"type": "Ready", "status": str(placed.until is None)}],
            "containerStatuses": [{"name": "user-action", "ready": placed.until is None, "state": state}],
        },
    }
