"""The clusters that intents are placed on: the usable nodes of all of them in flat columns, cluster after cluster.

Free is what is allocatable less what pods that have not ended requested, in whole millicores, bytes and items. A node
that is not Ready, cordoned, or tainted against pods in general is not there at all: consumers state no tolerations.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from featurestore.snapshot import Snapshot
from pipeline.records import Node, Pod, Taint
from rules.candidates import Mask
from rules.nodes import Nodes
from rules.running import units
from rules.tables import other_requests

Whole = npt.NDArray[np.int64]
Index = npt.NDArray[np.intp]

#: Of a node that does not say how many pods it takes.
_ANY: Final = 2**31
#: More than any intent can ask for (`amounts`); what nodes and pods claim beyond it counts as this much.
_MOST: Final = 2.0**53
_KEEPING_OUT: Final = ("NoSchedule", "NoExecute")
_LABELS: Final = msgspec.json.Decoder(dict[str, str])
_AMOUNTS: Final = msgspec.json.Decoder(dict[str, float])
_TAINTS: Final = msgspec.json.Decoder(tuple[Taint, ...])


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """*clusters* in order of their names; *cluster_of* is the number of each node's, ascending.

    *free* holds int64 by resource name, 0 where a node has none of it; ``pods`` counts what more a node takes. *has*
    says which nodes carry a label with a value.
    """

    clusters: tuple[str, ...]
    cluster_of: Index
    free: Mapping[str, Whole]
    has: Callable[[str, str], Mask]
    first: Index = field(init=False)
    there: Index = field(init=False)

    def __post_init__(self) -> None:
        """Note where the nodes of each cluster begin, of those that have any."""
        first = np.flatnonzero(np.diff(self.cluster_of, prepend=-1))
        object.__setattr__(self, "first", first)
        object.__setattr__(self, "there", self.cluster_of[first])

    def __len__(self) -> int:
        return len(self.clusters)

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self.cluster_of)

    def amount(self, resource: str) -> Whole:
        """Return what is free of *resource* on each node."""
        found = self.free.get(resource)
        return np.zeros(self.nodes, dtype=np.int64) if found is None else found

    def sums(self, values: Whole | Mask | npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:
        """Add up a number of each node over the clusters."""
        sums = np.zeros(len(self))
        if len(self.first):
            sums[self.there] = np.add.reduceat(values, self.first, dtype=np.int64)
        return sums


def of_records(clusters: Mapping[str, tuple[Iterable[Node], Iterable[Pod]]]) -> Fleet:
    """Make the fleet of the nodes and pods of each cluster; a node that says nothing of Ready is taken to be so."""
    names = tuple(sorted(clusters))
    listed: list[tuple[int, Node, dict[str, float]]] = []
    for number, name in enumerate(names):
        nodes, pods = clusters[name]
        held: dict[str, dict[str, float]] = {}
        for pod in pods:
            if pod.node and not pod.terminal:
                on = held.setdefault(pod.node, {"pods": 0.0})
                on["pods"] += 1
                for resource, amount in pod.requests.items():
                    on[resource] = on.get(resource, 0.0) + units(resource, amount)
        listed += [(number, node, held.get(node.name, {})) for node in nodes if _usable(node)]
    resources = sorted({name for _, node, _ in listed for name in node.allocatable} | {"pods"})
    free = {name: np.array([_free(node, held, name) for _, node, held in listed], np.int64) for name in resources}
    labels = [node.labels for _, node, _ in listed]
    return Fleet(names, np.array([number for number, _, _ in listed], dtype=np.intp), free, _having(labels))


def _usable(node: Node) -> bool:
    ready = node.ready or "Ready" not in node.conditions
    return ready and node.schedulable and not any(taint.effect in _KEEPING_OUT for taint in node.taints)


def _free(node: Node, held: Mapping[str, float], resource: str) -> int:
    if resource == "pods" and resource not in node.allocatable:
        return _ANY
    there = node.allocatable.get(resource, 0.0)
    return max(0, _whole(resource, there) - int(min(held.get(resource, 0.0), _MOST)))


def _whole(resource: str, amount: float) -> int:
    """Round what a node has down, but for the dust of binary fractions."""
    return int(min((amount * 1000.0 if resource == "cpu" else amount) + 1e-6, _MOST))


def of_view(cluster: str, nodes: Nodes) -> Fleet:
    """Make the fleet of one cluster out of a view's *nodes*."""
    clean = np.array([not any(taint.effect in _KEEPING_OUT for taint in taints) for taints in nodes.taints])
    usable = nodes.ready & nodes.schedulable
    if len(clean):
        usable &= clean[nodes.taint_of]
    rows = np.flatnonzero(usable)
    free = {
        name: np.clip(np.floor((amount[rows] * 1000.0 if name == "cpu" else amount[rows]) + 1e-6), 0.0, _MOST).astype(
            np.int64
        )
        for name, amount in nodes.free.items()
    }
    free.setdefault("pods", np.full(len(rows), _ANY, dtype=np.int64))

    def has(key: str, value: str) -> Mask:
        column = nodes.labels.get(key)
        return np.zeros(len(rows), dtype=np.bool_) if column is None else column.holds((value,))[rows]

    return Fleet((cluster,), np.zeros(len(rows), dtype=np.intp), free, has)


