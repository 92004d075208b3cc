"""A block's normal equations: those of dense columns, with what belongs to the day alone integrated out."""

import numpy as np
from scipy.sparse import csr_matrix

from featurestore.interference.block_equations import equations
from featurestore.interference.normal import Columns

N, M, KINDS, PLACEBOS, PASSING = 90, 4, 2, 3, 5


def test_the_equations_are_those_of_a_dense_regression_with_the_days_own_columns_integrated_out():
    draw = np.random.default_rng(4)
    exposure = np.where(draw.random((N, M)) < 0.5, draw.uniform(0, 1.5, (N, M)), 0.0)
    believed, place, cold = draw.uniform(0, 0.5, M), draw.integers(0, KINDS, N), draw.random(N) < 0.2
    base, y = draw.normal(size=N), draw.normal(size=N)
    day, placebo = draw.normal(size=(N, PASSING - 1)), draw.normal(size=(N, PLACEBOS))
    types, penalty = np.eye(KINDS)[place], draw.uniform(1, 5, PASSING)
    level, whole = place[:, None].astype(np.int32), np.ones((N, 1))
    values = Columns(level, whole, np.zeros(KINDS), KINDS, np.concatenate([day, placebo], axis=1))

    sparse = csr_matrix(exposure)
    rows = (sparse.indptr.astype(np.int64), sparse.indices.astype(np.int64), sparse.data)
    gram, pull, residual, weight, squares = equations(
        rows, believed, True, base, y, cold, values, (KINDS, KINDS + PASSING - 1), penalty, (1.2, 0.8)
    )

    def stretched(slowdown):
        added = exposure * slowdown / (1 + slowdown * np.maximum(0, 1 - exposure))
        return np.log1p(added.sum(axis=1))

    step = 1e-6
    slope = np.stack(
        [(stretched(believed + step * one) - stretched(believed - step * one)) / (2 * step) for one in np.eye(M)],
        axis=1,
    )
    left = y - base - stretched(believed)
    centred = left - np.where(cold, np.median(left[cold]), np.median(left[~cold]))
    robust = np.minimum(1, 1.2 / np.maximum(np.abs(centred), 1e-9)) / 0.8**2
    lasting = np.concatenate([types, slope, placebo], axis=1)
    alone = np.concatenate([np.ones((N, 1)), day], axis=1)
    # The covariance of the observations with the day's own columns as random effects.
    precision = np.linalg.inv(np.diag(1 / robust) + alone @ np.diag(1 / penalty) @ alone.T)
    np.testing.assert_allclose(residual, left, rtol=1e-12)
    np.testing.assert_allclose(weight, robust, rtol=1e-12)
    np.testing.assert_allclose(squares, (slope**2).sum(axis=1), rtol=1e-6)
    np.testing.assert_allclose(gram, lasting.T @ precision @ lasting, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(pull, lasting.T @ precision @ (left + base + slope @ believed), rtol=1e-5, atol=1e-6)
