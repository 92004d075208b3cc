import numpy as np
import pytest
from scipy import sparse

from featurestore.interference.normal import Equations, along, product, square, squares
from tests.support.columns import columns_of, mixed

N, Q, M = 300, 5, 7


@pytest.fixture(params=[0, 6])
def parts(request):
    """Equations, and what they stand for: controls and slopes as dense columns; without and with levels."""
    rng = np.random.default_rng(0)
    columns, controls = mixed(rng, N, Q, request.param) if request.param else columns_of(rng.normal(size=(N, Q)))
    exposure = sparse.random(N, M, 0.3, format="csr", random_state=1)
    equations = Equations(columns, exposure)
    slope = rng.normal(size=len(equations.exposure.values))
    dense = sparse.csr_matrix((slope, exposure.indices, exposure.indptr), shape=(N, M)).toarray()
    return equations, slope, np.concatenate([controls, dense], axis=1)


@pytest.mark.parametrize("much", [0.0, 0.7])
@pytest.mark.parametrize("outside", [0.6, 0.05, 0.0])
def test_rows_that_are_not_inside_are_not_there(parts, outside, much):
    """Slopes have so much of the products of their drifts besides, in rows that are there."""
    equations, slope, columns = parts
    draw = np.random.default_rng(5)
    drifts = draw.normal(size=len(slope))
    inside, level = draw.random(N) >= outside, np.arange(N) % 2 * draw.uniform(0.5, 1, N)

    found = equations.weighed(slope, level, inside, square(equations.columns, np.arange(N), level), drifts, much)

    expected = columns.T @ (columns * (level * inside)[:, None])
    exposure = equations.exposure
    moved = sparse.csr_matrix((drifts, exposure.indices, exposure.indptr), shape=(N, M)).toarray()
    moved[level * inside == 0] = 0
    expected[-M:, -M:] += much * moved.T @ moved
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_squares_of_parts_are_those_of_their_rows():
    rows, part = np.random.default_rng(6).normal(size=(3_000, Q)), np.arange(3_000) % 7 // 3

    found = squares(columns_of(rows)[0], np.arange(3_000), np.ones(3_000), part, 4)

    for own in range(4):
        np.testing.assert_allclose(found[own], rows[part == own].T @ rows[part == own], rtol=1e-10, atol=1e-10)


def test_sums_by_value_of_clusters_are_those_of_dense_columns(parts):
    equations, slope, columns = parts
    value, cluster = np.random.default_rng(3).normal(size=N), np.arange(N) % 4

    expected = [(columns * value[:, None])[cluster == each].sum(axis=0) for each in range(4)]
    np.testing.assert_allclose(equations.summed(slope, value, cluster, 4), expected, rtol=1e-10, atol=1e-10)


def test_levels_less_their_means_are_the_columns_that_they_stand_for():
    draw = np.random.default_rng(9)
    columns, whole = mixed(draw, N, Q, 6)
    beta, value = draw.normal(size=whole.shape[1]), draw.normal(size=N)

    np.testing.assert_allclose(product(columns, beta), whole @ beta, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(along(columns, value), value @ whole, rtol=1e-10, atol=1e-10)
