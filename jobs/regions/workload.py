"""The Deployment and the headless Service of one job's operator, as objects of the Kubernetes API."""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from jobs.regions import names, paths
from pipeline.errors import BadInput
from rules.regions.resource import API_VERSION, OPERATOR

#: Which objects are ours, and what they were made of.
MANAGED = {
    "app.kubernetes.io/managed-by": "colocation-advisor",
    "app": "streams",
    "svc": "consistent-region-operator",
}
HASH = "colocation.internal/manifest"

REST_PORT, METRICS_PORT = 10000, 9696


class Asked(NamedTuple):
    """A ConsistentRegionOperator: whose operator is to run, and how."""

    name: str
    namespace: str
    uid: str
    job: str
    job_id: str
    generation: str
    regions: int
    log_level: str
    pull_policy: str
    pull_secret: str


def asked(resource: Mapping[str, Any]) -> Asked:
    """Read a ConsistentRegionOperator; raises `BadInput` in one line where it is none."""
    meta, spec = resource.get("metadata"), resource.get("spec")
    if not isinstance(meta, Mapping) or not isinstance(spec, Mapping):
        raise BadInput(f"{OPERATOR}: without metadata or spec")
    job, regions = spec.get("jobName"), spec.get("numRegions")
    if not isinstance(job, str) or not job or not isinstance(regions, int):
        raise BadInput(f"{OPERATOR} {meta.get('name')}: spec.jobName or spec.numRegions: missing")
    names.job(job, f"{OPERATOR} {meta.get('name')}: spec.jobName")
    if meta.get("name") != paths.operator_name(job):  # two of one job would take turns with one Deployment
        raise BadInput(f"{OPERATOR} {meta.get('name')}: the one of job {job} is named {paths.operator_name(job)}")
    return Asked(
        name=str(meta["name"]),
        namespace=str(meta.get("namespace") or "default"),
        uid=str(meta.get("uid", "")),
        job=job,
        job_id=str(spec.get("jobId") or ""),
        generation=str((meta.get("labels") or {}).get(paths.GENERATION, "1")),
        regions=regions,
        log_level=str(spec.get("logLevel") or "info"),
        pull_policy=str(spec.get("imagePullPolicy") or "Always"),
        pull_secret=str(spec.get("imagePullSecret") or ""),
    )


def deployment(of: Asked, image: str, service_account: str) -> dict[str, Any]:
    """The Deployment: one replica, replaced and not rolled, since a second one could not become ready beside it."""
    selector = {"app": MANAGED["app"], "svc": MANAGED["svc"], paths.JOB: of.job}
    environment: list[dict[str, Any]] = [
        {"name": "STREAMS_JOB_NAME", "value": of.job},
        {"name": "STREAMS_LOG_LEVEL", "value": of.log_level},
        {"name": "MY_POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        {"name": "MY_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "NUM_CONSISTENT_REGIONS", "value": str(of.regions)},
        {"name": "STREAMS_JOB_ID", "value": of.job_id},
        {"name": "STREAMS_GENERATION_ID", "value": of.generation},
    ]
    container = {
        "name": "operator",
        "image": image,
        "imagePullPolicy": of.pull_policy,
        "command": ["colocate", "regions", "serve"],
        "env": environment,
        "ports": [
            {"name": "sys-api", "containerPort": REST_PORT, "protocol": "TCP"},
            {"name": "sys-metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
        ],
        "readinessProbe": {"tcpSocket": {"port": "sys-api"}, "periodSeconds": 2},
        "resources": {"requests": {"cpu": "100m", "memory": "192Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    pod: dict[str, Any] = {
        "serviceAccountName": service_account,
        "containers": [container],
        **({"imagePullSecrets": [{"name": of.pull_secret}]} if of.pull_secret else {}),
    }
    spec = {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": selector},
        "template": {"metadata": {"labels": selector}, "spec": pod},
    }
    return _object("apps/v1", "Deployment", paths.operator_name(of.job), of, spec)


def service(of: Asked) -> dict[str, Any]:
    """The headless Service by which PEs, Prometheus and people find the operator."""
    spec = {
        "clusterIP": "None",
        "selector": {"app": MANAGED["app"], "svc": MANAGED["svc"], paths.JOB: of.job},
        "ports": [
            {"name": "sys-api", "port": REST_PORT, "targetPort": "sys-api", "protocol": "TCP"},
            {"name": "sys-metrics", "port": METRICS_PORT, "targetPort": "sys-metrics", "protocol": "TCP"},
        ],
    }
    return _object("v1", "Service", paths.service_name(of.job), of, spec)


def _object(version: str, kind: str, name: str, of: Asked, spec: dict[str, Any]) -> dict[str, Any]:
    owner = {
        "apiVersion": API_VERSION,
        "kind": OPERATOR,
        "name": of.name,
        "uid": of.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    meta: dict[str, Any] = {
        "name": name,
        "namespace": of.namespace,
        "labels": {**MANAGED, paths.JOB: of.job},
        "ownerReferences": [owner],
    }
    made = {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}
    # What the API server fills in cannot be told from what others changed: what was asked for is kept as a hash.
    digest = hashlib.blake2b(msgspec.json.encode(made, order="sorted"), digest_size=8).hexdigest()
    return {**made, "metadata": {**meta, "annotations": {HASH: digest}}}
