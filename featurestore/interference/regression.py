"""Huber-weighted Gauss-Newton for log times with additive slowdowns, random groups of controls, clustered errors.

Sources: Huber, Robust Statistics (1981), ch. 7; MacKay, Neural Computation 4 (1992) 415, for the variances of the
groups; Liang and Zeger, Biometrika 73 (1986) 13, for the clustered errors, which widen the model's own where they
exceed them by more than chance does; Bickel, J. Am. Statist. Assoc. 70 (1975) 428, for the one step to each half.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse

from featurestore.interference.evidence import Floats, Ints, Options
from featurestore.interference.gaussian import inverse

#: Smallest admitted 1 + sum of slowdowns: co-runners may seem to help, never to make a run vanish.
_LEAST = 0.2
_LEAST_SLOWDOWN = -0.5
_NOISE_FLOOR = 1e-6
#: A kind of run (cold, warm) with fewer rows has no noise of its own.
_KIND_ROWS = 20
#: What the noise is believed to be beforehand counts as so many rows.
_PLAIN_ROWS = 10.0


@dataclass(frozen=True, slots=True)
class Problem:
    """y [n] = controls [n, q] beta + log(1 + sum g(exposure [n, m], slowdown [m])) + noise of the row's *kind* [n].

    *group* [q]: 0 not penalised, else a random group whose standard deviation beforehand is *sd* [g]. *cluster* [n]
    are codes from 0 of the clusters of the errors, *half* [n] says which half of the evidence a row is in,
    where halves are wanted.
    """

    y: Floats
    controls: Floats
    group: Ints
    sd: Floats
    exposure: Floats
    cluster: Ints
    kind: Ints
    half: Ints | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """*beta* [q], *slowdown* [m], their model covariance [q + m, q + m], the slowdowns' *precision* [m, m] and the
    *inflation* [m] of their variances by the clustering; *noise* is the standard deviation of the usual kind.
    *halves* are the slowdowns and their precision by each half of the evidence alone, one step from the whole."""

    beta: Floats
    slowdown: Floats
    covariance: Floats
    precision: Floats
    noise: float
    residual: Floats
    inflation: Floats
    halves: tuple[tuple[Floats, Floats], ...]


@dataclass(slots=True)
class _State:
    theta: Floats
    variance: Floats
    ratio: Floats  # a row's noise over that of the usual kind
    plain: float  # noise if no random control and no neighbour mattered
    degrees: float  # rows less the coefficients that they pay for
    scale: float
    residual: Floats  # over ratio
    jacobian: Floats


def fit(problem: Problem, options: Options) -> Estimate:
    """Return the M-estimate of *problem*; deterministic, no warnings for singular problems (wide errors instead)."""
    n, q = problem.controls.shape
    m = problem.exposure.shape[1]
    theta = np.zeros(q + m)
    free = problem.group == 0
    theta[:q][free] = linalg.lstsq(problem.controls[:, free], problem.y)[0]
    residual, jacobian = _at(problem, theta, np.ones(n), options)
    plain = _scale(residual)
    state = _State(theta, problem.sd**2, np.ones(n), plain, float(n), plain, residual, jacobian)
    design, rooted = np.empty((n, q + m)), np.empty((n, q + m))  # to make them at each turn takes as long as the rest
    for turn in range(options.iterations):
        _arrange(problem, state, design)
        weight = _huber(state.residual, state.scale, options.huber)
        np.multiply(design, np.sqrt(weight)[:, None], out=rooted)
        gram = rooted.T @ rooted  # a matrix by itself: half of the work
        penalty = _penalty(problem.group, state, m, options)
        covariance = inverse(gram + np.diag(penalty))
        step = covariance @ (design.T @ (weight * state.residual) - penalty * state.theta)
        _advance(problem, state, step, penalty, options)
        _regroup(problem, state, covariance, options)
        state.degrees = max(n - float(np.sum(covariance * gram)), 0.0)
        state.scale = _noise(n * _scale(state.residual) ** 2, state)
        small = np.abs(step) < options.tolerance * state.scale * np.sqrt(np.maximum(np.diag(covariance), 0.0))
        if turn >= 2 and small.all():
            break
        if turn == 1:
            _weigh_kinds(problem, state, options)
    _arrange(problem, state, design)
    return _errors(problem, state, design, options)


def _arrange(problem: Problem, state: _State, design: Floats) -> None:
    """Put the derivative of the model over the rows' noise into *design* [n, q + m]."""
    q = problem.controls.shape[1]
    np.divide(problem.controls, state.ratio[:, None], out=design[:, :q])
    np.divide(state.jacobian, state.ratio[:, None], out=design[:, q:])


def _at(problem: Problem, theta: Floats, ratio: Floats, options: Options) -> tuple[Floats, Floats]:
    """Return the residual over *ratio* [n] and the derivative [n, m] of the model by the slowdowns."""
    q = problem.controls.shape[1]
    slowdown = theta[q:]
    if options.stretch:
        stretched = 1.0 + slowdown * np.maximum(0.0, 1.0 - problem.exposure)
        slope = problem.exposure / stretched
        total = np.maximum(1.0 + slope @ slowdown, _LEAST)
        slope /= stretched
    else:
        slope = problem.exposure
        total = np.maximum(1.0 + slope @ slowdown, _LEAST)
    residual = problem.y - problem.controls @ theta[:q] - np.log(total)
    return residual / ratio, slope / total[:, None]


