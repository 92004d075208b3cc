"""A short label expression for a set of nodes: a label that tells it from the others, names where none does."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from rules.advice import Expression, Operator
from rules.candidates import Ids, Mask
from rules.nodes import LabelColumn, Nodes

HOSTNAME: Final = "kubernetes.io/hostname"
#: A label with more values than this names nodes rather than kinds of nodes.
_KINDS: Final = 64
#: So many labels together tell what none tells alone.
_COVERS: Final = 3
#: So many nodes of either side are compared before all are: most labels do not tell even these apart.
_SAMPLE: Final = 8

Numbers = npt.NDArray[np.intp]


def describe(
    nodes: Nodes, wanted: Mask, care: Mask, limit: int | None, *, deny: bool = True
) -> tuple[Expression, ...] | None:
    """Return expressions that hold, among the nodes of *care*, for exactly those of *wanted*, as `part` does."""
    return part(nodes, np.flatnonzero(wanted & care), np.flatnonzero(care & ~wanted), limit, deny=deny)


def part(
    nodes: Nodes, wanted: Numbers, rest: Numbers, limit: int | None, *, deny: bool = True
) -> tuple[Expression, ...] | None:
    """Return expressions that hold for the nodes *wanted* and not for *rest*; of others they may say anything.

    One label's values if that suffices, In or NotIn by which is shorter; else the host names of *wanted* or, where
    fewer, of the rest. Without *deny* only forms that no node outside of *wanted* will ever meet by lacking a label.
    None if more than *limit* names were needed, or a node to be named has no such label.
    """
    [(_, found)] = parts(nodes, np.concatenate((wanted, rest)), [len(wanted)], limit, deny=deny)
    return found


def parts(
    nodes: Nodes, ordered: Numbers, sizes: Sequence[int], limit: int | None, *, deny: bool = True
) -> Iterator[tuple[int, tuple[Expression, ...] | None]]:
    """Yield for each of *sizes* what tells so many first nodes of *ordered* from its others, as `part` does."""
    keys, codes = nodes.memo.once("kinds", lambda: _kinds(nodes))
    for size, apart in zip(sizes, _apart(codes, ordered, sizes), strict=True):
        wanted, rest = ordered[:size], ordered[size:]
        if not size:
            yield size, None
            continue
        best = None
        if telling := [key for key, told in zip(keys, apart, strict=True) if told]:
            best = _by_label(nodes, telling, wanted, rest, deny)
        yield size, best if best is not None else _by_name(nodes, wanted, rest, limit, deny)


def cover(nodes: Nodes, wanted: Mask, rest: Mask) -> tuple[list[tuple[Expression, ...]], Mask]:
    """Return alternatives, one label's values each, that hold for many of *wanted* and for none of *rest*.

    What none of them holds for is returned too. Labels are taken in turn, each time the one that tells most of what
    is left, at most `_COVERS` of them.
    """
    told: list[tuple[Expression, ...]] = []
    left, outside = wanted, np.flatnonzero(rest)
    keys, _ = nodes.memo.once("kinds", lambda: _kinds(nodes))
    while left.any() and len(told) < _COVERS:
        best: tuple[int, Expression, Mask] | None = None
        ids = np.flatnonzero(left)
        for key in keys:
            column = nodes.labels[key]
            pure = _occurring(column, ids)[1:] & ~_occurring(column, outside)[1:]
            values = tuple(sorted(column.values[code] for code in np.flatnonzero(pure).tolist()))
            held = column.holds(values) & left if values else None
            if held is not None and (count := int(np.count_nonzero(held))) > (best[0] if best else 0):
                best = count, Expression(key, "In", values), held
        if best is None:
            break
        told.append((best[1],))
        left = left & ~best[2]
    return told, left


def _kinds(nodes: Nodes) -> tuple[tuple[str, ...], Ids]:
    """Return the keys, in order, of labels that name kinds of nodes, and a row of codes for each."""
    keys = tuple(key for key in sorted(nodes.labels) if key != HOSTNAME and len(nodes.labels[key].values) <= _KINDS)
    codes = np.array([nodes.labels[key].codes for key in keys], dtype=np.int32).reshape(len(keys), len(nodes))
    return keys, codes


def _apart(codes: Ids, ordered: Numbers, sizes: Sequence[int]) -> Iterator[list[bool]]:
    """Yield for each of *sizes* which rows of *codes* may tell the first nodes from the others; by a sample."""
    steps = range(_SAMPLE)
    places = []
    for size in sizes:
        behind = len(ordered) - size
        places += [step * size // _SAMPLE for step in steps]
        places += [size + step * behind // _SAMPLE for step in steps] if behind else []
    seen = codes.take(ordered.take(places), axis=1).tolist()
    at = 0
    for size in sizes:
        middle, end = at + _SAMPLE, at + _SAMPLE * (2 if size < len(ordered) else 1)
        yield [set(row[at:middle]).isdisjoint(row[middle:end]) for row in seen]
        at = end


def _by_label(
    nodes: Nodes, keys: Iterable[str], wanted: Numbers, rest: Numbers, deny: bool
) -> tuple[Expression, ...] | None:
    best: Expression | None = None
    for key in keys:
        column = nodes.labels[key]
        inside, outside = (_occurring(column, ids) for ids in (wanted, rest))
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


def _occurring(column: LabelColumn, where: Numbers) -> Mask:
    """Return whether some node of *where* lacks the label (first), and has each of its values."""
    return np.bincount(column.codes[where] + 1, minlength=len(column.values) + 1) > 0


def _by_name(
    nodes: Nodes, wanted: Numbers, rest: Numbers, limit: int | None, deny: bool
) -> tuple[Expression, ...] | None:
    column = nodes.labels.get(HOSTNAME)
    allow = not deny or not rest.size or len(wanted) <= len(rest)
    named = wanted if allow else rest
    if column is None or (limit is not None and len(named) > limit):
        return None
    by_name, ranks = nodes.memo.once("ranks", lambda: _ranks(column))
    found = np.sort(ranks[named])
    if found[0] < 0:
        return None
    values = tuple(map(by_name.__getitem__, found.tolist()))
    return (Expression(HOSTNAME, "In" if allow else "NotIn", values),)


def _ranks(column: LabelColumn) -> tuple[list[str], Ids]:
    """Return the values in order, and for each node the place of its value among them, -1 without the label."""
    rank = np.empty(len(column.values) + 1, dtype=np.int32)
    order = sorted(range(len(column.values)), key=column.values.__getitem__)
    rank[order] = np.arange(len(order), dtype=np.int32)
    rank[-1] = -1
    return [column.values[code] for code in order], rank[column.codes]
