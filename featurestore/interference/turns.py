"""The turns of `featurestore.interference.regression`, compiled: many small steps without the interpreter.

Victims are fitted side by side: nothing here holds the interpreter's lock.
"""

from typing import NamedTuple

import numpy as np

from featurestore.compiled import compiled
from featurestore.interference.cholesky import inverted, mean, squared
from featurestore.interference.ends import LEAST, Ends, drifts, leaned
from featurestore.interference.evidence import Floats, Ints
from featurestore.interference.normal import (
    Columns,
    Rows,
    along,
    crossed,
    joined,
    product,
    pulled,
    square,
    squares,
    stretched,
    width,
)
from featurestore.interference.steps import bounded, mixed

LEAST_SLOWDOWN = -0.5
NOISE_FLOOR = 1e-6
#: Kinds of runs (warm, cold) times halves of the evidence.
PARTS = 4
#: A kind of run (cold, warm) with fewer rows has no noise of its own.
KIND_ROWS = 20
#: What the noise is believed to be beforehand counts as so many rows.
PLAIN_ROWS = 10.0
#: Of twice as many rows or more, so many evenly taken are fitted first.
SOME_ROWS = 3_000
#: Degrees of freedom left are no smaller a share of the rows, where the ends are weighed.
_LEAST_DEGREES = 0.2
#: What the ends are weighed by is at most so many times the square of the plain noise.
_MOST_LEAN = 1.2
#: A step is halved as long as the loss does not fall, but not below this share of it.
LEAST_SHARE = 1.0 / 32.0
#: A gram holds for so many turns; from where no neighbour matters the first turns have one each.
SAME_GRAM, OWN_GRAM = 4, 3
#: It does not hold after a turn that took a coefficient further than so many of its standard errors.
FAR = 1.0


class Given(NamedTuple):
    """The problem's columns (see `regression.Problem`), the exposure as sparse rows; *part* [n] of `PARTS` is which
    half of the evidence a row is in and of which kind it is, *ends* who was there when it ended."""

    y: Floats
    controls: Columns
    group: Ints
    sd: Floats
    indptr: Ints
    indices: Ints
    exposure: Floats
    kind: Ints
    part: Ints
    ends: Ends


class Limits(NamedTuple):
    """What of the options the turns need."""

    iterations: int
    tolerance: float
    huber: float
    prior_sd: float
    pseudo: float
    stretch: bool


class Settled(NamedTuple):
    """Where the turns ended: the coefficients *theta* [p], the groups' *variance* [g], a row's noise over that of the
    usual kind *ratio* [n], the noise *plain* if nothing mattered, the *degrees* of freedom left, the *scale*, the
    *residual* over ratio [n], the *slope* of the model by the slowdowns, where there is exposure, the *squares*
    [2, q, q] of the controls of each half over ratio (`normal.squares`), the stretched times *total* [n], and by how
    much the ends *lean*."""

    theta: Floats
    variance: Floats
    ratio: Floats
    plain: float
    degrees: float
    scale: float
    residual: Floats
    slope: Floats
    squares: Floats
    total: Floats
    lean: float


