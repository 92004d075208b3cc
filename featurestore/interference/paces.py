"""How slow a node was about a run, by the victim's other runs there: what slows all for minutes is no neighbour."""

import numpy as np

from featurestore.compiled import compiled
from featurestore.interference.evidence import Floats, Ints

#: A run counts the less the longer before or after it was: so many seconds for each power of e.
_FADES = 300.0
#: So many runs are believed beforehand to have been as usual.
_USUAL = 6.0
#: A run that took longer or shorter than usual by more standard deviations counts as if by so many.
_MOST = 3.0


@compiled
def pace(
    time: Floats, start: Floats, end: Floats, node: Ints, nodes: int, kind: Ints, begun: Ints, ended: Ints
) -> Floats:
    """Return for each run [n] by how much the log *time* [n] of others on its *node*, of so many *nodes*, was above
    the usual of their *kind* [n]: of those that had ended before it began, and that began after it had ended.

    None that overlaps it: how long these take, and which of them there are, depends on how long it takes itself.
    *begun* and *ended* [n] are the rows by when they did.
    """
    n = len(time)
    total, number = np.zeros(kind.max() + 1), np.zeros(kind.max() + 1)
    for row in range(n):
        total[kind[row]] += time[row]
        number[kind[row]] += 1.0
    above, square = np.empty(n), 0.0
    for row in range(n):
        above[row] = time[row] - total[kind[row]] / number[kind[row]]
        square += above[row] ** 2
    most = _MOST * np.sqrt(square / n)
    for row in range(n):
        above[row] = min(max(above[row], -most), most)
    found, weight = np.zeros(n), np.zeros(n)
    _passed(above, start, end, node, nodes, begun, ended, found, weight)
    _passed(above, -end, -start, node, nodes, ended[::-1].copy(), begun[::-1].copy(), found, weight)
    for row in range(n):
        found[row] /= weight[row] + _USUAL
    found -= found.mean()
    return found


@compiled
def _passed(
    above: Floats,
    start: Floats,
    end: Floats,
    node: Ints,
    nodes: int,
    begun: Ints,
    ended: Ints,
    found: Floats,
    weight: Floats,
) -> None:
    """Add to *found* and *weight* [n] what the runs say that had ended before each started, faded."""
    sums, weights, last = np.zeros(nodes), np.zeros(nodes), np.zeros(nodes)
    at = 0
    for row in begun:
        while at < len(ended) and end[ended[at]] <= start[row] and ended[at] != row:
            other = ended[at]
            own = node[other]
            fade = np.exp((last[own] - end[other]) / _FADES) if weights[own] > 0 else 0.0
            sums[own], weights[own] = sums[own] * fade + above[other], weights[own] * fade + 1.0
            last[own] = end[other]
            at += 1
        own = node[row]
        if weights[own] > 0:
            fade = np.exp((last[own] - start[row]) / _FADES)
            found[row] += sums[own] * fade
            weight[row] += weights[own] * fade
