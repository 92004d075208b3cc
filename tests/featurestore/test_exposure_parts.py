"""The exposure of a part of runs is that of a comparison of pairs, and the same whichever runs were swept."""

import numpy as np
import pytest

from featurestore.exposure.parts import Exposed
from featurestore.exposure.sweep import sweep

N, FUNCTIONS = 120, 7


@pytest.fixture(scope="module")
def runs():
    draw = np.random.default_rng(5)
    start = np.sort(draw.integers(0, 1000, N))
    return {
        "node": draw.integers(0, 3, N).astype(np.int32),
        "start": start,
        "end": start + draw.integers(1, 60, N),
        "function": draw.integers(0, FUNCTIONS, N).astype(np.int32),
    }


def exposed(runs, rows):
    chosen = {name: values[rows] for name, values in runs.items()}
    return Exposed.of(sweep(**chosen, functions=FUNCTIONS), len(rows))


def test_a_part_has_what_pairs_say_in_order_of_runs_and_functions(runs):
    some = np.arange(40, 90)
    wanted = np.arange(len(some)) % 3 > 0
    found = exposed(runs, np.arange(N)).alone(some, wanted)
    assert found.rows.tolist() == np.flatnonzero(wanted).tolist()
    for place, row in enumerate(some[wanted]):
        both = np.minimum(runs["end"], runs["end"][row]) - np.maximum(runs["start"], runs["start"][row])
        beside = (both > 0) & (runs["node"] == runs["node"][row]) & (np.arange(N) != row)
        length = runs["end"][row] - runs["start"][row]
        told = np.bincount(runs["function"][beside], weights=both[beside] / length, minlength=FUNCTIONS)
        mine = slice(found.indptr[place], found.indptr[place + 1])
        assert found.indices[mine].tolist() == np.flatnonzero(told).tolist()
        np.testing.assert_allclose(found.values[mine], told[told > 0], rtol=1e-12)


def test_it_is_the_same_to_the_bit_when_only_those_beside_were_swept(runs):
    low, high = 500, 700
    own = (runs["end"] >= low) & (runs["end"] < high)
    first = runs["start"][own].min()
    near = np.flatnonzero((runs["end"] >= first) & (runs["start"] < high))
    one = exposed(runs, np.arange(N)).alone(near, own[near])
    other = exposed(runs, near).alone(np.arange(len(near)), own[near])
    for name in ("rows", "indptr", "indices", "values"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_runs_without_a_node_have_no_row(runs):
    placed = np.flatnonzero(np.arange(N) % 2)
    found = exposed(runs, placed)
    index = Exposed.of(found.exposure, len(placed) + 5)
    assert index.alone(np.arange(len(placed) + 5), np.ones(len(placed) + 5, bool)).rows.tolist() == list(
        range(len(placed))
    )
