"""What a run that takes longer meets more of: who runs at its end, and what that says of the slowdowns.

How long a run takes decides whom it meets: exposures and the load of the cluster are means over a time whose end is
the outcome. Least squares take them as given, and the more widely times spread, the smaller they find slowdowns by
neighbours that come and go within a run: of one that is slowed, more is over before as many came as slow it.

The remedy is Stein's identity. Seen from what is drawn, the work, which is log-normal about the base, neighbours come
and go by the clock, whatever the run does. The column s of a run then is a function of its log work, and

    E[psi(e) s - c ds / d log(work)] = 0,        c = E[psi(e) e],

for residuals e and weights psi(e) / e, to first order also where e is not normal: each column's pull has the second
term. By the clock a mean E over the run moves to who is there at the end, dE / d log(time) = number - E. Time passes
rate / total as fast as work, with rate = 1 + sum of S number right before the end, and total its mean over the run.

That takes runs to be slowed alike from their begin to their end. Where the last part of a run is a wait, or a run
starts the one that follows it, the ends contradict the times: of a slowdown least squares tell less than both
together, and never much more (`contradicted`; the test is like Hausman's). Then the times alone count.

Sources: Stein, Ann. Statist. 9 (1981) 1135; that what a run itself prolongs has to be known up to its end,
Kalbfleisch and Prentice, The Statistical Analysis of Failure Time Data (2002), ch. 6; Hausman, Econometrica 46
(1978) 1251. Together: this product's.
"""

from typing import NamedTuple

import numpy as np

from featurestore.compiled import compiled
from featurestore.interference.evidence import Bools, Floats, Ints
from featurestore.interference.normal import Rows

#: Ends contradict where they differ by so many standard errors of the times alone.
_CONTRADICTED = 3.0
#: Least 1 + sum of slowdowns: neighbours may seem to help, never to make a run vanish.
LEAST = 0.2


class Ends(NamedTuple):
    """Who ran right before the end of each of n runs: the *number* of each function, in the order of the exposures,
    and by how much more the controls from column *cluster* on are then than over the run, *more* [n, c].

    From column *beside* on are the concurrencies in the whole cluster of the first so many *neighbours*. Where the
    ends are not *known* nothing follows from them.
    """

    known: bool
    number: Floats
    more: Floats
    cluster: int
    beside: int
    neighbours: int


def unknown(exposure: Floats, rows: int) -> Ends:
    """Return that nothing is known of the ends of so many *rows* of these *exposure* values."""
    return Ends(False, exposure, np.zeros((rows, 0)), 0, 0, 0)


@compiled
def leaned(
    ends: Ends, rows: Rows, slope: Floats, slowdown: Floats, total: Floats, stretch: bool, lean: float, q: int
) -> Floats:
    """Return what the ends add to the pull [q + m] of q controls and m slowdowns, psi(e) e being *lean* on average.

    *rows* are the exposures, *slope* the derivatives of the model by the slowdowns, *total* [n] the stretched times.
    """
    found = np.zeros((1, q + len(slowdown)))
    lean_sums(found, np.zeros(len(total), np.int64), ends, rows, slope, slowdown, total, stretch, lean, q)
    return found[0]  # type: ignore[no-any-return]  # indexing an array is untyped


@compiled
def lean_sums(
    sums: Floats,
    cluster: Ints,
    ends: Ends,
    rows: Rows,
    slope: Floats,
    slowdown: Floats,
    total: Floats,
    stretch: bool,
    lean: float,
    q: int,
) -> None:
    """Add to the *sums* [clusters, q + m] what the ends of each *cluster* [n] of rows add to the pull (`leaned`)."""
    if lean == 0.0:
        return
    most = 0
    for row in range(len(total)):
        most = max(most, rows.indptr[row + 1] - rows.indptr[row])
    steep = np.empty(most)
    for row in range(len(total)):
        found = sums[cluster[row]]
        first, last, by = rows.indptr[row], rows.indptr[row + 1], 1.0 / total[row]
        rate, rise = 1.0, 0.0
        for k in range(first, last):
            own, exposure, number = slowdown[np.uint64(rows.indices[k])], rows.values[k], ends.number[k]
            rate += own * number
            if stretch and exposure < 1.0:
                wide = 1.0 / (1.0 + own * (1.0 - exposure))
                rise += own * (1.0 + own) * wide * wide * (number - exposure)
                steep[k - first] = (1.0 + 2.0 * own * exposure * wide) * wide * wide
            else:
                rise += own * (number - exposure)
                steep[k - first] = 1.0
        rise *= by
        rate = lean * max(rate, LEAST) * by
        for k in range(first, last):
            at, more = np.uint64(rows.indices[k]), ends.number[k] - rows.values[k]
            found[np.uint64(q) + at] -= rate * (by * steep[k - first] * more - slope[k] * rise)
            if at < ends.neighbours:
                found[np.uint64(ends.beside) + at] -= rate * more
        for column in range(ends.more.shape[1]):
            found[ends.cluster + column] -= rate * ends.more[row, column]


@compiled
def drifts(ends: Ends, rows: Rows, slope: Floats, slowdown: Floats) -> Floats:
    """Return by how much each slope is above its mean over the run [values] when the run ends.

    Their products are what the ends add to the gram of the slowdowns (`leaned`): how much a neighbour comes and goes
    within a run is evidence as well, and neighbours that always come and go together stay untold.
    """
    found = np.empty(len(slope))
    for row in range(len(rows.indptr) - 1):
        rate = 1.0
        for k in range(rows.indptr[row], rows.indptr[row + 1]):
            rate += slowdown[np.uint64(rows.indices[k])] * ends.number[k]
        by = 1.0 / max(rate, LEAST)
        for k in range(rows.indptr[row], rows.indptr[row + 1]):
            found[k] = ends.number[k] * by - slope[k]
    return found


@compiled
def products(rows: Rows, drifts: Floats, inside: Bools, columns: int) -> Floats:
    """Return the products [m, m] of the *drifts* (`drifts`) of those rows that are *inside* [n]."""
    found = np.zeros((columns, columns))
    for row in range(len(inside)):
        if inside[row]:
            for k in range(rows.indptr[row], rows.indptr[row + 1]):
                to = found[np.uint64(rows.indices[k])]
                for other in range(rows.indptr[row], k + 1):
                    to[np.uint64(rows.indices[other])] += drifts[k] * drifts[other]
    for row in range(columns):  # of each two one place has their product
        for column in range(row):
            found[row, column] = found[column, row] = found[row, column] + found[column, row]
    return found


def contradicted(step: Floats, error: Floats) -> bool:
    """Return whether the times alone, a *step* [m] from what both together say, contradict the ends; *error* [m] is
    the standard error of the times alone."""
    return bool(np.any(step > _CONTRADICTED * error) or not np.all(np.isfinite(step)))
