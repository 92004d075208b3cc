"""The nodes of a view as columns: what they are, what is free on them, and who may run there."""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from pipeline.lookup import Numbered, Share, alone
from pipeline.records import Node, Taint
from rules.candidates import Ids, Mask
from rules.memo import Memo
from rules.running import Held, amounts, counted

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LabelColumn:
    """One label key: its values, and for each node the number of its value, -1 without the label."""

    values: Sequence[str]
    index: Mapping[str, int]
    codes: Ids

    def holds(self, values: Iterable[str]) -> Mask:
        """Return which nodes carry one of *values*."""
        wanted = [self.index[value] for value in set(values) if value in self.index]
        if len(wanted) == 1:
            return np.equal(self.codes, wanted[0])
        return np.isin(self.codes, wanted)


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Columns over the nodes of one cluster, all of length n and in the order of *names*.

    *type_of* indexes *types*. *allocatable* and *free* hold cores, bytes and counts by Kubernetes resource name (a
    node without the resource has 0). *taints* lists the distinct sets of taints, *taint_of* indexes it. *load* is the
    larger used fraction of CPU and memory, NaN where no recent use is known. *labels_lower* maps a lower-case key to
    the keys as they are spelled. *memo* keeps what follows from everything but *free*, which alone changes often.
    """

    names: Sequence[str]
    index: Numbered
    types: tuple[str, ...]
    type_of: Ids
    ready: Mask
    schedulable: Mask
    allocatable: Mapping[str, Floats]
    free: Mapping[str, Floats]
    taints: tuple[tuple[Taint, ...], ...]
    taint_of: Ids
    load: Floats
    labels: Mapping[str, LabelColumn]
    labels_lower: Mapping[str, tuple[str, ...]]
    memo: Memo = field(default_factory=Memo)

    def __len__(self) -> int:
        return len(self.names)

    def domains(self, topology_key: str) -> Ids:
        """Return for each node the number of its topology domain, -1 for a node that lacks the key.

        Nodes that do not carry ``kubernetes.io/hostname`` stand each for itself.
        """
        column = self.labels.get(topology_key)
        codes = np.full(len(self), -1, dtype=np.int32) if column is None else column.codes
        if topology_key == "kubernetes.io/hostname":
            lacking = codes < 0
            codes = np.where(lacking, len(self) + np.arange(len(self), dtype=np.int32), codes)
        return codes

    def within(self, topology_key: str, there: Mask) -> Mask:
        """Return the nodes of the topology domains that hold one of the nodes *there*, which have a domain."""
        domains = self.domains(topology_key)
        known = domains >= 0
        occupied = np.bincount(domains[known], there[known], int(domains.max(initial=-1)) + 1) > 0
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[known] = occupied[domains[known]]
        return mask

    def label(self, key: str, node: int) -> str | None:
        """Return the value of label *key* on node number *node*."""
        column = self.labels.get(key)
        code = -1 if column is None else int(column.codes[node])
        return None if column is None or code < 0 else column.values[code]


def with_held(nodes: Nodes, held: Held) -> Nodes:
    """Return *nodes* with what is free on them when pods have requested *held*."""
    free = dict(nodes.allocatable)
    for name in free.keys() & held.requests.keys():
        free[name] = amounts(name, counted(name, nodes.allocatable[name]) - held.requests[name])
    if "pods" in free:
        free["pods"] = nodes.allocatable["pods"] - held.pods
    for amount in free.values():
        amount.setflags(write=False)
    return replace(nodes, free=MappingProxyType(free))


def columns(
    nodes: Iterable[Node],
    used: Mapping[str, tuple[float, float]],
    names: Sequence[str] | None = None,
    share: Share = alone,
) -> Nodes:
    """Lay *nodes* out as columns in their order, all of their allocatable amounts free.

    *used* gives the cores and bytes in use by node name, *names* all names where they are kept already. Each node is
    looked at once, and may be gone then.
    """
    laid = _Laid([] if names is None else names)
    for node in nodes:
        laid.add(node, used.get(node.name))
    allocatable = {
        name: share(f"nodes.allocatable.{name}", np.array(laid.amounts[name])) for name in sorted(laid.amounts)
    }
    for column in allocatable.values():
        column.setflags(write=False)
    lower: dict[str, list[str]] = {}
    for key in sorted(laid.labels):
        lower.setdefault(key.lower(), []).append(key)
    index = Numbered(tuple(laid.names) if names is None else names).shared(share, "nodes")
    return Nodes(
        names=index.names,
        index=index,
        types=tuple(laid.types),
        type_of=share("nodes.type_of", np.array(laid.type_of, dtype=np.int32)),
        ready=np.array(laid.ready, dtype=np.bool_),
        schedulable=np.array(laid.schedulable, dtype=np.bool_),
        allocatable=MappingProxyType(allocatable),
        free=MappingProxyType(allocatable),
        taints=tuple(laid.taints),
        taint_of=np.array(laid.taint_of, dtype=np.int32),
        load=share("nodes.load", np.array(laid.load)),
        labels=MappingProxyType(
            {key: each.column(index, partial(share, f"nodes.labels.{key}")) for key, each in laid.labels.items()}
        ),
        labels_lower=MappingProxyType({key: tuple(spelled) for key, spelled in lower.items()}),
    )


@dataclass(slots=True)
class _Laid:
    """Columns as far as nodes were added: only what stays is kept, so that no two nodes are in memory at once."""

    names: Sequence[str]
    types: dict[str, int] = field(default_factory=dict)
    type_of: "array[int]" = field(default_factory=lambda: array("i"))
    ready: "array[int]" = field(default_factory=lambda: array("b"))
    schedulable: "array[int]" = field(default_factory=lambda: array("b"))
    amounts: "dict[str, array[float]]" = field(default_factory=dict)
    taints: dict[tuple[Taint, ...], int] = field(default_factory=dict)
    taint_of: "array[int]" = field(default_factory=lambda: array("i"))
    load: "array[float]" = field(default_factory=lambda: array("d"))
    labels: dict[str, "_Labels"] = field(default_factory=dict)

    def add(self, node: Node, used: tuple[float, float] | None) -> None:
        """Add *node*, of which so many cores and bytes are in *use*."""
        number = len(self.type_of)
        if isinstance(self.names, list):
            self.names.append(node.name)
        self.type_of.append(self.types.setdefault(node.node_type, len(self.types)))
        self.ready.append(node.ready)
        self.schedulable.append(node.schedulable)
        self.taint_of.append(self.taints.setdefault(node.taints, len(self.taints)))
        self.load.append(_load(node, used))
        for name in node.allocatable.keys() - self.amounts.keys():
            self.amounts[name] = array("d", bytes(8 * number))
        for name, column in self.amounts.items():
            column.append(node.allocatable.get(name, 0.0))
        for key, value in node.labels.items():
            label = self.labels.get(key)
            if label is None:
                label = self.labels[key] = _Labels()
            if label.index is None and value != node.name:
                label.index = {self.names[row]: code for code, row in enumerate(label.rows)}
            label.codes.append(
                len(label.rows) if label.index is None else label.index.setdefault(value, len(label.index))
            )
            label.rows.append(number)


@dataclass(slots=True)
class _Labels:
    """The nodes that carry one label, and the codes of its values there.

    *index* is None as long as each has its own name for it, which nobody needs to keep twice.
    """

    index: dict[str, int] | None = None
    rows: "array[int]" = field(default_factory=lambda: array("i"))
    codes: "array[int]" = field(default_factory=lambda: array("i"))

    def column(self, nodes: Numbered, share: Callable[[Ids], Ids]) -> LabelColumn:
        """Return the column over *nodes*."""
        column = np.full(len(nodes), -1, dtype=np.int32)
        column[np.array(self.rows, dtype=np.int64)] = self.codes
        column.setflags(write=False)
        if self.index is None and len(self.rows) == len(nodes):
            return LabelColumn(nodes.names, nodes, share(column))
        index = {nodes.names[row]: code for code, row in enumerate(self.rows)} if self.index is None else self.index
        return LabelColumn(tuple(index), MappingProxyType(index), share(column))


def _load(node: Node, used: tuple[float, float] | None) -> float:
    load = float("nan")
    for amount, name in zip(used or (), ("cpu", "memory"), strict=False):
        whole = node.allocatable.get(name, 0.0)
        if whole > 0 and amount == amount:
            load = float(np.fmax(load, amount / whole))
    return load
