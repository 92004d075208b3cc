"""The nodes of a cluster as sets: which exist, which a pod could use, which an administrator tagged."""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import structs

from pipeline.records import Node, PodSelection
from rules.advice import Expression
from rules.affinity.selector import all_of, required_mask, selector_mask
from rules.affinity.usable import CORDONED, Tolerations, tolerated, untolerated
from rules.candidates import Mask
from rules.hosts import keys
from rules.nodes import Nodes, columns
from rules.standing import selects

#: A set of nodes: bit *n* stands for node number *n*.
NodeSet = int

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class HostNode:
    """A node, all of its addresses (the record keeps one of each type), and when it came."""

    node: Node
    addresses: tuple[str, ...] = ()
    created: datetime | None = None


@dataclass(frozen=True, slots=True)
class StreamPod:
    """A pod of some stream job that has a node and has not ended; *apart* are its required anti-affinity terms."""

    job: str
    namespace: str
    node: str
    labels: Mapping[str, str]
    apart: tuple[PodSelection, ...] = ()


def bits(nodes: NodeSet) -> Iterator[int]:
    """Yield the numbers in *nodes*, the smallest first."""
    while nodes:
        low = nodes & -nodes
        yield low.bit_length() - 1
        nodes ^= low


def node_set(mask: Mask) -> NodeSet:
    """Return the set that *mask* (bool, one a node) holds."""
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IPv4 or IPv6 address that *text* is; a name, a network or an address with a zone is none."""
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


class Cluster:
    """The nodes that *job* of *namespace* is placed on, numbered the oldest first, then by name.

    The job's own exclusive taint is not seen: which nodes are exclusive is decided anew, and kept where it can be.
    """

    def __init__(self, nodes: Sequence[HostNode], pods: Iterable[StreamPod], job: str, namespace: str) -> None:
        ordered = sorted(nodes, key=lambda each: (each.created or _LONG_AGO, each.node.name))
        self.records = tuple(each.node for each in ordered)
        self.names = tuple(node.name for node in self.records)
        self.index = {name: number for number, name in enumerate(self.names)}
        self.every = (1 << len(self.names)) - 1
        self.others = [pod for pod in pods if (pod.job, pod.namespace) != (job, namespace) and pod.node in self.index]
        self._columns: Nodes = columns([_without_own_taint(node, job) for node in self.records], {})
        self._addresses: dict[object, int] = {}
        for each in nodes:  # the first in the order in which they were listed has an address
            for text in each.addresses:
                self._addresses.setdefault(address(text), self.index[each.node.name])
        self._usable: dict[bytes, NodeSet] = {}
        self._busy = self._of(pod.node for pod in self.others)
        taken = [node.name for node in self.records if _taken(node, job)]
        member = [node.name for node in self.records if _member_of_other(node, job)]
        self.exclusive_of_others = self._of(taken)
        self._shunned: dict[PodSelection, NodeSet] = {}
        for pod in self.others:
            for term in pod.apart:
                if term.topology_key == keys.HOSTNAME:
                    self._shunned[term] = self._shunned.get(term, 0) | self._of([pod.node])
        self._foreign = self._busy | self._of(member)

    def number(self, text: str) -> int | None:
        """Return the node that *text* names or whose address it is, by value."""
        found = address(text)
        return self.index.get(text) if found is None else self._addresses.get(found)

    def named(self, nodes: NodeSet) -> tuple[str, ...]:
        """Return the names of *nodes*."""
        return tuple(self.names[number] for number in bits(nodes))

    def tagged(self, tags: Sequence[str]) -> NodeSet:
        """Return the nodes that carry all of *tags*."""
        return node_set(all_of(self._columns, tag_expressions(tags)))

    def usable(self, template: Mapping[str, Any]) -> NodeSet:
        """Return the nodes that a pod of *template* could run on, by their state and by its own rules."""
        spec = template.get("spec") or {}
        affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        key = msgspec.json.encode((spec.get("tolerations"), spec.get("nodeSelector"), affinity))
        if key not in self._usable:
            selected = selector_mask(self._columns, spec.get("nodeSelector") or {})
            fitting = node_set(selected & required_mask(self._columns, affinity))
            self._usable[key] = fitting & self.open_to(tuple(spec.get("tolerations") or ()))
        return self._usable[key]

    def open_to(self, tolerations: Tolerations) -> NodeSet:
        """Return the nodes that are Ready, not cordoned, and without a taint that *tolerations* do not cover."""
        nodes = self._columns
        mask = nodes.ready & tolerated(nodes, tolerations)
        if untolerated((CORDONED,), tolerations):
            mask = mask & nodes.schedulable
        return node_set(mask)

    def without_foreign(self, nodes: NodeSet) -> NodeSet:
        """Return those of *nodes* that run no PE of another job and belong to no pool of one."""
        return nodes & ~self._foreign

    def why_unusable(self, number: int, template: Mapping[str, Any]) -> str:
        """Say in a few words what keeps a pod of *template* off the node."""
        node, spec = self.records[number], template.get("spec") or {}
        tolerations = tuple(spec.get("tolerations") or ())
        if not node.ready:
            return "it is not Ready"
        if not node.schedulable and untolerated((CORDONED,), tolerations):
            return "it is cordoned"
        nodes = self._columns
        if found := untolerated(nodes.taints[int(nodes.taint_of[number])], tolerations):
            taint = found[0]
            value = f"={taint.value}" if taint.value else ""
            return f"the pod does not tolerate its taint {taint.key}{value}:{taint.effect}"
        if not selector_mask(nodes, spec.get("nodeSelector") or {})[number]:
            return "the pod's nodeSelector leaves it out"
        return "the pod's own node affinity leaves it out"

    def carrying(self, namespace: str, key: str, value: str) -> NodeSet:
        """Return the nodes with pods of other jobs in *namespace* whose label *key* is *value*."""
        return self._of(
            pod.node for pod in self.others if pod.namespace == namespace and pod.labels.get(key) == value
        )

    def shunning(self, namespace: str, labels: Mapping[str, str]) -> NodeSet:
        """Return the nodes with pods of other jobs that will not have a pod with *labels* beside them."""
        found = 0
        for term, nodes in self._shunned.items():
            if selects(term, namespace, labels):
                found |= nodes
        return found

    def _of(self, names: Iterable[str]) -> NodeSet:
        found = 0
        for name in names:
            found |= 1 << self.index[name]
        return found


def tag_expressions(tags: Sequence[str]) -> tuple[Expression, ...]:
    """Return what says that a node has *tags*: the one by value, several by a key each, since a key has one value."""
    if len(tags) == 1:
        return (Expression(keys.TAG, "In", (tags[0],)),)
    return tuple(Expression(keys.tag(each), "Exists") for each in tags)


def _without_own_taint(node: Node, job: str) -> Node:
    own = (keys.EXCLUSIVE, job, "NoSchedule")  # of another effect it is somebody else's, and keeps pods off
    kept = tuple(taint for taint in node.taints if (taint.key, taint.value, taint.effect) != own)
    return node if len(kept) == len(node.taints) else structs.replace(node, taints=kept)


def _taken(node: Node, job: str) -> bool:
    return any(taint.key == keys.EXCLUSIVE and taint.value != job for taint in node.taints)


def _member_of_other(node: Node, job: str) -> bool:
    return any(key.startswith(keys.MEMBER) and value != job for key, value in node.labels.items())
