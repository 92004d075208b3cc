"""Worlds of a few nodes in which what each policy does, and the latencies that follow, can be worked out by hand."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from featurestore.replay.kernel import Load
from featurestore.snapshot import TABLES, Snapshot
from jobs.simulation.outcome import outcome
from jobs.simulation.policies.load_variation import score
from jobs.simulation.policies.table import POLICIES
from jobs.simulation.replay import Cluster, Measured, replay
from jobs.simulation.world import Nodes, Pods, World, by_victim, hardware
from rules.policy import Policy

SINCE = datetime(2026, 1, 5, tzinfo=UTC)
GIB = 2.0**30
NAMES = ("guest/a", "guest/b", "guest/c")


def table(name, rows):
    schema = TABLES[name]
    return pa.Table.from_pylist([{field: row.get(field) for field in schema.names} for row in rows], schema)


def snapshot(nodes, cores, slowdown):
    allocatable = f'{{"cpu": {cores}, "memory": {64 * GIB}, "pods": 110}}'
    common = {"cluster": "c1", "node_type": ""}
    rows = {
        "nodes": [
            {"cluster": "c1", "node": f"n{k}", "node_type": "t", "ready": True, "schedulable": True, "labels": "{}",
             "taints": "[]", "allocatable": allocatable}
            for k in range(nodes)
        ],
        "functions": [common | {"function": name, "source": "measured", "activations": 500} for name in NAMES],
        "pairs": [
            common | {"victim": NAMES[v], "aggressor": NAMES[a], "status": "observed", "slowdown": slowdown[v][a],
                      "low": 0.0, "high": 1.0, "probability": 0.99 if slowdown[v][a] else 0.01,
                      "effective_overlaps": 500.0, "activations": 500}
            for v in range(3) for a in range(3)
        ],
    }  # fmt: skip
    return Snapshot("s", SINCE, ("c1",), {}, {}, {name: table(name, rows.get(name, ())) for name in TABLES})


def world(pods, runs, slowdown, *, nodes=2, cores=4.0, naive=(), length=100.0):
    """*pods*: (function, came, went, cores, node recorded); *runs*: (pod, arrival, work)."""
    function, came, went, cpu, recorded = (np.array(column) for column in zip(*pods, strict=True))
    pod, arrival, work = (np.array(column) for column in zip(*sorted(runs, key=lambda run: run[1]), strict=True))
    victim, aggressor = np.divmod(np.arange(9), 3)
    first, other, slow = by_victim(victim, aggressor, np.asarray(slowdown, float).ravel(), 3)
    function, pod = function.astype(np.int64), pod.astype(np.int64)
    requests = np.column_stack((cpu.astype(float), np.zeros(len(pods)), np.ones(len(pods))))
    return World(
        cluster="c1",
        since=SINCE,
        length=length,
        functions=NAMES,
        nodes=Nodes(
            tuple(f"n{k}" for k in range(nodes)),
            np.tile([cores, 64 * GIB, 110.0], (nodes, 1)),
            np.ones(nodes, np.bool_),
        ),
        pods=Pods(
            tuple(f"p{i}" for i in range(len(pods))),
            function,
            recorded.astype(np.int64),
            came.astype(float),
            went.astype(float),
            requests,
        ),
        load=Load(
            function[pod],
            pod,
            arrival.astype(float),
            work.astype(float),
            function,
            np.zeros(nodes, np.int64),
            np.ones((3, 1)),
            first,
            other,
            slow,
            np.ones(3),
            np.zeros(3),
        ),
        known=snapshot(nodes, cores, slowdown),
        naive=np.array(naive, np.int64).reshape(-1, 2),
        told=True,
    )


def under(name, given, seed=0):
    replayed = replay(given, POLICIES[name](Policy(mode="prefer")), seed=seed)
    return outcome(name, given, replayed), replayed


#: a and b slow each other by 1; each has a run of 10 s at the same time; c does nothing to anybody.
SLOWS = [[0, 1.0, 0], [1.0, 0, 0], [0, 0, 0]]
#: c's pod takes most of the node that the others' would have to share.
THREE = world(
    [(2, 0, np.inf, 2.0, 0), (0, 1, np.inf, 0.5, 1), (1, 2, np.inf, 0.5, 1)],
    [(1, 10, 10), (2, 10, 10), (0, 10, 10)],
    SLOWS,
    naive=[(0, 1)],
)


def test_as_happened_and_least_loaded_share_a_node_and_take_twice_as_long():
    for name in ("as-happened", "least-loaded", "load-variation"):
        found, _ = under(name, THREE)
        # a and b together: 20 s for 10 s of work; c alone: 10 s.
        assert found.mean == pytest.approx((2 + 2 + 1) / 3)
        assert (found.p95, found.slowed) == (pytest.approx(2.0), pytest.approx(2 / 3))
        assert (found.pending, found.nodes, found.pods, found.runs) == (0, 2, 3, 3)


@pytest.mark.parametrize("name", ["predecessor", "advised", "informed", "oracle"])
def test_who_knows_of_the_pair_keeps_it_apart(name):
    found, replayed = under(name, THREE)
    assert replayed.node[1] != replayed.node[2]
    assert (found.mean, found.slowed, found.pending) == (pytest.approx(1.0), 0.0, 0)


def test_the_predecessor_leaves_pods_pending_where_others_share():
    crowded = world(
        [(0, 0, np.inf, 1.0, 0), (0, 0, np.inf, 1.0, 1), (1, 1, np.inf, 1.0, 0)],
        [(0, 5, 1), (1, 5, 1), (2, 30, 1)],
        SLOWS,
        naive=[(1, 0)],
    )
    found, _ = under("predecessor", crowded)
    assert (found.pending, found.unserved) == (1, 1)
    assert found.slowed == pytest.approx(1 / 3)
    assert found.p99 == np.inf
    for name in ("least-loaded", "advised", "oracle"):
        assert under(name, crowded)[0].pending == 0


def test_a_pending_pod_gets_its_node_when_another_goes_and_its_runs_waited():
    # One node of one core: b fits only when a has gone at 50; its run of 1 s from 20 on takes until 51.
    given = world([(0, 0, 50.0, 1.0, 0), (1, 10, np.inf, 1.0, 0)], [(0, 5, 1), (1, 20, 1)], SLOWS, nodes=1, cores=1.0)
    for name in ("least-loaded", "advised"):
        found, replayed = under(name, given)
        assert (found.pending, found.delayed, found.unserved) == (0, 1, 0)
        assert replayed.state.end.tolist() == pytest.approx([6.0, 51.0])


def test_who_has_gone_holds_nothing_and_disturbs_nobody():
    # a leaves at 40; b comes at 50 and may go where a was.
    given = world(
        [(2, 0, np.inf, 3.0, 0), (0, 1, 40.0, 0.5, 1), (1, 50, np.inf, 2.0, 1)], [(1, 5, 1), (2, 60, 1)], SLOWS
    )
    for name in ("least-loaded", "advised", "predecessor"):
        found, replayed = under(name, replace(given, naive=np.array([[0, 1]])))
        assert replayed.node[1] == replayed.node[2]
        assert (found.mean, found.pending) == (pytest.approx(1.0), 0)


def test_a_pod_of_no_function_stays_where_it_was_and_holds_its_share():
    fixed = world([(-1, 0, np.inf, 3.9, 0), (0, 1, np.inf, 0.5, 0)], [(1, 5, 1)], SLOWS)
    found, replayed = under("least-loaded", fixed)
    assert replayed.node.tolist() == [0, 1]
    assert found.pods == 1


def random_world(seed):
    rng = np.random.default_rng(seed)
    pods = []
    for _ in range(60):
        came = rng.uniform(0, 80)
        pods.append((int(rng.integers(0, 3)), came, came + rng.uniform(5, 60), rng.choice([0.5, 1.0, 1.5]), 0))
    pods.sort(key=lambda pod: pod[1])
    runs = [(i, pods[i][1] + rng.uniform(0, 5), rng.uniform(0.1, 3)) for i in rng.integers(0, 60, 200).tolist()]
    slowdown = rng.uniform(0, 1, (3, 3)) * (rng.random((3, 3)) < 0.5)
    return world(pods, runs, slowdown, nodes=4, cores=5.0, naive=[(0, 1)], length=150.0)


@pytest.mark.parametrize("seed", range(3))
def test_no_node_ever_holds_more_than_it_has_and_no_run_is_faster_than_alone(seed):
    given = random_world(seed)
    for name in ("least-loaded", "predecessor", "load-variation", "advised", "oracle"):
        replayed = under(name, given)[1]
        node = replayed.node
        for at in np.unique(np.concatenate((given.pods.came, replayed.placed[node >= 0]))):
            there = (replayed.placed <= at) & (given.pods.went > at)
            assert (np.bincount(node[there], given.pods.requests[there, 0], 4) <= 5.0 + 1e-9).all()
        assert not (replayed.state.end < given.load.arrival + given.load.work - 1e-6).any()


def test_in_clusters_too_full_for_all_ours_leaves_no_more_pods_pending_than_least_loaded():
    # Which pods fit depends on the order of all before them: over several worlds it evens out.
    pending = {name: sum(under(name, random_world(seed))[0].pending for seed in range(4))
               for name in ("least-loaded", "advised")}  # fmt: skip
    assert 0 < pending["advised"] <= pending["least-loaded"]


def test_the_same_seed_gives_the_same():
    given = random_world(1)
    for name in ("least-loaded", "advised", "predecessor"):
        first, again = (under(name, given, seed=5)[0] for _ in range(2))
        assert first == again


def test_the_score_of_load_variation_risk_balancing():
    # CPU of 10 cores: mean (4 + 1) / 10 = .5, deviation .2: risk .35; memory: mean .8, deviation 0: risk .4.
    capacity = np.array([[10.0, 100.0]])
    found = score(np.array([[4.0, 70.0]]), np.array([[2.0, 0.0]]), np.array([1.0, 10.0]), capacity)
    assert found.tolist() == [60.0]
    # Means beyond the node count as full: (1 + .2) / 2.
    assert score(np.array([[12.0, 0.0]]), np.array([[2.0, 0.0]]), np.array([1.0, 0.0]), capacity).tolist() == [40.0]


def speeds(shape, *runs):
    """`hardware` of runs (function, type, seconds)."""
    function, kind, seconds = (np.array(column) for column in zip(*runs, strict=True))
    return hardware(function, kind, seconds.astype(np.float64), shape)


def test_hardware_from_times_without_company_and_the_usual_difference_where_a_type_is_new():
    found = speeds((4, 2), (0, 0, 9.0), (0, 0, 11.0), (0, 1, 20.0), (1, 0, 8.0), (2, 1, 30.0))
    assert found[[0, 1, 2, 3]] == pytest.approx(np.array([[1, np.sqrt(400 / 99)]] * 4))


def test_what_few_runs_say_of_hardware_is_drawn_to_the_usual_difference():
    # Types usually differ by 2; thirty runs of the last say 8, and weigh as much as all others: sqrt(2 * 8).
    runs = [(f, t, seconds) for f in (0, 1) for t, seconds in ((0, 10.0), (1, 20.0))]
    runs += [(2, 0, 10.0), (2, 1, 80.0)] * 30
    assert speeds((3, 2), *runs) == pytest.approx(np.array([[1, 2], [1, 2], [1, 4]]))


def test_advice_is_asked_of_the_rules_themselves(monkeypatch):
    from jobs.simulation.policies import advised
    from rules import recommend

    asked = []

    def answer(request, view, policy, **given):
        asked.append(request.function_name)
        return recommend.answer(request, view, policy, **given)

    monkeypatch.setattr(advised, "answer", answer)
    replay(THREE, partial(advised.Advised, policy=Policy(mode="prefer")))
    assert asked == ["guest/c", "guest/a", "guest/b"]


def test_who_was_busy_in_the_last_hour_and_rests_for_a_moment_counts_as_busy():
    """Over the hour the pod on the first node ran .5 at once, that on the second .2; of the last minutes, 0 and .2.

    An hour later the first one's work is forgotten.
    """
    given = world([(0, 0, np.inf, 0.5, 0), (0, 0, np.inf, 0.5, 1), (1, 9, np.inf, 0.5, 0)], [(0, 1, 1)], SLOWS)
    cluster = Cluster(given, np.arange(2), np.tile([0.5, 0.0, 1.0], (2, 1)), np.array([0, 1, -1]), [{}, {}, {}])
    policy = POLICIES["advised"](Policy(mode="prefer"))(cluster)
    for pod in (0, 1):
        policy.came(pod, pod)
    nothing = np.zeros((2, 2))
    for at, first in ((300.0, 1.0), (600.0, 0.0)):
        policy.measured(Measured(at, 300.0, nothing, nothing, np.array([300.0 * first, 60.0, 0.0])))
    assert policy.choose(2, np.ones(2, np.bool_), 600.0) == 1
    policy.measured(Measured(3900.0, 3300.0, nothing, nothing, np.array([0.0, 660.0, 0.0])))
    assert policy.choose(2, np.ones(2, np.bool_), 3900.0) == 0


def test_what_ran_before_the_replay_says_how_busy_the_first_pods_are():
    """Both disturb b alike; of a .1 ran at once in half a pod, of c .1 in a tenth of one: b goes to a's node."""
    given = world(
        [(0, 0, np.inf, 0.5, 0), (2, 0, np.inf, 0.5, 1), (1, 9, np.inf, 0.5, 0)],
        [(0, 1, 1)],
        [[0, 0, 0], [0.5, 0, 0.5], [0, 0, 0]],
    )
    for pods, expected in (((0.5, 0.1), 0), ((0.1, 0.5), 1)):
        rows = [
            {"cluster": "c1", "function": name, "node": "n0", "running": 0.1, "pods": there}
            for name, there in zip(("guest/a", "guest/c"), pods, strict=True)
        ]
        known = replace(given.known, tables={**given.known.tables, "busyness": table("busyness", rows)})
        held = np.tile([0.5, 0.0, 1.0], (2, 1))
        cluster = Cluster(replace(given, known=known), np.arange(2), held, np.array([0, 1, -1]), [{}, {}, {}])
        policy = POLICIES["advised"](Policy(mode="prefer"))(cluster)
        for pod in (0, 1):
            policy.came(pod, pod)
        assert policy.choose(2, np.ones(2, np.bool_), 9.0) == expected
