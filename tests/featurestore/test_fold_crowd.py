"""What the load of the cluster did is known from the full fit: a day alone is too short to tell it from company."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from featurestore import states
from featurestore.interference import concurrency, controls
from featurestore.interference.blocks import Block
from featurestore.interference.evidence import Options
from featurestore.interference.fold import fold
from featurestore.interference.normal import product
from featurestore.interference.reduction import reduce
from featurestore.interference.solution import linearise, solve
from featurestore.interference.victim import fit_victim
from tests.support.concurrency import around, mean
from tests.support.victims import design

DAY, BASE, EACH = 86_400.0, 2.0, 0.06


def crowded(seed, runs=160, days=6):
    """A victim whose time grows by EACH (log) for one more activation anywhere, beside a harmless neighbour that is
    there when much else runs: the design of all days, and that of each."""
    draw = np.random.default_rng(seed)
    start = np.sort(draw.uniform(0, days * DAY, runs))
    busy = np.repeat(draw.uniform(0, days * DAY - 3600, 40 * days), 8)
    others = np.where(draw.random(len(busy)) < 0.5, busy, draw.uniform(0, days * DAY, len(busy)))
    began, ended = np.concatenate([start, others]), np.concatenate([start + BASE, others + 3600.0])
    function = np.concatenate([np.zeros(runs, np.int64), np.full(len(others), 2)])
    everywhere = concurrency.build(function, began, ended, 3)
    load = mean(everywhere, np.array([3]), start, start + BASE)[:, 0]
    exposure = np.zeros((runs, 3))
    exposure[:, 1] = draw.random(runs) < 0.15 + 0.7 * (load > np.median(load))
    times = BASE * np.exp(EACH * (load - load.mean()) + draw.normal(0, 0.02, runs))
    node = draw.integers(0, 3, runs)

    def part(rows):
        return around(design(times[rows], exposure[rows], start=start[rows], node=node[rows]), everywhere)

    return part(np.arange(runs)), [part(np.flatnonzero(start // DAY == day)) for day in range(days)]


@pytest.mark.parametrize("seed", range(3))
def test_the_days_do_not_put_the_load_of_the_cluster_down_to_who_runs_beside(seed):
    """A neighbour that does nothing is found to do nothing, within a standard error, and near the one-shot fit."""
    whole, days = crowded(seed)
    fit = fit_victim(whole)
    point, state = linearise(fit), Block()
    for day in days:
        state = fold(state, reduce(day, point), memory=1e12)
    told = solve(state, point, 3).whole()
    assert abs(told.slowdown[1]) < fit.se[1]
    assert abs(told.slowdown[1] - fit.slowdown[1]) < 0.5 * fit.se[1]
    assert np.exp(fit.crowd[0] + fit.crowd[1] * (np.sqrt(5) - np.sqrt(4))) == pytest.approx(np.exp(EACH), abs=0.02)


def test_what_the_load_did_is_what_its_controls_did():
    """In numbers that hold for runs of any day: by load and its root, each as wide as the other, less their means."""
    whole, _ = crowded(7)
    rows = np.arange(len(whole.execution))
    known = controls.build(whole, rows, np.ones(len(rows)), np.array([1]), Options())
    beta = np.random.default_rng(7).normal(size=len(known.name))
    own = [at for at, name in enumerate(known.name) if name == "load of the cluster"]
    assert len(own) == 2
    found = controls.crowded(known, controls.crowd(known, beta))
    load = whole.around.everywhere
    both = np.stack([load, 2 * np.sqrt(load.mean() * load)], axis=1) / np.std(load)
    both -= both.mean(axis=0)
    np.testing.assert_allclose(found, both @ beta[own], atol=1e-12)
    # The columns of the fit are these in single precision.
    alone = np.where(np.isin(np.arange(len(beta)), own), beta, 0.0)
    kept = both.astype(np.float32).astype(np.float64)
    assert np.abs(product(known.columns, alone) - kept @ beta[own]).max() < 4 * np.abs(both).max() * 2.0**-24
    alone = controls.build(replace(whole, around=None), rows, np.ones(len(rows)), np.array([1]), Options())
    assert not controls.crowd(alone, beta[: len(alone.name)]).any()
    assert not controls.crowded(alone, np.ones(3)).any()


def test_points_are_packed_with_what_the_load_and_the_ends_did_and_read_where_they_were_packed_without():
    whole, _ = crowded(8)
    point = replace(linearise(fit_victim(whole)), ends=True)
    assert point.crowd.any()
    packed = states.pack_points({0: point})
    np.testing.assert_array_equal(states.unpack_points(packed)[0].crowd, point.crowd)
    assert states.unpack_points(packed)[0].ends
    before = pa.ipc.open_stream(packed[0]).read_all().drop_columns(["crowd", "ends"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, before.schema) as writer:
        writer.write_table(before)
    old = states.unpack_points([sink.getvalue().to_pybytes()])[0]
    np.testing.assert_array_equal(old.crowd, np.zeros(3))
    assert not old.ends
    np.testing.assert_array_equal(old.base, point.base)
