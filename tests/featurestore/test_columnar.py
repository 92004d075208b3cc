"""Columns grouped together: the same as sorting whole rows."""

import numpy as np
import pytest

from featurestore.columnar import combinations, ranked
from featurestore.quantiles import quantiles


@pytest.mark.parametrize("rows", [0, 1, 500])
def test_combinations_are_the_distinct_rows_in_order(rows):
    draw = np.random.default_rng(rows)
    columns = [
        draw.integers(-2, 5, rows),
        draw.integers(0, 3, rows).astype(np.int32),
        draw.integers(-(2**62), 2**62, rows),
    ]
    columns[2] = columns[2][draw.integers(0, max(1, rows // 100), rows)] if rows else columns[2]
    present, code = combinations(*columns)
    wanted, inverse = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    np.testing.assert_array_equal(present, wanted)
    np.testing.assert_array_equal(code, inverse.reshape(-1))


@pytest.mark.parametrize("width", [3, 10**12])
def test_ranked_integers_are_those_that_sorting_finds(width):
    value = np.random.default_rng(0).integers(-width, width, 500)

    count, code = ranked(value)

    present, expected = np.unique(value, return_inverse=True)
    assert count == len(present)
    np.testing.assert_array_equal(code, expected)


def test_quantiles_leave_a_negative_group_out():
    group, value = np.array([1, -1, 0, 1, 1]), np.array([3.0, 99.0, 5.0, 1.0, 2.0])

    np.testing.assert_array_equal(quantiles(group, value, 3, (0.5,)), [[5.0], [2.0], [np.nan]])


@pytest.mark.parametrize("values", ["different", "few", "the same", "in order", "backwards"])
def test_selected_quantiles_are_those_of_sorted_values(values):
    """However the values lie: long runs of equal ones, and such as are in order, are where selections go wrong."""
    draw = np.random.default_rng(7)
    value = draw.normal(size=5_000)
    if values == "few":
        value = np.round(value)
    elif values == "the same":
        value = np.ones(5_000)
    elif values != "different":
        value = np.sort(value)[:: 1 if values == "in order" else -1]
    group = draw.integers(0, 3, 5_000)
    found = quantiles(group, value, 3, (0.95, 0.0, 0.5, 1.0))
    for code in range(3):
        np.testing.assert_allclose(found[code], np.quantile(value[group == code], (0.95, 0.0, 0.5, 1.0)), rtol=1e-15)
