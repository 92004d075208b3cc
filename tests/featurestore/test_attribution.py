"""Attribution: the worked cases, and the same answers as trying every pod on random small histories."""

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from featurestore.attribution.attribute import attribute, counts

SECOND = 1_000_000
TIME = pa.timestamp("us", tz="UTC")


def when(seconds):
    return None if seconds is None else dt.datetime(2024, 5, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)


def pods(*rows):
    """(pod, node, function, from, until)"""
    return pa.table(
        {
            "namespace": pa.array(["ns"] * len(rows), pa.string()),
            "pod": pa.array([row[0] for row in rows], pa.string()),
            "node": pa.array([row[1] for row in rows], pa.string()),
            "function": pa.array([row[2] for row in rows], pa.string()),
            "function_from": pa.array([when(row[3]) for row in rows], TIME),
            "started": pa.array([when(row[3]) for row in rows], TIME),
            "ended": pa.array([when(row[4]) for row in rows], TIME),
        }
    )


def runs(*rows, composite=False, node=None, pod=None):
    """(function, start, end)"""
    return pa.table(
        {
            "function": pa.array([row[0] for row in rows], pa.string()),
            "start": pa.array([when(row[1]) for row in rows], TIME),
            "end": pa.array([when(row[2]) for row in rows], TIME),
            "composite": pa.array([composite] * len(rows)),
            "node": pa.array([node] * len(rows), pa.string()),
            "pod": pa.array([pod] * len(rows), pa.string()),
        }
    )


def cpu(*rows):
    """(pod, at, cores)"""
    return pa.table(
        {
            "namespace": pa.array(["ns"] * len(rows), pa.string()),
            "name": pa.array([row[0] for row in rows], pa.string()),
            "at": pa.array([when(row[1]) for row in rows], TIME),
            "value": pa.array([row[2] for row in rows], pa.float64()),
        }
    )


def one(activations, placements, usage=None, skew=SECOND):
    table = attribute(activations, placements, usage, skew_us=skew, step_us=10 * SECOND)
    [row] = table.to_pylist()
    return row


def test_one_pod_is_exact():  # A1
    row = one(runs(("f", 10, 20)), pods(("p", "n1", "f", 0, 100)))
    assert row == {"node": "n1", "pod": "p", "method": "exact", "skew_us": 0}


def test_a_cold_run_needs_its_pod_from_the_end_of_the_initialisation():
    placements = pods(("p", "n1", "f", 14, 100), ("q", "n2", "f", 14, 100))  # labelled at 14, when initialised
    started = pa.array([when(0), when(13)], TIME)  # q was made in the middle of the run
    placements = placements.set_column(placements.column_names.index("started"), "started", started)
    cold = runs(("f", 10, 20), ("f", 11, 20)).append_column("init_ms", pa.array([4000.0, None]))
    found = attribute(cold, placements, skew_us=SECOND).to_pylist()
    assert [(row["method"], row["pod"], row["skew_us"]) for row in found] == [("exact", "p", 0), ("none", None, None)]


def test_a_cold_run_that_was_long_initialised_is_placed_beside_warm_ones():
    placements = pods(("p", "n1", "f", 0, 30), ("q", "n2", "f", 50, 100))
    started = pa.array([when(0), when(0)], TIME)
    placements = placements.set_column(placements.column_names.index("started"), "started", started)
    mixed = runs(("f", 20, 28), ("f", 10, 60)).append_column("init_ms", pa.array([0.0, 45000.0]))
    found = attribute(mixed, placements, skew_us=SECOND).to_pylist()
    assert [(row["method"], row["pod"]) for row in found] == [("exact", "p"), ("exact", "q")]


def test_two_pods_on_a_node_leave_the_pod_open():  # A2
    row = one(runs(("f", 10, 20)), pods(("p", "n1", "f", 0, 100), ("q", "n1", "f", 0, None)))
    assert (row["method"], row["node"], row["pod"]) == ("node", "n1", None)


