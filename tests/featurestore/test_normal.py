import numpy as np
import pytest
from scipy import sparse

from featurestore.interference.normal import Equations

N, Q, M = 300, 5, 7


@pytest.fixture
def parts():
    """Equations, and what they stand for: controls and slopes as dense columns."""
    rng = np.random.default_rng(0)
    controls = rng.normal(size=(N, Q))
    exposure = sparse.random(N, M, 0.3, format="csr", random_state=1)
    equations = Equations(controls, exposure)
    slope = rng.normal(size=len(equations.exposure.values))
    dense = sparse.csr_matrix((slope, exposure.indices, exposure.indptr), shape=(N, M)).toarray()
    return equations, slope, np.concatenate([controls, dense], axis=1)


def test_rows_of_no_weight_are_not_there(parts):
    equations, slope, columns = parts
    weight = np.arange(N) % 2 * 1.0

    expected = columns[1::2].T @ columns[1::2]
    np.testing.assert_allclose(equations.weighed(slope, weight), expected, rtol=1e-10, atol=1e-10)


def test_sums_by_value_and_by_cluster_are_those_of_dense_columns(parts):
    equations, slope, columns = parts
    value, cluster = np.random.default_rng(3).normal(size=N), np.arange(N) % 4

    np.testing.assert_allclose(equations.pull(slope, value), value @ columns, rtol=1e-10, atol=1e-10)
    expected = [(columns * value[:, None])[cluster == each].sum(axis=0) for each in range(4)]
    np.testing.assert_allclose(equations.summed(slope, value, cluster, 4), expected, rtol=1e-10, atol=1e-10)
