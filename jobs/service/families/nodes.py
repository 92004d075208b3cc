"""Nodes as last listed: what they have, what is used of it, how many activations run there.

Rendered once a snapshot, since 5,000 nodes are too many lines to make for every scrape.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from prometheus_client.metrics_core import Metric

from featurestore.snapshot import Snapshot, rows
from jobs.service.families.counted import gauge, gauges

_BY = ("cluster", "node")
#: Nodes of one part.
_PART: Final = 250
_FACTS = (
    ("cpu_used_cores", "colocation_node_cpu_used_cores", "CPU cores in use on the node when last measured"),
    ("cpu_cores", "colocation_node_cpu_allocatable_cores", "CPU cores that pods can request on the node"),
    ("memory_used_bytes", "colocation_node_memory_used_bytes", "Memory working set on the node when last measured"),
    ("memory_bytes", "colocation_node_memory_allocatable_bytes", "Memory that pods can request on the node"),
)


def nodes(snapshot: Snapshot) -> Iterator[Metric]:
    """Yield use and size of each node of *snapshot*, its running activations, and the nodes by type and state.

    Use and size come in parts of their families, so that nobody holds samples of all nodes at once.
    """
    known = snapshot["nodes"]
    for fact in _FACTS:
        for first in range(0, max(1, len(known)), _PART):
            yield from gauges([fact], _BY, list(rows(known.slice(first, _PART), [*_BY, fact[0]])))
    yield running(snapshot)
    told = rows(known, ["cluster", "node_type", "ready", "schedulable"])
    yield counted(Counter((row["cluster"], row["node_type"] or "", state(row)) for row in told))


def running(snapshot: Snapshot) -> Metric:
    """Return how many activations of any function run at once on each node."""
    summed = rows(snapshot["busyness"].group_by([*_BY]).aggregate([("running", "sum")]))
    found: dict[tuple[str, ...], float] = {(row["cluster"], row["node"]): row["running_sum"] for row in summed}
    return gauge(
        "colocation_node_running_activations",
        "Activations running at once on the node, mean of the last hour that was learned from",
        _BY,
        found,
    )


def counted(states: Mapping[tuple[str, ...], float]) -> Metric:
    """Return the number of nodes by cluster, type and `state`."""
    return gauge("colocation_nodes", "Nodes by type and state", ("cluster", "node_type", "state"), states)


def load(known: Iterable[Mapping[str, Any]]) -> Iterator[Metric]:
    """Yield use and size of the nodes of *known*; a node without a measurement has no sample."""
    yield from gauges(_FACTS, _BY, list(known))


def state(row: Mapping[str, Any]) -> str:
    """Name the state of a node by its columns *ready* and *schedulable*."""
    return "not_ready" if not row["ready"] else "ready" if row["schedulable"] else "unschedulable"
