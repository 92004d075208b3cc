"""How loaded a node is in itself is held constant, and not what a run was beside: histories, worked out run by run,
in which these are easily mixed up."""

import numpy as np
import pytest

from benchmarks.simulator import Records
from benchmarks.worlds import designs
from featurestore.interference.control_columns import LOAD, SERIES, Runs, laid_out
from featurestore.interference.pairs import learn
from featurestore.interference.victim import fit_victim

NODES, SPAN = 4, 2 * 86400.0


def one_by_one(draw, took, pause):
    """Return starts and ends of runs on one node, each after the one before and a *pause*; *took* gives each time."""
    many = int(2 * SPAN / sum(pause))
    took, pauses = took(many), draw.uniform(*pause, many)
    start = np.cumsum(pauses + np.append(0.0, took[:-1]))
    return start[start < SPAN], (start + took)[start < SPAN]


def evidence(runs):
    """Return the designs of functions that ran so: *runs* are function, node, starts and ends."""
    function = np.concatenate([np.full(len(start), f) for f, _, start, _ in runs])
    node = np.concatenate([np.full(len(start), n) for _, n, start, _ in runs])
    start, end = (np.concatenate([each[k] for each in runs]) for k in (2, 3))
    order = np.argsort(start, kind="stable")
    zero = np.zeros(len(start))
    records = Records(
        function[order], node[order], start[order], end[order], zero, zero, zero > 0, function * 0, zero, zero, node
    )
    return designs(records, np.zeros(NODES, np.int64), function.max() + 1)


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


def slowed(start, work, begun, ended, by):
    """Return how long *work* takes that begins at *start* and makes progress at 1 / *by* while others run."""
    found = np.empty(len(start))
    for k, (now, left) in enumerate(zip(start, work, strict=True)):
        other = np.searchsorted(ended, now, side="right")
        while left > 1e-12:
            inside = other < len(begun) and begun[other] <= now
            until = ended[other] if inside else begun[other] if other < len(begun) else np.inf
            step = min(until - now, left * (by if inside else 1.0))
            left -= step / (by if inside else 1.0)
            now += step
            other += inside and now >= until
        found[k] = now - start[k]
    return found


def test_the_load_is_that_of_the_runs_before_and_after_on_the_node():
    """In whatever order the runs come; what exceeds the upper levels of it has a column each."""
    draw, n = np.random.default_rng(3), 300
    start, node, load = draw.permutation(n) * 60.0, draw.integers(0, 3, n), draw.uniform(0, 2, n)
    lasting = np.empty(n)
    for own in range(3):
        there = [row for row in np.argsort(start) if node[row] == own]
        for k, row in enumerate(there):
            lasting[row] = np.mean([load[other] for other in there[max(k - 1, 0) : k + 2] if other != row])
    knots = np.quantile(lasting, [0.6, 0.85, 0.95])

    nothing = np.zeros(0, np.int64)
    one = np.zeros(n, np.int64)
    made = laid_out(Runs(start, node, one, one > 0, nothing, np.zeros((n, 0)), load, np.zeros(0)), 24, 0)

    assert (made.sizes[SERIES], made.sizes[LOAD]) == (0, 3)
    np.testing.assert_allclose(made.columns.dense, np.maximum(lasting[:, None] - knots, 0), atol=1e-6)
