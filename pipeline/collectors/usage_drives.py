"""Usage of single drives from node_exporter, so that a quiet disk can be told from a busy one.

A drive is named by its device, ``sdc``, with its node where a pod has its namespace. Drives that carry others, and
partitions, are left out. Latency is the time that operations took, by their number.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from pipeline.collectors.usage import STACKED, Metric, gather
from pipeline.collectors.usage_nodes import check_labels, naming_node
from pipeline.ports import RangeQuery
from pipeline.records import Batch, Labels, Refusal, Window


def _rate(counter: str) -> str:
    return f'max by ($by) (rate({counter}{{$matchdevice!~"{STACKED}"}}[$step]))'


_OPERATIONS = f"({_rate('node_disk_reads_completed_total')} + {_rate('node_disk_writes_completed_total')})"
_WAITED = f"({_rate('node_disk_read_time_seconds_total')} + {_rate('node_disk_write_time_seconds_total')})"

METRICS: Mapping[str, Metric] = {
    "busy_ratio": Metric(f"clamp_max({_rate('node_disk_io_time_seconds_total')}, 1)"),
    "read_operations_per_s": Metric(_rate("node_disk_reads_completed_total")),
    "write_operations_per_s": Metric(_rate("node_disk_writes_completed_total")),
    "read_bytes_per_s": Metric(_rate("node_disk_read_bytes_total")),
    "write_bytes_per_s": Metric(_rate("node_disk_written_bytes_total")),
    "latency_s": Metric(f"{_WAITED} / ({_OPERATIONS} > 0)"),
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
    """Bring the usage of every drive in *window*, for the table ``usage`` with scope ``drive``.

    Its namespace is the node. Nodes are named as by `pipeline.collectors.usage_nodes`; every metric may be absent.
    """
    check_labels(node_labels)
    known = dict(addresses or {})
    names = frozenset(known.values())

    def naming(labels: Labels) -> tuple[str, str] | Refusal:
        found = naming_node(labels, node_labels, known, names)
        if isinstance(found, Refusal):
            return found
        device = labels.get("device", "").removeprefix("/dev/")
        return (found[1], device) if device else Refusal(f"drive usage series of {found[1]}", "no label device")

    by = (*node_labels, "device")
    return gather(query, window, step, "drive", METRICS, naming, queries=queries or {}, match=match, by=by)
