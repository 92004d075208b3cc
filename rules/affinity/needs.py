"""What an extra resource of a workflow means: which nodes have it, and which rules hold a pod to them.

A key is looked for among node labels whatever its case, and among allocatable resources as the part after ``/``.
``true`` (or the word) is had by a label value yes, true, 1 or present, or by a positive amount; ``false`` by neither.
A number or a quantity is had by an equal label value or at least that amount (bare memory in MB), none of it where
that is 0 and no label says 0; any other text by an equal label value, whatever its case. What cannot be a label is
asked for by the label that stands for it: `rules.labels.label_value`, under the product's prefix if it is the key.

Nodes that have an amount are told by a label, else by several, what is left by their names. Where these are too many
for one pod, the best of them are named: fewer nodes than have it, but never one that has not.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from pipeline.errors import BadInput
from rules.advice import BestOf, Expression, NodeNeed
from rules.affinity.describe import HOSTNAME, cover, describe
from rules.candidates import Mask
from rules.hpa import amounts
from rules.labels import label_value, legal_key, legal_value
from rules.nodes import Nodes
from rules.policy import Policy

Scalar = bool | int | float | str

_YES = ("yes", "true", "1", "present")
_NO = ("no", "false", "absent")
#: A need that no label tells names at most so many nodes: a scheduler may read all of them for every node.
_NAMED: Final = 200
_MEGABYTE: Final = 2**20


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """One extra resource on the nodes: *have* says where it is, *needs* how a pod demands it, all of them.

    *amounts* is what a pod may request instead, any one of it: the least by resource, where *needs* rest on names.
    """

    shown: str
    have: Mask
    needs: tuple[NodeNeed | BestOf, ...]
    amounts: Mapping[str, float]

    def requested(self, requests: Mapping[str, float]) -> bool:
        """Whether a pod with *requests* is held by the scheduler itself to nodes with the amount."""
        return any(requests.get(name, 0.0) >= least for name, least in self.amounts.items())


def find(nodes: Nodes, extra: Mapping[str, Scalar], policy: Policy) -> Iterator[Found]:
    """Yield each resource of *extra* in order of its key."""
    for key in sorted(extra):
        label = _label(key, policy)
        value = _normal(extra[key])
        yield nodes.memo.once(("need", label, type(value), value), partial(_found, nodes, key, label, value))


def _label(key: str, policy: Policy) -> str:
    """Return the label that *key* means where no node has one; prefixes of labels are in lower case."""
    prefix, slash, name = key.rpartition("/")
    spelled = f"{prefix.lower()}{slash}{name}"
    return spelled if legal_key(spelled) else policy.own(label_value(key))


def _normal(value: Scalar) -> Scalar:
    word = value.strip().lower() if isinstance(value, str) else value
    if word in ("true", "yes", "present") or value is True:
        return True
    if word in _NO or value is False:
        return False
    return value


def _found(nodes: Nodes, key: str, label: str, value: Scalar) -> Found:
    spelled = nodes.labels_lower.get(label.lower(), ())
    if value is False:
        return _absent(nodes, key, label, spelled)
    if _text(value) == "0" and not any("0" in nodes.labels[each].index for each in spelled):
        return _absent(nodes, key, label, spelled)
    return _present(nodes, key, label, spelled, value)


def _present(nodes: Nodes, key: str, label: str, spelled: tuple[str, ...], value: Scalar) -> Found:
    have = np.zeros(len(nodes), dtype=np.bool_)
    alternatives: list[tuple[Expression, ...]] = []
    for each in spelled:
        column = nodes.labels[each]
        values = tuple(sorted(said for said in column.values if _says(said, value)))
        if values:
            alternatives.append((Expression(each, "In", values),))
            have |= column.holds(values)
    least = _least(nodes, key, value)
    counted = _with(nodes, least) & ~have
    have |= counted
    named: list[BestOf] = []
    if counted.any():
        told, left = _told(nodes, counted, ~have)
        alternatives += told
        if left is not None:
            named.append(BestOf(left, tuple(alternatives)))
    if not have.any():
        asked = "true" if value is True else _text(value)
        asked = asked if legal_value(asked) else label_value(asked)
        alternatives.append((Expression(spelled[0] if spelled else label, "In", (asked,)),))
    needs = tuple(named) or (NodeNeed(tuple(alternatives)),)
    return Found(key if value is True else f"{key} {_text(value)}", have, needs, least if _by_name(needs) else {})


def _told(nodes: Nodes, wanted: Mask, rest: Mask) -> tuple[list[tuple[Expression, ...]], Mask | None]:
    """Return alternatives for *wanted*, none of which holds for *rest*, and what none of them tells."""
    whole = describe(nodes, wanted, wanted | rest, 0, deny=False)
    if whole is not None:
        return [whole], None
    told, left = cover(nodes, wanted, rest)
    if not left.any():
        return told, None
    names = describe(nodes, left, left | rest, _NAMED, deny=False)
    return ([*told, names], None) if names is not None else (told, left)


def _absent(nodes: Nodes, key: str, label: str, spelled: tuple[str, ...]) -> Found:
    """All of the expressions have to hold: none of the labels says yes, and no amount is there."""
    expressions: list[Expression] = []
    free = np.ones(len(nodes), dtype=np.bool_)
    for each in spelled:
        values = tuple(sorted(said for said in nodes.labels[each].values if said.lower() in _YES))
        if values:
            expressions.append(Expression(each, "NotIn", values))
            free &= ~nodes.labels[each].holds(values)
    counted = _with(nodes, _least(nodes, key, True)) & free
    named: list[BestOf] = []
    if counted.any():
        told = describe(nodes, free & ~counted, free, _NAMED)
        expressions.extend(told or ())
        free = free & ~counted
        if told is None and free.any():
            named.append(BestOf(free))
    if not expressions:
        expressions.append(Expression(label, "NotIn", ("true",)))
    return Found(f"no {key}", free, (NodeNeed((tuple(expressions),)), *named), {})


def _says(label: str, value: Scalar) -> bool:
    if value is True:
        return label.lower() in _YES
    text = _text(value)
    return label.lower() == text.lower() or (not legal_value(text) and label == label_value(text))


def _text(value: Scalar) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _least(nodes: Nodes, key: str, value: Scalar) -> dict[str, float]:
    """Return by allocatable resource that *key* may mean the amount of it that *value* asks for."""
    found = {}
    for name in nodes.allocatable:
        if key.lower() in (name.lower(), name.rpartition("/")[2].lower()):
            least = 1e-9 if value is True else _amount(name, value)
            if least is not None:
                found[name] = least
    return found


def _amount(resource: str, value: Scalar) -> float | None:
    """Return *value* of *resource* in cores, bytes or items; None where it is no amount."""
    text = _text(value).strip()
    try:
        amount = amounts.stated(resource, text, resource) / (1000.0 if resource == "cpu" else 1.0)
    except BadInput:
        return None
    bare = resource == "memory" and text.replace(".", "", 1).isdecimal()
    return amount * _MEGABYTE if bare else amount


def _with(nodes: Nodes, least: Mapping[str, float]) -> Mask:
    """Return which nodes have one of these amounts."""
    mask = np.zeros(len(nodes), dtype=np.bool_)
    for name, amount in least.items():
        mask |= (nodes.allocatable[name] >= amount) & (nodes.allocatable[name] > 0)
    return mask


def _by_name(needs: tuple[NodeNeed | BestOf, ...]) -> bool:
    return any(
        isinstance(need, BestOf) or any(each.key == HOSTNAME for one in need.alternatives for each in one)
        for need in needs
    )
