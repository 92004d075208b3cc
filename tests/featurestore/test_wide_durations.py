"""Slowdowns are told as large as they are, however widely times spread: histories, worked out run by run."""

import numpy as np
import pytest

from featurestore.interference.victim import fit_victim
from tests.support.worked_out import NODES, SPAN, evidence, one_by_one, slowed


def told(seed, spread, usual, lasts, slowdown, runs=1_500):
    """Return the fit of a function of *usual* seconds whose log spreads so, beside one that *lasts* about so long."""
    draw, made = np.random.default_rng(seed), []
    for node in range(NODES):
        begun, ended = one_by_one(draw, lambda n: draw.uniform(0.8, 1.2, n) * lasts, (0.5 * lasts, 3.5 * lasts))
        start = np.sort(draw.uniform(0, 0.98 * SPAN, runs))
        work = usual * np.exp(draw.normal(0, spread, runs))
        made += [(0, node, start, start + slowed(start, work, begun, ended, 1 + slowdown)), (1, node, begun, ended)]
    return fit_victim(evidence(made)[0])


@pytest.mark.parametrize("slowdown", [0.0, 0.5, 1.5])
@pytest.mark.parametrize(
    ("spread", "usual", "lasts"), [(0.25, 5, 1), (0.8, 5, 1), (0.8, 1, 5), (0.8, 5, 5), (1.3, 2, 1)]
)
def test_slowdowns_are_told_as_large_as_they_are(spread, usual, lasts, slowdown):
    """The mean of four histories is near the truth, which least squares are not: of 1.5 they tell .6 where times
    spread by .8 and neighbours last a fifth of them. A weak belief that none slows draws them down by a little."""
    fits = [told(seed, spread, usual, lasts, slowdown) for seed in range(4)]

    mean = np.mean([fit.slowdown[1] for fit in fits])
    error = np.sqrt(np.mean([fit.se[1] ** 2 for fit in fits]) / len(fits))
    assert error < 0.06
    assert mean == pytest.approx(slowdown, abs=3 * error + 0.05 * slowdown)


def test_errors_are_what_repeated_histories_show():
    """Of 24 histories, within what chance leaves open: the standard deviation of one of 24 is known to a seventh."""
    fits = [told(seed, 0.8, 5, 1, 0.5, runs=300) for seed in range(100, 124)]

    shown = np.std([fit.slowdown[1] for fit in fits], ddof=1)
    stated = np.sqrt(np.mean([fit.se[1] ** 2 for fit in fits]))
    assert 0.6 < shown / stated < 1.4


@pytest.mark.parametrize("wait", [0.3, 1.0])
def test_a_last_part_that_nobody_slows_does_not_hide_what_slows_the_rest(wait):
    """Runs of 3 s that an aggressor stretches to 6 and then wait: their ends tell of no slowdown, their times do."""
    draw, runs = np.random.default_rng(21), []
    for node in range(NODES):
        begun, ended = one_by_one(draw, lambda n: draw.uniform(0.8, 1.2, n), (0.5, 3.5))
        start = np.sort(draw.uniform(0, 0.98 * SPAN, 6_000))
        work = 3 * np.exp(draw.normal(0, 0.25, 6_000))
        took = slowed(start, work, begun, ended, 2.0) + wait * np.exp(draw.normal(0, 0.25, 6_000))
        runs += [(0, node, start, start + took), (1, node, begun, ended)]

    found = fit_victim(evidence(runs)[0])

    assert not found.ends
    truth = 3 / (3 + wait)
    assert 0.7 * truth < found.slowdown[1] < 1.1 * truth  # ends alone make next to nothing of it


def test_who_starts_right_before_each_end_leads_nothing_astray():
    """A run starts its successor 10 ms before it ends: it has no effect, and another's keeps its size."""
    draw, runs = np.random.default_rng(22), []
    for node in range(NODES):
        begun, ended = one_by_one(draw, lambda n: draw.uniform(8, 12, n), (5, 35))
        start = np.sort(draw.uniform(0, 0.98 * SPAN, 1_500))
        end = start + slowed(start, 3 * np.exp(draw.normal(0, 0.3, 1_500)), begun, ended, 1.5)
        after = end - 0.01
        runs += [(0, node, start, end), (1, node, begun, ended)]
        runs.append((2, node, after, after + np.exp(draw.normal(0, 0.3, 1_500))))

    found = fit_victim(evidence(runs)[0])

    assert found.reason == ""
    assert found.slowdown[1] == pytest.approx(0.5, rel=0.15)
    assert not found.slowdown[2] > 4 * found.se[2]
