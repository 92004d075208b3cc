"""``HostPool`` objects: what the pools of a job are and which nodes are theirs, for people and other programs."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from jobs.hosts import changing
from jobs.hosts.changing import Change
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.errors import SourceError
from rules.advice import Json
from rules.hosts import keys
from rules.hosts.plan import Plan

GROUP: Final = "streams.ibm.com/v1alpha1"
#: Marks those that are ours to change and remove.
MANAGER: Final = "app.kubernetes.io/managed-by"
OURS: Final = "colocation-advisor"


def path(namespace: str) -> str:
    """Return the path of the HostPools of *namespace*."""
    return f"/apis/{GROUP}/namespaces/{namespace}/hostpools"


def wanted(plan: Plan) -> list[Json]:
    """Return the object of each pool of *plan*, named by the pool's place in the job."""
    job = plan.job
    found = []
    for index, pool in enumerate(job.pools.values()):
        described: Json = {
            "name": pool.name,
            "index": index,
            "membershipMode": "exclusive" if pool.exclusive else "shared",
            "hosts": list(pool.hosts),
            "tags": list(pool.tags),
        }
        if pool.size is not None:
            described["size"] = pool.size
        metadata = {
            "name": keys.pod_name(job.name, index),
            "namespace": job.namespace,
            "labels": {keys.JOB: job.name, MANAGER: OURS},
        }
        found.append(
            {
                "apiVersion": GROUP,
                "kind": "HostPool",
                "metadata": metadata,
                "spec": {"job": job.name, "hostpool": described},
                "status": {"nodes": list(plan.pools.get(pool.name, ()))},
            }
        )
    return found


def standing(client: KubernetesClient, namespace: str, job: str | None = None) -> dict[str, Mapping[str, Any]] | None:
    """Return our HostPools of *namespace* (of one *job*) by name, None where the cluster does not know the kind."""
    selector = f"{MANAGER}={OURS}" + (f",{keys.JOB}={job}" if job is not None else "")
    try:
        items = client.list(path(namespace), label_selector=selector).items
    except SourceError as error:
        if error.reason == "status_404":
            return None
        raise
    found = [msgspec.json.decode(raw) for raw in items]
    return {each["metadata"]["name"]: each for each in found}


def changes(client: KubernetesClient, plan: Plan) -> list[Change] | None:
    """Return what makes the HostPools as *plan* wants them; None where the cluster does not know the kind."""
    namespace = plan.job.namespace
    there = standing(client, namespace, plan.job.name)
    if there is None:
        return None
    objects = wanted(plan)
    found = [
        changing.thing(client, path(namespace), each, there.get(each["metadata"]["name"]))
        for each in objects
        if not _same(each, there.get(each["metadata"]["name"]))
    ]
    names = {each["metadata"]["name"] for each in objects}
    return [*found, *(removal(client, namespace, each) for name, each in there.items() if name not in names)]


def removal(client: KubernetesClient, namespace: str, given: Mapping[str, Any]) -> Change:
    """Return the removal of one HostPool."""
    where = f"{path(namespace)}/{given['metadata']['name']}"
    metadata = {key: given["metadata"][key] for key in ("name", "namespace", "labels")}
    again = {**given, "metadata": metadata}
    return Change(
        f"HostPool {metadata['name']}",
        lambda dry: client.send("DELETE", where, None, **changing.asked(dry)),
        lambda: client.send("POST", path(namespace), changing.encoded(again)),
    )


def _same(wanted: Json, there: Mapping[str, Any] | None) -> bool:
    return there is not None and all(there.get(part) == wanted[part] for part in ("spec", "status"))
