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
from featurestore.interference.normal import Equations, stretched

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
    where halves are wanted. Few neighbours run beside any one run: what is zero of *exposure* costs nothing.
    """

    y: Floats
    controls: Floats
    group: Ints
    sd: Floats
    exposure: Floats | sparse.csr_matrix
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
    slope: Floats  # of the model by the slowdowns, where there is exposure


def fit(problem: Problem, options: Options) -> Estimate:
    """Return the M-estimate of *problem*; deterministic, no warnings for singular problems (wide errors instead)."""
    n, q = problem.controls.shape
    m = problem.exposure.shape[1]
    theta = np.zeros(q + m)
    free = problem.group == 0
    theta[:q][free] = linalg.lstsq(problem.controls[:, free], problem.y)[0]
    equations = Equations(problem.controls, sparse.csr_matrix(problem.exposure))
    residual, slope = _at(problem, equations, theta, np.ones(n), options)
    plain = _scale(residual)
    state = _State(theta, problem.sd**2, np.ones(n), plain, float(n), plain, residual, slope)
    for turn in range(options.iterations):
        weight = _huber(state.residual, state.scale, options.huber)
        gram = equations.gram(state.slope, weight, state.ratio)
        penalty = _penalty(problem.group, state, m, options)
        covariance = inverse(gram + np.diag(penalty))
        pull = equations.pull(state.slope, weight * state.residual / state.ratio)
        step = covariance @ (pull - penalty * state.theta)
        _advance(problem, equations, state, step, penalty, options)
        _regroup(problem, state, covariance, options)
        state.degrees = max(n - float(np.sum(covariance * gram)), 0.0)
        state.scale = _noise(n * _scale(state.residual) ** 2, state)
        small = np.abs(step) < options.tolerance * state.scale * np.sqrt(np.maximum(np.diag(covariance), 0.0))
        if turn >= 2 and small.all():
            break
        if turn == 1:
            _weigh_kinds(problem, equations, state, options)
    return _errors(problem, equations, state, options)


def _at(
    problem: Problem, equations: Equations, theta: Floats, ratio: Floats, options: Options
) -> tuple[Floats, Floats]:
    """Return the residual over *ratio* [n] and the derivative of the model by the slowdowns, where there is any."""
    q = problem.controls.shape[1]
    exposure = equations.exposure
    total, slope = stretched(exposure.indptr, exposure.indices, exposure.values, theta[q:], options.stretch, _LEAST)
    return (problem.y - problem.controls @ theta[:q] - np.log(total)) / ratio, slope


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


def _advance(
    problem: Problem, equations: Equations, state: _State, step: Floats, penalty: Floats, options: Options
) -> None:
    """Take the step, halved until the loss falls."""
    q = problem.controls.shape[1]
    before = _loss(state.residual, state.theta, state.scale, penalty, options.huber)
    for halving in range(6):
        tried = state.theta + step * 0.5**halving
        tried[q:] = np.maximum(tried[q:], _LEAST_SLOWDOWN)
        residual, slope = _at(problem, equations, tried, state.ratio, options)
        if halving == 5 or _loss(residual, tried, state.scale, penalty, options.huber) <= before:
            state.theta, state.residual, state.slope = tried, residual, slope
            return


def _regroup(problem: Problem, state: _State, covariance: Floats, options: Options) -> None:
    """Move each group's variance by MacKay's fixed point; what was believed beforehand counts as some members."""
    spread = np.diag(covariance) * state.scale**2
    for g in range(1, len(problem.sd)):
        members = np.flatnonzero(problem.group == g)
        used = max(len(members) - float(spread[members].sum()) / state.variance[g], 0.0)
        size = float(state.theta[members] @ state.theta[members]) + options.pseudo * problem.sd[g] ** 2
        state.variance[g] = size / (used + options.pseudo)


def _weigh_kinds(problem: Problem, equations: Equations, state: _State, options: Options) -> None:
    """Give each kind of run the noise that its residuals show, relative to the kind with most rows."""
    counts = np.bincount(problem.kind)
    usual = int(np.argmax(counts))
    reference = _scale(state.residual[problem.kind == usual])
    for kind in np.flatnonzero(counts >= _KIND_ROWS):
        rows = problem.kind == kind
        if kind != usual and reference > _NOISE_FLOOR:
            state.ratio[rows] = np.clip(_scale(state.residual[rows]) / reference, 0.5, 3.0)
    state.residual, state.slope = _at(problem, equations, state.theta, state.ratio, options)
    state.scale = _scale(state.residual)


def _errors(problem: Problem, equations: Equations, state: _State, options: Options) -> Estimate:
    q, m = problem.controls.shape[1], problem.exposure.shape[1]
    inside = (np.abs(state.residual) <= options.huber * state.scale).astype(np.float64)
    psi = state.residual * _huber(state.residual, state.scale, options.huber)
    penalty = _penalty(problem.group, state, m, options)
    level = 1.0 / state.ratio**2
    parts = [inside] if problem.half is None else [inside * (problem.half == half) for half in (0, 1)]
    grams = [equations.weighed(state.slope, part * level) for part in parts]
    bread = inverse(np.sum(grams, axis=0) + np.diag(penalty))
    noise = _noise(float(np.sum(psi**2)), state) ** 2
    model = bread * noise / max(float(np.mean(inside)), 0.1)
    clusters = int(problem.cluster.max()) + 1
    scores = equations.summed(state.slope, psi / state.ratio, problem.cluster, clusters)
    half = scores @ bread
    sandwich = np.sum(half * half, axis=0) * clusters / max(clusters - 1, 1)
    ratio = sandwich[q:] / np.maximum(np.diag(model)[q:], 1e-300)
    square = half[:, q:] ** 2
    degrees = square.sum(axis=0) ** 2 / np.maximum(np.sum(square**2, axis=0), 1e-300)
    ratio = np.maximum(ratio / (1.0 + np.sqrt(2.0 / np.maximum(degrees, 1.0))), 1.0)  # beyond chance alone
    halves = []
    for number, gram in enumerate(grams if problem.half is not None else ()):
        spread = inverse(gram + np.diag(penalty))
        own = equations.pull(state.slope, psi * (problem.half == number) / state.ratio)
        moved = state.theta + spread @ (own - penalty * state.theta)
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
