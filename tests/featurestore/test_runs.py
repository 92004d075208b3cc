"""Activations as runs: each column against the rule, run by run."""

import datetime as dt
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from featurestore import held, runs
from featurestore.interference.spared import aside, keys

TIME = pa.timestamp("us", tz="UTC")
SECOND = 1_000_000
BEGIN = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
HORIZON = round((BEGIN + dt.timedelta(hours=2)).timestamp()) * SECOND


def when(second):
    return None if second is None else BEGIN + dt.timedelta(seconds=second)


def micros(second):
    return round(BEGIN.timestamp()) * SECOND + second * SECOND


def activations(*rows):
    """function, start, end, duration_ms, init_ms, status_code, memory_mb, timeout_ms, version, node_type"""
    names = ("function", "start", "end", "duration_ms", "init_ms", "status_code", "memory_mb", "timeout_ms")
    types = (pa.string(), TIME, TIME, pa.float64(), pa.float64(), pa.int32(), pa.int32(), pa.int64())
    columns = zip(*rows, strict=True)
    found = {}
    for name, kind, values in zip(
        (*names, "version", "node_type"), (*types, pa.string(), pa.string()), columns, strict=True
    ):
        found[name] = pa.array([when(value) if kind == TIME else value for value in values], kind)
    return pa.table({**found, "composite": pa.array([False] * len(rows))})


SPECS = pa.table(
    {
        "node": ["n1", "n1", "n2"],
        "valid_from": pa.array([when(0), when(100), when(50)], TIME),
        "node_type": ["small", "large", "small"],
    }
)
ROWS = [
    ("f", 10, 20, 9000.0, 500.0, 0, 256, 60_000, "0.0.1", None),  # cold
    ("g", 120, 121, None, None, 0, 128, 60_000, "0.0.2", None),  # no duration is recorded
    ("f", 130, None, None, None, 0, 256, 60_000, "0.0.1", None),  # it may run still: to its timeout at most
    ("f", 7190, None, None, None, -1, None, None, "0.0.1", None),  # to the horizon
    ("g", 20, 30, 5.0, None, 1, 128, 60_000, "0.0.2", "other"),  # an error, of a type that is given
    ("g", 40, 45, 5000.0, None, 0, 128, 60_000, "0.0.10", None),  # before the first specification of its node
    ("g", 41, 45, 4000.0, None, 0, 128, 60_000, "0.0.10", None),  # nowhere
    ("g", 42, 42 + 90_000, 9e7, None, 0, 128, 60_000, "0.0.10", None),  # longer than a day
    ("g", 60, 61, 1000.0, 1000.5, 0, 128, 60_000, "0.0.10", None),  # began longer than it ran
]
NODES = ["n1", "n1", "n1", "n2", "n1", "n2", None, "n1", "n1"]


def read(limits=()):
    attributed = pa.table(
        {
            "node": pa.array(NODES).dictionary_encode(),
            "pod": pa.array([None] * len(ROWS), pa.string()).dictionary_encode(),
            "method": pa.array(["none" if node is None else "node" for node in NODES]).dictionary_encode(),
        }
    )
    placements = pa.table(
        {
            "function": pa.array([function for function, _, _ in limits], pa.string()),
            "started": pa.array([when(at) for _, at, _ in limits], TIME),
            "cpu_limit_cores": pa.array([cores for _, _, cores in limits], pa.float64()),
        }
    )
    return runs.read(activations(*ROWS), attributed, SPECS, placements, HORIZON)


def test_each_column_is_what_the_record_says():
    found = read()
    assert found.functions.to_pylist() == ["f", "g"]
    assert found.function.tolist() == [0, 1, 0, 0, 1, 1, 1, 1, 1]
    kinds = [None, *found.node_types.to_pylist()]
    assert [kinds[kind + 1] for kind in found.node_type] == [
        *("small", "large", "large", "small", "other", "small", None, "small", "small")
    ]
    assert found.start.tolist() == [micros(row[1]) for row in ROWS]
    ends = [micros(value) for value in (20, 121, 190, 7200, 30, 45, 45, 90_042, 61)]
    assert found.end.tolist() == ends
    np.testing.assert_array_equal(found.execution, [8.5, 1.0, np.nan, np.nan, 0.005, 5.0, 4.0, 9e4, np.nan])
    assert found.cold.tolist() == [True, *[False] * 7, True]
    assert found.evidence.tolist() == [True, True, False, False, False, True, False, False, False]


@pytest.mark.parametrize(
    ("limits", "milli"),
    [((), [0] * 9), ([("f", 0, 0.5), ("f", 125, 2.0), ("g", 0, None)], [500, 0, 2000, 2000, *[0] * 5])],
)
def test_versions_are_told_with_their_limits(limits, milli):
    found = read(limits)
    named = [f"{row[8]} {row[6] or 0} MB {own} m" for row, own in zip(ROWS, milli, strict=True)]
    assert [found.versions[code] for code in found.version] == named
    assert len(set(found.versions)) == len(found.versions) == len(set(named))


def test_whole_blocks_of_nodes_are_set_aside_in_parts_too(monkeypatch):
    monkeypatch.setattr("featurestore.held.PART", 3)
    draw = np.random.default_rng(0)
    few = read()
    many = few.take(draw.integers(0, len(few), 2000))
    many = replace(many, end=draw.integers(micros(0), micros(10**7), 2000))
    node = dict(zip(many.nodes.to_pylist(), keys(many.nodes.to_pylist()), strict=True))
    names = [*many.nodes.to_pylist(), None]
    expected = [
        names[code] is not None and bool(aside(np.array([node[names[code]]]), np.array([end]))[0])
        for code, end in zip(many.node, many.end, strict=True)
    ]
    assert held.set_aside(many).tolist() == expected
    assert any(expected)
