"""The state of a victim folded over days: the same again, near the one-shot fit, and forgetting only by evidence."""

import numpy as np
import pytest

from featurestore.interference.fold import Block, fold, gaps, linearise, reduce, renewed, solve
from featurestore.interference.victim import fit_victim
from tests.support.victims import beside, design, stretched

DAY = 86_400.0
TRUTH = np.array([0.0, 0.4, 0.0, 0.15])


def day(number, truth=TRUTH, absent=(), n=400):
    """The evidence of one day; *absent* functions did not run beside the victim."""
    draw = np.random.default_rng([3, number])
    exposure = beside(draw, n, len(truth))
    exposure[:, list(absent)] = 0
    times = 2.0 * stretched(exposure, truth) * np.exp(draw.normal(0, 0.2, n))
    start = np.sort(draw.uniform(number * DAY, (number + 1) * DAY, n))
    return times, exposure, start, draw.integers(0, 3, n)


def made(parts):
    times, exposure, start, node = (np.concatenate(column) for column in zip(*parts, strict=True))
    return design(times, exposure, start=start, node=node)


def folded(days, point, memory=1e12):
    state = Block()
    for part in days:
        state = fold(state, reduce(made([part]), point), memory)
    return state


@pytest.fixture(scope="module")
def week():
    return [day(number) for number in range(7)]


def test_the_days_folded_again_equal_the_state(week):
    point = linearise(fit_victim(made(week[:3])))
    one, two = folded(week, point), folded(week, point)
    np.testing.assert_allclose(one.gram, two.gram, rtol=1e-9)
    np.testing.assert_allclose(one.pull, two.pull, rtol=1e-9)


def test_folding_one_day_more_is_folding_them_all(week):
    point = linearise(fit_victim(made(week[:3])))
    six = folded(week[:6], point, memory=2500)
    one_more = fold(six, reduce(made(week[6:]), point), 2500)
    np.testing.assert_allclose(one_more.gram, folded(week, point, memory=2500).gram, rtol=1e-9)


def test_a_folded_week_is_near_the_one_shot_fit(week):
    whole = fit_victim(made(week))
    point = linearise(fit_victim(made(week[:3])))
    found = solve(folded(week, point), point, 4)
    assert gaps(found, whole).max() < 1.0
    np.testing.assert_allclose(found.se, whole.se, rtol=0.3)
    assert np.all(np.abs(found.slowdown - TRUTH) < 3.5 * found.se)
    assert found.base[0] == pytest.approx(2.0, rel=0.03)
    np.testing.assert_allclose(found.effective_overlaps, whole.effective_overlaps)


def test_a_pair_that_is_kept_apart_stays_known(week):
    """Fifty days without the culprit, with a memory of three days: what is known of it stays as it was."""
    point = linearise(fit_victim(made(week)))
    before = folded(week, point, memory=500)
    after = before
    for number in range(10, 60):
        after = fold(after, reduce(made([day(number, absent=[1])]), point), 500)
    first, last = solve(before, point, 4), solve(after, point, 4)
    assert last.slowdown[1] == pytest.approx(first.slowdown[1], abs=first.se[1])
    assert last.se[1] < 1.2 * first.se[1]
    assert last.effective_overlaps[1] == pytest.approx(first.effective_overlaps[1])


def test_what_is_known_yields_to_new_evidence(week):
    """The culprit was mended: after two weeks the state says so, which a sum without forgetting does not."""
    point = linearise(fit_victim(made(week)))
    state, stubborn = folded(week, point, memory=500), folded(week, point)
    mended = np.array([0.0, 0.0, 0.0, 0.15])
    for number in range(10, 24):
        block = reduce(made([day(number, mended)]), point)
        state, stubborn = fold(state, block, 500), fold(stubborn, block, 1e12)
    assert solve(state, point, 4).slowdown[1] < 0.05
    assert solve(stubborn, point, 4).slowdown[1] > 0.08


def test_a_new_version_keeps_the_old_evidence_as_a_weak_prior(week):
    point = linearise(fit_victim(made(week)))
    state = folded(week, point)
    weak, strong = solve(renewed(state), point, 4), solve(state, point, 4)
    assert weak.slowdown[1] == pytest.approx(strong.slowdown[1], abs=0.1)
    assert weak.se[1] > 2.5 * strong.se[1]
    np.testing.assert_allclose(weak.effective_overlaps, strong.effective_overlaps / 10)


def test_a_day_without_runs_changes_nothing(week):
    point = linearise(fit_victim(made(week)))
    state = folded(week, point)
    same = fold(state, reduce(design([], np.zeros((0, 4))), point))
    np.testing.assert_allclose(solve(same, point, 4).slowdown, solve(state, point, 4).slowdown, atol=1e-6)
