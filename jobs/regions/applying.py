"""A job's regions into the cluster: one ConsistentRegion each and one ConsistentRegionOperator, owned by the job.

Applying again changes what differs, and deletes regions that the job no longer has; what a region did so far stays.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from jobs.regions import paths
from jobs.regions.job import Job
from jobs.regions.resources import Api
from pipeline.errors import Permanent, SourceError
from pipeline.records import Listing
from rules.regions.resource import API_VERSION, OPERATOR, REGION, wire

_T = TypeVar("_T")

#: Times that an object is tried which others change at the same time.
_TRIES = 10


class Cluster(Api, Protocol):
    """What is needed of `pipeline.clients.kubernetes.KubernetesClient`."""

    def list(self, path: str, *, label_selector: str = "", field_selector: str = "") -> Listing: ...


class Applied(NamedTuple):
    """What became of one object: created, changed, unchanged or deleted."""

    kind: str
    name: str
    namespace: str
    outcome: str


def apply(cluster: Cluster, job: Job, namespace: str) -> Iterator[Applied]:
    """Bring the regions of *job* into *namespace*; raises `SourceError` where the API server refuses."""
    owner = _retried(lambda: _owner(cluster, job, namespace))
    if owner["created"]:
        yield Applied("Job", job.name, namespace, "created")
    wanted = {}
    for index, region in sorted(job.regions.items()):
        name = paths.region_name(job.name, index)
        wanted[name] = _object(REGION, name, owner, job, wire(region), {paths.REGION: name})
    path = paths.regions(namespace)
    for name, body in wanted.items():
        yield Applied(REGION, name, namespace, _put(cluster, path, body))
    for raw in cluster.list(path, label_selector=f"{paths.JOB}={job.name}").items:
        name = msgspec.json.decode(raw)["metadata"]["name"]
        if name not in wanted:
            cluster.send("DELETE", f"{path}/{name}")
            yield Applied(REGION, name, namespace, "deleted")
    spec = {"jobName": job.name, "numRegions": len(wanted), "jobId": owner["uid"], **job.operator}
    operator = _object(OPERATOR, paths.operator_name(job.name), owner, job, spec, {})
    outcome = _put(cluster, paths.operators(namespace), operator)
    yield Applied(OPERATOR, paths.operator_name(job.name), namespace, outcome)


def _retried(work: Callable[[], _T]) -> _T:
    """Do *work*, and again where another changed the object between its reading and its writing."""
    for _ in range(_TRIES - 1):
        try:
            return work()
        except Permanent as error:
            if error.reason != "status_409":
                raise
    return work()


def _owner(cluster: Cluster, job: Job, namespace: str) -> dict[str, Any]:
    """The job as the cluster has it; one that it does not have is created as the file says."""
    path = paths.jobs(namespace)
    created = False
    try:
        raw = cluster.get(f"{path}/{job.name}")
    except SourceError as error:
        if error.reason != "status_404":
            raise
        meta = {**job.document["metadata"], "namespace": namespace}
        try:
            raw = cluster.send("POST", path, msgspec.json.encode({**job.document, "metadata": meta}))
        except Permanent as refused:
            if refused.reason == "status_404":
                message = "the cluster does not know stream jobs: apply deploy/regions/crds.yaml first"
                raise Permanent(refused.source, refused.reason, message) from None
            raise
        created = True
    meta = msgspec.json.decode(raw)["metadata"]
    return {"uid": meta["uid"], "generation": str(meta.get("generation", 1)), "created": created}


def _object(
    kind: str,
    name: str,
    owner: Mapping[str, Any],
    job: Job,
    spec: Mapping[str, Any],
    labels: Mapping[str, str],
) -> dict[str, Any]:
    reference = {
        "apiVersion": API_VERSION,
        "kind": "Job",
        "name": job.name,
        "uid": owner["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": {paths.JOB: job.name, paths.GENERATION: owner["generation"], **labels},
            "ownerReferences": [reference],
        },
        "spec": spec,
    }


def _put(cluster: Cluster, path: str, body: dict[str, Any]) -> str:
    """Bring the object to the cluster; say what became of it."""
    return _retried(lambda: _put_once(cluster, path, body))


def _put_once(cluster: Cluster, path: str, body: dict[str, Any]) -> str:
    """Create the object, or change what differs of its labels, owners and spec; say which."""
    name = body["metadata"]["name"]
    try:
        found = msgspec.json.decode(cluster.get(f"{path}/{name}"))
    except SourceError as error:
        if error.reason != "status_404":
            raise
        cluster.send("POST", path, msgspec.json.encode(body))
        return "created"
    wanted = msgspec.json.decode(msgspec.json.encode(body))
    meta = found["metadata"]
    labels = {**(meta.get("labels") or {}), **wanted["metadata"]["labels"]}
    owners = wanted["metadata"]["ownerReferences"]
    same = (found.get("spec"), meta.get("labels"), meta.get("ownerReferences")) == (wanted["spec"], labels, owners)
    if same:
        return "unchanged"
    changed = {**found, "spec": wanted["spec"], "metadata": {**meta, "labels": labels, "ownerReferences": owners}}
    cluster.send("PUT", f"{path}/{name}", msgspec.json.encode(changed))
    return "changed"
