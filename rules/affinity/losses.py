"""What functions that run beside each other lose by it on each node, weighed by how busy they are."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from rules.candidates import Ids, Scores
from rules.functions import Rows
from rules.view import View

_NONE: Final[tuple[Ids, Scores]] = (np.zeros(0, dtype=np.int32), np.zeros(0))


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """Pair rows of one direction, each with the function on the other side and what one of its activations costs."""

    rows: Rows
    other: Rows
    cost: Scores


def losses(view: View, side: Side) -> tuple[Ids, Scores]:
    """Return for each co-runner of the pairs its node, and the cost by its busyness.

    A row for the node's own type takes the place of the row for all types.
    """
    if not len(side.rows):
        return _NONE
    counts, at, busy = view.running.of_all(side.other)
    kind = view.pairs.type_of[side.rows].astype(np.int64)
    special = kind >= 0
    if (kind == -1).all():
        return at, busy * np.repeat(side.cost, counts)
    row = np.repeat(np.arange(len(kind)), counts)
    here, types = view.nodes.type_of[at], len(view.nodes.types)
    cell = side.other * types
    replaced = np.isin(cell[row] + here, cell[special] + kind[special])
    keep = (kind[row] == here) | ((kind[row] == -1) & ~replaced)
    return at[keep], (busy * side.cost[row])[keep]


def suffered(view: View, function: int) -> tuple[Ids, Scores]:
    """Return what *function* would lose beside each of its co-runners, as `losses` do."""
    return view.memo.once(("suffered", function), lambda: losses(view, suffering(view, function)))


def suffering(view: View, function: int) -> Side:
    """Return the pairs by which *function* suffers, unweighed."""
    pairs = view.pairs

    def made() -> Side:
        rows = pairs.suffered_by(function)
        rows = rows[pairs.known[rows]]
        return Side(rows, pairs.aggressor[rows].astype(np.int64), pairs.expected(rows))

    return pairs.memo.once(("suffering", function), made)