def _huber(residual: Floats, scale: float, limit: float) -> Floats:
    return np.minimum(1.0, limit * scale / np.maximum(np.abs(residual), 1e-300))


def _scale(residual: Floats) -> float:
    """Return the standard deviation by the median absolute residual, or by the mean square where that is zero."""
    middle = float(np.median(np.abs(residual))) / 0.6745
    return max(middle if middle > 0 else float(np.sqrt(np.mean(residual**2))), _NOISE_FLOOR)


def _noise(squares: float, state: _State) -> float:
    """Return the standard deviation behind a sum of squares; few degrees of freedom lean on the plain noise."""
    return max(float(np.sqrt((squares + _PLAIN_ROWS * state.plain**2) / (state.degrees + _PLAIN_ROWS))), _NOISE_FLOOR)


def _penalty(group: Ints, state: _State, m: int, options: Options) -> Floats:
    own = np.where(group == 0, 1e-9, 1.0 / state.variance[group])
    return state.scale**2 * np.concatenate([own, np.full(m, 1.0 / options.prior_sd**2)])


def _loss(residual: Floats, theta: Floats, scale: float, penalty: Floats, limit: float) -> float:
    size, cut = np.abs(residual), limit * scale
    return float(np.sum(np.where(size <= cut, 0.5 * size**2, cut * size - 0.5 * cut**2)) + 0.5 * penalty @ theta**2)


def _advance(problem: Problem, state: _State, step: Floats, penalty: Floats, options: Options) -> None:
    """Take the step, halved until the loss falls."""
    q = problem.controls.shape[1]
    before = _loss(state.residual, state.theta, state.scale, penalty, options.huber)
    for halving in range(6):
        tried = state.theta + step * 0.5**halving
        tried[q:] = np.maximum(tried[q:], _LEAST_SLOWDOWN)
        residual, jacobian = _at(problem, tried, state.ratio, options)
        if halving == 5 or _loss(residual, tried, state.scale, penalty, options.huber) <= before:
            state.theta, state.residual, state.jacobian = tried, residual, jacobian
            return


def _regroup(problem: Problem, state: _State, covariance: Floats, options: Options) -> None:
    """Move each group's variance by MacKay's fixed point; what was believed beforehand counts as some members."""
    spread = np.diag(covariance) * state.scale**2
    for g in range(1, len(problem.sd)):
        members = np.flatnonzero(problem.group == g)
        used = max(len(members) - float(spread[members].sum()) / state.variance[g], 0.0)
        size = float(state.theta[members] @ state.theta[members]) + options.pseudo * problem.sd[g] ** 2
        state.variance[g] = size / (used + options.pseudo)


def _weigh_kinds(problem: Problem, state: _State, options: Options) -> None:
    """Give each kind of run the noise that its residuals show, relative to the kind with most rows."""
    counts = np.bincount(problem.kind)
    usual = int(np.argmax(counts))
    reference = _scale(state.residual[problem.kind == usual])
    for kind in np.flatnonzero(counts >= _KIND_ROWS):
        rows = problem.kind == kind
        if kind != usual and reference > _NOISE_FLOOR:
            state.ratio[rows] = np.clip(_scale(state.residual[rows]) / reference, 0.5, 3.0)
    state.residual, state.jacobian = _at(problem, state.theta, state.ratio, options)
    state.scale = _scale(state.residual)


def _errors(problem: Problem, state: _State, design: Floats, options: Options) -> Estimate:
    n, q = problem.controls.shape
    m = problem.exposure.shape[1]
    inside = (np.abs(state.residual) <= options.huber * state.scale).astype(np.float64)
    psi = state.residual * _huber(state.residual, state.scale, options.huber)
    penalty = _penalty(problem.group, state, m, options)
    counted = design[inside > 0]
    bread = inverse(counted.T @ counted + np.diag(penalty))
    noise = _noise(float(np.sum(psi**2)), state) ** 2
    model = bread * noise / max(float(np.mean(inside)), 0.1)
    clusters = int(problem.cluster.max()) + 1
    member = sparse.csr_matrix((psi, (problem.cluster, np.arange(n))), shape=(clusters, n))
    half = (member @ design) @ bread
    sandwich = np.sum(half * half, axis=0) * clusters / max(clusters - 1, 1)
    ratio = sandwich[q:] / np.maximum(np.diag(model)[q:], 1e-300)
    square = half[:, q:] ** 2
    degrees = square.sum(axis=0) ** 2 / np.maximum(np.sum(square**2, axis=0), 1e-300)
    ratio = np.maximum(ratio / (1.0 + np.sqrt(2.0 / np.maximum(degrees, 1.0))), 1.0)  # beyond chance alone
    halves = []
    for half in () if problem.half is None else (0, 1):
        rows = problem.half == half
        part, counted = design[rows], design[rows & (inside > 0)]
        spread = inverse(counted.T @ counted + np.diag(penalty))
        moved = state.theta + spread @ (part.T @ psi[rows] - penalty * state.theta)
        spread *= noise / max(float(np.mean(inside)), 0.1)
        halves.append((moved[q:], inverse(spread[q:, q:])))
    return Estimate(
        beta=state.theta[:q],
        slowdown=state.theta[q:],
        covariance=model,
        precision=inverse(model[q:, q:]),
        noise=float(np.sqrt(noise)),
        residual=state.residual,
        inflation=ratio,
        halves=tuple(halves),
    )
