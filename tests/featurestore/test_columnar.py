"""Columns grouped together: the same as sorting whole rows."""

import numpy as np
import pytest

from featurestore.columnar import combinations


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
