"""What compiled loops call of LAPACK, against numpy: below, at and beyond the rows that are inverted at once."""

import numpy as np
import pytest

from featurestore.interference.lapack import add_square, factored, invert


@pytest.mark.parametrize("size", [1, 7, 48, 49, 133])
def test_a_factor_and_its_inverse_are_those_of_the_matrix(size):
    columns = np.random.default_rng(4).normal(size=(2 * size, size))
    matrix = columns.T @ columns
    upper = np.triu(matrix)

    assert factored(upper)
    np.testing.assert_allclose(upper.T @ upper, matrix, rtol=1e-10, atol=1e-10)
    invert(upper)
    np.testing.assert_allclose(upper @ upper.T, np.linalg.inv(matrix), rtol=1e-7, atol=1e-10)
    np.testing.assert_array_equal(np.tril(upper, -1), 0.0)


@pytest.mark.parametrize("matrix", [[[1.0, 2.0], [2.0, 1.0]], [[np.nan, 0.0], [0.0, 1.0]]])
def test_what_is_not_positive_definite_has_no_factor(matrix):
    assert not factored(np.array(matrix))


def test_squares_are_added_to_the_lower_triangle():
    rows, to = np.random.default_rng(5).normal(size=(300, 11)), np.ones((11, 11))
    add_square(rows, to)
    add_square(rows[:0], to)
    np.testing.assert_allclose(np.tril(to), np.tril(1.0 + rows.T @ rows), rtol=1e-12)
    np.testing.assert_array_equal(np.triu(to, 1), np.triu(np.ones((11, 11)), 1))
