"""Jobs and clusters for tests of host constraints, stated in a line each."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from msgspec import structs

from jobs.hosts.solver import within
from pipeline.records import Node, Taint
from rules.advice import Json
from rules.hosts import keys
from rules.hosts.cluster import Cluster, HostNode, StreamPod
from rules.hosts.job import read
from rules.hosts.model import Conflict, Job
from rules.hosts.plan import Plan, Refused, plan
from rules.hosts.pods import manifest
from tests.support import worlds

COLOCATION, EXCLUSIVE = "streams.ibm.com/hostcolocation.", "streams.ibm.com/exclusive"
TOGETHER = "9034FF9E2B8F00B47A44DFAF3C2A37176C101E2A"
APART = "B76ADE163D874CC5BC0F408D70CFC165667EEC5F"
SINK = "E53E8D5300C878019A997D4CFB7201C7ED2EE003"


def job(*placements: str, **fields: Any) -> Job:
    """A job of one PE for each of *placements*, with the operators A, B, C...; *fields* are the document's."""
    pes = [
        {"id": number, "operators": [{"name": chr(ord("A") + number), "placement": placement}]}
        for number, placement in enumerate(placements)
    ]
    return read({"job": "ex", "pes": pes, **fields}, "job.yaml")


def host(name: str, labels: Mapping[str, str] | None = None, *addresses: str, **state: Any) -> HostNode:
    """A node that can be used, unless *state* says otherwise."""
    return HostNode(worlds.node(name, labels, **state), addresses)


def hosts(*names: str) -> list[HostNode]:
    return [host(name) for name in names]


def planned(job: Job, nodes: Sequence[HostNode], pods: Sequence[StreamPod] = (), **more: Any) -> Plan | Refused:
    """What comes of *job* on *nodes*."""
    cluster = Cluster(nodes, pods, job.name, job.namespace)
    return plan(job, cluster, within(timedelta(seconds=20)), **more)


def placed(job: Job, nodes: Sequence[HostNode], pods: Sequence[StreamPod] = (), **more: Any) -> Plan:
    """The plan; fails where there is none."""
    found = planned(job, nodes, pods, **more)
    assert isinstance(found, Plan), found
    return found


def refused(job: Job, nodes: Sequence[HostNode], pods: Sequence[StreamPod] = (), **more: Any) -> tuple[Conflict, ...]:
    """Why there is no plan; fails where there is one."""
    found = planned(job, nodes, pods, **more)
    assert isinstance(found, Refused), found
    return found.conflicts


def manifests(found: Plan) -> list[Json]:
    """The pods of a plan."""
    return [manifest(found.job, pe, found.rules[pe.id]) for pe in found.job.pes]


def own_labels(pod: Json) -> dict[str, str]:
    """The pod's labels but those that every pod of a job has."""
    every = ("app", keys.JOB, keys.PE)
    return {key: value for key, value in pod["metadata"]["labels"].items() if key not in every}


def term(key: str, value: str, job: str | None = "ex") -> Json:
    """The term T of the cases, with the second expression of scope job; *job* None: of scope token."""
    expressions: list[Json] = [{"key": key, "operator": "In", "values": [value]}]
    if job is not None:
        expressions.append({"key": "streams.ibm.com/job", "operator": "In", "values": [job]})
    return {"labelSelector": {"matchExpressions": expressions}, "topologyKey": "kubernetes.io/hostname"}


def changed(node: HostNode, labels: Mapping[str, str], taints: Sequence[Json] = ()) -> HostNode:
    """*node* after an action."""
    record: Node = node.node
    more = tuple(Taint(each["key"], each["effect"], each["value"]) for each in taints)
    return replace(
        node, node=structs.replace(record, labels={**record.labels, **labels}, taints=record.taints + more)
    )
