"""Activations in order of start and id: the same as sorting rows by both."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from featurestore import chronological

TIME = pa.timestamp("us", tz="UTC")


def table(start, ids, chunks=1):
    made = pa.table({"activation_id": ids, "start": pa.array(start, pa.int64()).cast(TIME), "row": range(len(start))})
    cuts = np.linspace(0, len(start), chunks + 1).astype(int)
    return pa.concat_tables([made.slice(a, b - a) for a, b in pairwise(cuts)])


@pytest.mark.parametrize("chunks", [1, 3])
@pytest.mark.parametrize("moments", [3, 200, 10**15])
def test_rows_are_sorted_by_start_then_id(moments, chunks):
    draw = np.random.default_rng(moments)
    start = draw.integers(0, moments, 400)
    ids = [f"{value:08x}" for value in draw.integers(0, 300, 400)]  # some twice: these stay as they were
    found = chronological.by_start(table(start, ids, chunks))
    assert found["row"].to_pylist() == sorted(range(400), key=lambda row: (start[row], ids[row], row))


@pytest.mark.parametrize(("start", "ids"), [([], []), ([5], ["a"]), ([1, 2, 2, 9], ["z", "a", "b", "a"])])
def test_rows_in_order_are_not_copied(start, ids):
    given = table(start, ids)
    assert chronological.order(given) is None
    assert chronological.by_start(given) is given
