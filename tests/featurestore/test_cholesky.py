"""Compiled factors of inverses: the same as LAPACK's, whatever is singular."""

import numpy as np
import pytest

from featurestore.interference.cholesky import conditional, inverted, mean, solved, squared


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 9, 62, 63])
def test_factor_solution_and_diagonal_are_those_of_the_inverse(size):
    draw = np.random.default_rng(size)
    rows = draw.normal(size=(size + 5, size)) * draw.uniform(0.1, 30, size)
    matrix, more, pull = rows.T @ rows, draw.uniform(0.5, 2, size), draw.normal(size=size)
    exact = np.linalg.inv(matrix + np.diag(more))
    factor, added = inverted(matrix, more)
    np.testing.assert_allclose(factor @ factor.T, exact, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(solved(factor, pull), exact @ pull, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(squared(factor), np.diag(exact), rtol=1e-7)
    np.testing.assert_allclose(added, 1e-11 * np.diag(matrix + np.diag(more)))


def test_of_a_direction_of_which_nothing_is_known_the_variance_is_very_large():
    factor, _ = inverted(np.ones((2, 2)), np.zeros(2))  # only the sum is known
    assert (squared(factor) > 1e6).all()
    assert np.sum(factor.sum(axis=0) ** 2) < 2.0


def test_what_is_no_covariance_at_all_gets_the_variances_of_its_diagonal():
    factor, added = inverted(np.array([[1.0, -3.0], [-3.0, 4.0]]), np.zeros(2))
    np.testing.assert_allclose(factor @ factor.T, np.diag([1.0, 0.25]))
    assert (added == 0).all()


@pytest.mark.parametrize("size", [1, 4, 30])
def test_a_mean_is_the_inverse_times_the_pull(size):
    draw = np.random.default_rng(size)
    rows = draw.normal(size=(size + 5, size)) * draw.uniform(0.1, 30, size)
    matrix, more, pull = rows.T @ rows, draw.uniform(0.5, 2, size), draw.normal(size=size)
    np.testing.assert_allclose(
        mean(matrix, more, pull), np.linalg.solve(matrix + np.diag(more), pull), rtol=1e-7, atol=1e-10
    )


@pytest.mark.parametrize(("size", "first"), [(1, 0), (4, 1), (30, 12), (30, 30)])
def test_the_precision_of_the_last_is_that_of_their_part_of_the_covariance(size, first):
    draw = np.random.default_rng(size)
    rows = draw.normal(size=(size + 5, size)) * draw.uniform(0.1, 30, size)
    matrix, more, pull = rows.T @ rows, draw.uniform(0.5, 2, size), draw.normal(size=size)
    found, precision = conditional(matrix, more, pull, first)
    covariance = np.linalg.inv(matrix + np.diag(more))
    np.testing.assert_allclose(found, covariance @ pull, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(precision, np.linalg.inv(covariance[first:, first:]), rtol=1e-6, atol=1e-6)


def test_the_mean_of_what_is_no_covariance_follows_the_diagonal():
    np.testing.assert_allclose(
        mean(np.array([[1.0, -3.0], [-3.0, 4.0]]), np.zeros(2), np.array([2.0, 2.0])), [2, 0.5]
    )
