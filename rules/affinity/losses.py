"""What functions that run beside each other lose by it on each node, weighed by how busy they are."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from rules.candidates import Ids, Scores
from rules.functions import Rows
from rules.view import View

_NOBODY: Final[Rows] = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """The known pairs of one function: the first *suffered* rows are those that it suffers by, its own kind among
    them, the others those by which others suffer from it. Each with the function on the other side, and what one of
    the aggressor's activations costs. *general* where all are of all node types together.
    """

    rows: Rows
    other: Rows
    cost: Scores
    suffered: int
    general: bool


@dataclass(frozen=True, slots=True, eq=False)
class Met:
    """Who of some `Sides` runs where now: *pair* numbers the rows, *busy* says how many activations run at once.

    The first *suffered* entries are of the rows that the function suffers by.
    """

    node: Rows
    busy: Scores
    pair: Rows
    suffered: int

    def lost(self, cost: Scores, nodes: int) -> Scores:
        """Return the sum over each of so many *nodes*, with the *cost* of each pair."""
        return np.bincount(self.node, self.busy * cost.take(self.pair), nodes).astype(np.float64, copy=False)

    def suffers(self, cost: Scores, nodes: int) -> Scores:
        """Return the same of the rows that the function suffers by."""
        first = slice(self.suffered)
        found = np.bincount(self.node[first], self.busy[first] * cost.take(self.pair[first]), nodes)
        return found.astype(np.float64, copy=False)


def sides(view: View, function: int) -> Sides:
    """Return what is known of *function*; it holds for as long as the snapshot."""
    return view.pairs.memo.once(("sides", function), lambda: _sides(view, function))


def _sides(view: View, function: int) -> Sides:
    pairs = view.pairs
    suffers, causes = pairs.suffered_by(function), pairs.caused_by(function)
    suffers = suffers[pairs.known[suffers]]
    causes = causes[(pairs.victim[causes] != function) & pairs.known[causes]]
    rows = np.concatenate((suffers, causes))
    other = np.concatenate((pairs.aggressor[suffers], pairs.victim[causes])).astype(np.int64)
    return Sides(rows, other, pairs.expected(rows), len(suffers), bool((pairs.type_of[rows] == -1).all()))


def met(view: View, function: int) -> Met:
    """Return who of the pairs of *function* runs where in *view*.

    A row for the node's own type takes the place of the row for all types.
    """
    return view.memo.once(("met", function), lambda: _met(view, sides(view, function)))


def _met(view: View, known: Sides) -> Met:
    if not len(known.rows):
        return Met(_NOBODY, np.zeros(0), _NOBODY, 0)
    counts, at, busy = view.running.of_all(known.other)
    pair = np.repeat(np.arange(len(counts)), counts)
    suffered = sum(counts[: known.suffered])
    if not known.general:
        keep = _of_type(view, known, view.pairs.type_of[known.rows], pair, at)
        at, busy, pair, suffered = at[keep], busy[keep], pair[keep], int(np.count_nonzero(keep[:suffered]))
    return Met(at, busy, pair, suffered)


def _of_type(view: View, known: Sides, kind: Ids, pair: Rows, at: Rows) -> npt.NDArray[np.bool_]:
    """Return which entries count: their pair's row is the one for the type of their node."""
    here, types = view.nodes.type_of[at], len(view.nodes.types)
    # Each direction by itself: the same other function may stand on either side.
    cell = (2 * known.other + (np.arange(len(kind)) < known.suffered)) * types
    special = kind >= 0
    replaced = np.isin(cell[pair] + here, cell[special] + kind[special])
    keep: npt.NDArray[np.bool_] = (kind[pair] == here) | ((kind[pair] == -1) & ~replaced)
    return keep
