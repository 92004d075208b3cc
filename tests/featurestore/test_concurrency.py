"""How many run in the cluster at once: worked by hand, and against summing overlaps one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from featurestore.interference.concurrency import build, mean


def test_worked_by_hand():
    # b runs [2, 4] and [3, 8]; over [0, 10] that is 7 activation-seconds, over [3, 4] two at once
    found = build(np.array([1, 1, 0]), np.array([2.0, 3.0, 0.0]), np.array([4.0, 8.0, 10.0]), 2)
    start, end = np.array([0.0, 3.0, 8.0]), np.array([10.0, 4.0, 9.0])
    np.testing.assert_allclose(mean(found, np.array([1]), start, end)[:, 0], [0.7, 2.0, 0.0])
    np.testing.assert_allclose(mean(found, np.array([2]), start, end)[:, 0], [1.7, 3.0, 1.0])


def test_nothing_ran():
    found = build(np.zeros(0, int), np.zeros(0), np.zeros(0), 3)
    np.testing.assert_array_equal(mean(found, np.arange(4), np.array([1.0]), np.array([2.0])), np.zeros((1, 4)))


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
    function, start = draw.integers(0, 3, 400), draw.uniform(0, 300, 400)
    end = start + draw.exponential(4.0, 400)
    found = mean(build(function, start, end, 3), np.arange(4), start, end)
    shared = np.minimum(end, end[:, None]) - np.maximum(start, start[:, None])
    shared = np.maximum(0, shared) / (end - start)[:, None]
    for code in range(3):
        np.testing.assert_allclose(found[:, code], shared[:, function == code].sum(axis=1), atol=1e-9)
    np.testing.assert_allclose(found[:, 3], shared.sum(axis=1), atol=1e-9)
