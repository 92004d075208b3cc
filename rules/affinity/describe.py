"""A short label expression for a set of nodes: a label that tells it from the others, names where none does."""

from typing import Final

import numpy as np

from rules.advice import Expression, Operator
from rules.candidates import Ids, Mask
from rules.nodes import Nodes

HOSTNAME: Final = "kubernetes.io/hostname"
#: A label with more values than this names nodes rather than kinds of nodes.
_KINDS: Final = 64


def describe(
    nodes: Nodes, wanted: Mask, care: Mask, limit: int | None, *, deny: bool = True
) -> tuple[Expression, ...] | None:
    """Return expressions that hold, among the nodes of *care*, for exactly those of *wanted*.

    One label's values if that suffices, In or NotIn by which is shorter; else the host names of *wanted* or, where
    fewer, of the rest. Without *deny* only forms that no node outside of *wanted* will ever meet by lacking a label.
    None if more than *limit* names were needed, or a node to be named has no such label.
    """
    wanted = wanted & care
    rest = care & ~wanted
    if not wanted.any():
        return None
    best = _by_label(nodes, wanted, rest, deny)
    return best if best is not None else _by_name(nodes, wanted, rest, limit, deny)


def _by_label(nodes: Nodes, wanted: Mask, rest: Mask, deny: bool) -> tuple[Expression, ...] | None:
    best: Expression | None = None
    for key in sorted(nodes.labels):
        column = nodes.labels[key]
        if key == HOSTNAME or len(column.values) > _KINDS:
            continue
        inside, outside = np.unique(column.codes[wanted]), np.unique(column.codes[rest])
        if np.intersect1d(inside, outside).size:
            continue
        forms: tuple[tuple[Operator, Ids], ...] = (("In", inside), ("NotIn", outside))
        for operator, codes in forms if deny else forms[:1]:
            if codes.size == 0 or codes[0] < 0:
                continue
            values = tuple(sorted(column.values[code] for code in codes.tolist()))
            if best is None or len(values) < len(best.values):
                best = Expression(key, operator, values)
    return None if best is None else (best,)


def _by_name(nodes: Nodes, wanted: Mask, rest: Mask, limit: int | None, deny: bool) -> tuple[Expression, ...] | None:
    column = nodes.labels.get(HOSTNAME)
    if column is None:
        return None
    allow = not deny or not rest.any() or np.count_nonzero(wanted) <= np.count_nonzero(rest)
    codes = column.codes[wanted if allow else rest]
    if (codes < 0).any() or (limit is not None and len(codes) > limit):
        return None
    values = tuple(sorted(column.values[code] for code in codes.tolist()))
    return (Expression(HOSTNAME, "In" if allow else "NotIn", values),)
