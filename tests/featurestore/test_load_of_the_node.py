"""How loaded a node is in itself is held constant, and not what a run was beside: histories, worked out run by run,
in which these are easily mixed up."""

from dataclasses import replace

import numpy as np
import pytest

from featurestore.interference.control_columns import LOAD, PACE, SERIES, Runs, laid_out
from featurestore.interference.pairs import learn
from featurestore.interference.victim import fit_victim
from tests.support.worked_out import NODES, SPAN, evidence, one_by_one, slowed


def test_who_takes_longer_by_itself_is_not_slowed_by_all_that_it_meets():
    """Runs of 4 to 12 s, whatever they meet, beside eight functions of .4 s: the longer one takes, the nearer to the
    mean is what it meets."""
    draw, runs = np.random.default_rng(7), []
    for node in range(NODES):
        runs.append((0, node, *one_by_one(draw, lambda n: draw.uniform(4, 12, n), (20, 120))))
        runs += [(f, node, *one_by_one(draw, lambda n: draw.normal(0.4, 0.03, n), (5, 40))) for f in range(1, 9)]
    made = evidence(runs)
    fits = [fit_victim(each) for each in made]
    assert fits[0].rows > 8_000

    table = learn(fits)

    mine = (table.victim == 0) & np.isfinite(table.probability)
    assert mine.sum() >= 8
    assert table.probability[mine].max() < 0.5
    assert np.nanmax(fits[0].slowdown / fits[0].se) < 3


def test_one_neighbour_that_is_all_of_the_load_is_told():
    """Runs of .4 s make progress at 1 / 1.6 while one of 8 s runs, a tenth of the time; hardly anybody else does."""
    draw, runs = np.random.default_rng(8), []
    for node in range(NODES):
        begun, ended = one_by_one(draw, lambda n: draw.normal(8, 0.4, n), (20, 120))
        start, _ = one_by_one(draw, lambda n: np.full(n, 0.4), (5, 30))
        work = draw.normal(0.4, 0.03, len(start))
        took = slowed(start, work, begun, ended, 1.6)
        runs += [(0, node, start, start + took), (1, node, begun, ended)]
        runs.append((2, node, *one_by_one(draw, lambda n: draw.normal(0.2, 0.02, n), (30, 90))))

    found = fit_victim(evidence(runs)[0])

    assert found.slowdown[1] == pytest.approx(0.6, abs=0.02)
    assert found.se[1] < 0.01
    assert abs(found.slowdown[2]) < 4 * found.se[2]


def laid(start, end, node, load, time):
    nothing, one = np.zeros(0, np.int64), np.zeros(len(start), np.int64)
    return laid_out(
        Runs(start, node, one, one > 0, nothing, np.zeros((len(start), 0)), load, np.zeros(0), end, time), 24, 0
    )


def test_the_load_is_that_of_the_runs_before_and_after_on_the_node():
    """Whatever the order of the runs, and none that overlaps; what exceeds the upper levels has a column each."""
    draw, n = np.random.default_rng(3), 300
    start, node, load = draw.permutation(n) * 60.0, draw.integers(0, 3, n), draw.uniform(0, 2, n)
    end = start + draw.exponential(90.0, n)
    around = []
    for row in range(n):
        before = [other for other in range(n) if node[other] == node[row] and end[other] <= start[row]]
        after = [other for other in range(n) if node[other] == node[row] and start[other] >= end[row]]
        two = [max(before, key=lambda other: end[other])] if before else []
        two += [min(after, key=lambda other: start[other])] if after else []
        around.append(load[two].mean() if two else load.mean())
    knots = np.quantile(around, [0.6, 0.85, 0.95])

    made = laid(start, end, node, load, np.zeros(n))

    assert (made.sizes[SERIES], made.sizes[PACE], made.sizes[LOAD]) == (0, 0, 3)
    np.testing.assert_allclose(made.columns.dense, np.maximum(np.array(around)[:, None] - knots, 0), atol=1e-6)


