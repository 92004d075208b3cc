"""The evidence of a part of runs is that of a comparison of pairs, and the same whichever runs were swept."""

from dataclasses import fields

import numpy as np
import pyarrow as pa
import pytest

from featurestore.designs import designs, expose
from featurestore.runs import Runs

N, FUNCTIONS, MS = 120, 7, 1_000
NAMES = pa.array([f"f{code}" for code in range(FUNCTIONS)])


@pytest.fixture(scope="module")
def runs():
    draw = np.random.default_rng(5)
    start = np.sort(draw.integers(0, 1000, N)) * MS
    node = draw.integers(-1, 3, N).astype(np.int32)
    return Runs(
        functions=NAMES,
        nodes=pa.array(["a", "b", "c"]),
        node_types=pa.array(["t"]),
        pods=pa.array([], pa.string()),
        versions=("",),
        function=draw.integers(0, FUNCTIONS, N).astype(np.int32),
        node=node,
        node_type=np.zeros(N, np.int32),
        pod=np.full(N, -1, np.int32),
        start=start,
        end=start + draw.integers(1, 60, N) * MS,
        execution=draw.random(N),
        cold=np.zeros(N, bool),
        version=np.zeros(N, np.int64),
        evidence=(node >= 0) & (np.arange(N) % 3 > 0),
    )


def test_evidence_has_what_pairs_say_in_order_of_runs_and_functions(runs):
    told = []
    for design, rows in designs(runs, expose(runs), 0.0, every=False):
        told += rows.tolist()
        assert rows.tolist() == np.flatnonzero(runs.evidence & (runs.function == design.victim)).tolist()
        for place, row in enumerate(rows):
            both = np.minimum(runs.end, runs.end[row]) - np.maximum(runs.start, runs.start[row])
            beside = (both > 0) & (runs.node == runs.node[row]) & (np.arange(N) != row)
            length = runs.end[row] - runs.start[row]
            wanted = np.bincount(runs.function[beside], weights=both[beside] / length, minlength=FUNCTIONS)
            mine = slice(design.indptr[place], design.indptr[place + 1])
            assert design.indices[mine].tolist() == np.flatnonzero(wanted).tolist()
            np.testing.assert_allclose(design.values[mine], wanted[wanted > 0], rtol=1e-12)
    assert sorted(told) == np.flatnonzero(runs.evidence).tolist()


def test_it_is_the_same_to_the_bit_when_only_those_beside_were_swept(runs):
    low, high = 500 * MS, 700 * MS
    own = runs.evidence & (runs.end >= low) & (runs.end < high)
    near = np.flatnonzero((runs.end >= runs.start[own].min()) & (runs.start < high + MS))
    assert len(near) < N / 2
    some = runs.take(near)
    some.evidence[:] = own[near]
    whole = runs.take(np.arange(N))
    whole.evidence[:] = own
    found = list(designs(some, expose(some), 0.0, every=False))
    wanted = list(designs(whole, expose(whole), 0.0, every=False))
    assert len(found) == len(wanted) > 3
    for (one, rows), (other, places) in zip(found, wanted, strict=True):
        assert near[rows].tolist() == places.tolist()
        for each in fields(one):
            if each.name != "around":
                np.testing.assert_array_equal(getattr(one, each.name), getattr(other, each.name))
        for each in fields(one.around):
            np.testing.assert_array_equal(getattr(one.around, each.name), getattr(other.around, each.name))
