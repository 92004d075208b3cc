"""The compiled control columns: the time of day, and what the columns of each kind move."""

import numpy as np

from featurestore.interference.control_columns import HOUR, SERIES, Runs, laid_out, spreads
from tests.support.columns import mixed

N = 400


def test_the_time_of_day_is_a_wave_of_a_day_and_one_of_half_a_day():
    start = np.sort(np.random.default_rng(1).uniform(0, 3 * 86400, N)) + 1.7e9
    none, nothing = np.zeros(N, np.int64), np.zeros(0, np.int64)
    runs = Runs(
        start, none, none, np.zeros(N, bool), nothing, np.zeros((N, 0)), np.zeros(N), np.zeros(0), start, np.zeros(N)
    )

    made = laid_out(runs, 24, 0)

    angle = 2 * np.pi * start / 86400
    expected = np.stack([np.sin(angle), np.cos(angle), np.sin(2 * angle), np.cos(2 * angle)], axis=1)
    assert made.sizes[HOUR] == 4 and made.sizes[SERIES] == 0
    np.testing.assert_allclose(made.columns.dense, expected, atol=1e-6)


def test_each_kind_moves_by_the_spread_of_what_its_columns_come_to():
    draw = np.random.default_rng(2)
    columns, whole = mixed(draw, N, 6, 5)
    own = np.array([0, 0, 1, 1, -1, 1, 1, 2, 2, -1, 2, 3, 1])
    beta = draw.normal(size=len(own))

    found = spreads(columns, beta, own, 4)

    expected = [np.std(whole[:, own == kind] @ beta[own == kind]) for kind in range(4)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
