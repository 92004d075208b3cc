"""A short label expression for a set of nodes: a label that tells it from the others, names where none does."""

from typing import Final

import numpy as np
import numpy.typing as npt

from rules.advice import Expression, Operator
from rules.candidates import Mask
from rules.nodes import LabelColumn, Nodes

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
    ours, others = np.flatnonzero(wanted), np.flatnonzero(rest)
    for key in sorted(nodes.labels):
        column = nodes.labels[key]
        if key == HOSTNAME or len(column.values) > _KINDS or (column.codes[others] == column.codes[ours[0]]).any():
            continue
        inside, outside = (_occurring(column, where) for where in (ours, others))
        if (inside & outside).any():
            continue
        forms: tuple[tuple[Operator, Mask], ...] = (("In", inside), ("NotIn", outside))
        for operator, occurring in forms if deny else forms[:1]:
            if occurring[0] or not occurring.any():
                continue
            values = tuple(sorted(column.values[code - 1] for code in np.flatnonzero(occurring).tolist()))
            if best is None or len(values) < len(best.values):
                best = Expression(key, operator, values)
    return None if best is None else (best,)


def _occurring(column: LabelColumn, where: npt.NDArray[np.intp]) -> Mask:
    """Return whether some node of *where* lacks the label (first), and has each of its values."""
    return np.bincount(column.codes[where] + 1, minlength=len(column.values) + 1) > 0


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
