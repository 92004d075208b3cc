"""Jobs and nodes as they come: from files, and from a cluster's API."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
from msgspec import structs

from jobs import documents
from pipeline import objects
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.errors import NOT_JSON, BadInput
from pipeline.objects import wire
from rules.hosts import job as jobs
from rules.hosts import keys
from rules.hosts.cluster import HostNode, StreamPod
from rules.hosts.model import Job

NODES: Final = "/api/v1/nodes"
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Seen:
    """The nodes and the pods of stream jobs of one cluster; *raw* are the nodes as the server gave them, by name."""

    nodes: tuple[HostNode, ...]
    pods: tuple[StreamPod, ...] = ()
    raw: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def job_of(file: Path, text: str | None = None) -> tuple[Job, Any]:
    """Read the one job of *file* (or of *text*); returns it and its document."""
    found = documents.read(file) if text is None else documents.parse(file, text)
    if len(found) != 1:
        raise BadInput(f"{file}: holds {len(found)} documents where one job should be")
    return jobs.read(found[0], str(file)), found[0]


def nodes_of(file: Path) -> Seen:
    """Read nodes, and pods beside them, from a file: lists, single objects, several documents."""
    return seen(opened(documents.read(file)), str(file))


def seen(found: Iterable[Mapping[str, Any]], where: str) -> Seen:
    """Read nodes and pods that are decoded already; raises `BadInput` naming *where* and the odd object."""
    nodes: list[HostNode] = []
    pods: list[StreamPod] = []
    try:
        for each in found:
            if _is_pod(each):
                pods += _pod(each)
            else:
                nodes.append(_node(each))
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None
    counts = Counter(each.node.name for each in nodes)
    if twice := next((name for name, count in counts.items() if count > 1), None):
        raise BadInput(f"{where}: node {twice} stands twice")
    return Seen(tuple(nodes), tuple(pods))


def live(client: KubernetesClient) -> Seen:
    """Read nodes and the pods of stream jobs from the API server; one odd object costs only itself."""
    nodes: list[HostNode] = []
    raw: dict[str, Mapping[str, Any]] = {}
    for given in _decoded(client.list(NODES).items):
        try:
            node = _node(given)
        except BadInput as error:
            _log.warning("node left out", error=str(error))
            continue
        nodes.append(node)
        raw[node.node.name] = given
    pods = [
        pod for given in _decoded(client.list("/api/v1/pods", label_selector=keys.JOB).items) for pod in _pod(given)
    ]
    return Seen(tuple(nodes), tuple(pods), raw)


def opened(found: Iterable[object]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of lists, and single ones; raises `BadInput` at what is none."""
    for each in found:
        if isinstance(each, list):
            yield from opened(each)
        elif not isinstance(each, Mapping):
            raise BadInput(f"a {type(each).__name__} where a Kubernetes object should be")
        elif isinstance(each.get("items"), list):
            yield from opened(each["items"])
        elif each.get("kind") in (None, "Node", "Pod"):
            yield each
        else:
            raise BadInput(f"kind {each['kind']}: is no Node")


def _decoded(raws: Iterable[msgspec.Raw]) -> Iterator[Mapping[str, Any]]:
    for raw in raws:
        try:
            yield msgspec.json.decode(raw)
        except NOT_JSON:
            _log.warning("object left out: no JSON")


def _node(given: Mapping[str, Any]) -> HostNode:
    """Read a node; one that says nothing of being Ready is taken to be."""
    record = objects.node_of(given)
    if "Ready" not in record.conditions:
        record = structs.replace(record, ready=True)
    whole = wire.convert(wire.WireNode, "node", given)
    status, meta = whole.status or wire.NodeStatus(), whole.metadata or wire.Meta()
    addresses = tuple(each.address for each in status.addresses or () if each.address)
    return HostNode(record, addresses, wire.utc(meta.creation_timestamp))


def _is_pod(given: Mapping[str, Any]) -> bool:
    spec = given.get("spec")
    return given.get("kind") == "Pod" or (
        given.get("kind") is None and isinstance(spec, Mapping) and "containers" in spec
    )


def _pod(given: Mapping[str, Any]) -> Iterator[StreamPod]:
    """Yield the pod if it is of a stream job, has a node and has not ended."""
    pod = objects.pod_of(given)
    if keys.JOB in pod.labels and pod.node and not pod.terminal:
        yield StreamPod(pod.labels[keys.JOB], pod.namespace or "default", pod.node, pod.labels, pod.apart)