TWO_NODES = pods(("p1", "n1", "f", 0, None), ("p2", "n2", "f", 0, None))


def test_cpu_tells_two_nodes_apart():  # A3
    row = one(runs(("f", 10, 20)), TWO_NODES, cpu(("p1", 20, 0.0), ("p2", 20, 0.8)))
    assert (row["method"], row["node"], row["pod"]) == ("inferred", "n2", "p2")


def test_equal_cpu_is_ambiguous_and_counted():  # A3
    table = attribute(runs(("f", 10, 20)), TWO_NODES, cpu(("p1", 20, 0.4), ("p2", 20, 0.4)), skew_us=SECOND)
    assert table.to_pylist()[0] == {"node": None, "pod": None, "method": "ambiguous", "skew_us": None}
    assert counts(table)["ambiguous"] == 1


@pytest.mark.parametrize(
    "usage",
    [
        None,
        cpu(("p2", 20, 0.8)),  # nothing is known of the other pod
        cpu(("p1", 20, 0.0), ("p2", 15, 0.8)),  # the samples end before the run does
        cpu(("p1", 20, 0.0), ("p2", 20, 0.005)),  # noise
    ],
    ids=["no series", "one pod only", "half the run", "noise"],
)
def test_what_cpu_cannot_tell_stays_ambiguous(usage):
    assert one(runs(("f", 10, 20)), TWO_NODES, usage)["method"] == "ambiguous"


def test_a_short_run_is_not_inferred_from_a_long_sample():
    """A run of 0.1 s cost 0.08 core-seconds; a pod that used 0.1 over the ten seconds may have served it."""
    short = runs(("f", 12, 12.1))
    assert one(short, TWO_NODES, cpu(("p1", 20, 0.01), ("p2", 20, 0.8)))["method"] == "ambiguous"
    assert one(short, TWO_NODES, cpu(("p1", 20, 0.001), ("p2", 20, 0.8)))["method"] == "inferred"


def test_cpu_leaves_a_node_but_two_of_its_pods():
    placements = pods(("p1", "n1", "f", 0, None), ("p2", "n2", "f", 0, None), ("p3", "n2", "f", 0, None))
    row = one(runs(("f", 10, 20)), placements, cpu(("p1", 20, 0.0), ("p2", 20, 0.8), ("p3", 20, 0.7)))
    assert (row["method"], row["node"], row["pod"]) == ("inferred", "n2", None)


def test_skew_within_the_tolerance_is_granted_and_measured():  # A5
    table = attribute(runs(("f", 9.7, 12)), pods(("p", "n1", "f", 10.0, 100)), skew_us=SECOND)
    assert table.to_pylist()[0] == {"node": "n1", "pod": "p", "method": "exact", "skew_us": 300_000}
    assert counts(table)["skew_max_ms"] == 300
    assert counts(table)["skew_median_ms"] == 300


def test_skew_beyond_the_tolerance_is_not():
    assert one(runs(("f", 8.9, 12)), pods(("p", "n1", "f", 10.0, 100)))["method"] == "none"


def test_a_pod_alive_by_its_own_clock_comes_before_one_that_needs_skew():
    row = one(runs(("f", 9.7, 9.9)), pods(("old", "n1", "f", 0, 10), ("new", "n2", "f", 10, 100)))
    assert (row["method"], row["pod"], row["skew_us"]) == ("exact", "old", 0)


def test_a_pod_must_be_alive_over_the_whole_run_and_of_the_function():
    placements = pods(("p", "n1", "f", 0, 15), ("q", "n2", "g", 0, 100))
    assert one(runs(("f", 10, 20)), placements)["method"] == "none"


def test_composites_are_not_placed_and_not_counted():  # E6
    table = attribute(runs(("f", 10, 20), composite=True), pods(("p", "n1", "f", 0, 100)), skew_us=SECOND)
    assert table.to_pylist()[0] == {"node": None, "pod": None, "method": None, "skew_us": None}
    assert sum(counts(table).values()) == 0


