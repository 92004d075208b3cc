"""Node selectors evaluated as Kubernetes does it, on all nodes at once."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rules.advice import Expression
from rules.candidates import Mask
from rules.nodes import LabelColumn, Nodes


def expression_mask(nodes: Nodes, key: str, operator: str, values: Sequence[str]) -> Mask:
    """Return which nodes satisfy one requirement on labels; an unknown operator satisfies none."""
    column = nodes.labels.get(key)
    if column is None:
        return np.full(len(nodes), operator in ("NotIn", "DoesNotExist"))
    match operator:
        case "In":
            return column.holds(values)
        case "NotIn":
            return ~column.holds(values)
        case "Exists":
            return np.greater_equal(column.codes, 0)
        case "DoesNotExist":
            return np.less(column.codes, 0)
        case "Gt" | "Lt" if len(values) == 1:
            return _compared(column, operator == "Gt", values[0])
        case _:
            return np.zeros(len(nodes), dtype=np.bool_)


def _compared(column: LabelColumn, greater: bool, limit: str) -> Mask:
    bound = _integer(limit)
    passing = [
        value
        for value in column.values
        if bound is not None
        and (number := _integer(value)) is not None
        and (number > bound if greater else number < bound)
    ]
    return column.holds(passing)


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def all_of(nodes: Nodes, expressions: Iterable[Expression]) -> Mask:
    """Return which nodes satisfy every one of *expressions*."""
    mask = np.ones(len(nodes), dtype=np.bool_)
    for each in expressions:
        mask &= (
            _field_mask(nodes, each.json)
            if each.field
            else expression_mask(nodes, each.key, each.operator, each.values)
        )
    return mask


def term_mask(nodes: Nodes, term: Mapping[str, Any] | None) -> Mask:
    """Return which nodes one nodeSelectorTerm admits; an empty term admits none."""
    expressions, fields = (term or {}).get("matchExpressions") or [], (term or {}).get("matchFields") or []
    if not expressions and not fields:
        return np.zeros(len(nodes), dtype=np.bool_)
    mask = np.ones(len(nodes), dtype=np.bool_)
    for each in expressions:
        values = [str(value) for value in each.get("values") or []]
        mask &= expression_mask(nodes, str(each.get("key")), str(each.get("operator")), values)
    for each in fields:
        mask &= _field_mask(nodes, each)
    return mask


def _field_mask(nodes: Nodes, field: Mapping[str, Any]) -> Mask:
    """``metadata.name`` is the only field that Kubernetes knows here."""
    named = np.zeros(len(nodes), dtype=np.bool_)
    if field.get("key") != "metadata.name" or field.get("operator") not in ("In", "NotIn"):
        return named
    named[[nodes.index[name] for name in field.get("values") or [] if name in nodes.index]] = True
    return named if field["operator"] == "In" else ~named


def required_mask(nodes: Nodes, affinity: Mapping[str, Any]) -> Mask:
    """Return which nodes the required part of a pod's node *affinity* admits; without one, all."""
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return np.ones(len(nodes), dtype=np.bool_)
    mask = np.zeros(len(nodes), dtype=np.bool_)
    for term in required.get("nodeSelectorTerms") or []:
        mask |= term_mask(nodes, term)
    return mask


def selector_mask(nodes: Nodes, selector: Mapping[str, str]) -> Mask:
    """Return which nodes carry every label of a nodeSelector."""
    return all_of(nodes, (Expression(key, "In", (str(value),)) for key, value in selector.items()))