def test_the_pace_is_that_of_others_near_in_time_that_do_not_overlap():
    """Faded by five minutes, six believed to be as usual, none more than three standard deviations away."""
    draw, n = np.random.default_rng(4), 200
    start, node = draw.permutation(n) * 60.0, draw.integers(0, 2, n)
    end, time = start + draw.exponential(90.0, n), draw.standard_t(2, n)
    above = time - time.mean()
    above = np.clip(above, -3 * np.sqrt(np.mean(above**2)), 3 * np.sqrt(np.mean(above**2)))
    found = np.empty(n)
    for row in range(n):
        gap = np.maximum(start[row] - end, start - end[row])  # of runs that overlap it is negative
        weight = np.where((node == node[row]) & (gap >= 0), np.exp(-gap / 300.0), 0.0)
        found[row] = weight @ above / (weight.sum() + 6.0)

    made = laid(start, end, node, np.ones(n), time)

    assert (made.sizes[SERIES], made.sizes[PACE], made.sizes[LOAD]) == (0, 1, 0)
    np.testing.assert_allclose(made.columns.dense[:, 0], found - found.mean(), atol=1e-6)


def test_runs_of_no_length_and_at_once_have_their_columns():
    same = np.full(60, 7.0)
    made = laid(same, same, np.arange(60) % 3, np.arange(60) % 5 * 1.0, np.arange(60) % 7 * 1.0)
    assert np.isfinite(made.columns.dense).all()


@pytest.mark.parametrize("known", [True, False], ids=["ends known", "ends not known"])
def test_two_that_always_start_together_do_not_make_others_guilty(known):
    """The longer one takes, the less of it is beside the other, which ends first: no effect is told, or, by times
    alone, one below none, which no neighbour has. No other is to make up for it."""
    draw, runs = np.random.default_rng(9), []
    for node in range(NODES):
        begun, ended = one_by_one(draw, lambda n: 3 * np.exp(draw.normal(0, 0.25, n)), (10, 60))
        runs.append((0, node, begun, ended))
        runs.append((1, node, begun, begun + 2 * np.exp(draw.normal(0, 0.25, len(begun)))))
        runs += [(f, node, *one_by_one(draw, lambda n: draw.normal(2, 0.2, n), (5, 40))) for f in (2, 3, 4)]

    table = learn([fit_victim(each if known else replace(each, ending=None)) for each in evidence(runs)])

    of = {
        (victim, aggressor): k
        for k, (victim, aggressor) in enumerate(zip(table.victim, table.aggressor, strict=True))
    }
    assert table.status[of[0, 1]] == ("observed" if known else "unknown")
    harmless = [of[0, aggressor] for aggressor in ((1, 2, 3, 4) if known else (2, 3, 4))]
    assert {table.status[k] for k in harmless} == {"observed"}
    assert (table.probability[harmless] < 0.5).all()
    assert (table.slowdown[harmless] < 0.05).all()


def test_a_function_of_two_sizes_that_slows_itself_is_told_to():
    """A third of its runs take twelve times as long: the load of those beside one follows how long it takes."""
    draw, runs = np.random.default_rng(10), []
    for node in range(NODES):
        start = np.sort(draw.uniform(0, SPAN, 6_000))
        work = np.where(draw.random(6_000) < 0.3, 36.0, 3.0) * np.exp(draw.normal(0, 0.2, 6_000))
        runs.append((0, node, start, start + slowing_each_other(start, work, 0.15)))
        runs.append((1, node, *one_by_one(draw, lambda n: draw.normal(0.4, 0.03, n), (5, 40))))

    table = learn([fit_victim(each) for each in evidence(runs)])

    [own] = np.flatnonzero((table.victim == 0) & (table.aggressor == 0))
    assert table.status[own] == "observed"
    assert table.probability[own] > 0.9


def slowing_each_other(start, work, by):
    """Return how long each of *work* takes that begins at *start* and makes progress at 1 / (1 + *by* others)."""
    ended, left, now, at = np.zeros(len(start)), {}, 0.0, 0
    while at < len(start) or left:
        pace = 1.0 + by * max(len(left) - 1, 0)
        first = min(left, key=left.get) if left else -1
        until = min(now + left[first] * pace if left else np.inf, start[at] if at < len(start) else np.inf)
        left = {run: rest - (until - now) / pace for run, rest in left.items()}
        now = until
        if at < len(start) and start[at] <= now:
            left[at] = work[at]
            at += 1
        elif left:
            ended[first] = now
            del left[first]
    return ended - start
