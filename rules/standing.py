"""The pods that hold a node, by what selectors see of them: namespace, labels, and whom they will not have beside.

Pods that are alike in these are of one kind, and rows count the pods of a kind on a node: a change of the cluster
adds rows, and copies nothing but them.
"""

from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.records import Labels, Pod, PodSelection, Requirement
from rules.candidates import Ids, Mask
from rules.memo import Memo

Label = tuple[str, str]
#: Makes of a pod's labels the one that tells what is asked, None where none does.
Told = Callable[[Labels], Label | None]
Kind = tuple[str, frozenset[tuple[str, str]], tuple[PodSelection, ...]]
Counts = npt.NDArray[np.int64]

#: Kubernetes labels every namespace with its name.
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
#: The labels of namespaces, as far as they are known.
Scopes = Mapping[str, Labels]
_UNKNOWN: Final[Scopes] = MappingProxyType({})
#: Rows and kinds beyond twice as many as there need to be, and this, are laid out anew.
_SLACK: Final = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """The distinct kinds of pods, each with its number in *index*; *memo* keeps what follows from them alone.

    *apart* are the pods that a kind will not have beside it, *shunned* the label keys by which all kinds say so, and
    "" where some kind says it of any pod. *scopes* are the labels of namespaces. *telling* keeps what was `told_by`,
    of which only new kinds are asked where some come: pods that are labelled with their own names are a kind each.
    """

    namespaces: tuple[str, ...]
    labels: tuple[Labels, ...]
    apart: tuple[tuple[PodSelection, ...], ...]
    index: Mapping[Kind, int]
    shunned: frozenset[str] = frozenset()
    scopes: Scopes = field(default_factory=lambda: _UNKNOWN)
    memo: Memo = field(default_factory=Memo)
    telling: dict[Hashable, tuple[Told, tuple[tuple[Label, int], ...]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.namespaces)

    def selected(self, selection: PodSelection) -> Mask:
        """Return which kinds *selection* speaks of."""
        return self.memo.once(selection, lambda: self._selected(selection))

    def matching(self, requirements: tuple[Requirement, ...] | None, namespace: str) -> Mask:
        """Return which kinds of *namespace* meet *requirements*."""
        return self.selected(PodSelection(requirements, "", (namespace,)))

    def told_by(self, name: Hashable, told: Told) -> tuple[tuple[Label, int], ...]:
        """Return of each kind the label that *told* makes of its labels, where it does, and the kind's number.

        It is kept under *name*.
        """
        kept = self.telling.get(name)
        if kept is None:
            kept = self.telling[name] = told, _telling(told, self.labels, 0)
        return kept[1]

    def averse(self) -> tuple[int, ...]:
        """Return the kinds that will not have some pods beside them."""
        return self.memo.once("averse", lambda: tuple(number for number, terms in enumerate(self.apart) if terms))

    def _selected(self, selection: PodSelection) -> Mask:
        mask: Mask = np.fromiter(
            (covers(selection, each, self.scopes) for each in self.namespaces), dtype=np.bool_, count=len(self)
        )
        if selection.requirements is None:
            return np.zeros(len(self), dtype=np.bool_)
        for requirement in selection.requirements:
            mask &= self._meeting(requirement)
        return mask

    def _meeting(self, requirement: Requirement) -> Mask:
        return self.memo.once(
            requirement,
            lambda: np.fromiter((meets(requirement, each) for each in self.labels), dtype=np.bool_, count=len(self)),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Rows: so many pods (*count*, of either sign) of the *kind* on the *node*, both by number.

    *aversions* is another object once a pod that will not have some others beside it has come or gone.
    """

    kinds: Kinds
    kind: Ids
    node: Ids
    count: Ids
    aversions: object = field(default_factory=object)

    def on_nodes(self, kinds: Mask, nodes: int) -> Counts:
        """Return how many pods of *kinds* each of so many *nodes* has."""
        rows = kinds[self.kind]
        return np.bincount(self.node[rows], self.count[rows], nodes).astype(np.int64)

    def told_by(self, name: Hashable, told: Told) -> frozenset[Label]:
        """Return the labels that `Kinds.told_by` tells of the pods."""
        listed = self.kinds.told_by(name, told)
        if not listed:
            return frozenset()
        there = np.bincount(self.kind, self.count, len(self.kinds)) > 0
        return frozenset(label for label, number in listed if there[number])


def meets(requirement: Requirement, labels: Labels) -> bool:
    """Whether *labels* meet one requirement; an unknown operator is met by none."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


def covers(selection: PodSelection, namespace: str, scopes: Scopes = _UNKNOWN) -> bool:
    """Whether *selection* speaks of the pods of *namespace*, by its labels in *scopes*.

    Of a namespace whose labels are not known, all but the name is taken as met: passing over a node that nothing
    forbids costs less than waiting for one that something does.
    """
    if namespace in selection.namespaces:
        return True
    wanted = selection.namespace_requirements
    if wanted is None:
        return False
    known = scopes.get(namespace)
    labels = {NAMESPACE_NAME: namespace, **(known or {})}
    return all(meets(each, labels) for each in wanted if known is not None or each.key == NAMESPACE_NAME)


def selects(selection: PodSelection, namespace: str, labels: Labels, scopes: Scopes = _UNKNOWN) -> bool:
    """Whether *selection* speaks of a pod with *labels* in *namespace*."""
    return (
        selection.requirements is not None
        and covers(selection, namespace, scopes)
        and all(meets(each, labels) for each in selection.requirements)
    )


def scoped(before: Standing, scopes: Scopes) -> Standing:
    """Return *before* with the labels of namespaces as they are now."""
    if scopes == before.kinds.scopes:
        return before
    return replace(before, kinds=replace(before.kinds, scopes=scopes, memo=Memo()))


def standing(pods: Iterable[Pod], nodes: Mapping[str, int]) -> Standing:
    """Lay out the *pods*, on known *nodes* alone."""
    none = Kinds((), (), (), {})
    empty = np.zeros(0, dtype=np.int32)
    return changed(Standing(none, empty, empty, empty), ((1, pod) for pod in pods), nodes)


def rows(namespace: tuple[Sequence[str], Ids], labels: tuple[Sequence[Labels], Ids], node: Ids) -> Standing:
    """Lay out a pod for each row: names and their codes, label sets and their codes, and nodes (-1: not known)."""
    at = slice(None) if (node >= 0).all() else np.flatnonzero(node >= 0)
    width = max(len(labels[0]), 1)
    cells, kind = np.unique(namespace[1][at].astype(np.int64) * width + labels[1][at], return_inverse=True)
    found = [(namespace[0][cell // width], labels[0][cell % width]) for cell in cells.tolist()]
    kinds = Kinds(
        tuple(name for name, _ in found),
        tuple(carried for _, carried in found),
        ((),) * len(found),
        {(name, frozenset(carried.items()), ()): number for number, (name, carried) in enumerate(found)},
    )
    return Standing(kinds, kind.astype(np.int32), node[at], np.broadcast_to(np.int32(1), kind.shape))


def changed(before: Standing, steps: Iterable[tuple[int, Pod]], nodes: Mapping[str, int]) -> Standing:
    """Return *before* with one pod more (1) or less (-1) for each of *steps*."""
    kinds = before.kinds
    fresh: dict[Kind, int] = {}
    found = array("i")  # a list of tuples takes long to become columns, and no other thread runs meanwhile
    labels: list[Labels] = []
    aversions = before.aversions
    for sign, pod in steps:
        node = nodes.get(pod.node, -1)
        if node < 0:
            continue
        if pod.apart:
            aversions = object()
        kind = (pod.namespace, frozenset(pod.labels.items()), pod.apart)
        number = kinds.index.get(kind, -1)
        if number < 0:
            number = fresh.get(kind, -1)
        if number < 0:
            number = fresh[kind] = len(kinds) + len(fresh)
            labels.append(pod.labels)
        found.extend((number, node, sign))
    if not found:
        return before
    more = np.frombuffer(found, dtype=np.intc).astype(np.int32, copy=False).reshape(-1, 3)
    if fresh:
        kinds = _extended(kinds, fresh, labels)
    columns = [
        np.concatenate((getattr(before, name), more[:, column]))
        for column, name in enumerate(("kind", "node", "count"))
    ]
    after = Standing(kinds, columns[0], columns[1], columns[2], aversions)
    return _anew(after) if len(after.kind) > 2 * int(after.count.sum()) + _SLACK else after


def _extended(kinds: Kinds, fresh: Mapping[Kind, int], labels: Sequence[Labels]) -> Kinds:
    return Kinds(
        (*kinds.namespaces, *(namespace for namespace, _, _ in fresh)),
        (*kinds.labels, *labels),
        (*kinds.apart, *(apart for _, _, apart in fresh)),
        {**kinds.index, **fresh},
        kinds.shunned | _shunned(apart for _, _, apart in fresh),
        kinds.scopes,
        telling={
            name: (told, found + _telling(told, labels, len(kinds)))
            for name, (told, found) in list(kinds.telling.items())
        },
    )


def _telling(told: Told, labels: Iterable[Labels], first: int) -> tuple[tuple[Label, int], ...]:
    """Return what *told* makes of the *labels* of each kind, of which the *first* has this number."""
    return tuple((label, number) for number, each in enumerate(labels, first) if (label := told(each)) is not None)


def _shunned(apart: Iterable[tuple[PodSelection, ...]]) -> frozenset[str]:
    keys = set()
    for terms in apart:
        for term in terms:
            keys.update([each.key for each in term.requirements or ()] or [""])
    return frozenset(keys)


def _anew(old: Standing) -> Standing:
    """Add up rows of one kind and node, and forget kinds without a pod."""
    size = int(old.node.max(initial=0)) + 1
    cells, row = np.unique(old.kind.astype(np.int64) * size + old.node, return_inverse=True)
    count = np.bincount(row, old.count, len(cells)).astype(np.int32)
    there = count > 0
    kind, node = np.divmod(cells[there], size)
    left, renumbered = np.unique(kind, return_inverse=True)
    numbers = left.tolist()
    kinds = old.kinds
    by_number = {number: key for key, number in kinds.index.items()}
    return Standing(
        Kinds(
            tuple(kinds.namespaces[each] for each in numbers),
            tuple(kinds.labels[each] for each in numbers),
            tuple(kinds.apart[each] for each in numbers),
            {by_number[each]: number for number, each in enumerate(numbers)},
            _shunned(kinds.apart[each] for each in numbers),
            kinds.scopes,
        ),
        renumbered.astype(np.int32),
        node.astype(np.int32),
        count[there],
        old.aversions,
    )
