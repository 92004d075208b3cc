"""The joint estimator: cases with a known answer, a brute-force fit, and what must not change an estimate."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from featurestore.interference import concurrency
from featurestore.interference.evidence import Options
from featurestore.interference.regression import Problem, fit
from featurestore.interference.victim import fit_victim, overlaps
from tests.support.columns import columns_of
from tests.support.concurrency import around
from tests.support.silence import silent
from tests.support.victims import beside, design, stretched


def ones(n):
    return columns_of(np.ones((n, 1)))[0]


def test_times_without_noise_give_the_slowdowns_that_made_them():
    draw = np.random.default_rng(1)
    exposure = beside(draw, 600, 4)
    truth = np.array([0.0, 0.25, 0.8, 0.1])
    node_type = np.arange(600) % 2
    base = np.where(node_type == 1, 3.0, 2.0)
    cold = np.arange(600) % 10 == 0
    times = base * stretched(exposure, truth) * np.where(cold, 1.08, 1.0)
    found = fit_victim(design(times, exposure, node_type=node_type, node=np.arange(600) % 4, cold=cold))
    assert found.reason == ""
    np.testing.assert_allclose(found.slowdown, truth, atol=2e-3)
    assert found.base[0] == pytest.approx(2.0, rel=5e-3)
    assert found.base[1] == pytest.approx(3.0, rel=5e-3)


def test_a_neighbour_that_halves_the_speed_for_half_the_run_adds_a_third():
    # work w = D/2 at full speed + D/2 at half speed = 3/4 D, so D = 4/3 w, and always beside it D = 2 w
    exposure = np.array([[0.0], [0.5], [1.0]] * 400)
    times = np.array([3.0, 4.0, 6.0] * 400)
    found = fit_victim(design(times, exposure))
    assert found.slowdown[0] == pytest.approx(1.0, abs=5e-3)


def test_without_the_stretch_correction_time_grows_by_the_exposure():
    exposure = np.array([[0.0], [0.5], [1.0]] * 40)
    found = fit_victim(design(2.0 * (1 + 0.6 * exposure[:, 0]), exposure), options=Options(stretch=False))
    assert found.slowdown[0] == pytest.approx(0.6, abs=5e-3)


def test_effective_overlaps_are_sums_of_exposures():
    effective, met = overlaps(design([1.0, 1.0, 1.0], [[0.5, 0.0], [0.2, 1.0], [0.0, 0.0]]))
    np.testing.assert_allclose(effective, [0.7, 1.0])
    np.testing.assert_array_equal(met, [2, 1])


def test_a_bystander_of_the_culprit_is_not_blamed():
    """A function that is mostly there when the culprit is: its mean time beside is high, its own effect is none."""
    draw = np.random.default_rng(2)
    culprit = np.where(draw.random(1500) < 0.35, 1.0, 0.0)
    bystander = np.where(draw.random(1500) < 0.15 + 0.6 * culprit, 1.0, 0.0)
    exposure = np.stack([culprit, bystander], axis=1)
    times = stretched(exposure, [0.8, 0.0]) * np.exp(draw.normal(0, 0.2, 1500))
    beside_it = times[bystander > 0].mean() / times[bystander == 0].mean()
    assert beside_it > 1.25, "the obvious statistic is fooled"
    found = fit_victim(design(times, exposure))
    assert abs(found.slowdown[1]) < 3 * found.se[1] < 0.15
    assert found.slowdown[0] == pytest.approx(0.8, abs=3 * found.se[0])


def test_the_same_as_minimising_the_robust_loss_by_brute_force():
    draw = np.random.default_rng(3)
    exposure = beside(draw, 200, 2)
    y = np.log(stretched(exposure, [0.5, 0.1])) + draw.normal(0, 0.2, 200)
    y[::20] += 1.5  # outliers
    options = Options(prior_sd=1e3, tolerance=1e-8, iterations=200)
    problem = Problem(y, ones(200), np.zeros(1, int), np.ones(1), exposure, np.arange(200) // 10, np.zeros(200, int))
    found = fit(problem, options)
    residual = found.residual
    scale = np.median(np.abs(residual)) / 0.6745 * np.sqrt(200 / 197)

    def loss(point):
        left = np.abs(y - point[0] - np.log(stretched(exposure, point[1:])))
        cut = options.huber * scale
        return np.sum(np.where(left <= cut, left**2 / 2, cut * left - cut**2 / 2))

    best = optimize.minimize(loss, [0.0, 0.2, 0.2], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-10})
    np.testing.assert_allclose([found.beta[0], *found.slowdown], best.x, atol=3e-3)


def test_errors_are_those_of_the_textbook_where_the_model_is_linear():
    """Small slowdowns, normal noise: the variance is sigma^2 (X'X)^-1 up to the robustness' few per cent."""
    draw = np.random.default_rng(4)
    exposure = (draw.random((4000, 2)) < 0.3).astype(float)
    y = np.log(stretched(exposure, [0.02, 0.0])) + draw.normal(0, 0.3, 4000)
    problem = Problem(
        y, ones(4000), np.zeros(1, int), np.ones(1), exposure, np.arange(4000) // 20, np.zeros(4000, int)
    )
    found = fit(problem, Options(prior_sd=1e3, huber=10.0))
    x = np.column_stack([np.ones(4000), exposure])
    textbook = 0.3 * np.sqrt(np.diag(np.linalg.inv(x.T @ x)))
    np.testing.assert_allclose(np.sqrt(found.variance), textbook, rtol=0.06)
    assert np.all(np.abs(found.inflation - 1) < 0.35), "independent noise: clusters change little"


def test_errors_that_come_in_clusters_are_wider():
    draw = np.random.default_rng(5)
    cluster = np.arange(2000) // 20
    together = (draw.random(100) < 0.4).astype(float)[cluster]  # the neighbour stays for a whole cluster
    y = draw.normal(0, 0.1, 2000) + draw.normal(0, 0.2, 100)[cluster]
    problem = Problem(y, ones(2000), np.zeros(1, int), np.ones(1), together[:, None], cluster, np.zeros(2000, int))
    found = fit(problem, Options(huber=10.0))
    # design effect of equicorrelated errors: 1 + (20 - 1) * .04 / .05
    assert found.inflation[0] == pytest.approx(16.2, rel=0.4)


def test_many_rows_are_fitted_as_few_are():
    """From where some of the rows lead to the steps go on until nothing moves: the estimate is that of all."""
    draw = np.random.default_rng(6)
    n = 9_000
    exposure = beside(draw, n, 5)
    truth = np.array([0.3, 0.0, 0.6, 0.1, 0.0])
    cold, node = draw.random(n) < 0.1, draw.integers(0, 3, n)
    noise = draw.normal(0, 0.2, n) * np.where(cold, 1.5, 1.0)
    y = np.log(stretched(exposure, truth)) + 0.1 * (node == 2) + noise
    y[::30] += 1.0
    columns = columns_of(np.column_stack([np.ones(n), node == 1, node == 2]))[0]
    problem = Problem(
        y, columns, np.array([0, 1, 1]), np.array([np.inf, 0.1]), exposure, np.arange(n) // 50, cold.astype(np.int64)
    )
    found = fit(problem, Options())
    least = fit(problem, Options(tolerance=1e-7, iterations=200))
    error = np.sqrt(found.variance[3:])
    assert np.all(np.abs(found.slowdown - least.slowdown) < 0.02 * error)
    assert np.all(np.abs(found.slowdown - truth) < 4 * error)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_the_order_of_rows_changes_nothing(seed):
    draw = np.random.default_rng(seed)
    exposure = beside(draw, 300, 3)
    times = stretched(exposure, [0.3, 0.0, 0.6]) * np.exp(draw.normal(0, 0.2, 300))
    start, node = np.sort(draw.uniform(0, 1e5, 300)), draw.integers(0, 3, 300)
    shuffled = draw.permutation(300)
    one = fit_victim(design(times, exposure, start=start, node=node))
    two = fit_victim(design(times[shuffled], exposure[shuffled], start=start[shuffled], node=node[shuffled]))
    np.testing.assert_allclose(one.slowdown, two.slowdown, atol=1e-6)
    np.testing.assert_allclose(one.se, two.se, atol=1e-6)


@pytest.mark.parametrize("seed", range(15))
def test_a_function_that_does_nothing_moves_no_other_estimate(seed):
    draw = np.random.default_rng(seed)
    exposure = beside(draw, 600, 3)
    times = stretched(exposure, [0.3, 0.0, 0.6]) * np.exp(draw.normal(0, 0.2, 600))
    more = np.column_stack([exposure, beside(draw, 600, 1)])
    one, two = fit_victim(design(times, exposure)), fit_victim(design(times, more))
    assert np.all(np.abs(one.slowdown - two.slowdown[:3]) < one.se)
    elsewhere = fit_victim(design(times, np.column_stack([exposure, np.zeros(600)])))
    np.testing.assert_allclose(elsewhere.slowdown[:3], one.slowdown, atol=1e-9)


def test_a_neighbour_that_slows_from_other_nodes_too_shows_in_its_placebo():
    """A shared backend: the victim is slow whenever the neighbour runs anywhere, no more so on the same node."""
    draw = np.random.default_rng(6)
    n = 3000
    start = np.sort(draw.uniform(0, 30_000, n))
    node = draw.integers(0, 4, n)
    busy = draw.random(1000) < 0.4  # the neighbour runs for 30 s at a time, on one of the nodes
    place = draw.integers(0, 4, 1000)
    spell = (start / 30).astype(int)
    anywhere = busy[spell] & (start % 30 < 29)
    exposure = (anywhere & (place[spell] == node)).astype(float)[:, None]
    execution = 0.5 * np.where(anywhere, 1.4, 1.0) * np.exp(draw.normal(0, 0.15, n))
    everywhere = concurrency.build(
        np.concatenate([np.zeros(busy.sum(), int), np.ones(n, int)]),
        np.concatenate([np.flatnonzero(busy) * 30.0, start]),
        np.concatenate([np.flatnonzero(busy) * 30.0 + 30, start + execution]),
        2,
    )
    given_design = design(execution, np.column_stack([exposure, np.zeros(n)]), victim=1, start=start, node=node)
    blind = fit_victim(given_design)
    found = fit_victim(around(given_design, everywhere))
    assert blind.slowdown[0] > 0.15, "without the placebo the neighbour is blamed"
    assert np.isnan(blind.placebo[0])
    assert found.placebo[0] > 5 * found.placebo_se[0]
    assert abs(found.slowdown[0]) < 0.05


def test_throttling_by_the_own_quota_is_not_the_neighbours():
    draw = np.random.default_rng(7)
    throttled = draw.uniform(0, 1, 2000)
    exposure = (draw.random((2000, 1)) < 0.2 + 0.6 * throttled[:, None]).astype(float)
    times = (1 + throttled) * np.exp(draw.normal(0, 0.1, 2000))
    told = fit_victim(design(times, exposure, throttled=throttled))
    assert fit_victim(design(times, exposure)).slowdown[0] > 0.1
    assert told.slowdown[0] < 0.05


NOISE = np.exp(np.random.default_rng(8).normal(0, 0.2, 200))
ALWAYS = np.ones((200, 1))
HALF = (np.arange(200) % 2 == 0).astype(float)[:, None]


@pytest.mark.parametrize(
    ("what", "given_design", "reason"),
    [
        ("an empty window", design([], np.zeros((0, 2))), "too few activations"),
        ("one run", design([1.0], [[1.0]]), "too few activations"),
        ("one function, never beside itself", design(NOISE, np.zeros((200, 1))), "never ran beside another"),
        ("a constant duration", design(np.full(200, 0.25), HALF), "constant duration"),
        ("durations of 0 ms", design(np.zeros(200), HALF), "constant duration"),
        ("no execution that is known", design(np.full(200, np.nan), HALF), "too few activations"),
        ("negative executions", design(np.full(200, -1.0), HALF), "too few activations"),
    ],
)
def test_hopeless_evidence_says_why_and_estimates_nothing(what, given_design, reason):
    with silent():
        found = fit_victim(given_design)
    assert found.reason == reason, what
    assert np.isnan(found.slowdown).all()
    assert np.isnan(found.se).all()


@pytest.mark.parametrize(
    ("what", "given_design"),
    [
        ("no solo run: base and slowdown cannot be told apart", design(NOISE, ALWAYS)),
        ("two neighbours that are always there together", design(NOISE, np.hstack([HALF, HALF]))),
        ("more neighbours than runs", design(NOISE[:30], np.tile(np.eye(30), 2)[:, :60] + 0.1)),
    ],
)
def test_what_cannot_be_told_apart_has_no_sure_estimate(what, given_design):
    with silent():
        found = fit_victim(given_design)
    unsure = np.isnan(found.slowdown) | (found.se > 0.2)
    assert unsure.all(), (what, found.slowdown, found.se)


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("one node", {"node": np.zeros(200, int)}),
        ("all runs cold", {"cold": np.ones(200, bool)}),
        ("throttling never known", {"throttled": np.full(200, np.nan)}),
        ("throttling that never varies", {"throttled": np.zeros(200)}),
        ("all at the same moment", {"start": np.zeros(200)}),
        ("several durations of 0 ms", {}),
    ],
)
def test_odd_evidence_is_fitted_without_a_warning(what, changes):
    times = NOISE * np.where(HALF[:, 0] > 0, 1.5, 1.0)
    if "0 ms" in what:
        times = np.where(np.arange(200) % 40 == 7, 0.0, times)
    with silent():
        found = fit_victim(design(times, HALF, **({"node": np.arange(200) // 2 % 2} | changes)))
    assert found.reason == "", what
    assert found.slowdown[0] == pytest.approx(0.5, abs=3.5 * found.se[0]), what
    assert 0 < found.se[0] < 0.2, what


def test_too_many_rows_are_thinned_evenly():
    draw = np.random.default_rng(9)
    exposure = beside(draw, 5000, 2)
    times = stretched(exposure, [0.4, 0.0]) * np.exp(draw.normal(0, 0.2, 5000))
    whole = design(times, exposure)
    found = fit_victim(whole, options=replace(Options(), max_rows=1000))
    assert found.rows == 5000  # so many are told of, beside how many of them met whom
    assert found.se[0] > 1.5 * fit_victim(whole).se[0]  # sqrt(5) times, where rows are all that there is
    assert found.effective_overlaps[0] == pytest.approx(exposure[:, 0].sum())
    assert found.slowdown[0] == pytest.approx(0.4, abs=4 * found.se[0])
