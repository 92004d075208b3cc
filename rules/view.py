"""The view that every rule reads: columns of the snapshot, of the live cluster and of one's own recent decisions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

import msgspec
import pyarrow as pa

from featurestore.snapshot import Snapshot
from pipeline.mangling import Index
from pipeline.records import Node, Pod, Workflow
from rules import running as live
from rules import tables
from rules.functions import Functions, Latencies, Pairs
from rules.nodes import Nodes, columns
from rules.running import Reservation, Running

__all__ = ["Reservation", "Services", "View", "prepare"]

Services = Mapping[tuple[str, str], Mapping[str, str]]
_WORKFLOW = msgspec.json.Decoder(Workflow)


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """Everything that a decision looks at, frozen at *at*; *created* and *version* are the snapshot's."""

    cluster: str
    version: str
    created: datetime
    at: datetime
    nodes: Nodes
    functions: Functions
    running: Running
    pairs: Pairs
    latencies: Latencies
    workflows: Mapping[tuple[str, str], Workflow]
    services: Services


def prepare(
    snapshot: Snapshot,
    cluster: str,
    at: datetime,
    *,
    nodes: Sequence[Node] | None = None,
    pods: Sequence[Pod] | None = None,
    reservations: Sequence[Reservation] = (),
    services: Services = MappingProxyType({}),
    function_labels: tuple[str, str] = ("openwhisk/namespace", "openwhisk/action"),
    label_prefix: str = "colocation.internal",
) -> View:
    """Make the view of *cluster* at *at*; without live *nodes* or *pods* those that the snapshot last saw.

    *services* maps (namespace, name) to the selector of a Service. A reservation counts until a pod that carries its
    decision has a node. A pair's slowdown is per activation that runs all the time, so a function's pods weigh by how
    busy they are: by what was measured on the node, else like its other pods, else as always busy; where busyness is
    measured and the function was not seen at all, as `running.IDLE`.
    """
    learned = tables.of_cluster(snapshot, cluster)
    listed = tables.nodes(learned["nodes"]) if nodes is None else nodes
    workflows = _workflows(learned["workflows"])
    known = tables.function_names(learned)
    seen = (
        tables.placed(learned["placements"])
        if pods is None
        else live.seen(pods, Index(known), known, function_labels, label_prefix)
    )
    seen = seen.with_reservations(reservations)
    functions = tables.functions(learned["functions"], known | {name for name in seen.functions if name}, workflows)
    node_index = {node.name: number for number, node in enumerate(listed)}
    held, count = seen.held(node_index)
    columned = columns(listed, tables.used(learned["nodes"]), held, count)
    return View(
        cluster=cluster,
        version=snapshot.version,
        created=snapshot.created,
        at=at,
        nodes=columned,
        functions=functions,
        running=live.entries(seen, columned, functions.index, tables.busyness(learned["busyness"])),
        pairs=tables.pairs(learned["pairs"], functions.index, columned.types),
        latencies=tables.latencies(learned["latencies"], functions.index, columned),
        workflows=workflows,
        services=services,
    )


def _workflows(table: pa.Table) -> Mapping[tuple[str, str], Workflow]:
    found = (_WORKFLOW.decode(document) for document in table["document"].to_pylist())
    return MappingProxyType({(each.namespace, each.name): each for each in found})
