"""What activations used: numbers worked out by hand, and the same as sharing each step out one by one."""

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from featurestore.attribution.attribute import attribute
from featurestore.attribution.use import measure
from featurestore.used import USE

SECOND = 1_000_000
STEP = 10
TIME = pa.timestamp("us", tz="UTC")
MIB = 2**20


def when(seconds):
    return None if seconds is None else dt.datetime(2024, 5, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)


def pods(*rows):
    """(pod, node, function, from, until[, cores, bytes])"""
    rows = [(*row, None, None)[:7] for row in rows]
    name, node, function, since, until, cores, memory = zip(*rows, strict=True) if rows else ((),) * 7
    text, number = pa.string(), pa.float64()
    return pa.table(
        {
            "namespace": pa.array(["ns"] * len(rows), text),
            "pod": pa.array(name, text),
            "node": pa.array(node, text),
            "function": pa.array(function, text),
            "function_from": pa.array([when(s) for s in since], TIME),
            "started": pa.array([when(s) for s in since], TIME),
            "ended": pa.array([when(s) for s in until], TIME),
            "cpu_limit_cores": pa.array(cores, number),
            "memory_limit_bytes": pa.array(memory, number),
        }
    )


def runs(*rows, **changed):
    """(function, start, end)"""
    n = len(rows)
    columns = {
        "activation_id": pa.array([f"a{i}" for i in range(n)], pa.string()),
        "function": pa.array([row[0] for row in rows], pa.string()),
        "start": pa.array([when(row[1]) for row in rows], TIME),
        "end": pa.array([when(row[2]) for row in rows], TIME),
        "duration_ms": pa.nulls(n, pa.float64()),
        "init_ms": pa.nulls(n, pa.float64()),
        "memory_mb": pa.array([256] * n, pa.int32()),
        "composite": pa.array([False] * n, pa.bool_()),
        "node": pa.nulls(n, pa.string()),
        "pod": pa.nulls(n, pa.string()),
    }
    return pa.table(columns | {name: pa.array(values, columns[name].type) for name, values in changed.items()})


def series(*rows):
    """(pod, metric, at, value)"""
    pod, metric, at, value = zip(*rows, strict=True) if rows else ((),) * 4
    text = pa.string()
    return pa.table(
        {
            "namespace": pa.array(["ns"] * len(rows), text).dictionary_encode(),
            "name": pa.array(pod, text).dictionary_encode(),
            "metric": pa.array(metric, text).dictionary_encode(),
            "at": pa.array([when(t) for t in at], TIME),
            "value": pa.array(value, pa.float64()),
        }
    )


def used(activations, placements, usage, since=None, skew=SECOND):
    cpu = usage.filter(pa.compute.equal(usage["metric"], "cpu_cores"))
    attributed = attribute(activations, placements, cpu, skew_us=skew, step_us=STEP * SECOND)
    found = measure(
        activations, attributed, placements, usage, step_us=STEP * SECOND,
        since_us=None if since is None else int(when(since).timestamp()) * SECOND,
    )  # fmt: skip
    assert found.schema.equals(USE)
    return found.to_pylist()


ONE = pods(("p", "n1", "f", 0, 100, 0.5, 512 * MIB))


def test_one_run_has_all_that_its_pod_used_in_its_steps():
    """[12, 25] lies in (10, 20] and (20, 30]: 0.4 and 0.1 cores over ten seconds each are 4 and 1 core-seconds."""
    usage = series(
        *(("p", "cpu_cores", t, v) for t, v in ((10, 0.9), (20, 0.4), (30, 0.1))),
        *(("p", "memory_bytes", t, v) for t, v in ((20, 100.0), (30, 230.0))),
        *(("p", "network_receive_bytes_per_s", t, v) for t, v in ((20, 5.0), (30, 7.0))),
        *(("p", "network_transmit_bytes_per_s", t, v) for t, v in ((20, 1.0), (30, 0.0))),
        ("p", "disk_write_bytes_per_s", 20, 3.0),
    )
    activations = runs(("f", 12, 25), duration_ms=[13_000.0], init_ms=[2_000.0])
    assert used(activations, ONE, usage) == [
        {
            "activation_id": "a0",
            "start": when(12),
            "end": when(25),
            "function": "f",
            "node": "n1",
            "pod": "p",
            "method": "exact",
            "latency_ms": 11_000.0,
            "vcores": 0.5,
            "memory_limit_bytes": 512.0 * MIB,
            "cpu_seconds": pytest.approx(5.0),
            "memory_bytes": pytest.approx((8 * 100 + 5 * 230) / 13),
            "network_bytes": pytest.approx(130.0),
            "disk_bytes": None,  # no sample covers [20, 25]
        }
    ]


