"""The obvious comparison and its parts: by hand, as one sum, and blind to third parties as it is said to be."""

from types import SimpleNamespace

import numpy as np
import pytest

from featurestore.interference.comparison import compare


def sparse(dense):
    dense = np.asarray(dense, float)
    rows, columns = np.nonzero(dense)
    indptr = np.searchsorted(rows, np.arange(len(dense) + 1)).astype(np.int64)
    return indptr, columns.astype(np.int64), dense[rows, columns]


def compared(seconds, exposure, slowdown, *, base=((1.0, np.nan),), node_type=None, cold=None, victim=None):
    n, functions = len(seconds), np.shape(exposure)[1]
    whole, levels = np.full((functions, functions), np.nan), np.full((functions, np.shape(base)[1]), np.nan)
    whole[: len(slowdown)], levels[: len(base)] = slowdown, base
    found = compare(
        np.zeros(n, np.int64) if victim is None else np.asarray(victim),
        np.asarray(seconds, float),
        np.zeros(n, np.int64) if node_type is None else np.asarray(node_type),
        np.zeros(n, bool) if cold is None else np.asarray(cold),
        sparse(exposure),
        [(np.arange(functions), row) for row in whole],
        levels,
    )
    square = {"alone": found.alone}
    for name in ("naive", "own", "others", "node_types", "rest", "cold_beside", "cold_without"):
        square[name] = np.full((functions, functions), np.nan)
        square[name][found.victim, found.aggressor] = getattr(found, name)
    return SimpleNamespace(**square)


def test_two_neighbours_that_come_together_share_what_the_obvious_comparison_gives_to_each():
    """Beside b (no effect) and c (doubles) always both: 2 s against 1 s alone looks like +100 % for b as well."""
    found = compared([1.0, 1.0, 2.0, 2.0], [[0, 0, 0], [0, 0, 0], [0, 1, 1], [0, 1, 1]], [[0.0, 0.0, 1.0]])
    assert found.naive[0, 1] == pytest.approx(1.0)
    assert found.own[0, 1] == pytest.approx(0.0)
    assert found.others[0, 1] == pytest.approx(np.log(2))
    assert found.own[0, 2] == pytest.approx(np.log(2))
    assert found.others[0, 2] == pytest.approx(0.0)
    assert found.alone[0] == 2
    assert np.isnan(found.naive[0, 0])  # never ran beside itself


def test_a_slower_node_type_and_cold_starts_are_told_apart_from_the_neighbour():
    """Beside b on the node type that takes three times as long, half of them cold."""
    found = compared(
        [1.0, 1.0, 3.0, 3.3],
        [[0, 0], [0, 0], [0, 1], [0, 1]],
        [[0.0, 0.0]],
        base=((1.0, 3.0, np.nan),),
        node_type=[0, 0, 1, 1],
        cold=[False, False, False, True],
    )
    assert found.node_types[0, 1] == pytest.approx(np.log(3))
    assert found.rest[0, 1] == pytest.approx(np.log(1.1) / 2)
    assert found.naive[0, 1] == pytest.approx(3 * np.sqrt(1.1) - 1)
    assert (found.cold_beside[0, 1], found.cold_without[0, 1]) == (0.5, 0.0)


def test_the_parts_add_up_to_the_whole_and_are_those_of_the_definition():
    draw = np.random.default_rng(5)
    n, functions = 300, 5
    victim = draw.integers(0, functions, n)
    exposure = np.where(draw.random((n, functions)) < 0.4, draw.uniform(0.1, 1.5, (n, functions)), 0.0)
    slowdown = draw.uniform(0, 0.8, (functions, functions))
    base = draw.uniform(0.5, 2, (functions, 3))
    node_type = draw.integers(0, 2, n)
    seconds = draw.lognormal(0, 0.4, n)
    found = compared(seconds, exposure, slowdown, base=base, node_type=node_type, victim=victim)
    np.testing.assert_allclose(found.own + found.others + found.node_types + found.rest, np.log1p(found.naive))
    for v, b in ((0, 1), (3, 3), (4, 2)):
        stretch = exposure * slowdown[v] / (1 + slowdown[v] * np.maximum(0, 1 - exposure))
        without = stretch.copy()
        without[:, b] = 0
        others, joint = np.log1p(without.sum(axis=1)), np.log1p(stretch.sum(axis=1))
        met, apart = ((victim == v) & (exposure[:, b] > 0)), ((victim == v) & (exposure[:, b] == 0))
        assert found.naive[v, b] == pytest.approx(
            np.expm1(np.log(seconds[met]).mean() - np.log(seconds[apart]).mean())
        )
        assert found.own[v, b] == pytest.approx((joint - others)[met].mean())
        assert found.others[v, b] == pytest.approx(others[met].mean() - others[apart].mean())


def test_runs_of_no_length_and_unknown_types_say_what_they_can():
    found = compared([1.0, 0.0, np.nan, 2.0], [[0, 0], [0, 1], [0, 1], [0, 1]], [[0.0, 0.0]], node_type=[0, 0, 0, -1])
    assert found.naive[0, 1] == pytest.approx(1.0)
    assert np.isnan(found.node_types[0, 1])
    nothing = compared(np.zeros(0), np.zeros((0, 2)), [[0.0, 0.0]])
    assert np.isnan(nothing.naive).all()
