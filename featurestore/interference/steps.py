"""Steps of `featurestore.interference.turns`: along the bound of slowdowns, and from two turns at once.

A slowdown at its bound that is still pulled outward takes no step, and the others go as if it were fixed: solved for
all and cut off afterwards, the others would go where they belong had it moved. Source of the second: Anderson, J. ACM
12 (1965) 547, of one turn before. Turns go back and forth, or ever on in one direction: noise, groups, or the base of
a victim beside all of its slowdowns. The turns that would follow are left out.
"""

import numpy as np

from featurestore.compiled import compiled
from featurestore.interference.cholesky import mean, solved
from featurestore.interference.evidence import Bools, Floats, Ints


@compiled
def bounded(factor: Floats, pull: Floats, bound: Bools) -> tuple[Floats, Bools]:
    """Return the step [p] by the *factor* [p, p] of an inverse (`cholesky.inverted`) and the *pull* [p], and which
    coefficients are held: those at their *bound* [p] from below that would go beyond it."""
    whole = solved(factor, pull)
    held = bound & (pull < 0)
    step = _beside(factor, whole, np.flatnonzero(held))
    for _ in range(len(pull)):
        more = bound & ~held & (step < 0)
        if not more.any():
            break
        held |= more
        step = _beside(factor, whole, np.flatnonzero(held))
    return step, held


@compiled
def _beside(factor: Floats, whole: Floats, held: Ints) -> Floats:
    """Return the step [p] of which those *held* are zero, given that of all."""
    p, count = len(whole), len(held)
    step = whole.copy()
    if not count:
        return step
    moves = np.zeros((count, p))  # the inverse's rows of those that are held
    for a in range(count):
        for row in range(p):
            for k in range(max(row, held[a]), p):
                moves[a, row] += factor[row, k] * factor[held[a], k]
    given = mean(moves[:, held].copy(), np.zeros(count), whole[held])
    for a in range(count):
        for row in range(p):
            step[row] -= given[a] * moves[a, row]
    step[held] = 0.0
    return step


@compiled
def mixed(step: Floats, last: Floats, moved: Floats, own: Floats) -> Floats:
    """Return the *step* [p] to take where the turn before *moved* [p] by what its own step was, *last* [p]: what
    both together leave least of. *own* [p] are the coefficients' variances."""
    with_it = against = 0.0
    for row in range(len(step)):
        change = step[row] - last[row]
        with_it += change * step[row] / own[row]
        against += change * change / own[row]
    share = with_it / against if against > 0 else 0.0
    found: Floats = step - share * (moved + step - last)
    return found
