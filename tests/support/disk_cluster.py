"""A real cluster with the storage driver's kinds, a scheduler that asks an extender, and a stand-in provisioner."""

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.support.cluster import MERGE, Cluster, wait_for, wait_scheduler
from tests.support.disks import API, GIB, Object
from tests.support.processes import end

GROUP = "/apis/csi-baremetal.dell.com/v1"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RULES = Path(__file__).resolve().parents[2] / "deploy" / "disks" / "reservation-rules.yaml"
JSON_PATCH = "application/json-patch+json"
SELECTED = "volume.kubernetes.io/selected-node"
PLURALS = {
    "AvailableCapacity": "availablecapacities",
    "AvailableCapacityReservation": "availablecapacityreservations",
    "Drive": "drives",
    "Volume": "volumes",
    "LogicalVolumeGroup": "logicalvolumegroups",
}
RESERVATIONS = f"{GROUP}/{PLURALS['AvailableCapacityReservation']}"
CAPACITIES = f"{GROUP}/{PLURALS['AvailableCapacity']}"

#: What a reservation holds without the affinity rules: all else is pruned.
_TEXTS = {"type": "array", "items": {"type": "string"}}
_CAPACITY = {"Name": "string", "StorageClass": "string", "Size": "integer", "StorageGroup": "string"}
_RESERVATION = {
    "type": "object",
    "properties": {
        "Namespace": {"type": "string"},
        "Status": {"type": "string"},
        "NodeRequests": {"type": "object", "properties": {"Requested": _TEXTS, "Reserved": _TEXTS}},
        "ReservationRequests": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "CapacityRequest": {
                        "type": "object",
                        "properties": {name: {"type": kind} for name, kind in _CAPACITY.items()},
                    },
                    "Reservations": _TEXTS,
                },
            },
        },
    },
}


def install(cluster: Cluster) -> None:
    """Create the driver's kinds, whose specs take anything but for reservations', and wait until they are served.

    They stay.
    """
    for kind, plural in PLURALS.items():
        anything: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        if kind == "AvailableCapacityReservation":
            anything = _RESERVATION
        version = {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything}}},
        }
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.csi-baremetal.dell.com"},
            "spec": {
                "group": "csi-baremetal.dell.com",
                "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
                "scope": "Namespaced" if kind == "Volume" else "Cluster",
                "versions": [version],
            },
        }
        status, answer = cluster.call("POST", CRDS, body)
        assert status == 201 or answer["reason"] == "AlreadyExists", (status, answer)
    for plural in PLURALS.values():
        wait_for(lambda plural=plural: cluster.call("GET", f"{GROUP}/{plural}")[0] == 200)


def allow_rules(cluster: Cluster) -> None:
    """Patch the schema of reservations as an operator does, and wait until it holds."""
    name = "availablecapacityreservations.csi-baremetal.dell.com"
    status, answer = cluster.call("PATCH", f"{CRDS}/{name}", yaml.safe_load(RULES.read_text()), JSON_PATCH)
    assert status == 200, (status, answer)
    rules = {"AffinityRequests": [{"AffinityRequest": [{"Type": "POD_BOUND_REQUIRED"}]}]}
    probe = {
        "apiVersion": API,
        "kind": "AvailableCapacityReservation",
        "metadata": {"name": f"{cluster.prefix}-probe"},
        "spec": {"Status": "PROBE", "AffinityRules": rules},
    }

    def kept() -> bool:
        found = cluster.call("POST", RESERVATIONS, probe)[1]
        cluster.call("DELETE", f"{RESERVATIONS}/{cluster.prefix}-probe")
        return found.get("spec", {}).get("AffinityRules") == rules

    wait_for(kept, 60)


@contextmanager
def scheduler(
    home: Path, kubeconfig: Path, name: str, extender: str, port: int, *, ignorable: bool
) -> Iterator[None]:
    """Run a second scheduler *name* that asks *extender* (a URL) about every pod that it schedules."""
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1beta1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 500, "burst": 1000},
        "leaderElection": {"leaderElect": False},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "profiles": [{"schedulerName": name}],
        "extenders": [
            {
                "urlPrefix": extender,
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "weight": 5,
                "nodeCacheCapable": True,
                "ignorable": ignorable,
                "httpTimeout": "5s",
            }
        ],
    }
    file = home / f"{name}.yaml"
    file.write_text(yaml.safe_dump(config))
    authority = [f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}"]
    command = [str(home / "bin" / "kube-scheduler"), f"--config={file}", "--port=0", f"--secure-port={port}"]
    with (home / f"{name}.log").open("wb") as log:
        process = subprocess.Popen([*command, *authority], stdout=log, stderr=log)
    try:
        wait_scheduler(port, home / f"{name}.log")
        yield
    finally:
        end(process)


class Provisioner:
    """Makes a volume on the drive that is known for the node, for each claim that the scheduler gave one; binds it.

    Then the reservation that the claim stands in is deleted, as the driver does. While *held* nothing is made.
    """

    def __init__(self, cluster: Cluster, chosen: "dict[str, str]") -> None:
        self.held = False
        self._cluster = cluster
        self._chosen = chosen
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Provisioner":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._stop.is_set():
            status, answer = self._cluster.call("GET", CLAIMS)
            for claim in answer["items"] if status == 200 else ():
                node = (claim["metadata"].get("annotations") or {}).get(SELECTED)
                if node and not self.held and not claim["spec"].get("volumeName"):
                    self._bind(claim, node)
            time.sleep(0.1)

    def _bind(self, claim: dict[str, Any], node: str) -> None:
        meta = claim["metadata"]
        name = f"pvc-{meta['uid']}"
        size = claim["spec"]["resources"]["requests"]["storage"]
        affinity = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        self._cluster.create(
            VOLUMES,
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": name, "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
                "spec": {
                    "capacity": {"storage": size},
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": claim["spec"]["storageClassName"],
                    "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": meta["name"],
                                 "uid": meta["uid"]},
                    "csi": {"driver": "csi-baremetal", "volumeHandle": name},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [affinity]}]}},
                },
            },
        )  # fmt: skip
        self._cluster.call("PATCH", f"{VOLUMES}/{name}/status", {"status": {"phase": "Bound"}}, MERGE)
        drive = self._chosen.get(node, f"d-{node}")
        volume = {
            "apiVersion": API,
            "kind": "Volume",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"Id": name, "Location": drive, "LocationType": "DRIVE", "NodeId": node, "Size": 4 * GIB},
        }
        self._cluster.create(f"{GROUP}/namespaces/default/volumes", volume)
        annotations = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
        change = {"metadata": {"annotations": annotations}, "spec": {"volumeName": name}}
        self._cluster.call("PATCH", f"{CLAIMS}/{meta['name']}", change, MERGE)
        bound = {"status": {"phase": "Bound", "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]}}
        self._cluster.call("PATCH", f"{CLAIMS}/{meta['name']}/status", bound, MERGE)
        for each in self._cluster.call("GET", RESERVATIONS)[1].get("items", ()):
            asked = [r["CapacityRequest"]["Name"] for r in each["spec"].get("ReservationRequests", ())]
            if meta["name"] in asked:
                self._cluster.call("DELETE", f"{RESERVATIONS}/{each['metadata']['name']}")


def prefixed(thing: Object, name: str) -> Object:
    """*thing* under another name."""
    return {**thing, "metadata": {**thing["metadata"], "name": name}}
