"""Usage of nodes from node_exporter; a node is named by a label, else by the address that was scraped.

CPU in use is neither idle nor waiting for a disk, nor given to another machine (steal). Interfaces and block devices
that carry what another carries too are left out, since the kernel counts such bytes at each of them.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta

from pipeline.collectors.usage import STACKED, VIRTUAL, Metric, gather
from pipeline.errors import BadInput
from pipeline.ports import RangeQuery
from pipeline.records import Batch, Labels, Refusal, Window


def _rate(counter: str, labels: str, matcher: str) -> Metric:
    """The growth of *counter* by node, each combination of *labels* once however many jobs scrape it."""
    return Metric(f"sum by ($by) (max by ($by, {labels}) (rate({counter}{{$match{matcher}}}[$step])))")


def _mean(gauge: str) -> str:
    return f"max by ($by) (avg_over_time({gauge}{{$match}}[$step]))"


def _pressure(counter: str) -> Metric:
    return Metric(f"max by ($by) (rate({counter}{{$match}}[$step]))")


#: Kernels before 3.14 know no MemAvailable; then what is free or only cached stands for it.
_AVAILABLE = (
    f"({_mean('node_memory_MemAvailable_bytes')} or ({_mean('node_memory_MemFree_bytes')}"
    f" + {_mean('node_memory_Buffers_bytes')} + {_mean('node_memory_Cached_bytes')}))"
)

METRICS: Mapping[str, Metric] = {
    "cpu_cores": Metric(_rate("node_cpu_seconds_total", "cpu, mode", 'mode!~"idle|iowait|steal"').promql, base=True),
    "memory_bytes": Metric(f"{_mean('node_memory_MemTotal_bytes')} - {_AVAILABLE}", base=True),
    "network_receive_bytes_per_s": _rate("node_network_receive_bytes_total", "device", f'device!~"{VIRTUAL}"'),
    "network_transmit_bytes_per_s": _rate("node_network_transmit_bytes_total", "device", f'device!~"{VIRTUAL}"'),
    "disk_read_bytes_per_s": _rate("node_disk_read_bytes_total", "device", f'device!~"{STACKED}"'),
    "disk_write_bytes_per_s": _rate("node_disk_written_bytes_total", "device", f'device!~"{STACKED}"'),
    "cpu_pressure": _pressure("node_pressure_cpu_waiting_seconds_total"),
    "memory_pressure": _pressure("node_pressure_memory_waiting_seconds_total"),
    "io_pressure": _pressure("node_pressure_io_waiting_seconds_total"),
    # An interface that is down, or does not know its speed, says zero or less.
    "network_speed_bytes_per_s": Metric(
        f'sum by ($by) (max by ($by, device) (node_network_speed_bytes{{$matchdevice!~"{VIRTUAL}"}} > 0))'
    ),
}


def collect(
    query: RangeQuery,
    window: Window,
    *,
    step: timedelta = timedelta(minutes=5),
    queries: Mapping[str, str] | None = None,
    match: str = "",
    addresses: Mapping[str, str] | None = None,
    node_labels: Sequence[str] = ("node", "kubernetes_node", "instance"),
) -> Batch:
    """Bring the usage of every node in *window*, for the table ``usage`` with scope ``node``.

    The first of *node_labels* that a series has names its node: by the node's own name or, with a port or without,
    by an address of *addresses* (address to node name). Where addresses are known, what names none of their nodes is
    refused; else the name stands as it is. *match* is what all series of this cluster have, such as
    ``cluster="c1"``. See `gather` for errors; all but CPU and memory may be absent.
    """
    check_labels(node_labels)
    known = dict(addresses or {})
    names = frozenset(known.values())

    def naming(labels: Labels) -> tuple[str, str] | Refusal:
        return naming_node(labels, node_labels, known, names)

    return gather(query, window, step, "node", METRICS, naming, queries=queries or {}, match=match, by=node_labels)


def check_labels(node_labels: Sequence[str]) -> None:
    """Raise `BadInput` for what is no name of a label."""
    for label in node_labels:
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", label):
            raise BadInput(f"prometheus.node_label: {label!r} is no label name")


def naming_node(
    labels: Labels, node_labels: Sequence[str], addresses: Mapping[str, str], names: frozenset[str]
) -> tuple[str, str] | Refusal:
    """Return "" and the name of the node that a series is about, or why that cannot be told."""
    given = next((labels[label] for label in node_labels if labels.get(label)), "")
    if not given:
        return Refusal("node usage series", f"none of the labels {', '.join(node_labels)}")
    host = _host(given)
    for name in (given, host):
        if name in names:
            return "", name
        if name in addresses:
            return "", addresses[name]
    if addresses:
        return Refusal(f"node usage series of {given}", "names no known node and no address of one")
    return "", host


def _host(instance: str) -> str:
    """Strip the port: ``n1:9100``, ``10.0.0.1:9100`` and ``[fd00::1]:9100``, but not the end of ``fd00::1``."""
    bracketed = re.fullmatch(r"\[([^\]]+)\](?::\d+)?", instance)
    if bracketed:
        return bracketed[1]
    return instance.rpartition(":")[0] if instance.count(":") == 1 else instance
