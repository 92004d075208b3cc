"""Nodes: specification, condition and hardware type of every node of the cluster."""

from datetime import datetime
from functools import partial

from pipeline.collectors.objects import read, table, text
from pipeline.columns import NODES
from pipeline.objects import node
from pipeline.objects.nodes import BANDWIDTH_LABEL, DISK_LABEL
from pipeline.ports import ListObjects
from pipeline.records import Batch, Node

PATH = "/api/v1/nodes"


def collect(
    list_objects: ListObjects,
    at: datetime,
    *,
    bandwidth_label: str = BANDWIDTH_LABEL,
    disk_label: str = DISK_LABEL,
) -> Batch:
    """List the nodes at *at*; raises `pipeline.errors.SourceError` where the list itself fails."""
    reader = partial(node, bandwidth_label=bandwidth_label, disk_label=disk_label)
    nodes, refused = read("nodes", list_objects(PATH).items, reader)
    return Batch("nodes", table(NODES, [row(each, at) for each in nodes]), refused=refused, watermark=at)


def row(each: Node, at: datetime) -> tuple[object, ...]:
    """One node in the order of `pipeline.columns.NODES`; cores, memory and pods are the allocatable ones."""
    return (
        each.name,
        each.uid,
        at,
        each.node_type,
        each.ready,
        each.schedulable,
        each.allocatable.get("cpu"),
        each.allocatable.get("memory"),
        each.allocatable.get("pods"),
        each.gpu_count,
        each.gpu_model,
        each.disk_type,
        each.network_bytes_per_s,
        text(each.labels),
        text(each.taints),
        text(each.addresses),
        text(each.conditions),
        text(each.capacity),
        text(each.allocatable),
        each.kernel,
    )
