"""The state of a victim folded over days: the same again, near the one-shot fit, and forgetting only by evidence."""

import numpy as np
import pytest

from featurestore.interference import solution
from featurestore.interference.blocks import Block, relabelled
from featurestore.interference.fold import fold, renewed
from featurestore.interference.reduction import reduce
from featurestore.interference.solution import corrected, gaps, linearise
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


def solve(state, point, functions):
    """What the state says, of all functions."""
    return solution.solve(state, point, functions).whole()


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


def test_the_correction_makes_the_fold_say_what_the_full_fit_says(week):
    whole = fit_victim(made(week))
    state, point = folded(week, linearise(whole)), linearise(whole)
    block, point = corrected(state, whole, point)
    found = solve(fold(state, block), point, 4)
    known = np.isfinite(whole.se)
    np.testing.assert_allclose(found.slowdown[known], np.maximum(whole.slowdown[known], -0.5), atol=1e-6)
    np.testing.assert_allclose(found.se[known], whole.se[known], rtol=1e-6)
    np.testing.assert_allclose(fold(state, block).gram, state.gram)  # the correction is no evidence


def test_a_block_says_the_same_whatever_the_order_of_its_rows(week):
    times, exposure, start, node = week[0]
    order = np.random.default_rng(5).permutation(len(times))
    point = linearise(fit_victim(made(week[:3])))
    one = reduce(design(times, exposure, start=start, node=node), point)
    other = reduce(design(times[order], exposure[order], start=start[order], node=node[order]), point)
    np.testing.assert_allclose(one.gram, other.gram, rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(one.pull, other.pull, rtol=1e-9, atol=1e-6)


def test_an_unrelated_function_changes_no_other_estimate(week):
    """A fifth function that runs beside the victim at random: the others' slowdowns stay within their errors."""
    point = linearise(fit_victim(made(week)))
    draw = np.random.default_rng(8)
    more = []
    for times, exposure, start, node in week:
        more.append((times, np.concatenate([exposure, beside(draw, len(times), 1)], axis=1), start, node))
    four, five = solve(folded(week, point), point, 4), solve(folded(more, point), point, 5)
    assert np.all(np.abs(five.slowdown[:4] - four.slowdown) < 0.5 * four.se)
    assert abs(five.slowdown[4]) < 3.5 * five.se[4]


def test_a_block_holds_only_the_functions_that_the_victim_met():
    """Function 9 of 10,000 ran beside it: the sums are of one node type, one slowdown and one placebo."""
    draw = np.random.default_rng(4)
    exposure = np.zeros((300, 10_000))
    exposure[:, 9] = beside(draw, 300, 1)[:, 0]
    times = 2.0 * (1 + 0.5 * exposure[:, 9]) * np.exp(draw.normal(0, 0.1, 300))
    one = design(times, exposure)
    block = reduce(one, linearise(fit_victim(one)))
    assert block.gram.shape == (3, 3)
    assert block.columns.tolist() == block.met.tolist() == [9]


def test_other_codes_change_nothing_but_the_codes(week):
    point = linearise(fit_victim(made(week[:3])))
    state = folded(week, point)
    functions, types = np.array([7, 2, 9, 0]), np.array([3])
    moved = relabelled(state, functions, types)
    back = relabelled(moved, np.array([3, -1, 1, -1, -1, -1, -1, 0, -1, 2]), np.array([-1, -1, -1, 0]))
    assert moved.columns.tolist() == [0, 2, 7, 9]
    for name in ("types", "columns", "gram", "pull", "met", "overlaps", "activations"):
        np.testing.assert_array_equal(getattr(back, name), getattr(state, name))


def test_drift_is_told_against_a_usual_days_level(week):
    """The victim takes half as long again from one day on: log 1.5 over the usual tenth."""
    point = linearise(fit_victim(made(week)))
    times, exposure, start, node = day(8)
    quiet, slow = reduce(made([day(8)]), point), reduce(made([(1.5 * times, exposure, start, node)]), point)
    assert abs(quiet.drift) < 1
    assert slow.drift - quiet.drift == pytest.approx(np.log(1.5) / np.sqrt(0.1**2 + 1 / slow.weight), rel=0.1)
    assert fold(quiet, slow).drift == slow.drift


def test_a_correction_moves_only_what_the_days_folded_for_good_have_evidence_of(week):
    """It is worked out for all days, and folded onto those that are closed: what these never met stays unsaid."""
    last = (*day(9, absent=(1, 3))[:3], np.full(400, 4))
    whole = fit_victim(made([*week, last]))
    point = linearise(whole)
    correction, point = corrected(folded([*week, last], point), whole, point)
    closed = folded([last], point)
    block = solution.hung(correction, closed)
    assert set(block.columns) == set(closed.columns) < set(correction.columns)
    np.testing.assert_array_equal(block.types, closed.types)
    moved = solve(fold(closed, block), point, 4)
    assert np.isnan(moved.slowdown[[1, 3]]).all()
    assert len(solution.hung(correction, Block()).pull) == 0, "no day, no pull"


def test_a_pull_without_information_says_nothing_after_a_fold():
    """Two neighbours that always ran together cannot be told apart; a correction pulls them apart by .2 all the same.
    A day about one of them leaves what is believed near the plain sum of both, in which nothing is forgotten."""
    together = np.zeros((5, 5))
    together[0, 0] = together[1:3, 1:3] = 400.0
    pull = together @ [0.0, 0.1, 0.1, 0.0, 0.0] + [0.0, 0.2, -0.2, 0.0, 0.0]
    state = Block(np.array([0]), np.array([1, 2]), together, pull, rows=400.0)
    alone = np.diag([0.0, 4000.0, 0.0])
    day = Block(np.array([0]), np.array([1]), alone, alone @ [0.0, 0.3, 0.0], rows=400.0)
    found = fold(state, day)
    belief = np.array([0.01, 1.0, 1.0, 2e4, 2e4])
    told = np.linalg.solve(found.gram + np.diag(belief), found.pull)
    whole, pulled = together.copy(), pull.copy()
    whole[1, 1] += 4000.0
    pulled[1] += 4000.0 * 0.3
    assert told == pytest.approx(np.linalg.solve(whole + np.diag(belief), pulled), abs=0.02)
