"""What seems to slow a function and is its own doing: a run that slows a neighbour keeps it there for longer.

Of runs whose times spread widely the long ones then have more of that neighbour beside them than the short ones: who
was there when the run began has been slowed only since, so that of a short run a larger share goes by before as many
are there as its slowing them keeps there. To a regression of the times by who was there it looks as if the neighbour
slowed the run. Of neighbours that come at random, each for a time w by itself, so many are there on average over a
run of length T that slows them by s:

    (1 + s) rate E[w] (1 - s E[w^2] / (2 E[w] T)),

with the variance (1 + s)^2 rate E[w^2] / T. Where log T has the variance v, its regression by that has the slope
v / 2 * s / (1 + s), and where neighbours last longer than the run, less, about as T to w. The derivation is this
product's; summed exactly for lognormal times, the slope is .7 to 1.8 times that wherever T is at least w.

A fit in which who was there at the ends of runs has a part (`interference.ends`) shows none of it.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from featurestore.interference.evidence import Floats, Ints, Told

#: Of a neighbour's seeming slowdown nothing is taken off that is less than this.
_LEAST = 0.005
#: By how much what is taken off may be wrong, as a share of it (standard deviation).
_DOUBT = 0.3
#: A doubt that is a smaller share of the error is none: it would widen it by less than an eighth.
_COUNTS = 0.5
#: Turns of taking off what follows from what is left: a function may slow itself, and two each other.
_TURNS = 4


def apart(fits: Sequence[Told]) -> list[Told]:
    """Return *fits* without what in each is its victim's own doing, by what the other fits say of that; errors are
    widened by the doubt about it. Those that ends have a part in are as they were."""
    rows = [np.searchsorted(fit.met, fit.columns) for fit in fits]
    ends = np.cumsum([0, *(len(each) for each in rows)])
    if not ends[-1]:
        return list(fits)
    told = np.concatenate([fit.raw for fit in fits])
    error = np.concatenate([fit.se[at] / (1.0 + fit.slowdown[at]) for fit, at in zip(fits, rows, strict=True)])
    back, share = _reversed(fits, ends)
    share[np.repeat([fit.ends for fit in fits], np.diff(ends))] = 0.0
    doing, left = np.zeros(len(told)), told
    for _ in range(_TURNS):
        slowed = np.where(back >= 0, _believed(left[back], error[back]), 0.0)
        doing = np.log1p(share * slowed)
        left = told - doing
    doing[doing < _LEAST] = 0.0
    return [
        _without(fit, at, doing[first:last], error[first:last]) if doing[first:last].any() else fit
        for fit, at, first, last in zip(fits, rows, ends, ends[1:], strict=False)
    ]


def _reversed(fits: Sequence[Told], ends: Ints) -> tuple[Ints, Floats]:
    """Return for each pair [k] of the fits where the pair stands of which its aggressor is the victim, -1 where
    nowhere, and what share of a relative slowdown there seems to be one here."""
    functions = max((fit.functions for fit in fits), default=0)
    number = np.diff(ends)
    victim = np.repeat([fit.victim for fit in fits], number)
    aggressor = np.concatenate([fit.columns for fit in fits])
    noise, middle = np.zeros(functions), np.zeros(functions)
    for fit in fits:
        usual = float(np.exp(np.mean(np.log(list(fit.base.values()))))) if fit.base else np.nan
        if np.isfinite(fit.noise) and np.isfinite(usual):
            noise[fit.victim], middle[fit.victim] = fit.noise, usual
    variance = noise[victim] ** 2
    lasts = middle[aggressor] * np.exp(noise[aggressor] ** 2 / 2)
    share = variance / 2 * np.minimum(1.0, middle[victim] / np.maximum(lasts, 1e-9))
    own, other = victim * functions + aggressor, aggressor * functions + victim
    order = np.argsort(own, kind="stable")
    place = order[np.minimum(np.searchsorted(own, other, sorter=order), len(own) - 1)]
    return np.where(own[place] == other, place, -1), share


def _believed(estimate: Floats, error: Floats) -> Floats:
    """Return by which share of itself a victim is slowed, s / (1 + s), by its *estimate* of log(1 + s): drawn to
    nothing the more, the less it is above its *error* (James and Stein's positive part)."""
    sure = np.maximum(0.0, 1.0 - (error / np.maximum(estimate, 1e-9)) ** 2)
    return np.nan_to_num(np.where(estimate > 0, -np.expm1(-estimate) * sure, 0.0))


def _without(fit: Told, rows: Ints, doing: Floats, error: Floats) -> Told:
    """Return *fit* without what of its columns [m] is its own *doing*, and with the doubt about that."""
    doubt = np.where(_DOUBT * doing > _COUNTS * error, _DOUBT * doing, 0.0)  # an error that is not known: none
    wide = np.flatnonzero(doubt)
    raw = fit.raw - doing
    slowdown, se = fit.slowdown.copy(), fit.se.copy()
    slowdown[rows] = np.where(np.isfinite(slowdown[rows]), np.expm1(raw), np.nan)
    se[rows] = np.hypot(error, doubt) * np.exp(raw)
    return replace(
        fit,
        slowdown=slowdown,
        se=se,
        raw=raw,
        precision=_widened(fit.precision, wide, doubt),
        halves=tuple((own - doing, _widened(precision, wide, doubt)) for own, precision in fit.halves),
    )


def _widened(precision: Floats, wide: Ints, doubt: Floats) -> Floats:
    """Return the inverse of the covariance that *precision* [m, m] is the inverse of, with the square of the *doubt*
    [m] on the diagonal where it is *wide*."""
    if not len(wide):
        return precision
    columns = precision[:, wide]
    inner = np.diag(1.0 / doubt[wide] ** 2) + precision[np.ix_(wide, wide)]
    found: Floats = precision - columns @ np.linalg.solve(inner, columns.T)
    return found