def settled(given: Given, columns: int, limits: Limits) -> Settled:
    """Take Gauss-Newton steps until all are small, from where no neighbour matters; *columns* is the number of
    aggressors. Of many rows some are fitted first: from there all of them take few steps.

    Not compiled itself: what is compiled would be so again within it, a quarter of the first use's time."""
    n = len(given.y)
    variance = given.sd**2
    every = max(n // SOME_ROWS, 1)
    chosen = np.arange(n) % every == 0
    own = squares(given.controls, np.flatnonzero(chosen), np.ones(n), given.part, PARTS)
    parts = own + squares(given.controls, np.flatnonzero(~chosen), np.ones(n), given.part, PARTS)
    theta = _begun(given, parts.sum(axis=0), columns)
    level = product(given.controls, theta[: width(given.controls)])
    plain = spread(placed(given, theta, level, np.ones(n), limits)[0])
    if every == 1:
        return _turned(given, columns, parts, theta, variance, plain, limits, False)
    some = _some(given, np.flatnonzero(chosen))
    first = _turned(some, columns, own, theta, variance, plain, limits, False)
    return _turned(given, columns, parts, first.theta, first.variance, plain, limits, True)


@compiled
def _turned(
    given: Given,
    columns: int,
    parts: Floats,
    theta: Floats,
    variance: Floats,
    plain: float,
    limits: Limits,
    near: bool,
) -> Settled:
    """Take the steps from *theta* [p]; *parts* are the squares of the controls by `Given.part`: a kind has one ratio,
    so that no row is squared twice. A gram holds for some turns, *near* the end from the first on: what is found is
    where the pull is zero, and that is made anew in each."""
    n, q, p = len(given.y), width(given.controls), len(theta)
    ratio = np.ones(n)
    level = product(given.controls, theta[:q])
    residual, slope, total = placed(given, theta, level, ratio, limits)
    if near and _weigh_kinds(given.kind, residual, ratio):
        residual, slope, total = placed(given, theta, level, ratio, limits)
    halves = leveled(parts, given.part, ratio)
    scale, degrees, lean = spread(residual), float(n), 0.0
    rows = Rows(given.indptr, given.indices, given.exposure)
    known = np.empty((0, 0))
    last, moved, alike, far = np.zeros(p), np.zeros(p), False, False
    for turn in range(limits.iterations):
        weight = huber(residual, scale, limits.huber)
        lean = leaning_of(given, weight, residual, degrees, plain)
        if far or (turn < OWN_GRAM and not near) or turn % SAME_GRAM == 0:
            moved_by = drifts(given.ends, rows, slope, theta[q:])
            known = gram(given, columns, halves[0] + halves[1], slope, weight, ratio, moved_by, lean)
        penalty = penalties(given.group, variance, scale, columns, limits.prior_sd)
        factor, added = inverted(known, penalty)
        pull = np.empty(p)
        value = weight * residual / ratio
        pull[:q] = along(given.controls, value)
        pull[q:] = pulled(given.indptr, given.indices, slope, value, columns)
        leaning = leaned(given.ends, rows, slope, theta[q:], total, limits.stretch, lean, q)
        pull += leaning
        bound = np.zeros(p, np.bool_)
        bound[q:] = theta[q:] <= LEAST_SLOWDOWN
        step, held = bounded(factor, pull - penalty * theta, bound)
        own = squared(factor)
        taken = mixed(step, last, moved, own) if alike else step
        taken[held] = 0.0
        before = theta
        theta, level, residual, slope, total = _advanced(
            given, theta, taken, level, residual, ratio, scale, penalty, limits, leaning
        )
        last, moved, alike = step, theta - before, True
        _regroup(given, variance, theta, own * scale**2, limits.pseudo)
        degrees = max(n - (p - np.sum(own * (penalty + added))), 0.0)  # the trace of covariance times gram
        scale = noise(n * spread(residual) ** 2, plain, degrees)
        small, far = True, False
        for at in range(p):
            error = scale * np.sqrt(max(own[at], 0.0))
            small &= abs(step[at]) < limits.tolerance * error
            far |= abs(step[at]) > FAR * error
        if small and (near or turn >= 2):
            break
        if turn == 1 and not near:
            if _weigh_kinds(given.kind, residual, ratio):
                halves = leveled(parts, given.part, ratio)
            residual, slope, total = placed(given, theta, level, ratio, limits)
            scale, alike = spread(residual), False
    return Settled(theta, variance, ratio, plain, degrees, scale, residual, slope, halves, total, lean)


@compiled
def _some(given: Given, rows: Ints) -> Given:
    """Return some *rows* of the problem."""
    columns, ends = given.controls, given.ends
    starts = np.zeros(len(rows) + 1, np.int64)
    for k in range(len(rows)):
        starts[k + 1] = starts[k] + given.indptr[rows[k] + 1] - given.indptr[rows[k]]
    indices, exposure, number = np.empty(starts[-1], np.int64), np.empty(starts[-1]), np.empty(starts[-1])
    for k in range(len(rows)):
        first = given.indptr[rows[k]]
        for at in range(starts[k + 1] - starts[k]):
            number[starts[k] + at] = given.ends.number[first + at]
            indices[starts[k] + at], exposure[starts[k] + at] = given.indices[first + at], given.exposure[first + at]
    return Given(
        given.y[rows],
        Columns(columns.level[rows], columns.share[rows], columns.mean, columns.types, columns.dense[rows]),
        given.group,
        given.sd,
        starts,
        indices,
        exposure,
        given.kind[rows],
        given.part[rows],
        Ends(ends.known, number, ends.more[rows], ends.cluster, ends.beside, ends.neighbours),
    )


@compiled
def _begun(given: Given, whole: Floats, columns: int) -> Floats:
    """Return coefficients [p] of which those that are not penalised fit the times best, the others being zero;
    *whole* [q, q] is the gram of the controls."""
    free = np.flatnonzero(given.group == 0)
    pull = along(given.controls, given.y)
    gram = np.empty((len(free), len(free)))
    for row in range(len(free)):
        for other in range(len(free)):
            gram[row, other] = whole[free[row], free[other]]
    found = np.zeros(len(whole) + columns)
    found[free] = mean(gram, np.zeros(len(free)), pull[free])
    return found


@compiled
def leveled(parts: Floats, part: Ints, ratio: Floats) -> Floats:
    """Return the squares [2, q, q] of both halves over *ratio* [n], given those of each *part* [n] at ratio one."""
    level = np.zeros(PARTS)
    for row in range(len(part)):
        level[part[row]] = 1.0 / ratio[row] ** 2
    found = np.zeros((2, parts.shape[1], parts.shape[2]))
    for own in range(PARTS):
        found[own % 2] += level[own] * parts[own]
    return found


@compiled
def gram(
    given: Given,
    columns: int,
    whole: Floats,
    slope: Floats,
    weight: Floats,
    ratio: Floats,
    moved_by: Floats,
    lean: float,
) -> Floats:
    """Return the gram [p, p] of the rows over *ratio*, of *weight* [n] of at most one each.

    *whole* [q, q] is that of the controls at weight one: of robust weights nearly all are one, so that only the rows
    whose weight is less are taken away from it.
    """
    level = 1.0 / ratio**2
    less = np.flatnonzero(weight < 1.0)
    if 3 * len(less) > len(weight):
        own = square(given.controls, np.arange(len(weight)), weight * level)
    else:
        own = whole - square(given.controls, less, (1.0 - weight) * level)
    cross, inner = crossed(
        given.controls, given.indptr, given.indices, slope, weight * level, columns, moved_by, lean
    )
    return joined(own, cross, inner, given.controls)


@compiled
def placed(
    given: Given, theta: Floats, level: Floats, ratio: Floats, limits: Limits
) -> tuple[Floats, Floats, Floats]:
    """Return the residual over *ratio* [n], the derivative of the model by the slowdowns, where there is any, and how
    much longer each run takes [n];
    *level* [n] is what the controls make of each row."""
    q = width(given.controls)
    total, slope = stretched(given.indptr, given.indices, given.exposure, theta[q:], limits.stretch, LEAST)
    return (given.y - level - np.log(total)) / ratio, slope, total


@compiled
def leaning_of(given: Given, weight: Floats, residual: Floats, degrees: float, plain: float) -> float:
    """Return the mean of psi(e) e (`ends.leaned`) by so many *degrees* of freedom, hardly more than of the *plain*
    noise: a fit that goes astray would lean the more on the ends that lead it there."""
    n = len(residual)
    found = np.sum(weight * residual**2) / max(degrees, _LEAST_DEGREES * n)
    return min(found, _MOST_LEAN * plain**2) if given.ends.known else 0.0


@compiled
def huber(residual: Floats, scale: float, limit: float) -> Floats:
    """Return Huber's weights [n]."""
    return np.minimum(1.0, limit * scale / np.maximum(np.abs(residual), 1e-300))


@compiled
def spread(residual: Floats) -> float:
    """Return the standard deviation by the median absolute residual, or by the mean square where that is zero."""
    found: float = np.median(np.abs(residual)) / 0.6745
    if not found > 0:
        found = np.sqrt(np.mean(residual**2))
    return max(found, NOISE_FLOOR)


@compiled
def noise(squares: float, plain: float, degrees: float) -> float:
    """Return the standard deviation behind a sum of squares; few degrees of freedom lean on the *plain* noise."""
    found: float = np.sqrt((squares + PLAIN_ROWS * plain**2) / (degrees + PLAIN_ROWS))
    return max(found, NOISE_FLOOR)


@compiled
def penalties(group: Ints, variance: Floats, scale: float, columns: int, prior_sd: float) -> Floats:
    """Return the penalty [p] of each coefficient: controls by their *group*, then the slowdowns."""
    q = len(group)
    found = np.empty(q + columns)
    for at in range(q):
        found[at] = scale**2 * (1e-9 if group[at] == 0 else 1.0 / variance[group[at]])
    found[q:] = scale**2 * (1.0 / prior_sd**2)
    return found


@compiled
def _loss(residual: Floats, theta: Floats, scale: float, penalty: Floats, limit: float) -> float:
    cut, found = limit * scale, 0.0
    for row in range(len(residual)):
        size = abs(residual[row])
        found += 0.5 * size**2 if size <= cut else cut * size - 0.5 * cut**2
    return found + 0.5 * np.sum(penalty * theta**2)


@compiled
def _advanced(
    given: Given,
    theta: Floats,
    step: Floats,
    level: Floats,
    residual: Floats,
    ratio: Floats,
    scale: float,
    penalty: Floats,
    limits: Limits,
    leaning: Floats,
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return coefficients, what the controls make of each row, residual, slope and stretched times after the step,
    halved until the loss falls, which the ends change by their pull, *leaning* [p]."""
    q = width(given.controls)
    before = _loss(residual, theta, scale, penalty, limits.huber)
    more = product(given.controls, step[:q])
    share = 1.0
    while True:
        tried = theta + share * step
        tried[q:] = np.maximum(tried[q:], LEAST_SLOWDOWN)
        there = level + share * more
        found, slopes, total = placed(given, tried, there, ratio, limits)
        loss = _loss(found, tried, scale, penalty, limits.huber) - np.sum(leaning * (tried - theta))
        if share <= LEAST_SHARE or loss <= before:
            return tried, there, found, slopes, total
        share *= 0.5


@compiled
def _regroup(given: Given, variance: Floats, theta: Floats, known: Floats, pseudo: float) -> None:
    """Move each group's variance by MacKay's fixed point, *known* [p] being the coefficients' variances; what was
    believed beforehand counts as some members."""
    groups = len(variance)
    members, known_of, size = np.zeros(groups), np.zeros(groups), np.zeros(groups)
    for at in range(len(given.group)):
        g = given.group[at]
        members[g] += 1.0
        known_of[g] += known[at]
        size[g] += theta[at] ** 2
    for g in range(1, groups):
        used = max(members[g] - known_of[g] / variance[g], 0.0)
        variance[g] = (size[g] + pseudo * given.sd[g] ** 2) / (used + pseudo)


@compiled
def _weigh_kinds(kind: Ints, residual: Floats, ratio: Floats) -> bool:
    """Give each kind of run the noise that its residuals show, relative to the kind with most rows."""
    counts = np.bincount(kind)
    usual = np.argmax(counts)
    reference = spread(residual[kind == usual])
    changed = False
    for other in range(len(counts)):
        if other != usual and counts[other] >= KIND_ROWS and reference > NOISE_FLOOR:
            own = min(max(spread(residual[kind == other]) / reference, 0.5), 3.0)
            for row in range(len(kind)):
                if kind[row] == other:
                    ratio[row] = own
                    changed = True
    return changed