def of_snapshot(snapshot: Snapshot, clusters: Iterable[str] = ()) -> Fleet:
    """Make the fleet of what the snapshot last saw.

    *clusters* adds clusters of which nothing is known.
    """
    table = snapshot["nodes"]
    names = tuple(
        sorted({*snapshot.clusters, *pc.unique(table["cluster"].cast(pa.string())).to_pylist(), *(clusters or ())})
    )
    taints, taint_of = _distinct(table["taints"])
    clean = np.array([not any(t.effect in _KEEPING_OUT for t in _TAINTS.decode(each or "[]")) for each in taints])
    usable = _flags(table["ready"]) & _flags(table["schedulable"])
    if len(clean):
        usable &= clean[taint_of]
    index = {name: number for number, name in enumerate(names)}
    cluster_names, cluster_of = _distinct(table["cluster"])
    number_of = np.array([index[name] for name in cluster_names], dtype=np.intp)
    cluster_of = number_of[cluster_of] if len(number_of) else cluster_of.astype(np.intp)
    rows = np.flatnonzero(usable)
    rows = rows[np.argsort(cluster_of[rows], kind="stable")]
    written, amount_of = _distinct(table["allocatable"])
    amounts = [_AMOUNTS.decode(each or "{}") for each in written]
    held = _held(snapshot, table)
    free: dict[str, Whole] = {}
    for name in sorted({name for each in amounts for name in each} | {"pods"}):
        otherwise = float(_ANY) if name == "pods" else 0.0
        there = np.array([_whole(name, each.get(name, otherwise)) for each in amounts], dtype=np.int64)
        there = there[amount_of[rows]] if len(there) else np.zeros(0, dtype=np.int64)
        free[name] = np.maximum(0, there - held[name][rows]) if name in held else there
    labels = table["labels"].take(pa.array(rows))
    return Fleet(names, cluster_of[rows], free, _having(_Lazy(labels)))


def part(fleet: Fleet, clusters: Index) -> tuple[Fleet, Index]:
    """Return the fleet of some clusters, and the numbers of its nodes in the whole one."""
    number = np.full(len(fleet), -1, dtype=np.intp)
    number[clusters] = np.arange(len(clusters))
    rows = np.flatnonzero(number[fleet.cluster_of] >= 0)
    free = {name: amount[rows] for name, amount in fleet.free.items()}
    names = tuple(fleet.clusters[each] for each in clusters.tolist())
    return Fleet(names, number[fleet.cluster_of[rows]], free, lambda key, value: fleet.has(key, value)[rows]), rows


def _held(snapshot: Snapshot, nodes: pa.Table) -> dict[str, Whole]:
    """Return for each row of *nodes* what pods there requested."""
    placed = snapshot["placements"]
    ended = pc.is_in(pc.fill_null(placed["phase"].cast(pa.string()), ""), pa.array(["Succeeded", "Failed"]))
    placed = placed.filter(pc.invert(ended))
    keys = _keys(nodes)
    index = {key: row for row, key in enumerate(keys.to_pylist())}
    distinct, of = _distinct(_keys(placed))
    row_of = np.array([index.get(key, -1) for key in distinct], dtype=np.intp)
    of_row = row_of[of] if len(row_of) else np.zeros(0, dtype=np.intp)
    known = of_row >= 0
    found = {"pods": np.bincount(of_row[known], minlength=len(nodes)).astype(np.int64)}
    for name, column, scale in (("cpu", "cpu_request_cores", 1000.0), ("memory", "memory_request_bytes", 1.0)):
        asked = np.ceil(np.nan_to_num(placed[column].to_numpy()) * scale - 1e-6)
        found[name] = np.minimum(np.bincount(of_row[known], asked[known], len(nodes)), _MOST).astype(np.int64)
    for name, (rows, amount) in other_requests(placed["other_requests"]).items():
        at, there = of_row[rows], known[rows]
        found[name] = np.minimum(np.bincount(at[there], amount[there], len(nodes)), _MOST).astype(np.int64)
    return found


def _keys(table: pa.Table) -> pa.ChunkedArray:
    """Name nodes of many clusters by cluster and node; no name of either holds a line's end."""
    return pc.binary_join_element_wise(table["cluster"].cast(pa.string()), table["node"].cast(pa.string()), "\n")


def _distinct(column: pa.ChunkedArray) -> tuple[list[str], Index]:
    encoded = pc.fill_null(column.cast(pa.string()), "").combine_chunks().dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.intp)


def _flags(column: pa.ChunkedArray) -> Mask:
    flags: Mask = pc.fill_null(column, False).to_numpy().astype(np.bool_)
    return flags


class _Lazy:
    """Labels that are read when the first is asked for."""

    def __init__(self, written: pa.ChunkedArray) -> None:
        self._written = written
        self._read: list[dict[str, str]] | None = None

    def __call__(self) -> Sequence[Mapping[str, str]]:
        if self._read is None:
            self._read = [_LABELS.decode(each or "{}") for each in self._written.to_pylist()]
        return self._read


def _having(labels: Sequence[Mapping[str, str]] | _Lazy) -> Callable[[str, str], Mask]:
    known: dict[str, tuple[dict[str | None, int], npt.NDArray[np.int32]]] = {}

    def has(key: str, value: str) -> Mask:
        if key not in known:
            read = labels() if isinstance(labels, _Lazy) else labels
            numbers: dict[str | None, int] = {}
            codes = [numbers.setdefault(each.get(key), len(numbers)) for each in read]
            known[key] = (numbers, np.array(codes, dtype=np.int32))
        numbers, column = known[key]
        return np.equal(column, numbers.get(value, -1))

    return has
