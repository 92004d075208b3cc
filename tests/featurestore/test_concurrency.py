"""How many run in the cluster at once: worked by hand, and against summing overlaps one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from featurestore.interference.concurrency import Met, build, events, swept
from tests.support.concurrency import mean


def test_worked_by_hand():
    # b runs [2, 4] and [3, 8]; over [0, 10] that is 7 activation-seconds, over [3, 4] two at once
    found = build(np.array([1, 1, 0]), np.array([2.0, 3.0, 0.0]), np.array([4.0, 8.0, 10.0]), 2)
    start, end = np.array([0.0, 3.0, 8.0]), np.array([10.0, 4.0, 9.0])
    np.testing.assert_allclose(mean(found, np.array([1]), start, end)[:, 0], [0.7, 2.0, 0.0])
    np.testing.assert_allclose(mean(found, np.array([2]), start, end)[:, 0], [1.7, 3.0, 1.0])


def test_nothing_ran():
    found = build(np.zeros(0, int), np.zeros(0), np.zeros(0), 3)
    np.testing.assert_array_equal(mean(found, np.arange(4), np.array([1.0]), np.array([2.0])), np.zeros((1, 4)))


def micros(*seconds):
    return [np.rint(1e6 * each).astype(np.int64) for each in seconds]


TIMES = st.integers(0, 60)
RUNS = st.lists(st.tuples(st.integers(0, 2), TIMES, TIMES), min_size=1, max_size=25)


@given(RUNS)
def test_as_by_summing_overlaps(runs):
    function = np.array([f for f, _, _ in runs])
    start = np.array([min(a, b) for _, a, b in runs], float)
    end = np.array([max(a, b) for _, a, b in runs], float)
    asked = end > start
    found = mean(build(function, start, end, 3), np.arange(4), start[asked], end[asked])
    for row, (s, e) in enumerate(zip(start[asked], end[asked], strict=True)):
        shared = np.maximum(0, np.minimum(end, e) - np.maximum(start, s)) / (e - s)
        expected = [*(shared[function == f].sum() for f in range(3)), shared.sum()]
        np.testing.assert_allclose(found[row], expected, atol=1e-9)


def test_as_by_summing_overlaps_of_many_runs_in_any_order():
    draw = np.random.default_rng(8)
    function, start = draw.integers(0, 3, 400), np.round(draw.uniform(0, 300, 400), 6)
    end = start + np.round(draw.exponential(4.0, 400) + 1e-3, 6)
    found = mean(build(function, start, end, 3), np.arange(4), start, end)
    shared = np.minimum(end, end[:, None]) - np.maximum(start, start[:, None])
    shared = np.maximum(0, shared) / (end - start)[:, None]
    for code in range(3):
        np.testing.assert_allclose(found[:, code], shared[:, function == code].sum(axis=1), atol=1e-9)
    np.testing.assert_allclose(found[:, 3], shared.sum(axis=1), atol=1e-9)


@pytest.mark.parametrize("long", [0.05, 4.0, 500.0])  # one after the other, some at once, nearly all at once
def test_one_sweep_finds_what_looking_up_does(long):
    """Of runs in any order, some of no length, asked about different functions for each of two victims."""
    draw = np.random.default_rng(9)
    function, start = draw.integers(0, 4, 500).astype(np.int32), np.round(draw.uniform(0, 200, 500), 2)
    end = start + np.where(draw.random(500) < 0.1, 0.0, np.round(draw.exponential(long, 500), 2))
    asked = draw.permutation(500)[:200]
    victim, columns = (np.arange(200) >= 120).astype(np.int64), [np.array([1, 3]), np.array([0, 1, 2])]

    met = Met(asked, victim, np.array([0, 2, 5]), np.concatenate(columns))
    everywhere, beside = swept(events(function, *micros(start, end), 4), met)

    known = build(function.astype(np.int64), start, end, 4)
    np.testing.assert_allclose(
        everywhere, mean(known, np.array([4]), start[asked], end[asked])[:, 0], rtol=1e-12, atol=0
    )
    for own, rows in ((0, asked[:120]), (1, asked[120:])):
        found = (beside[:240], beside[240:])[own].reshape(len(rows), -1)
        expected = mean(known, columns[own], start[rows], end[rows]).astype(np.float32)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=0)


def test_a_sweep_worked_by_hand():
    # the second runs [2, 4] and the third [3, 8]; beside the first, [0, 10], they are .7 of one, with it 1.7
    times = micros(np.array([0.0, 2.0, 3.0]), np.array([10.0, 4.0, 8.0]))
    known = events(np.array([0, 1, 1], np.int32), *times, 2)
    met = Met(np.array([0, 1]), np.array([0, 0]), np.array([0, 1]), np.array([1]))
    everywhere, beside = swept(known, met)
    np.testing.assert_allclose(everywhere, [1.7, 2.5])
    np.testing.assert_array_equal(beside, np.array([0.7, 1.5], np.float32))


def test_what_ran_for_years_takes_nothing_from_the_last_microsecond():
    """Integrals of many days and functions are sums far beyond what a float holds exactly."""
    year, many = 31_536_000_000_000, 2_000
    start = np.concatenate([np.zeros(many, np.int64), [10 * year, 10 * year + 1_500]])
    end = np.concatenate([np.full(many, 11 * year), [10 * year + 2_000, 1 << 62]])  # the last has not ended
    function = np.concatenate([np.zeros(many, np.int32), np.array([1, 2], np.int32)])
    everywhere, beside = swept(
        events(function, start, end, 3),
        Met(np.array([many]), np.zeros(1, np.int64), np.array([0, 2]), np.array([0, 2])),
    )
    np.testing.assert_allclose(beside, [many, 0.25], rtol=1e-15)
    np.testing.assert_allclose(everywhere, [many + 1.25], rtol=1e-15)


def test_what_has_not_ended_runs_on_however_many_there_are():
    never = np.full(5_000, (1 << 62) / 1e6)
    known = build(np.zeros(5_000, int), np.full(5_000, 1.7e9), never, 1)
    found = mean(known, np.array([0, 1]), np.array([1.7e9 + 60]), np.array([1.7e9 + 61]))
    np.testing.assert_array_equal(found, np.full((1, 2), 5_000.0))