def test_runs_of_a_pod_share_a_step_by_how_long_they_ran_in_it():
    """In (10, 20] one runs 2 s, one 6 s: a quarter and three quarters of 8 core-seconds."""
    usage = series(("p", "cpu_cores", 20, 0.8), ("p", "memory_bytes", 20, 7.0))
    found = used(runs(("f", 12, 14), ("f", 13, 19), ("f", 15, 15)), ONE, usage)
    assert [row["cpu_seconds"] for row in found] == [pytest.approx(2.0), pytest.approx(6.0), 0.0]
    assert [row["memory_bytes"] for row in found] == [pytest.approx(7.0)] * 3


def test_a_run_on_no_certain_pod_shares_what_the_functions_pods_on_the_node_used():
    """Two pods used 8 and 2 core-seconds in (10, 20], 4 and 0 in (20, 30], where only the first run goes on."""
    placements = pods(("p", "n1", "f", 0, 100, 0.5), ("q", "n1", "f", 0, 100, 0.5), ("r", "n1", "g", 0, 100))
    usage = series(
        ("p", "cpu_cores", 20, 0.8), ("q", "cpu_cores", 20, 0.2), ("r", "cpu_cores", 20, 0.9),
        ("p", "cpu_cores", 30, 0.4), ("q", "cpu_cores", 30, 0.0),
        ("p", "memory_bytes", 20, 100.0), ("q", "memory_bytes", 20, 200.0),
    )  # fmt: skip
    first, second = used(runs(("f", 12, 22), ("f", 16, 18)), placements, usage)
    assert (first["method"], first["node"], first["pod"]) == ("node", "n1", None)
    assert (first["cpu_seconds"], second["cpu_seconds"]) == (pytest.approx(8 + 4), pytest.approx(2))
    assert (first["memory_bytes"], second["memory_bytes"]) == (None, pytest.approx(150))
    assert first["vcores"] == 0.5  # both pods have the same
    assert first["memory_limit_bytes"] == 256 * MIB  # the action's


def test_a_certain_run_shares_with_those_that_its_pod_may_have_served():
    """[2, 6] is p's; from 10 on q is there as well, and [11, 17] may be either's, in the same step (0, 20]."""
    placements = pods(("p", "n1", "f", 0, 100), ("q", "n1", "f", 9, 100))
    usage = series(("p", "cpu_cores", 10, 0.3), ("p", "cpu_cores", 20, 0.6), ("q", "cpu_cores", 20, 0.2))
    found = used(runs(("f", 2, 6), ("f", 8, 12), ("f", 11, 17)), placements, usage)
    assert [row["method"] for row in found] == ["exact", "exact", "node"]
    # (0, 10]: p's 3 core-seconds over 4 s and 2 s. (10, 20]: 8 core-seconds of both over 2 s and 6 s.
    assert [row["cpu_seconds"] for row in found] == [pytest.approx(2), pytest.approx(1 + 2), pytest.approx(6)]


@pytest.mark.parametrize(
    "usage",
    [
        [],
        [("p", "cpu_cores", 20, 0.5)],  # ends too early
        [("p", "cpu_cores", 40, 0.5)],  # begins too late
        [("p", "cpu_cores", 20, 0.5), ("p", "cpu_cores", 35, 0.5)],  # a hole from 20 to 25
        [("q", "cpu_cores", t, 0.5) for t in (20, 30)],  # another's
    ],
)
def test_what_the_samples_do_not_cover_is_not_known(usage):
    [row] = used(runs(("f", 12, 28)), ONE, series(*usage))
    assert row["cpu_seconds"] is None
    assert row["vcores"] == 0.5


def test_every_method_and_where_nothing_is_known():
    placements = pods(("p1", "n1", "f", 0, None), ("p2", "n2", "f", 0, None), ("q", "n1", "g", 0, 50, 2.0))
    busy = series(("p1", "cpu_cores", 20, 0.0), ("p2", "cpu_cores", 20, 0.8), ("q", "cpu_cores", 20, 0.1))
    activations = runs(
        ("f", 11, 19), ("f", 31, 39), ("g", 12, 13), ("h", 12, 13), ("h", 12, 13), ("h", 12, 13), ("s", 10, 20),
        node=[None, None, None, None, "n9", None, None], pod=[None, None, None, None, None, "q", None],
        composite=[False] * 6 + [True],
    )  # fmt: skip
    found = used(activations, placements, busy)
    assert [(row["method"], row["node"], row["pod"]) for row in found] == [
        ("inferred", "n2", "p2"), ("ambiguous", None, None), ("exact", "n1", "q"), ("none", None, None),
        ("given", "n9", None), ("given", "n1", "q"),
    ]  # fmt: skip
    assert [row["cpu_seconds"] for row in found] == [
        pytest.approx(8.0), None, pytest.approx(0.5), None, None, pytest.approx(0.5),
    ]  # fmt: skip
    assert [row["vcores"] for row in found] == [None, None, 2.0, None, None, 2.0]


