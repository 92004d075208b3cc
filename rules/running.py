"""Which functions have pods on which nodes now, how busy they are, and what all pods there have requested."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.mangling import Index
from pipeline.records import Pod
from rules.candidates import Ids
from rules.functions import action_of
from rules.labels import label_value
from rules.nodes import Nodes

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

#: A pod whose function was not called in the last hour, though calls are measured, may still be called any moment.
IDLE: Final = 0.1
_HASHED = re.compile(r"h-[0-9a-f]{40}")
_PREWARM = re.compile(r".+-[0-9]+-prewarm(?:-[a-z0-9]*)?")


@dataclass(frozen=True, slots=True)
class Reservation:
    """A pod that was decided upon and is not seen on a node yet, counted where it is expected to go.

    *decision* is the decision's name, which the pod carries as an annotation; *function* "" where none is known.
    """

    decision: str
    node: str
    function: str
    requests: Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class Running:
    """Which functions have pods on which nodes, one entry for each such pair.

    Entries *node_start*[n]..*node_start*[n+1] are node n's, ordered by function; *by_function* orders the same
    entries by function. *pods* counts pods; *busy* is the mean number of activations that run at once.
    """

    node_start: Rows
    node: Ids
    function: Ids
    pods: Ids
    busy: Floats
    function_start: Rows
    by_function: Rows

    def of(self, function: int) -> Rows:
        """Return the entries of *function*, by node."""
        return self.by_function[self.function_start[function] : self.function_start[function + 1]]

    def on(self, node: int) -> slice:
        """Return the entries of *node*."""
        return slice(int(self.node_start[node]), int(self.node_start[node + 1]))


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """Pods that hold a node's resources: their nodes and functions ("" for none) and what each requests.

    *requests* holds by resource name what pod number *rows* asks for; *decisions* the own decisions already seen;
    the last *reserved* pods are reservations.
    """

    nodes: Sequence[str]
    functions: Sequence[str]
    requests: Mapping[str, tuple[Sequence[int], Sequence[float]]]
    decisions: frozenset[str] = frozenset()
    reserved: int = 0

    def with_reservations(self, reservations: Iterable[Reservation]) -> "Seen":
        """Add the pods of *reservations* that are not among these yet."""
        pending = [each for each in reservations if each.decision not in self.decisions]
        if not pending:
            return self
        requests = {name: (list(rows), list(amounts)) for name, (rows, amounts) in self.requests.items()}
        for row, each in enumerate(pending, start=len(self.nodes)):
            _ask(requests, row, each.requests)
        return replace(
            self,
            nodes=[*self.nodes, *(each.node for each in pending)],
            functions=[*self.functions, *(each.function for each in pending)],
            requests=requests,
            reserved=self.reserved + len(pending),
        )

    def held(self, index: Mapping[str, int]) -> tuple[dict[str, Floats], Floats]:
        """Return by resource name the sum of requests on each node of *index*, and the number of pods."""
        size = len(index)
        number = np.fromiter((index.get(node, size) for node in self.nodes), np.int64, len(self.nodes))
        held: dict[str, Floats] = {
            name: np.bincount(number[np.asarray(rows, np.int64)], np.asarray(amounts), size + 1)[:size].astype(float)
            for name, (rows, amounts) in self.requests.items()
        }
        return held, np.bincount(number, minlength=size + 1)[:size].astype(np.float64)


def prewarm(name: str) -> bool:
    """Whether a pod of this *name* was started ahead of any function."""
    return _PREWARM.fullmatch(name) is not None


def seen(
    pods: Iterable[Pod], index: Index, known: Collection[str], function_labels: tuple[str, str], label_prefix: str
) -> Seen:
    """Take from live *pods* those that have a node and are not terminal, each with its function.

    The function is what OpenWhisk's labels say, else one's own label, else an unambiguous pod name. A label that
    names the bare action speaks of the one function with that action, else of a function of that very name.
    """
    by_value = _by_label_value(known)
    own, decision = f"{label_prefix}/function", f"{label_prefix}/decision"
    namespace_key, action_key = function_labels
    labelled: dict[tuple[str, str], str] = {}
    nodes: list[str] = []
    functions: list[str] = []
    requests: dict[str, tuple[list[int], list[float]]] = {}
    decisions: set[str] = set()
    for pod in pods:
        if not pod.node or pod.terminal:
            continue
        action = pod.labels.get(action_key)
        if action:
            said = (pod.labels.get(namespace_key, ""), action)
            function = labelled.get(said)
            if function is None:
                function = labelled[said] = index.of_labels(*said) if said[0] else by_value.get(action, action)
        elif own in pod.labels:
            value = pod.labels[own]
            function = by_value.get(value) or ("" if _HASHED.fullmatch(value) else value)
        else:
            function = index.of_pod(pod.name) or ""
        if decision in pod.annotations:
            decisions.add(pod.annotations[decision])
        _ask(requests, len(nodes), pod.requests)
        nodes.append(pod.node)
        functions.append(function)
    return Seen(nodes, functions, requests, frozenset(decisions))


def _by_label_value(known: Collection[str]) -> dict[str, str]:
    by_action: dict[str, list[str]] = {}
    for function in known:
        by_action.setdefault(action_of(function), []).append(function)
    alone = {label_value(action): found[0] for action, found in by_action.items() if len(found) == 1}
    return alone | {label_value(function): function for function in known}


def _ask(requests: dict[str, tuple[list[int], list[float]]], row: int, amounts: Mapping[str, float]) -> None:
    for name, amount in amounts.items():
        column = requests.get(name)
        if column is None:
            column = requests[name] = ([], [])
        column[0].append(row)
        column[1].append(amount)


def entries(
    seen: Seen, nodes: Nodes, functions: Mapping[str, int], busyness: Mapping[tuple[str, str], float] | None
) -> Running:
    """Count the pods of each function on each node, and say how busy they are.

    *busyness* holds the mean number of running activations by (node, function) where it is measured, None where it
    is not measured at all: then every pod counts as always busy.
    """
    n, m = len(nodes), len(functions)
    node = np.fromiter((nodes.index.get(name, -1) for name in seen.nodes), np.int64, len(seen.nodes))
    function = np.fromiter((functions.get(name, -1) for name in seen.functions), np.int64, len(seen.nodes))
    placed = np.flatnonzero((node >= 0) & (function >= 0))
    cell = node[placed] * max(m, 1) + function[placed]
    keys, entry, counts = np.unique(cell, return_inverse=True, return_counts=True)
    reserved = np.bincount(entry[placed >= len(seen.nodes) - seen.reserved], minlength=len(keys))
    of_node, of_function = np.divmod(keys, max(m, 1))
    by_function = np.argsort(of_function, kind="stable")
    return Running(
        node_start=np.searchsorted(of_node, np.arange(n + 1)),
        node=of_node.astype(np.int32),
        function=of_function.astype(np.int32),
        pods=counts.astype(np.int32),
        busy=_busy(of_node, of_function, counts, reserved, nodes, functions, busyness),
        function_start=np.searchsorted(of_function[by_function], np.arange(m + 1)),
        by_function=by_function,
    )


def _busy(
    node: Rows,
    function: Rows,
    pods: npt.NDArray[np.intp],
    reserved: npt.NDArray[np.intp],
    nodes: Nodes,
    functions: Mapping[str, int],
    busyness: Mapping[tuple[str, str], float] | None,
) -> Floats:
    if busyness is None:
        return pods.astype(np.float64)
    m = max(len(functions), 1)
    cells = {
        nodes.index[where] * m + functions[what]: running
        for (where, what), running in busyness.items()
        if where in nodes.index and what in functions
    }
    measured = np.fromiter((cells.get(key, np.nan) for key in (node * m + function).tolist()), np.float64, len(node))
    there = ~np.isnan(measured) & (pods > reserved)
    running = np.bincount(function[there], measured[there], m)
    holding = np.bincount(function[there], (pods - reserved)[there], m)
    each = np.divide(running, holding, out=np.full(m, IDLE), where=holding > 0)[function]
    busy: Floats = np.where(there, measured + each * reserved, each * pods)
    return busy
