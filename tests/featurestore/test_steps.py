"""Steps of the regression: those at the bound are held, and what goes back and forth is cut short."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import lsq_linear, minimize

from featurestore.interference.cholesky import inverted, squared
from featurestore.interference.ends import unknown
from featurestore.interference.steps import bounded, mixed
from featurestore.interference.turns import LEAST_SLOWDOWN, Given, Limits, penalties, settled
from tests.support.columns import columns_of

P = 8


def system(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(40, P)) + 0.7 * rng.normal(size=(40, 1))
    return rows, rng.normal(size=40), rng.random(P) < 0.5


@pytest.mark.parametrize("seed", range(6))
def test_steps_are_those_of_least_squares_that_may_not_go_below_the_bound(seed):
    rows, y, bound = system(seed)
    factor, _ = inverted(rows.T @ rows, np.zeros(P))
    step, held = bounded(factor, rows.T @ y, bound)
    least = lsq_linear(rows, y, bounds=(np.where(bound, 0.0, -np.inf), np.inf), tol=1e-12).x
    assert np.all(step[held] == 0) and np.all(bound[held])
    kept = ~held
    np.testing.assert_allclose(step[kept], np.linalg.lstsq(rows[:, kept], y, rcond=None)[0], atol=1e-9)
    assert np.all(step[bound] >= 0)
    for _ in range(P):  # what is released later is released where the others have gone
        move, held = bounded(factor, rows.T @ (y - rows @ step), bound & (step <= 0))
        step = step + move * min([1.0, *(-step[bound & (move < 0)] / move[bound & (move < 0)])])
    np.testing.assert_allclose(step, least, atol=1e-6)


@pytest.mark.parametrize("growth", [-0.9, -0.4, 0.6, 0.95])
def test_two_turns_tell_where_turns_that_follow_each_other_evenly_would_end(growth):
    rng = np.random.default_rng(1)
    first, own = rng.normal(size=P), 0.1 + rng.random(P)
    taken = mixed(growth * first, first, first, own)
    np.testing.assert_allclose(first + taken, first / (1.0 - growth), rtol=1e-12)


def test_a_step_like_the_last_is_taken_as_it_is():
    step = np.arange(1.0, P)
    np.testing.assert_array_equal(mixed(step, step, step, np.ones(P - 1)), step)


@pytest.mark.parametrize("rows", [900, 7_000])
def test_slowdowns_at_the_bound_leave_the_others_where_the_loss_is_least(rows):
    rng = np.random.default_rng(5)
    m, q = 6, 3
    exposure = sparse.random(rows, m, 0.4, format="csr", random_state=3, data_rvs=lambda n: rng.uniform(0.2, 0.5, n))
    controls = np.column_stack([np.ones(rows), rng.normal(size=(rows, q - 1))])
    true = np.array([-0.75, -0.65, 0.0, 0.3, 0.8, -0.2])
    total = 1.0 + exposure @ true
    y = controls @ [1.0, 0.2, -0.1] + np.log(np.maximum(total, 0.2)) + 0.3 * rng.standard_t(4, rows)
    none = np.zeros(rows, np.int64)
    kept, _ = columns_of(controls)
    entries = (exposure.indptr.astype(np.int64), exposure.indices.astype(np.int64), exposure.data)
    given = Given(
        y, kept, np.zeros(q, np.int64), np.full(1, np.inf), *entries, none, none, unknown(exposure.data, rows)
    )
    limits = Limits(12, 1e-4, 2.0, 1.0, 4.0, False)

    found = settled(given, m, limits)

    dense, penalty = exposure.toarray(), penalties(given.group, np.ones(1), found.scale, m, limits.prior_sd)

    def loss(theta):
        residual = np.abs(y - controls @ theta[:q] - np.log(np.maximum(1.0 + dense @ theta[q:], 0.2)))
        cut = 2.0 * found.scale
        each = np.where(residual <= cut, residual**2 / 2, cut * residual - cut**2 / 2)
        return (np.sum(each) + np.sum(penalty * theta**2) / 2) / found.scale**2

    bounds = [(None, None)] * q + [(LEAST_SLOWDOWN, None)] * m
    least = minimize(loss, np.zeros(q + m), bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-8, "maxiter": 900})
    assert np.sum(least.x[q:] <= LEAST_SLOWDOWN) == 2, "else nothing is at the bound"
    design = np.column_stack([controls, dense])
    own = squared(inverted(design.T @ design, penalty)[0]) * found.scale**2
    assert np.max(np.abs(found.theta - least.x) / np.sqrt(own)) < 2e-3
