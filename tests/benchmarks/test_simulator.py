"""The simulated cluster obeys the mechanics that it states."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import simulator
from benchmarks.simulator import Setting

PLAIN = Setting(
    functions=6, nodes=4, activations=4000, noisy=0, throttled=0, renewed=0, skew=0, ambiguous=0, capacity=50, hosts=0
)


def quiet(world, slowdown):
    """The world with these slowdowns, without crowding or initialisation."""
    size = world.setting.functions
    return replace(
        world, slowdown=slowdown, crowding=np.zeros(size), initialisation=np.zeros(size), speed=np.ones((size, 2))
    )


def test_alone_a_run_takes_its_work():
    found = simulator.run(quiet(simulator.world(1, PLAIN), np.zeros((6, 6))))
    taken = (found.end - found.start) / found.work / np.where(found.cold, 1.08, 1.0)
    assert np.std(np.log(taken)) == pytest.approx(0.05, rel=0.1)  # the jitter of a run
    assert np.mean(np.log(taken)) == pytest.approx(0.0, abs=0.005)


@pytest.mark.parametrize("multiplicative", [False, True])
def test_progress_integrates_to_the_work(multiplicative):
    """Each run's progress, summed over the moments between events by its own neighbours, is its work."""
    world = simulator.world(2, replace(PLAIN, activations=600, capacity=4, multiplicative=multiplicative))
    slowdown = np.random.default_rng(2).uniform(0, 0.6, (6, 6))
    found = simulator.run(quiet(world, slowdown))
    moments = np.unique(np.concatenate([found.start, found.end]))
    middle, length = (moments[1:] + moments[:-1]) / 2, np.diff(moments)
    done = []
    for i in range(0, len(found.start), 7):
        progress = 0.0
        for t, dt in zip(middle, length, strict=True):
            if found.start[i] < t < found.end[i]:
                beside = (found.start < t) & (t < found.end) & (found.true_node == found.true_node[i])
                beside[i] = False
                each = slowdown[found.function[i], found.function[beside]]
                progress += dt / (np.prod(1 + each) if multiplicative else 1 + each.sum())
        done.append(progress / found.work[i] / (1.08 if found.cold[i] else 1.0))
    assert np.std(np.log(done)) == pytest.approx(0.05, rel=0.3)
    assert np.mean(np.log(done)) == pytest.approx(0.0, abs=0.02)


def test_no_node_runs_more_than_its_capacity():
    found = simulator.run(simulator.world(3, Setting(activations=5000, capacity=4, busy=3.0)))
    assert (found.wait > 0).mean() > 0.1
    shift = np.round(found.start - found.wait, 9)
    assert np.isfinite(shift).all()
    exact = simulator.run(simulator.world(3, Setting(activations=5000, capacity=4, busy=3.0, skew=0.0)))
    for node in range(8):
        own = exact.true_node == node
        times = np.concatenate([exact.end[own], exact.start[own]])
        order = np.argsort(times, kind="stable")
        level = np.cumsum(np.concatenate([-np.ones(own.sum()), np.ones(own.sum())])[order])
        assert level.max() <= 4


def test_least_loaded_counts_the_runs_that_wait():
    """Each run went to a node with the fewest runs at its arrival, running or waiting, counted one by one."""
    found = simulator.run(simulator.world(6, replace(PLAIN, activations=800, nodes=3, capacity=2)))
    assert (found.wait > 0).mean() > 0.1
    arrival = found.start - found.wait
    order = np.argsort(arrival, kind="stable")
    for place, i in enumerate(order):
        before = order[:place]
        there = before[found.end[before] > arrival[i]]
        counts = np.bincount(found.true_node[there], minlength=3)
        assert counts[found.true_node[i]] == counts.min()


def test_advice_that_is_true_keeps_clashing_functions_apart():
    world = simulator.world(4, Setting(activations=6000, hosts=0))

    def suffered(records):
        return np.mean(np.log((records.end - records.start - records.initialisation) / records.work))

    assert suffered(simulator.run(simulator.advised(world))) < 0.8 * suffered(simulator.run(world))


def test_the_same_seed_gives_the_same_cluster():
    one, two = (simulator.run(simulator.world(5, Setting(activations=2000))) for _ in range(2))
    np.testing.assert_array_equal(one.end, two.end)
