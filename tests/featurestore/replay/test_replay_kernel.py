"""Small replays whose times are worked out by hand, and one against a simulation in plain Python, step by step."""

import numpy as np
import pytest

from featurestore.exposure.sweep import sweep
from featurestore.replay import kernel
from featurestore.replay.kernel import Load
from featurestore.replay.naive import naive_pairs
from featurestore.replay.serving import serving


def ints(*values):
    return np.array(values, np.int64)


def load(function, pod, arrival, work, owner, slowdown, *, nodes=2, types=None, speed=None):
    functions = len(slowdown)
    slowdown = np.asarray(slowdown, float)
    victim, aggressor = np.nonzero(slowdown)
    return Load(
        function=ints(*function),
        pod=ints(*pod),
        arrival=np.array(arrival, float),
        work=np.array(work, float),
        owner=ints(*owner),
        node_type=ints(*(types or [0] * nodes)),
        speed=np.ones((functions, 1)) if speed is None else np.array(speed, float),
        first=np.searchsorted(victim, np.arange(functions + 1)).astype(np.int64),
        aggressor=aggressor.astype(np.int64),
        slowdown=slowdown[victim, aggressor],
        cpu=np.ones(functions),
        memory=np.full(functions, 10.0),
    )


def replayed(given, places):
    """Place pod by pod at time 0 and let all happen."""
    state = kernel.begin(given)
    for pod, node in enumerate(places):
        kernel.place(given, state, pod, node, 0.0)
    kernel.advance(given, state, kernel.NEVER)
    return state


def test_two_that_slow_each_other_unequally_on_one_node():
    # a runs 10 s of work from 0, b 4 s from 2; a is slowed by 1.0 beside b, b by .5 beside a.
    # b advances at 1/1.5: it ends at 2 + 6 = 8. a does 2 s alone, 6/2 = 3 s beside b, and the last 5 s alone: 13.
    given = load([0, 1], [0, 1], [0, 2], [10, 4], [0, 1], [[0, 1.0], [0.5, 0]])
    assert replayed(given, [0, 0]).end == pytest.approx([13.0, 8.0])
    assert replayed(given, [0, 1]).end == pytest.approx([10.0, 6.0])


def test_three_add_up_and_hardware_multiplies():
    # On the slow type (factor 2) beside one b and one c a advances at 1 / (2 * (1 + .5 + .25)) until they end.
    slowdown = [[0, 0.5, 0.25], [0, 0, 0], [0, 0, 0]]
    given = load(
        [0, 1, 2], [0, 1, 2], [0, 0, 0], [4, 3.5, 3.5], [0, 1, 2], slowdown,
        nodes=1, types=[1], speed=[[1, 2], [1, 1], [1, 1]],
    )  # fmt: skip
    # By 3.5 s a has done 1 s of its 4; the other 3 take 6 s.
    assert replayed(given, [0, 0, 0]).end == pytest.approx([9.5, 3.5, 3.5])


def test_a_function_slows_itself_by_its_other_runs_only():
    given = load([0, 0], [0, 0], [0, 0], [1, 1], [0], [[1.0]])
    assert replayed(given, [0]).end == pytest.approx([2.0, 2.0])
    alone = load([0], [0], [0], [1], [0], [[1.0]])
    assert replayed(alone, [0]).end == pytest.approx([1.0])


def test_runs_of_a_pod_without_node_go_to_a_sibling_else_wait():
    given = load([0, 0, 1], [1, 1, 2], [1, 3, 4], [1, 1, 1], [0, 0, 1], np.zeros((2, 2)))
    state = kernel.begin(given)
    kernel.advance(given, state, 2.0)
    assert np.isnan(state.start).all()
    kernel.place(given, state, 0, 1, 2.0)  # the sibling: it takes the run that waits, and the next
    kernel.advance(given, state, kernel.NEVER)
    assert state.start[:2] == pytest.approx([2.0, 3.0])
    assert state.node.tolist() == [1, 1, -1]
    assert np.isnan(state.end[2])