def test_a_run_without_an_end_is_placed_by_its_start():
    assert one(runs(("f", 10, None)), pods(("p", "n1", "f", 0, 100)))["method"] == "exact"


def test_what_a_file_names_is_given():
    row = one(runs(("f", 10, 20), node="n9"), pods(("p", "n1", "f", 0, 100)))
    assert (row["method"], row["node"], row["pod"]) == ("given", "n9", None)
    row = one(runs(("h", 10, 20), pod="p"), pods(("p", "n1", "f", 0, 100)))
    assert (row["method"], row["node"], row["pod"]) == ("given", "n1", "p")
    row = one(runs(("h", 10, 20), pod="stranger"), pods(("p", "n1", "f", 0, 100)))
    assert (row["method"], row["node"], row["pod"]) == ("none", None, "stranger")


def test_no_placements_at_all():
    assert one(runs(("f", 10, 20)), pods())["method"] == "none"


def by_hand(run, placements, skew):
    function, start, end = run
    fits = []
    for pod, node, of, since, until in placements:
        if of == function:
            gap = max(0, since - start, 0 if until is None else end - until)
            fits.append((gap, pod, node))
    strict = [fit for fit in fits if fit[0] == 0] or [fit for fit in fits if fit[0] <= skew]
    nodes = {node for _, _, node in strict}
    if not strict:
        return "none", None, None
    if len(strict) == 1:
        return "exact", strict[0][2], strict[0][1]
    return ("node", nodes.pop(), None) if len(nodes) == 1 else ("ambiguous", None, None)


LIVES = st.tuples(
    st.sampled_from(["n1", "n2"]), st.sampled_from("fg"), st.integers(0, 30), st.one_of(st.none(), st.integers(0, 20))
)
RUNS = st.tuples(st.sampled_from("fgh"), st.integers(0, 40), st.integers(0, 10))


@settings(max_examples=300, deadline=None)
@given(lives=st.lists(LIVES, max_size=12), given_runs=st.lists(RUNS, max_size=20), skew=st.integers(0, 3))
def test_the_same_answers_as_trying_every_pod(lives, given_runs, skew):
    placements = [
        (f"p{i}", node, of, since, None if life is None else since + life)
        for i, (node, of, since, life) in enumerate(lives)
    ]
    wanted = [(function, start, start + length) for function, start, length in given_runs]
    table = attribute(runs(*wanted), pods(*placements), skew_us=skew * SECOND)
    found = [(row["method"], row["node"], row["pod"]) for row in table.to_pylist()]
    assert found == [by_hand(run, placements, skew) for run in wanted]


def test_in_parts_the_same(monkeypatch):
    wanted = [("fgh"[i % 3], i * 7 % 40, i * 7 % 40 + i % 5) for i in range(50)]
    placements = pods(*((f"p{i}", f"n{i % 3}", "fg"[i % 2], i * 5 % 30, i * 5 % 30 + 12) for i in range(9)))
    usage = cpu(*((f"p{i}", at, (i + at) % 7 / 7) for i in range(9) for at in range(10, 60, 10)))
    named = (
        runs(("f", 1, 2), ("g", 3, 4), node="n1"),
        runs(("f", 12, 15), pod="p2"),
        runs(("f", 6, 9), composite=True),
    )
    activations = pa.concat_tables([runs(*wanted), *named])
    whole = attribute(activations, placements, usage, skew_us=SECOND, step_us=10 * SECOND)
    monkeypatch.setattr("featurestore.attribution.attribute.PART", 4)
    parts = attribute(activations, placements, usage, skew_us=SECOND, step_us=10 * SECOND)
    assert parts.to_pylist() == whole.to_pylist()
    methods = whole["method"].to_pylist()
    assert [methods.count(method) for method in ("exact", "given", None)] == [counts(whole)["exact"], 3, 1]
    assert whole["node"].to_pylist()[-4:] == ["n1", "n1", "n2", None]
