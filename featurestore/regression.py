"""Huber-weighted Gauss-Newton for log times with additive slowdowns, random groups of controls, clustered errors."""

from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse

from featurestore.evidence import Floats, Ints, Options
from featurestore.gaussian import inverse as inverse_of

_CHUNK = 16384
#: Smallest admitted 1 + sum of slowdowns: co-runners may seem to help, never to make a run vanish.
_LEAST = 0.2
_NOISE_FLOOR = 1e-6


@dataclass(frozen=True, slots=True)
class Estimate:
    """Coefficients of the controls *beta* [q] and slowdowns *slowdown* [m] with covariance [q + m, q + m]."""

    beta: Floats
    slowdown: Floats
    covariance: Floats
    precision: Floats
    noise: float
    residual: Floats
    inflation: Floats
    converged: bool


def _stretched(exposure: Floats, slowdown: Floats, stretch: bool) -> tuple[Floats, Floats]:
    """Return the added share of time by each aggressor [n, m] and its derivative by the slowdown."""
    if not stretch:
        return exposure * slowdown, exposure
    scale = 1.0 + slowdown * np.maximum(0.0, 1.0 - exposure)
    derivative = exposure / (scale * scale)
    return exposure * slowdown / scale, derivative


def _model(
    controls: Floats, exposure: Floats, beta: Floats, slowdown: Floats, stretch: bool
) -> tuple[Floats, Floats]:
    added, slope = _stretched(exposure, slowdown, stretch)
    total = np.maximum(1.0 + added.sum(axis=1), _LEAST)
    return controls @ beta + np.log(total), slope / total[:, None]


def _huber(residual: Floats, scale: float, limit: float) -> Floats:
    return np.minimum(1.0, limit * scale / np.maximum(np.abs(residual), 1e-300))


def _scale(residual: Floats) -> float:
    """Return the standard deviation by the median absolute residual, or by the mean square where that is zero."""
    middle = float(np.median(np.abs(residual))) / 0.6745
    return max(middle if middle > 0 else float(np.sqrt(np.mean(residual**2))), _NOISE_FLOOR)


def fit(
    y: Floats, controls: Floats, group: Ints, sd: Floats, exposure: Floats, cluster: Ints, options: Options
) -> Estimate:
    """Fit y [n] = controls [n, q] beta + log(1 + sum g(exposure [n, m], slowdown)); see `featurestore.interference`.

    *group* [q]: 0 not penalised, else a random group with standard deviation *sd* [g] beforehand. *cluster* [n]: codes 0.. of the
    error clusters. Gives the M-estimate with a sandwich covariance; *inflation* [m] is its ratio to the model's.
    """
    n, q = controls.shape
    m = exposure.shape[1]
    beta, slowdown = np.zeros(q), np.zeros(m)
    spread = max(float(np.std(y)), _NOISE_FLOOR)
    variance = sd**2
    groups = [np.flatnonzero(group == g) for g in range(1, len(variance))]
    scale = spread
    beta[: int((group == 0).sum())] = linalg.lstsq(controls[:, group == 0], y)[0]
    predicted, jacobian = _model(controls, exposure, beta, slowdown, options.stretch)
    residual = y - predicted
    scale = _scale(residual)
    converged = False
    inverse = np.eye(q + m)
    for _ in range(options.iterations):
        weight = _huber(residual, scale, options.huber)
        design = np.concatenate([controls, jacobian], axis=1)
        gram = (design * weight[:, None]).T @ design
        penalty = _penalty(group, variance, m, scale, options)
        inverse = inverse_of(gram + np.diag(penalty))
        theta = np.concatenate([beta, slowdown])
        step = inverse @ (design.T @ (weight * residual) - penalty * theta)
        theta, residual, jacobian = _advance(theta, step, y, controls, exposure, scale, penalty, options)
        beta, slowdown = theta[:q], theta[q:]
        for g, members in enumerate(groups, start=1):  # MacKay's fixed point for a group's variance
            used = len(members) - float(np.trace(inverse[np.ix_(members, members)])) * scale**2 / variance[g]
            size = float(beta[members] @ beta[members]) + options.pseudo * sd[g] ** 2
            variance[g] = size / (max(used, 0.0) + options.pseudo)
        degrees = max(n - float(np.sum(inverse * gram)), 0.1 * n)
        scale = max(_scale(residual) * np.sqrt(n / degrees), _NOISE_FLOOR)
        if float(np.max(np.abs(step) / np.sqrt(np.diag(inverse)), initial=0.0)) < options.tolerance * scale:
            converged = True
            break
    return _errors(y, controls, jacobian, beta, slowdown, residual, group, variance, scale, cluster, options, converged)


def _penalty(group: Ints, variance: Floats, m: int, scale: float, options: Options) -> Floats:
    own = np.where(group == 0, 1e-9, 1.0 / variance[group])
    return scale**2 * np.concatenate([own, np.full(m, 1.0 / options.prior_sd**2)])


def _loss(residual: Floats, theta: Floats, scale: float, penalty: Floats, limit: float) -> float:
    size = np.abs(residual)
    cut = limit * scale
    return float(np.sum(np.where(size <= cut, 0.5 * size**2, cut * size - 0.5 * cut**2)) + 0.5 * penalty @ theta**2)


def _advance(
    theta: Floats,
    step: Floats,
    y: Floats,
    controls: Floats,
    exposure: Floats,
    scale: float,
    penalty: Floats,
    options: Options,
) -> tuple[Floats, Floats, Floats]:
    """Take the step, halved until the loss falls; slowdowns stay above -1/2."""
    q = controls.shape[1]

    def at(point: Floats) -> tuple[Floats, Floats]:
        predicted, jacobian = _model(controls, exposure, point[:q], point[q:], options.stretch)
        return y - predicted, jacobian

    before = _loss(at(theta)[0], theta, scale, penalty, options.huber)
    for halving in range(6):
        tried = theta + step * 0.5**halving
        tried[q:] = np.maximum(tried[q:], -0.5)
        residual, jacobian = at(tried)
        if _loss(residual, tried, scale, penalty, options.huber) <= before or halving == 5:
            break
    return tried, residual, jacobian


def _errors(
    y: Floats,
    controls: Floats,
    jacobian: Floats,
    beta: Floats,
    slowdown: Floats,
    residual: Floats,
    group: Ints,
    variance: Floats,
    scale: float,
    cluster: Ints,
    options: Options,
    converged: bool,
) -> Estimate:
    n, q = controls.shape
    m = len(slowdown)
    design = np.concatenate([controls, jacobian], axis=1)
    inside = (np.abs(residual) <= options.huber * scale).astype(np.float64)
    psi = residual * _huber(residual, scale, options.huber)
    bread = inverse_of((design * inside[:, None]).T @ design + np.diag(_penalty(group, variance, m, scale, options)))
    noise = max(float(np.mean(psi**2)), _NOISE_FLOOR**2)
    model = bread * noise / max(float(np.mean(inside)), 0.1)
    clusters = int(cluster.max()) + 1
    member = sparse.csr_matrix((psi, (cluster, np.arange(n))), shape=(clusters, n))
    sums = member @ design
    half = sums @ bread
    sandwich = np.sum(half * half, axis=0) * clusters / max(clusters - 1, 1)
    floor = np.maximum(np.diag(model), 1e-300)
    ratio = sandwich[q:] / floor[q:]
    return Estimate(beta, slowdown, model, inverse_of(model[q:, q:]), float(np.sqrt(noise)), residual, ratio, converged)
