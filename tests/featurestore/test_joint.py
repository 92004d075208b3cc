"""Integrating the other aggressors out: the same as summing over all combinations of two aggressors' slowdowns."""

import numpy as np
import pytest

from featurestore.interference.groups import LOG_GRID, TwoGroups, densities
from featurestore.interference.joint import _moments, integrated

GROUPS = TwoGroups(*densities(0.012, np.log(0.25), 0.45, 0.05), 0.12, 1.0)


@pytest.mark.parametrize("correlation", [0.0, 0.6, -0.6])
@pytest.mark.parametrize("estimate", [(0.3, 0.05), (0.15, 0.2), (0.0, 0.5)])
def test_two_aggressors_as_by_enumeration(estimate, correlation):
    error = np.array([0.08, 0.1])
    covariance = np.outer(error, error) * np.array([[1, correlation], [correlation, 1]])
    precision, x = np.linalg.inv(covariance), np.array(estimate)
    prior = GROUPS.mixed(np.array([0.2, 0.4]))
    first, second = np.meshgrid(LOG_GRID, LOG_GRID, indexing="ij")
    left = np.stack([first - x[0], second - x[1]])
    joint = np.exp(-0.5 * np.einsum("iab,ij,jab->ab", left, precision, left)) * np.outer(prior[0], prior[1])
    middle, spread = integrated(x, precision, prior, LOG_GRID, common_sd=1e-4)
    for b, exact in enumerate((joint.sum(axis=1), joint.sum(axis=0))):
        mass = prior[b] * np.exp(-0.5 * ((middle[b] - LOG_GRID) / spread[b]) ** 2)
        above = np.log(1.05) < LOG_GRID
        assert mass[above].sum() / mass.sum() == pytest.approx(exact[above].sum() / exact.sum(), abs=0.05)


def test_independent_aggressors_keep_their_own_likelihood():
    prior = GROUPS.mixed(np.array([0.1, 0.1]))
    middle, spread = integrated(np.array([0.3, 0.0]), np.diag([100.0, 400.0]), prior, LOG_GRID, 1e-4)
    np.testing.assert_allclose(middle, [0.3, 0.0], atol=1e-3)
    np.testing.assert_allclose(spread, [0.1, 0.05], rtol=1e-2)


def test_no_aggressor_is_no_error():
    middle, spread = integrated(np.zeros(0), np.zeros((0, 0)), np.zeros((0, len(LOG_GRID))), LOG_GRID, 0.015)
    assert len(middle) == len(spread) == 0


@pytest.mark.parametrize("size", [1, 2, 7, 60])
def test_means_and_variances_are_those_of_the_inverse(size):
    draw = np.random.default_rng(size)
    rows = draw.normal(size=(size + 5, size)) * draw.uniform(0.1, 30, size)
    precision, more, pull = rows.T @ rows, draw.uniform(0.5, 2, size), draw.normal(size=size)
    mean, variance = _moments(precision, more, pull)
    exact = np.linalg.inv(precision + np.diag(more))
    np.testing.assert_allclose(mean, exact @ pull, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(variance, np.diag(exact), rtol=1e-7)


def test_of_what_nothing_is_known_the_variance_is_very_large():
    """Two that always ran together: only their sum is known, each alone is not."""
    mean, variance = _moments(np.full((2, 2), 100.0), np.zeros(2), np.array([30.0, 30.0]))
    assert mean.sum() == pytest.approx(0.3, rel=1e-4)
    assert (variance > 1e6).all()
