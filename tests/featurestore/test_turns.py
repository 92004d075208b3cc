"""The compiled turns of the regression: their sums are those of dense columns."""

import numpy as np
import pytest
from scipy import sparse

from featurestore.interference.ends import unknown
from featurestore.interference.normal import square, squares
from featurestore.interference.turns import PARTS, Given, gram, leveled
from tests.support.columns import columns_of

N, Q, M = 1_300, 5, 7


@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
def test_the_gram_of_weighted_rows_is_that_of_dense_columns(share):
    rng = np.random.default_rng(2)
    controls = rng.normal(size=(N, Q))
    beside = sparse.random(N, M, 0.3, format="csr", random_state=1)
    slope = rng.normal(size=beside.nnz)
    dense = sparse.csr_matrix((slope, beside.indices, beside.indptr), shape=(N, M)).toarray()
    columns = np.concatenate([controls, dense], axis=1)
    ratio = np.where(rng.random(N) < 0.2, 1.7, 1.0)
    weight = np.where(rng.random(N) < share, rng.random(N), 1.0)
    nothing, none = np.zeros(N), np.zeros(N, np.int64)
    rows = (beside.indptr.astype(np.int64), beside.indices.astype(np.int64), beside.data)
    kept, _ = columns_of(controls)
    given = Given(nothing, kept, np.zeros(Q, np.int64), np.zeros(1), *rows, none, none, unknown(beside.data, N))

    found = gram(given, M, square(kept, np.arange(N), 1.0 / ratio**2), slope, weight, ratio, slope, 0.0)

    expected = columns.T @ (columns * (weight / ratio**2)[:, None])
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_squares_of_halves_have_the_rows_of_each_kind_at_its_own_level():
    controls, part = np.random.default_rng(3).normal(size=(N, Q)), np.arange(N) % PARTS
    ratio = np.where(part >= 2, 1.7, 1.0)  # the second kind is noisier

    found = leveled(squares(columns_of(controls)[0], np.arange(N), np.ones(N), part, PARTS), part, ratio)

    for half in (0, 1):
        own = controls[part % 2 == half] / ratio[part % 2 == half, None]
        np.testing.assert_allclose(found[half], own.T @ own, rtol=1e-10, atol=1e-10)
