"""Nodes and pods of about the size that a real API server sends them in."""

import json
from typing import Any


def node(name: str, **labels: str) -> dict[str, Any]:
    """A node as a small cluster has them, of about the size that a real one is sent in."""
    amount = {"cpu": "8", "memory": "32886640Ki", "pods": "110", "ephemeral-storage": "101430960Ki"}
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "900",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": name}
            | labels,
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
        },
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"test:///{name}"},
        "status": {
            "capacity": amount,
            "allocatable": amount | {"memory": "31808432Ki", "cpu": "7800m"},
            "conditions": [
                {
                    "type": kind,
                    "status": "True" if kind == "Ready" else "False",
                    "lastHeartbeatTime": "2026-01-01T00:05:00Z",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "reason": f"Kubelet{kind}",
                    "message": "kubelet reports this condition",
                }
                for kind in kinds
            ],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name}],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "5b1d9c1e",
                "containerRuntimeVersion": "containerd://1.7.2",
                "kernelVersion": "6.1.0",
                "kubeProxyVersion": "v1.30.0",
                "kubeletVersion": "v1.30.0",
                "machineID": f"machine-{name}",
                "operatingSystem": "linux",
                "osImage": "Debian GNU/Linux 12",
                "systemUUID": f"machine-{name}",
            },
            "images": [
                {"names": [f"registry.example/image-{i}@sha256:{i:064x}"], "sizeBytes": 10**8 + i} for i in range(10)
            ],
        },
    }


def pod(name: str, node_name: str = "", namespace: str = "openwhisk", **labels: str) -> dict[str, Any]:
    """A running pod with managed fields, as a real list has them."""
    amount = {"cpu": "100m", "memory": "256Mi"}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "resourceVersion": "900",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"name": name, "user-action-pod": "true", **labels},
            "managedFields": [
                {
                    "manager": "kubelet",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": "2026-01-01T00:00:05Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:status": {f"f:field{i}": {} for i in range(20)}},
                }
            ],
        },
        "spec": {
            "containers": [
                {
                    "name": "user-action",
                    "image": "openwhisk/action-nodejs-v14:nightly",
                    "env": [{"name": "__OW_API_HOST", "value": "https://nginx.example:443"}],
                    "ports": [{"containerPort": 8080, "name": "action", "protocol": "TCP"}],
                    "resources": {"limits": amount, "requests": amount},
                    "volumeMounts": [{"name": "token", "readOnly": True, "mountPath": "/var/run/secrets/token"}],
                }
            ],
            "volumes": [{"name": "token", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}}],
            **({"nodeName": node_name} if node_name else {}),
            "tolerations": [
                {
                    "key": "node.kubernetes.io/not-ready",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
            ],
            "priority": 0,
        },
        "status": {
            "phase": "Running" if node_name else "Pending",
            **({"startTime": "2026-01-01T00:00:02Z"} if node_name else {}),
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:04Z"}
                for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": [
                {
                    "name": "user-action",
                    "image": "openwhisk/action-nodejs-v14:nightly",
                    "imageID": "sha256:0",
                    "restartCount": 0,
                    "ready": True,
                    "state": {"running": {"startedAt": "2026-01-01T00:00:04Z"}},
                }
            ],
        },
    }


def many(make: Any, count: int, *arguments: str) -> list[bytes]:
    """*count* objects, encoded once and told apart by their names: ``@`` in every text becomes the number."""
    body = json.dumps(make(*arguments)).encode()
    return [body.replace(b"@", b"%d" % number) for number in range(count)]
