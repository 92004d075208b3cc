"""Nodes: their facts, and the hardware type that makes two of them comparable."""

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from pipeline import quantity
from pipeline.errors import BadInput
from pipeline.objects import wire
from pipeline.records import Labels, Node, Taint

BANDWIDTH_LABEL = "colocation.internal/network-bandwidth"
DISK_LABEL = "disktype"

#: Labels that name a GPU's model, best first: device plugins, then clouds.
_GPU_MODEL_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "gpu.nvidia.com/model",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
)
_INSTANCE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_ARCHITECTURE_LABELS = ("kubernetes.io/arch", "beta.kubernetes.io/arch")
#: What Node Feature Discovery tells of the processor and the disks.
_HARDWARE_LABELS = (
    "feature.node.kubernetes.io/cpu-model.vendor_id",
    "feature.node.kubernetes.io/cpu-model.family",
    "feature.node.kubernetes.io/cpu-model.id",
    "feature.node.kubernetes.io/storage-nonrotationaldisk",
)
_DECODER = msgspec.json.Decoder(wire.WireNode)


def node(raw: bytes | msgspec.Raw, *, bandwidth_label: str = BANDWIDTH_LABEL, disk_label: str = DISK_LABEL) -> Node:
    """Read one node of a list or a watch event.

    *bandwidth_label* holds a quantity of bits per second, *disk_label* a word such as ``ssd``.
    """
    return _record(wire.decode(_DECODER, "node", raw), bandwidth_label, disk_label)


def node_of(
    mapping: Mapping[str, Any], *, bandwidth_label: str = BANDWIDTH_LABEL, disk_label: str = DISK_LABEL
) -> Node:
    """Read one node that is decoded already, as from YAML."""
    return _record(wire.convert(wire.WireNode, "node", mapping), bandwidth_label, disk_label)


def _record(given: wire.WireNode, bandwidth_label: str, disk_label: str) -> Node:
    meta = given.metadata or wire.Meta()
    spec = given.spec or wire.NodeSpec()
    status = given.status or wire.NodeStatus()
    if not meta.name:
        raise BadInput("node without a name: metadata.name is missing")
    labels = meta.labels or {}
    try:
        capacity = wire.amounts("status.capacity", status.capacity)
        # The API's own default: a node that does not say what pods may take gives all it has.
        stated = status.allocatable is not None
        allocatable = wire.amounts("status.allocatable", status.allocatable) if stated else capacity
        bandwidth = _bandwidth(labels, bandwidth_label)
    except BadInput as error:
        raise BadInput(f"node {meta.name}: {error}") from None
    conditions = {each.type: each.status or "Unknown" for each in status.conditions or () if each.type}
    addresses: dict[str, str] = {}
    for each in status.addresses or ():
        if each.type and each.address:
            addresses.setdefault(each.type, each.address)
    gpu_model = _first(labels, _GPU_MODEL_LABELS)
    disk_type = labels.get(disk_label, "")
    info = status.node_info or wire.NodeInfo()
    architecture = _first(labels, _ARCHITECTURE_LABELS) or info.architecture or ""
    return Node(
        name=meta.name,
        uid=meta.uid or "",
        node_type=_type(labels, capacity or allocatable, architecture, gpu_model, disk_type),
        labels=labels,
        taints=tuple(Taint(each.key, each.effect, each.value or "") for each in spec.taints or ()),
        addresses=addresses,
        conditions=conditions,
        capacity=capacity,
        allocatable=allocatable,
        schedulable=not spec.unschedulable,
        ready=conditions.get("Ready") == "True",
        gpu_count=_gpus(allocatable),
        gpu_model=gpu_model,
        disk_type=disk_type,
        network_bytes_per_s=bandwidth,
        kernel=info.kernel or None,
    )


def _bandwidth(labels: Labels, label: str) -> float | None:
    given = labels.get(label)
    return None if given is None else quantity.parse(f"metadata.labels[{label}]", given) / 8.0


def _first(labels: Labels, names: tuple[str, ...]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def _gpus(amounts: Mapping[str, float]) -> int:
    """GPUs of every vendor: ``nvidia.com/gpu``, ``amd.com/gpu``..."""
    return int(sum(amount for name, amount in amounts.items() if name.endswith("/gpu")))


def _type(labels: Labels, capacity: Mapping[str, float], architecture: str, gpu_model: str, disk_type: str) -> str:
    """Ten hex digits that are equal for nodes of equal hardware.

    Made of: CPU count, nominal memory, architecture, instance type, GPUs and their model, disk type, and what Node
    Feature Discovery says of processor and disks. Not of names, addresses, versions or kernel. Capacity counts, not
    allocatable: what is reserved for the system is a setting, not hardware.
    """
    facts = {
        "architecture": architecture,
        "cpu": f"{capacity.get('cpu', 0.0):g}",
        "disk": disk_type,
        "gpu": f"{_gpus(capacity)} {gpu_model}",
        "instance": _first(labels, _INSTANCE_LABELS),
        "memory": f"{_nominal(capacity.get('memory', 0.0)):g}",
        **{name: labels[name] for name in _HARDWARE_LABELS if labels.get(name)},
    }
    return hashlib.sha256(msgspec.json.encode(facts, order="sorted")).hexdigest()[:10]


def _nominal(memory: float) -> float:
    """Round up to a quarter of the power of two below: 8, 10, 12, 14, 16, 20, ... GiB.

    Firmware and kernel keep some of a machine's memory back, more or less of it from boot to boot and release to
    release; 15.4 and 15.7 GiB are both what is left of 16.
    """
    if memory <= 0:
        return 0.0
    step: float = 2.0 ** (math.floor(math.log2(memory)) - 2)
    return math.ceil(memory / step) * step
