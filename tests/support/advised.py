"""A small world in which the right advice is plain: hello is slowed by Model_training, which runs on one node."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from featurestore.snapshot import Snapshot
from tests.support.snapshots import snapshot

VICTIM, AGGRESSOR = "guest/hello", "guest/Model_training"
LABELS = {"openwhisk/namespace": "guest", "openwhisk/action": "hello"}
AGGRESSOR_LABELS = {"openwhisk/namespace": "guest", "openwhisk/action": "Model_training"}


def node_row(name: str, cluster: str = "c1", **labels: str) -> dict[str, Any]:
    """A ready node of 8 cores."""
    allocatable = {"cpu": 8.0, "memory": 32.0 * 2**30, "pods": 110.0}
    return {
        "cluster": cluster, "node": name, "node_type": "t1", "ready": True, "schedulable": True, "cpu_cores": 8.0,
        "memory_bytes": 32.0 * 2**30, "pods": 110.0, "gpu_count": 0, "taints": "[]",
        "labels": json.dumps({"kubernetes.io/hostname": name, **labels}), "allocatable": json.dumps(allocatable),
    }  # fmt: skip


def placement_row(pod: str, node: str, function: str, cluster: str = "c1") -> dict[str, Any]:
    """A running pod of *function*."""
    return {
        "cluster": cluster, "uid": f"uid-{pod}", "namespace": "default", "pod": pod, "node": node,
        "function": function, "phase": "Running", "started": datetime.now(UTC), "cpu_request_cores": 0.1,
        "memory_request_bytes": 2.0**26, "labels": "{}",
    }  # fmt: skip


def learned(
    *,
    cluster: str = "c1",
    version: str = "v1",
    nodes: Sequence[Mapping[str, Any]] = (),
    placements: Sequence[Mapping[str, Any]] = (),
    workflows: Sequence[Mapping[str, Any]] = (),
) -> Snapshot:
    """A fresh snapshot in which hello surely takes 80 % longer beside Model_training, and not the other way round."""
    now = datetime.now(UTC)
    common = {"cluster": cluster, "node_type": "", "status": "observed", "effective_overlaps": 500.0,
              "activations": 2000, "window_start": now, "window_end": now}  # fmt: skip
    pairs = [
        {**common, "victim": VICTIM, "aggressor": AGGRESSOR, "slowdown": 0.8, "low": 0.7, "high": 0.9,
         "probability": 0.99},
        {**common, "victim": AGGRESSOR, "aggressor": VICTIM, "slowdown": 0.0, "low": -0.01, "high": 0.01,
         "probability": 0.01},
    ]  # fmt: skip
    functions = [
        {"cluster": cluster, "function": name, "node_type": "", "dominant": "cpu", "cpu": "high", "memory": "low",
         "network": "low", "disk": "low", "source": "measured", "activations": 2000, "p50_ms": 100.0, "p95_ms": 200.0}
        for name in (VICTIM, AGGRESSOR)
    ]  # fmt: skip
    rows = {"pairs": pairs, "functions": functions, "nodes": nodes, "placements": placements, "workflows": workflows}
    return snapshot(now, rows, version=version, clusters=(cluster,))


def workflow_row(name: str, namespace: str, action: Mapping[str, Any], cluster: str = "c1") -> dict[str, Any]:
    """A workflow of the one *action*, in the form that the collector keeps."""
    document = {"namespace": namespace, "name": name, "actions": [action]}
    return {"cluster": cluster, "namespace": namespace, "workflow": name, "document": json.dumps(document)}
