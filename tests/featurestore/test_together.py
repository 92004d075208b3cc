"""Where two functions ran at once: by hand, and the same as comparing every run with every other."""

import datetime as dt

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from featurestore.interference.together import TOGETHER, together

TIME = pa.timestamp("us", tz="UTC")


def when(seconds):
    return dt.datetime(2024, 5, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)


def runs(*rows):
    """(node, start, end)"""
    return pa.table(
        {
            "node": pa.array([row[0] for row in rows], pa.string()),
            "start": pa.array([when(row[1]) for row in rows], TIME),
            "end": pa.array([when(row[2]) for row in rows], TIME),
        }
    )


def found(victim, aggressor, same=False):
    table = together(runs(*victim), runs(*aggressor), same=same)
    assert table.schema.equals(TOGETHER)
    return [tuple(row.values()) for row in table.to_pylist()]


def test_runs_that_met_are_counted_by_node():
    victim = [("n1", 0, 10), ("n1", 20, 30), ("n2", 0, 10), ("n2", 12, 13), ("n2", 40, 50), ("n3", 0, 10)]
    aggressor = [("n1", 5, 6), ("n1", 7, 8), ("n1", 30, 40), ("n2", 9, 45), ("n4", 0, 100)]
    assert found(victim, aggressor) == [("n2", when(0), when(40), 3), ("n1", when(0), when(0), 1)]


def test_a_run_does_not_meet_itself():
    assert found([("n1", 0, 10)], [("n1", 0, 10)], same=True) == []
    two = [("n1", 0, 10), ("n1", 5, 7)]
    assert found(two, two, same=True) == [("n1", when(0), when(5), 2)]


def test_nothing_meets_nothing():
    assert found([], []) == []
    assert found([("n1", 0, 1)], []) == []


RUNS = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 20), st.integers(0, 6)).map(
        lambda run: (run[0], run[1], run[1] + run[2])
    ),
    max_size=12,
)


@given(victim=RUNS, aggressor=RUNS, same=st.booleans())
def test_the_same_as_comparing_every_run_with_every_other(victim, aggressor, same):
    aggressor = victim if same else aggressor
    expected = {}
    for i, (node, start, end) in enumerate(victim):
        if any(
            node == where and begin < until and begin < end and until > start and not (same and i == j)
            for j, (where, begin, until) in enumerate(aggressor)
        ):
            expected.setdefault(node, []).append(start)
    rows = [(node, when(min(met)), when(max(met)), len(met)) for node, met in expected.items()]
    assert found(victim, aggressor, same) == sorted(rows, key=lambda row: (-row[3], row[0]))
