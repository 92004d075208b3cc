"""What an extra resource of a workflow means: which nodes have it, and which label expressions say so.

A key is looked for among node labels whatever its case, and among allocatable resources as the part after ``/``.
``true`` (or the word) is had by a label value yes, true, 1 or present, or by a positive amount; ``false`` by neither.
A number is had by an equal label value or at least that amount; a text by an equal label value, whatever its case.
Amounts that no label tells are demanded by the names of the nodes, where these are few; else they only narrow the
ranking: the pod has to request them as it does any resource.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from rules.advice import Expression, NodeNeed
from rules.affinity.describe import describe
from rules.candidates import Mask
from rules.labels import legal_key, legal_value
from rules.nodes import Nodes

Scalar = bool | int | float | str

_YES = ("yes", "true", "1", "present")
_NO = ("no", "false", "absent")
#: A need that no label tells names at most so many nodes: a scheduler may read all of them for every node.
_NAMED = 200


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """One extra resource on the nodes: *have* says where it is, *need* how a pod demands it, None where it cannot."""

    key: str
    shown: str
    have: Mask
    need: NodeNeed | None


def find(nodes: Nodes, extra: Mapping[str, Scalar]) -> Iterator[Found]:
    """Yield each resource of *extra* in order of its key."""
    for key in sorted(extra):
        value = _normal(extra[key])
        yield _absent(nodes, key) if value is False else _present(nodes, key, value)


def _normal(value: Scalar) -> Scalar:
    word = value.strip().lower() if isinstance(value, str) else value
    if word in ("true", "yes", "present") or value is True:
        return True
    if word in _NO or value is False:
        return False
    return value


def _present(nodes: Nodes, key: str, value: Scalar) -> Found:
    have = np.zeros(len(nodes), dtype=np.bool_)
    alternatives: list[tuple[Expression, ...]] = []
    spelled = nodes.labels_lower.get(key.lower(), ())
    for label in spelled:
        column = nodes.labels[label]
        values = tuple(sorted(each for each in column.values if _says(each, value)))
        if values:
            alternatives.append((Expression(label, "In", values),))
            have |= column.holds(values)
    counted = _counted(nodes, key, value) & ~have
    described = describe(nodes, counted, ~have, _NAMED, deny=False) if counted.any() else None
    if described is not None:
        alternatives.append(described)
    if described is not None or not alternatives:
        have |= counted
    if not have.any() and not alternatives:
        label, text = (spelled[0] if spelled else key), "true" if value is True else _text(value)
        if legal_key(label) and legal_value(text):
            alternatives.append((Expression(label, "In", (text,)),))
    shown = key if value is True else f"{key} {_text(value)}"
    return Found(key, shown, have, NodeNeed(tuple(alternatives)) if alternatives else None)


def _absent(nodes: Nodes, key: str) -> Found:
    """All of the expressions have to hold: none of the labels says yes, and no amount is there."""
    expressions: list[Expression] = []
    free = np.ones(len(nodes), dtype=np.bool_)
    for label in nodes.labels_lower.get(key.lower(), ()):
        values = tuple(sorted(each for each in nodes.labels[label].values if each.lower() in _YES))
        if values:
            expressions.append(Expression(label, "NotIn", values))
            free &= ~nodes.labels[label].holds(values)
    counted = _counted(nodes, key, True) & free
    if counted.any():
        expressions.extend(describe(nodes, free & ~counted, free, _NAMED) or ())
        free &= ~counted
    if not expressions and legal_key(key):
        expressions.append(Expression(key, "NotIn", ("true",)))
    return Found(key, f"no {key}", free, NodeNeed((tuple(expressions),)) if expressions else None)


def _says(label: str, value: Scalar) -> bool:
    if value is True:
        return label.lower() in _YES
    return label.lower() == _text(value).lower()


def _text(value: Scalar) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _counted(nodes: Nodes, key: str, value: Scalar) -> Mask:
    """Return which nodes have the amount; a text is no amount."""
    mask = np.zeros(len(nodes), dtype=np.bool_)
    if isinstance(value, str):
        return mask
    least = 1e-9 if value is True else float(value)
    for name, amount in nodes.allocatable.items():
        if key.lower() in (name.lower(), name.rpartition("/")[2].lower()):
            mask |= (amount >= least) & (amount > 0)
    return mask
