"""The nodes of a view as columns: what they are, what is free on them, and who may run there."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from pipeline.records import Node, Taint
from rules.candidates import Ids, Mask
from rules.memo import Memo
from rules.running import Held, amounts, counted

Floats = npt.NDArray[np.float64]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, eq=False)
class LabelColumn:
    """One label key: its values, and for each node the number of its value, -1 without the label."""

    values: tuple[str, ...]
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

    names: tuple[str, ...]
    index: Mapping[str, int]
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
    for array in free.values():
        array.setflags(write=False)
    return replace(nodes, free=MappingProxyType(free))


def columns(nodes: Sequence[Node], used: Mapping[str, tuple[float, float]]) -> Nodes:
    """Lay *nodes* out as columns, all of their allocatable amounts free.

    *used* gives the cores and bytes in use by node name.
    """
    size = len(nodes)
    resources = sorted({name for node in nodes for name in node.allocatable})
    allocatable = {
        name: np.fromiter((node.allocatable.get(name, 0.0) for node in nodes), np.float64, size) for name in resources
    }
    types, type_of = _interned(node.node_type for node in nodes)
    taints, taint_of = _interned(node.taints for node in nodes)
    labels = _labels(nodes)
    lower: dict[str, list[str]] = {}
    for key in sorted(labels):
        lower.setdefault(key.lower(), []).append(key)
    for array in allocatable.values():
        array.setflags(write=False)
    return Nodes(
        names=tuple(node.name for node in nodes),
        index=MappingProxyType({node.name: number for number, node in enumerate(nodes)}),
        types=types,
        type_of=type_of,
        ready=np.fromiter((node.ready for node in nodes), np.bool_, size),
        schedulable=np.fromiter((node.schedulable for node in nodes), np.bool_, size),
        allocatable=MappingProxyType(allocatable),
        free=MappingProxyType(allocatable),
        taints=taints,
        taint_of=taint_of,
        load=_load(nodes, used),
        labels=MappingProxyType(labels),
        labels_lower=MappingProxyType({key: tuple(spelled) for key, spelled in lower.items()}),
    )


def _interned(values: Iterable[_T]) -> tuple[tuple[_T, ...], Ids]:
    index: dict[_T, int] = {}
    codes = [index.setdefault(value, len(index)) for value in values]
    return tuple(index), np.array(codes, dtype=np.int32)


def _labels(nodes: Sequence[Node]) -> dict[str, LabelColumn]:
    indices: dict[str, dict[str, int]] = {}
    cells: dict[str, tuple[list[int], list[int]]] = {}
    for number, node in enumerate(nodes):
        for key, value in node.labels.items():
            index = indices.get(key)
            if index is None:
                index = indices[key] = {}
                cells[key] = ([], [])
            rows, codes = cells[key]
            rows.append(number)
            codes.append(index.setdefault(value, len(index)))
    labels = {}
    for key, (rows, codes) in cells.items():
        column = np.full(len(nodes), -1, dtype=np.int32)
        column[rows] = codes
        column.setflags(write=False)
        labels[key] = LabelColumn(tuple(indices[key]), MappingProxyType(indices[key]), column)
    return labels


def _load(nodes: Sequence[Node], used: Mapping[str, tuple[float, float]]) -> Floats:
    load = np.full(len(nodes), np.nan)
    for number, node in enumerate(nodes):
        amounts = used.get(node.name)
        if amounts is None:
            continue
        for amount, name in zip(amounts, ("cpu", "memory"), strict=True):
            whole = node.allocatable.get(name, 0.0)
            if whole > 0 and amount == amount:
                load[number] = np.fmax(load[number], amount / whole)
    return load
