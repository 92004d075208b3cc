import numpy as np
import pytest

from featurestore.interference.gaussian import inverse


@pytest.mark.parametrize("size", [1, 2, 40, 130])
def test_a_positive_definite_matrix_times_its_inverse_is_one(size):
    rng = np.random.default_rng(size)
    root = rng.normal(size=(size, 3 * size)) * np.geomspace(1e-3, 1e3, size)[:, None]
    matrix = root @ root.T
    given = matrix.copy()
    found = inverse(matrix)
    assert np.array_equal(matrix, given)
    assert np.array_equal(found, found.T)
    scale = np.sqrt(np.diag(matrix))
    unit = (matrix @ found) * (scale[None, :] / scale[:, None])
    assert np.allclose(unit, np.eye(size), atol=1e-7)


def test_a_two_by_two_matrix_in_closed_form():
    assert np.allclose(
        inverse(np.array([[4.0, 1.0], [1.0, 2.0]])), np.array([[2.0, -1.0], [-1.0, 4.0]]) / 7, rtol=1e-9
    )


def test_of_a_direction_of_which_nothing_is_known_the_variance_is_very_large():
    found = inverse(np.array([[1.0, 1.0], [1.0, 1.0]]))  # only the sum is known
    assert found[0, 0] > 1e6
    assert np.array([1.0, 1.0]) @ found @ np.array([1.0, 1.0]) < 2.0


def test_what_is_no_covariance_at_all_gets_the_variances_of_its_diagonal():
    found = inverse(np.array([[1.0, -3.0], [-3.0, 4.0]]))
    assert np.allclose(found, np.diag([1.0, 0.25]))


def test_nothing_has_an_inverse_of_nothing_without_a_word(capfd):
    assert inverse(np.zeros((0, 0))).shape == (0, 0)
    assert capfd.readouterr() == ("", "")