def test_a_pod_that_left_takes_no_runs_of_others():
    given = load([0, 0], [2, 2], [1, 3], [1, 1], [0, 0, 0], [[0.0]])
    state = kernel.begin(given)
    kernel.place(given, state, 0, 0, 0.0)
    kernel.advance(given, state, 2.0)
    kernel.place(given, state, 1, 1, 2.0)
    kernel.leave(given, state, 0, 2.0)
    kernel.advance(given, state, kernel.NEVER)
    assert state.node.tolist() == [0, 1]


def test_use_is_integrated():
    # Two runs of a core each on one node: 0..2 and 1..3; the pod holds 10 bytes from 0 on.
    given = load([0, 0], [0, 0], [0, 1], [2, 2], [0], [[0.0]], nodes=1)
    state = replayed(given, [0])
    kernel.note(state, 4.0)
    assert state.use_seconds[0].tolist() == pytest.approx([4.0, 40.0])
    assert state.use_squares[0].tolist() == pytest.approx([1.0 + 4.0 + 1.0, 400.0])
    assert state.busy.tolist() == pytest.approx([4.0])


def stepped(given, places, step):
    """The same in plain Python, in small steps of time: first order, shares no code."""
    left, end, now = given.work.copy(), np.full(len(given.work), np.nan), 0.0
    slow = np.zeros((len(given.speed), len(given.speed)))
    for victim in range(len(given.speed)):
        rows = slice(given.first[victim], given.first[victim + 1])
        slow[victim, given.aggressor[rows]] = given.slowdown[rows]
    while np.isnan(end).any():
        on = [i for i in range(len(left)) if given.arrival[i] <= now and np.isnan(end[i])]
        for i in on:
            node = places[given.pod[i]]
            beside = [j for j in on if j != i and places[given.pod[j]] == node]
            pace = 1 + sum(slow[given.function[i], given.function[j]] for j in beside)
            left[i] -= step / pace / given.speed[given.function[i], given.node_type[node]]
        now += step
        for i in on:
            if left[i] <= 0:
                end[i] = now
    return end


def test_a_random_load_agrees_with_small_steps():
    rng = np.random.default_rng(7)
    pods = rng.integers(0, 3, 8)
    pod = rng.integers(0, 8, 40)
    given = load(
        pods[pod], pod, np.sort(rng.uniform(0, 10, 40)), rng.uniform(0.2, 2, 40), pods, rng.uniform(0, 0.8, (3, 3)),
        nodes=3, types=[0, 0, 1], speed=[[1, 1.5], [1, 1.2], [1, 1]],
    )  # fmt: skip
    places = rng.integers(0, 3, 8)
    assert replayed(given, places).end == pytest.approx(stepped(given, places, 0.01), abs=0.15)


def test_pods_take_turns_while_they_live():
    # Pods 0 and 1 of group 0 live 0..10 and 5..20; pod 2 of group 1 from 0 on.
    found = serving(ints(0, 0, 0, 0, 0, 1, -1, 0), ints(1, 2, 6, 7, 12, 13, 14, 25),
                    ints(0, 0, 1), ints(0, 5, 0), ints(10, 20, 100))  # fmt: skip
    assert found[:2].tolist() == [0, 0]
    assert sorted(found[2:4].tolist()) == [0, 1]
    assert found[4:].tolist() == [1, 2, -1, -1]


def test_the_naive_statistic_flags_means_a_tenth_apart():
    # Runs of f0: beside f1 2.0 and 2.4 s, apart from it 1.9 and 2.1 s: 2.2 / 2.0 is just a tenth; 2.21 is above.
    for beside, flagged in ((2.4, []), (2.44, [[0, 1]])):
        start = ints(0, 100, 200, 300, 0, 100) * 1_000_000
        times = np.array([2.0, beside, 1.9, 2.1, 50.0, 50.0])
        function = ints(0, 0, 0, 0, 1, 1)
        end = start + (times * 1e6).astype(np.int64)
        found = sweep(np.zeros(6, np.int32), start, end, function.astype(np.int32), functions=2)
        assert naive_pairs(found, function, times, 2, 0.1).tolist() == flagged