def test_a_run_without_an_end_has_its_place_and_its_limit_only():
    [row] = used(runs(("f", 12, None)), ONE, series(("p", "cpu_cores", 20, 0.5), ("p", "memory_bytes", 20, 1.0)))
    assert (row["pod"], row["vcores"], row["end"]) == ("p", 0.5, None)
    assert (row["latency_ms"], row["cpu_seconds"], row["memory_bytes"]) == (None, None, None)


def test_a_name_that_comes_again_is_another_life():
    placements = pods(("p-0", "n1", "f", 0, 20, 1.0), ("p-0", "n1", "f", 40, None, 2.0), ("p-0", "n1", "g", 30, 35))
    found = used(runs(("f", 12, 13), ("f", 41, 42)), placements, series(("p-0", "cpu_cores", 50, 0.5)))
    assert [(row["vcores"], row["cpu_seconds"]) for row in found] == [(1.0, None), (2.0, pytest.approx(5.0))]


def test_a_run_that_began_before_its_pod_by_another_clock():
    usage = series(("p", "cpu_cores", 20, 0.5), ("p", "memory_bytes", 20, 7.0))
    [row] = used(runs(("f", 9.5, 12)), pods(("p", "n1", "f", 10, 100)), usage)
    assert (row["method"], row["cpu_seconds"], row["memory_bytes"]) == ("exact", pytest.approx(5), pytest.approx(7))


def test_nothing_in_nothing_out():
    assert used(runs(), pods(), series()) == []
    [row] = used(runs(("f", 1, 2)), pods(), series())
    assert (row["method"], row["cpu_seconds"], row["latency_ms"]) == ("none", None, 1000.0)


LIVES = st.tuples(
    st.sampled_from(["n1", "n2"]), st.sampled_from("fg"), st.integers(0, 40), st.one_of(st.none(), st.integers(5, 40))
)
RUNS = st.tuples(st.sampled_from("fgh"), st.integers(0, 70), st.integers(0, 25))


def by_hand(found, usage, lives):
    """Share out each sample of CPU, one after the other; the series are whole from a pod's start to a step after."""
    total = [0.0] * len(found)
    sure = {name: [row for row in found if row["pod"] == name] for name in lives}

    def share(amount, step, sharers):
        ran = [max(0.0, min(step, row["e"]) - max(step - STEP, row["s"])) for row in sharers]
        for row, time in zip(sharers, ran, strict=True):
            total[row["i"]] += amount * time / sum(ran) if sum(ran) else 0.0

    for step in sorted({t for _, _, t, _ in usage}):
        for node, function in {(node, function) for node, function, _, _ in lives.values()}:
            here = [name for name, life in lives.items() if life[:2] == (node, function)]
            amount = {name: sum(v * STEP for pod, _, t, v in usage if (pod, t) == (name, step)) for name in here}
            unsure = [row for row in found if (row["node"], row["function"], row["pod"]) == (node, function, None)]
            if any(min(step, row["e"]) > max(step - STEP, row["s"]) for row in unsure):
                share(sum(amount.values()), step, unsure + [row for name in here for row in sure[name]])
            else:
                for name in here:
                    share(amount[name], step, sure[name])
    return total


@settings(max_examples=200, deadline=None)
@given(lives=st.lists(LIVES, max_size=8), given_runs=st.lists(RUNS, max_size=15), data=st.data())
def test_the_same_as_sharing_out_step_by_step(lives, given_runs, data):
    alive = {
        f"p{i}": (n, of, since, None if life is None else since + life)
        for i, (n, of, since, life) in enumerate(lives)
    }
    usage = []
    for name, (_, _, since, until) in alive.items():
        last = 100 if until is None else until
        steps = range(STEP * (since // STEP + 1), last + STEP, STEP)
        usage += [(name, "cpu_cores", step, data.draw(st.integers(0, 8)) / 8) for step in steps]
    activations = runs(*((function, start, start + length) for function, start, length in given_runs))
    placements = pods(*((name, *life) for name, life in alive.items()))
    found = used(activations, placements, series(*usage), skew=0)
    for i, row in enumerate(found):
        row |= {"i": i, "s": (row["start"] - when(0)).total_seconds(), "e": (row["end"] - when(0)).total_seconds()}
    expected = by_hand(found, usage, alive)
    for row in found:
        if row["node"] is None:
            assert row["cpu_seconds"] is None
        else:
            assert row["cpu_seconds"] == pytest.approx(expected[row["i"]], abs=1e-9)
    # From any moment on, what ended later has the same use.
    since = data.draw(st.integers(0, 100))
    later = [{name: row[name] for name in USE.names} for row in found if row["e"] >= since]
    again = used(activations, placements, series(*usage), since=since, skew=0)
    assert [row["activation_id"] for row in again] == [row["activation_id"] for row in later]
    for row, before in zip(again, later, strict=True):
        assert row["cpu_seconds"] == (None if before["cpu_seconds"] is None else pytest.approx(before["cpu_seconds"]))
