"""Exposure: the worked cases, and the same numbers as counting by hand on random small inputs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from featurestore.exposure.sweep import OPEN, Exposure, effective_overlaps, sweep

SECOND = 1_000_000
A, B = 0, 1


def swept(runs, *, functions=2, horizon=None):
    """Sweep (node, start, end, function) with times in seconds; an end of None is open."""
    node, start, end, function = zip(*runs, strict=True) if runs else ((), (), (), ())
    ends = [OPEN if at is None else round(at * SECOND) for at in end]
    return sweep(
        np.array(node, np.int32),
        np.array([round(at * SECOND) for at in start], np.int64),
        np.array(ends, np.int64),
        np.array(function, np.int32),
        functions=functions,
        horizon=None if horizon is None else round(horizon * SECOND),
    )


def dense(exposure: Exposure, functions=2):
    """Rows in the order of the input."""
    table = np.zeros((len(exposure.rows), functions))
    for row, activation in enumerate(exposure.rows):
        for k in range(exposure.indptr[row], exposure.indptr[row + 1]):
            assert table[activation, exposure.indices[k]] == 0, "a function stands twice in a row"
            table[activation, exposure.indices[k]] = exposure.values[k]
    return table


def by_hand(runs, functions, horizon):
    """Sum the overlaps of every pair: the definition, without any cleverness."""
    closed = [(n, s, max(s, horizon) if e is None else max(s, e), f) for n, s, e, f in runs]
    table = np.zeros((len(runs), functions))
    for i, (node, start, end, _) in enumerate(closed):
        for j, (other_node, other_start, other_end, other) in enumerate(closed):
            if i == j or node != other_node:
                continue
            if start == end:
                table[i, other] += other_start <= start < other_end
            else:
                table[i, other] += max(0, min(end, other_end) - max(start, other_start)) / (end - start)
    return table


def test_half_of_each_run_is_spent_together():  # E1
    assert dense(swept([(0, 0, 10, A), (0, 5, 15, B)])).tolist() == [[0, 0.5], [0.5, 0]]


def test_another_node_is_no_company():  # E1
    assert len(swept([(0, 0, 10, A), (1, 5, 15, B)]).values) == 0


def test_several_runs_of_one_function_add_up():  # E2
    exposure = swept([(0, 0, 10, A), (0, 2, 4, B), (0, 3, 8, B)])
    assert dense(exposure).tolist() == [[0, 0.7], [1, 0.5], [1, 0.2]]
    overlaps = effective_overlaps(exposure, np.array([A, B, B], np.int32), 2)
    assert overlaps == pytest.approx(np.array([[0, 0.7], [2, 0.7]]), abs=1e-15)


def test_an_activation_left_out_gives_no_overlaps():
    exposure = swept([(0, 0, 10, A), (0, 2, 4, B), (0, 3, 8, B)])
    overlaps = effective_overlaps(exposure, np.array([A, -1, B], np.int32), 2)
    assert overlaps == pytest.approx(np.array([[0, 0.7], [1, 0.2]]), abs=1e-15)


def test_touching_is_no_overlap():  # E3
    assert len(swept([(0, 0, 5, A), (0, 5, 9, B)]).values) == 0


def test_a_run_without_length_counts_its_instant_and_adds_nothing():  # E4
    assert dense(swept([(0, 3, 3, A), (0, 0, 10, B)])).tolist() == [[0, 1], [0, 0]]


@pytest.mark.parametrize(("instant", "count"), [(0, 1), (9.999999, 1), (10, 0), (-1, 0)])
def test_the_instant_belongs_to_the_run_that_starts_at_it(instant, count):
    assert dense(swept([(0, instant, instant, A), (0, 0, 10, B)]))[0, B] == count


def test_an_open_run_is_a_co_runner_to_the_horizon():
    exposure = swept([(0, 10, 20, A), (0, 15, None, B), (0, 30, 40, A)], horizon=40)
    assert dense(exposure).tolist() == [[0, 0.5], [0.6, 0], [0, 1]]


def test_an_end_before_the_start_is_an_instant():
    assert dense(swept([(0, 5, 4, A), (0, 0, 10, B)])).tolist() == [[0, 1], [0, 0]]


def test_nothing_in_nothing_out():
    exposure = swept([])
    assert (len(exposure.rows), exposure.indptr.tolist(), len(exposure.values)) == (0, [0], 0)


def test_one_long_run_beside_many_short_ones():
    """The long run meets 20,000 runs that fill half of its time; each of them meets it wholly."""
    short = 20_000
    start = np.arange(short, dtype=np.int64) * 10
    exposure = sweep(
        np.zeros(short + 1, np.int32),
        np.concatenate([[0], start]),
        np.concatenate([[short * 10], start + 5]),
        np.array([A] + [B] * short, np.int32),
        functions=2,
    )
    table = dense(exposure)
    assert table[0].tolist() == [0, 0.5]
    assert (table[1:] == [1, 0]).all()


def test_arrays_that_do_not_fit_are_refused():
    one = np.zeros(1, np.int32)
    with pytest.raises(ValueError, match="length"):
        sweep(one, np.zeros(2, np.int64), np.zeros(1, np.int64), one, functions=1)
    with pytest.raises(ValueError, match="code"):
        sweep(one, np.zeros(1, np.int64), np.zeros(1, np.int64), one, functions=0)


TIMES = st.integers(0, 30)
RUNS = st.lists(
    st.tuples(st.integers(0, 2), TIMES, st.one_of(st.none(), st.integers(0, 45)), st.integers(0, 4)), max_size=60
)


@settings(max_examples=300, deadline=None)
@given(runs=RUNS, horizon=st.integers(0, 50))
def test_the_same_numbers_as_by_hand(runs, horizon):
    found = dense(swept(runs, functions=5, horizon=horizon), 5)
    assert found == pytest.approx(by_hand(runs, 5, horizon), abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(runs=RUNS, data=st.data())
def test_the_order_of_the_input_changes_nothing(runs, data):
    order = data.draw(st.permutations(range(len(runs))))
    first = dense(swept(runs, functions=5, horizon=40), 5)
    second = dense(swept([runs[i] for i in order], functions=5, horizon=40), 5)
    assert (second == first[order]).all()


def test_output_that_outgrows_its_room_goes_on_where_it_stopped():
    """200 functions always together: 199 non-zeros a row, far more than the first guess."""
    n, functions = 2_000, 200
    rng = np.random.default_rng(5)
    start = rng.integers(0, 50, n)
    end = start + rng.integers(100, 200, n)
    function = np.arange(n, dtype=np.int32) % functions
    exposure = sweep(np.zeros(n, np.int32), start, end, function, functions=functions)
    overlap = np.maximum(0, np.minimum(end[:, None], end) - np.maximum(start[:, None], start)).astype(float)
    np.fill_diagonal(overlap, 0)
    expected = (overlap / (end - start)[:, None]) @ np.eye(functions)[function]
    assert dense(exposure, functions) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("threads", [2, 3, 16])
def test_nodes_in_several_threads_give_the_same_rows(threads, monkeypatch):
    monkeypatch.setattr("featurestore.exposure.sweep._FEW", 1)
    draw = np.random.default_rng(threads)
    n = 3000
    node = draw.choice(9, n, p=[0.5, 0, 0.2, 0.1, 0.05, 0.05, 0.05, 0.05, 0]).astype(np.int32)
    start = draw.integers(0, 1000, n) * SECOND
    end = start + draw.integers(0, 20, n) * SECOND
    function = draw.integers(0, 12, n).astype(np.int32)
    alone = sweep(node, start, end, function, functions=12)
    found = sweep(node, start, end, function, functions=12, threads=threads)
    for name in ("rows", "indptr", "indices", "values", "ending"):
        np.testing.assert_array_equal(getattr(found, name), getattr(alone, name))
    some = draw.integers(0, n, 50)
    place = {row: at for at, row in enumerate(found.rows.tolist())}
    for i in some.tolist():
        others = (node == node[i]) & (np.arange(n) != i)
        met = np.minimum(end[others], end[i]) - np.maximum(start[others], start[i])
        if end[i] > start[i]:
            expected = np.bincount(function[others], np.maximum(met, 0), 12) / (end[i] - start[i])
            own = slice(found.indptr[place[i]], found.indptr[place[i] + 1])
            row = np.bincount(found.indices[own], found.values[own], 12)
            np.testing.assert_allclose(row, expected, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 12), st.integers(0, 12), st.integers(0, 2)),
        min_size=1,
        max_size=25,
    )
)
def test_who_runs_right_before_an_end_is_counted(runs):
    """Many begin and end at the same moments: those that end together were there for each other."""
    runs = [(node, start, start + took, function) for node, start, took, function in runs]
    found = swept(runs, functions=3)
    for row, i in enumerate(found.rows.tolist()):
        node, start, end, _ = runs[i]
        others = [other for j, other in enumerate(runs) if j != i and other[0] == node]
        if end > start:
            there = [f for _, begun, ended, f in others if begun < end <= ended]
        else:
            there = [f for _, begun, ended, f in others if begun <= start < ended]
        own = slice(found.indptr[row], found.indptr[row + 1])
        assert (
            np.bincount(found.indices[own], found.ending[own], 3).tolist() == np.bincount(there, minlength=3).tolist()
        )


@pytest.mark.parametrize(("functions", "size"), [(65_536, 2), (65_537, 4)])
def test_the_codes_of_many_functions_are_whole(functions, size):
    first, last = 3, functions - 1
    found = swept([(0, 0, 10, first), (0, 5, 15, last)], functions=functions)
    assert found.indices.itemsize == size
    assert sorted(zip(found.indices.tolist(), found.values.tolist(), strict=True)) == [(first, 0.5), (last, 0.5)]
