"""Where a history is cut into blocks, worked by hand: at midnights, and at full hours where a block holds enough."""

import numpy as np

from featurestore.engines.candidate import Options
from featurestore.engines.folding import DAY, HOUR, MOST, cuts, edges


def test_blocks_end_at_midnight_or_when_they_hold_enough():
    since, until = 10 * HOUR, 2 * DAY + 5 * HOUR
    hours = np.array([10, 11, 12, 26, 49])
    counts = np.array([30, 30, 30, 5, 5])
    assert cuts(hours, counts, since, until, 50) == [since, 12 * HOUR, DAY, 2 * DAY, until]
    assert cuts(hours, counts, since, until, 1_000) == [since, DAY, 2 * DAY, until]


def test_the_edges_of_runs_are_the_cuts_of_their_hours():
    end = np.array([HOUR + 5, 3 * HOUR, HOUR + 1, 3 * HOUR + 1, 9 * HOUR])
    assert edges(end, HOUR, 9 * HOUR, 2) == [HOUR, 2 * HOUR, 4 * HOUR, 9 * HOUR]


def test_a_history_that_is_learned_at_once_has_fewer_blocks():
    hours, counts = np.arange(48), np.full(48, MOST)
    assert len(cuts(hours, counts, 0, 2 * DAY)) == 49
    assert cuts(hours, counts, 0, 2 * DAY, Options().most) == [0, DAY, 2 * DAY]  # 1.2 million a day
    assert len(cuts(hours, 4 * counts, 0, 2 * DAY, Options().most)) == 7  # 10 hours, 10 and 4 of each day
