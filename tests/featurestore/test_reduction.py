"""A block's normal equations: those of dense columns, with what belongs to the day alone integrated out."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from featurestore.interference.block_equations import equations
from featurestore.interference.ends import Ends, unknown
from featurestore.interference.normal import Columns, Rows

N, M, KINDS, PASSING = 90, 4, 2, 5


@pytest.mark.parametrize("known", [False, True])
def test_the_equations_are_those_of_a_dense_regression_with_the_days_own_columns_integrated_out(known):
    """With the ends known each column's pull has by how much it falls with the log of the work, worked out here by
    runs that last a little longer; and the slopes' products have those of what they are more at the ends."""
    draw = np.random.default_rng(4)
    exposure = np.where(draw.random((N, M)) < 0.5, draw.uniform(0, 1.5, (N, M)), 0.0)
    number = np.where(exposure > 0, draw.integers(0, 3, (N, M)), 0).astype(float)
    more = draw.normal(size=(N, 2))  # of the last two columns of the day
    believed, place, cold = draw.uniform(0, 0.5, M), draw.integers(0, KINDS, N), draw.random(N) < 0.2
    base, y = draw.normal(size=N), draw.normal(size=N)
    day, placebo = draw.normal(size=(N, PASSING - 1)), draw.normal(size=(N, M))
    types, penalty = np.eye(KINDS)[place], draw.uniform(1, 5, PASSING)
    level, whole = place[:, None].astype(np.int32), np.ones((N, 1))
    values = Columns(level, whole, np.zeros(KINDS), KINDS, np.concatenate([day, placebo], axis=1))

    sparse = csr_matrix(exposure)
    rows = Rows(sparse.indptr.astype(np.int64), sparse.indices.astype(np.int64), sparse.data)
    first = KINDS + PASSING - 1
    ends = Ends(True, number[exposure > 0], more, first - 2, first, M) if known else unknown(rows.values, N)
    gram, pull, residual, weight, squares = equations(
        rows, ends, believed, True, base, y, cold, values, (KINDS, first), penalty, (1.2, 0.8)
    )

    def stretched(slowdown, exposure=exposure):
        added = exposure * slowdown / (1 + slowdown * np.maximum(0, 1 - exposure))
        return np.log1p(added.sum(axis=1))

    step = 1e-6

    def slopes(exposure):
        sides = [stretched(believed + by * step * one, exposure) for one in np.eye(M) for by in (1, -1)]
        return np.stack([(up - down) / (2 * step) for up, down in zip(sides[::2], sides[1::2], strict=True)], axis=1)

    slope = slopes(exposure)
    left = y - base - stretched(believed)
    centred = left - np.where(cold, np.median(left[cold]), np.median(left[~cold]))
    robust = np.minimum(1, 1.2 / np.maximum(np.abs(centred), 1e-9))
    lean = np.sum(robust * centred**2) / np.sum((robust * centred) ** 2) if known else 0.0
    robust /= 0.8**2
    lasting = np.concatenate([types, slope, placebo], axis=1)
    alone = np.concatenate([np.ones((N, 1)), day], axis=1)
    columns = np.concatenate([lasting, alone], axis=1)
    k = lasting.shape[1]
    inner = slice(KINDS, KINDS + M)
    rate = 1 + number @ believed
    drift = np.where(exposure > 0, number / rate[:, None] - slope, 0.0)
    product = columns.T @ (columns * robust[:, None])
    mixed = product[inner, inner] + lean * drift.T @ drift
    point = slope @ believed
    pulled = columns.T @ (robust * (left + base + point))
    pulled[inner] += (mixed - product[inner, inner]) @ believed
    product[inner, inner] = mixed
    later = 1e-4  # of the log of the time
    rise = (
        (slopes(exposure + later * (number - exposure)) - slopes(exposure - later * (number - exposure))) / later / 2
    )
    faster = (rate / np.exp(stretched(believed)))[:, None]
    pulled[inner] -= lean * (faster * rise).sum(axis=0)
    pulled[KINDS + M : k] -= lean * (faster * (number - exposure)).sum(axis=0)
    pulled[-2:] -= lean * (faster * more).sum(axis=0)
    inverse = np.linalg.inv(product[k:, k:] + np.diag(penalty))
    np.testing.assert_allclose(residual, left, rtol=1e-12)
    np.testing.assert_allclose(weight, robust, rtol=1e-12)
    np.testing.assert_allclose(squares, (slope**2).sum(axis=1), rtol=1e-6)
    expected = product[:k, :k] - product[:k, k:] @ inverse @ product[k:, :k]
    np.testing.assert_allclose(gram, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(pull, pulled[:k] - product[:k, k:] @ inverse @ pulled[k:], rtol=1e-5, atol=1e-4)
