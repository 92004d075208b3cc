"""The compiled loops of the decision say what the same steps say uncompiled, cell by cell of the whole grid."""

import numpy as np
import pytest

from featurestore.interference import groups, joint
from featurestore.interference.evidence import Options
from featurestore.interference.gaussian import inverse

LEAST = 0.05


def pairs(count=24, seed=5):
    """Estimates and errors of pairs of which a third interferes, and their prior chances."""
    draw = np.random.default_rng(seed)
    truth = np.where(np.arange(count) % 3 == 0, draw.uniform(0.2, 0.9, count), 0.0)
    error = draw.uniform(0.02, 0.15, count)
    return truth + draw.normal(0, error), error, draw.uniform(0.02, 0.5, count)


def plain_integrated(estimate, precision, prior, grid, common_sd, settled):
    """Expectation propagation as it is written down: tilted moments by sums over the whole grid (Minka 2001).

    It ends once no likelihood moved by more than the share *settled* of its error, nor its precision by more.
    """
    weight = precision.sum(axis=1)
    shared = precision - np.outer(weight, weight) / (common_sd**-2.0 + weight.sum())
    mean, square = prior @ grid, prior @ grid**2
    site = 1 / np.maximum(square - mean**2, 1e-6)
    lean = site * mean
    left = middle = None
    for _ in range(joint._ROUNDS):
        former = middle, left
        covariance = inverse(shared + np.diag(site))
        variance = np.diag(covariance)
        left = np.maximum(1 / variance - site, 1e-6)
        middle = (covariance @ (shared @ estimate + lean) / variance - lean) / left
        if former[0] is not None:
            moved = np.abs(middle - former[0]) * np.sqrt(left), np.abs(left / former[1] - 1)
            if np.max(moved) < settled:
                break
        tilted = prior * np.exp(-0.5 * left[:, None] * (middle[:, None] - grid) ** 2)
        tilted /= tilted.sum(axis=1, keepdims=True)
        mean, square = tilted @ grid, tilted @ grid**2
        found = np.maximum(1 / np.maximum(square - mean**2, 1e-6) - left, 1e-3)
        site = (1 - joint._DAMPING) * site + joint._DAMPING * found
        lean = (1 - joint._DAMPING) * lean + joint._DAMPING * (mean * (left + found) - middle * left)
    return middle, 1 / np.sqrt(left)


def test_integrating_the_others_out():
    estimate, error, chance = pairs()
    mixed = np.random.default_rng(6).normal(size=(len(error), len(error)))
    precision = np.diag(error**-2.0) + 20 * mixed @ mixed.T
    prior = groups.believed(LEAST).mixed(chance)
    given = (estimate, precision, prior, groups.LOG_GRID, Options().common_sd)
    found = joint.integrated(*given)
    for compiled, plain in zip(found, plain_integrated(*given, settled=joint._SETTLED), strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-9, atol=1e-11)
    middle, spread = plain_integrated(*given, settled=0.0)  # all rounds
    assert np.max(np.abs(found[0] - middle) / spread) < 2 * joint._SETTLED
    np.testing.assert_allclose(found[1], spread, rtol=2 * joint._SETTLED)


def test_the_mixture_by_em():
    estimate, error, chance = pairs(60)
    nulls, slabs = groups.parts(LEAST)
    table = groups.likelihood(estimate, error)
    odds = np.log(chance / (1 - chance)) - np.log(groups.TYPICAL / (1 - groups.TYPICAL))
    found = []
    for step in (groups._mixed, groups._mixed.py_func):
        weights = [np.full(len(parts), 1 / len(parts)) for parts in (nulls, slabs)]
        worth = [np.full(len(parts), 1.0) for parts in (nulls, slabs)]
        share = step(table @ nulls.T, table @ slabs.T, odds, *worth, *weights, 0.12)
        found.append(np.concatenate([[share], *weights]))
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("factor", [0.8, 1.6])
def test_how_likely_estimates_are(factor):
    """The sum over all cells, in logs, with nothing left out."""
    estimate, error, chance = pairs()
    variance = (error * factor) ** 2 + groups.FLOOR**2
    both = groups.believed(LEAST)
    mass = chance[:, None] * both.interfering + (1 - chance[:, None]) * both.null
    density = np.exp(-0.5 * (estimate[:, None] - groups.LOG_GRID) ** 2 / variance[:, None])
    plain = np.sum(np.log((mass * density).sum(axis=1) / np.sqrt(variance)))
    given = (estimate, variance, both.null, both.interfering, chance, groups.LOG_GRID)
    assert groups._marginal(*given) == pytest.approx(plain, rel=1e-9)
