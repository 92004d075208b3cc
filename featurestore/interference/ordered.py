"""How harmful a pair is, regressed on what is known of both functions: an ordered probit with uncertain answers.

A pair's harm u is normal about ``columns @ theta`` with unit variance. Below zero the pair is harmless; above it the
slowdown grows with u, so that the harmful pairs' slowdowns have their group's distribution. No pair's slowdown is
known, only its likelihood in each class of u. Expectation propagation gives what all other pairs say of one (its
cavity) as it goes along, and groups of coefficients have normal priors whose variances the data move.

Sources: McCullagh, J. R. Statist. Soc. B 42 (1980) 109 (ordered classes of a latent variable); Minka, Uncertainty in
Artificial Intelligence (2001) 362 (expectation propagation); Opper and Winther, Neural Computation 12 (2000) 2655
(the cavity as leave-one-out); MacKay, Neural Computation 4 (1992) 415 (variances of groups).
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse, special

from featurestore.interference.evidence import Floats, Ints
from featurestore.interference.gaussian import inverse

_TURNS = 12
_DAMPING = 0.8
#: Each group's variance beforehand weighs as much as so many coefficients.
_PSEUDO = 10.0
#: The spread of u over all pairs that the start assumes, and the precision of the constant beforehand.
_SPREAD, _LEVEL = 1.22, 4.0
_ROWS = 4000


@dataclass(frozen=True, slots=True)
class Harm:
    """The fitted regression: *theta* [p] with *covariance* [p, p]; *alone* [n] each pair's harm and *doubt* [n] its
    variance (of the mean, without the unit), both without the pair's own evidence."""

    theta: Floats
    covariance: Floats
    alone: Floats
    doubt: Floats

    def predict(self, columns: sparse.csr_matrix) -> tuple[Floats, Floats]:
        """Return mean and variance [k] of ``columns @ theta``."""
        return columns @ self.theta, _reach(columns, self.covariance)


def chance(mean: Floats, variance: Floats) -> Floats:
    """Return the probability of being harmful."""
    found: Floats = special.ndtr(mean / np.sqrt(1.0 + variance))
    return found


def edges(middle: float, spread: float, classes: int) -> Floats:
    """Return the limits [classes + 2] of u: harmless below zero, then *classes* that are equally likely above it.

    *middle* and *spread* are those of u over all pairs.
    """
    above = special.ndtr(middle / spread)
    inner = middle - spread * special.ndtri(above * (1.0 - np.arange(1, classes) / classes))
    return np.concatenate([[-np.inf, 0.0], inner, [np.inf]])


def moments(mean: Floats, variance: Floats, limits: Floats, likely: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance [n] of a normal u that is known by the likelihood *likely* [n, c] of its class."""
    sd = np.sqrt(variance)[:, None]
    z = (limits - mean[:, None]) / sd
    below, density = special.ndtr(z), np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    lever = (np.where(np.isfinite(limits), limits, 0.0) + mean[:, None]) * density
    mass = np.diff(below, axis=1)
    upper = np.diff(special.ndtr(-z[:, ::-1]), axis=1)[:, ::-1]
    mass = np.where(z[:, :-1] > 0, upper, mass)  # no difference of two numbers near one
    first = mean[:, None] * mass - sd * np.diff(density, axis=1)
    second = (mean[:, None] ** 2 + sd**2) * mass - sd * np.diff(lever, axis=1)
    total = np.maximum(np.sum(mass * likely, axis=1), 1e-300)
    centre = np.sum(first * likely, axis=1) / total
    return centre, np.maximum(np.sum(second * likely, axis=1) / total - centre**2, 1e-4)


def fit(columns: sparse.csr_matrix, group: Ints, sd: Floats, likely: Floats, share: float) -> Harm:
    """Fit *columns* [n, p] (the first constant) to the likelihoods *likely* [n, 1 + classes], harmless first.

    *group* [p - 1] are the groups of the other columns, *sd* [g] their standard deviations beforehand, *share* the
    share of harmful pairs. Deterministic.
    """
    n, p = columns.shape
    start = float(special.ndtri(share)) * _SPREAD
    variance = sd**2
    theta, covariance = np.zeros(p), np.zeros((p, p))
    site, pull = np.full(n, 1e-6), np.zeros(n)
    alone, doubt = np.full(n, start), np.full(n, _SPREAD**2 - 1.0)
    middle, spread = start, _SPREAD
    for turn in range(_TURNS):
        if turn:
            penalty = np.concatenate([[_LEVEL], 1.0 / variance[group]])
            covariance = inverse(_gram(columns, site) + np.diag(penalty))
            lean = columns.T @ pull
            lean[0] += _LEVEL * start
            theta = covariance @ lean
            reach = np.maximum(_reach(columns, covariance), 1e-9)
            left = np.maximum(1.0 / reach - site, 1e-3 / reach)
            alone, doubt = (columns @ theta / reach - pull) / left, 1.0 / left
            variance = _regrouped(theta, covariance, group, variance, sd)
            middle, spread = float(alone.mean()), float(np.sqrt(1.0 + alone.var() + doubt.mean()))
        centre, width = moments(alone, 1.0 + doubt, edges(middle, spread, likely.shape[1] - 1), likely)
        gain = doubt / (1.0 + doubt)
        tilted = alone + gain * (centre - alone)
        tight = np.maximum(doubt - doubt * gain + gain**2 * width, 1e-6)
        fresh = np.clip(1.0 / tight - 1.0 / doubt, 1e-6, 1.0)  # the unit variance lets no pair say more
        site = (1 - _DAMPING) * site + _DAMPING * fresh
        pull = (1 - _DAMPING) * pull + _DAMPING * (tilted * (fresh + 1.0 / doubt) - alone / doubt)
    return Harm(theta, covariance, alone, doubt)


def _regrouped(theta: Floats, covariance: Floats, group: Ints, variance: Floats, sd: Floats) -> Floats:
    """Return each group's variance moved by MacKay's fixed point."""
    own = np.diag(covariance)[1:]
    members = np.bincount(group, minlength=len(sd))
    used = np.maximum(members - np.bincount(group, weights=own, minlength=len(sd)) / variance, 0.0)
    size = np.bincount(group, weights=theta[1:] ** 2, minlength=len(sd))
    found: Floats = np.clip((size + _PSEUDO * sd**2) / (used + _PSEUDO), 1e-4, 4.0)
    return found


def _reach(columns: sparse.csr_matrix, covariance: Floats) -> Floats:
    """Return the variance [n] of ``columns @ theta``, a few thousand rows at a time."""
    found = np.zeros(columns.shape[0])
    for first in range(0, len(found), _ROWS):
        rows = columns[first : first + _ROWS]
        found[first : first + _ROWS] = np.asarray(rows.multiply(rows @ covariance).sum(axis=1)).ravel()
    return np.maximum(found, 0.0)


def _gram(columns: sparse.csr_matrix, weight: Floats) -> Floats:
    product: Floats = (columns.T @ columns.multiply(weight[:, None]).tocsr()).toarray()
    return product
