"""Huber-weighted Gauss-Newton for log times with additive slowdowns, random groups of controls, clustered errors.

Sources: Huber, Robust Statistics (1981), ch. 7; MacKay, Neural Computation 4 (1992) 415, for the variances of the
groups; Liang and Zeger, Biometrika 73 (1986) 13, for the clustered errors, which widen the model's own where they
exceed them by more than chance does; Bickel, J. Am. Statist. Assoc. 70 (1975) 428, for the one step to each half.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from featurestore.interference.cholesky import conditional, inverted, squared
from featurestore.interference.ends import Ends, contradicted, drifts, lean_sums, products, unknown
from featurestore.interference.evidence import Floats, Ints, Options
from featurestore.interference.lapack import invert
from featurestore.interference.normal import Columns, Equations
from featurestore.interference.turns import Given, Limits, Settled, huber, noise, penalties, settled

#: A fit that leaves so many times the plain noise went astray.
_ASTRAY = 1.5


@dataclass(frozen=True, slots=True)
class Problem:
    """y [n] = controls [n, q] beta + log(1 + sum g(exposure [n, m], slowdown [m])) + noise of the row's *kind* [n].

    *group* [q]: 0 not penalised, else a random group whose standard deviation beforehand is *sd* [g]. *cluster* [n]
    are codes from 0 of the clusters of the errors, *half* [n] says which half of the evidence a row is in,
    where halves are wanted, *ends* who was there when runs ended, where known. Few neighbours run beside any one run:
    what is zero of *exposure* costs nothing.
    """

    y: Floats
    controls: Columns
    group: Ints
    sd: Floats
    exposure: Floats | sparse.csr_matrix
    cluster: Ints
    kind: Ints
    half: Ints | None = None
    ends: Ends | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """*beta* [q], *slowdown* [m], the *variance* [q + m] of both by the model, the slowdowns' *precision* [m, m] and
    the *inflation* [m] of their variances by the clustering; *noise* is the standard deviation of the usual kind.
    *halves* are the slowdowns and their precision by each half of the evidence alone, one step from the whole. *ends*
    tells whether who was there when runs ended has a part in it."""

    beta: Floats
    slowdown: Floats
    variance: Floats
    precision: Floats
    noise: float
    residual: Floats
    inflation: Floats
    halves: tuple[tuple[Floats, Floats], ...]
    ends: bool


def fit(problem: Problem, options: Options) -> Estimate:
    """Return the M-estimate of *problem*; deterministic, no warnings for singular problems (wide errors instead).

    Where the ends contradict the times (`ends.contradicted`) it is that of the times alone.
    """
    m = problem.exposure.shape[1]
    equations = Equations(problem.controls, sparse.csr_matrix(problem.exposure))
    exposure = equations.exposure
    ends = unknown(exposure.values, len(problem.y)) if problem.ends is None else problem.ends
    limits = Limits(
        options.iterations, options.tolerance, options.huber, options.prior_sd, options.pseudo, options.stretch
    )
    part = 2 * problem.kind + (0 if problem.half is None else problem.half)
    given = Given(problem.y, problem.controls, problem.group, problem.sd, *exposure, problem.kind, part, ends)
    state = settled(given, m, limits)
    found = _errors(problem, equations, state, options, ends) if _sound(state) or not ends.known else None
    if found is not None:
        return found
    return fit(replace(problem, ends=None), options)


def _errors(problem: Problem, equations: Equations, state: Settled, options: Options, ends: Ends) -> Estimate | None:
    q, m = len(problem.group), problem.exposure.shape[1]
    inside = np.abs(state.residual) <= options.huber * state.scale
    psi = state.residual * huber(state.residual, state.scale, options.huber)
    penalty = penalties(problem.group, state.variance, state.scale, m, options.prior_sd)
    level = 1.0 / state.ratio**2
    parts = [np.ones(len(level), bool)] if problem.half is None else [problem.half == half for half in (0, 1)]
    drift = drifts(ends, equations.exposure, state.slope, state.theta[q:])
    grams = [
        equations.weighed(state.slope, level * part, inside, whole, drift, state.lean)
        for part, whole in zip(parts, state.squares, strict=False)
    ]
    factor, _ = inverted(np.sum(grams, axis=0), penalty)
    variance = noise(float(np.sum(psi**2)), state.plain, state.degrees) ** 2 / max(float(np.mean(inside)), 0.1)
    model = squared(factor) * variance
    # Sums of the clusters of each half, so that both halves' pulls are theirs.
    clusters, half = int(problem.cluster.max()) + 1, 0 if problem.half is None else problem.half
    of = 2 * problem.cluster + half
    scores = equations.summed(state.slope, psi / state.ratio, of, 2 * clusters)
    if state.lean > 0.0:
        alone = np.sum(grams, axis=0)
        alone[q:, q:] -= state.lean * products(equations.exposure, drift, inside, m)
        if _contradicted(alone, penalty, scores.sum(axis=0) - penalty * state.theta, variance, q):
            return None
    at = ends, equations.exposure, state.slope, state.theta[q:], state.total
    lean_sums(scores, of, *at, options.stretch, state.lean, q)
    # Only what concerns the slowdowns is multiplied out of the inverse, factor @ factor.T (an upper triangle).
    moved_by = (scores[::2] + scores[1::2]) @ (factor[:, q:] @ factor[q:, q:].T)
    square = moved_by**2
    sandwich = square.sum(axis=0) * clusters / max(clusters - 1, 1)
    ratio = sandwich / np.maximum(model[q:], 1e-300)
    degrees = square.sum(axis=0) ** 2 / np.maximum(np.sum(square**2, axis=0), 1e-300)
    ratio = np.maximum(ratio / (1.0 + np.sqrt(2.0 / np.maximum(degrees, 1.0))), 1.0)  # beyond chance alone
    halves = []
    for number, gram in enumerate(grams if problem.half is not None else ()):
        pull = scores[number::2].sum(axis=0) - penalty * state.theta
        step, precision = conditional(gram, penalty, pull, q)
        halves.append(((state.theta + step)[q:], precision / variance))
    return Estimate(
        beta=state.theta[:q],
        slowdown=state.theta[q:],
        variance=model,
        precision=_precision(factor[q:, q:], variance),
        noise=noise(float(np.sum(psi**2)), state.plain, state.degrees),
        residual=state.residual,
        inflation=ratio,
        halves=tuple(halves),
        ends=ends.known,
    )


def _contradicted(alone: Floats, penalty: Floats, pull: Floats, variance: float, q: int) -> bool:
    """Return whether the times alone, whose gram and *pull* [p] these are, contradict the ends
    (`ends.contradicted`)."""
    factor, _ = inverted(alone, penalty)
    step = factor @ (factor.T @ pull)
    return contradicted(step[q:], np.sqrt(squared(factor)[q:] * variance))


def _sound(state: Settled) -> bool:
    """Return whether a fit has found no more noise than there is if nothing matters; one that went astray has."""
    return bool(np.all(np.isfinite(state.theta)) and state.scale <= _ASTRAY * state.plain)


def _precision(factor: Floats, variance: float) -> Floats:
    """Return the inverse [m, m] of the covariance factor @ factor.T * *variance*, of an upper triangle *factor*."""
    own = np.ascontiguousarray(factor)
    invert(own)
    found: Floats = own.T @ own / variance
    return found
