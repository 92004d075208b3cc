"""What increments leave out must not be missed."""

import numpy as np
import pyarrow as pa
import pytest

from featurestore import answers
from featurestore.engines.increment import fresh
from featurestore.runs import Runs


def some_runs(count=600, seed=3):
    """Runs of five functions on six nodes of three types, a tenth of them without a node or no evidence."""
    rng = np.random.default_rng(seed)
    node = rng.integers(0, 6, count).astype(np.int32)
    node[rng.random(count) < 0.1] = -1
    kind = np.where(node >= 0, node // 2, -1).astype(np.int32)
    start = np.sort(rng.integers(0, 10**9, count))
    return Runs(
        functions=pa.array([f"f{n}" for n in range(5)]),
        nodes=pa.array([f"n{n}" for n in range(6)]),
        node_types=pa.array(["a", "b", "c"]),
        pods=pa.array([], pa.string()),
        versions=("",),
        function=rng.integers(0, 5, count).astype(np.int32),
        node=node,
        node_type=kind,
        pod=np.full(count, -1, np.int32),
        start=start,
        end=start + 1000,
        execution=rng.random(count),
        cold=np.zeros(count, bool),
        version=np.zeros(count, np.int64),
        evidence=(node >= 0) & (rng.random(count) < 0.9),
    )


def rows(table):
    return {(row["function"], row["node_type"], row["node"]): row for row in table.to_pylist()}


@pytest.mark.parametrize(
    "told",
    [
        lambda runs: np.zeros(len(runs), bool),
        lambda runs: runs.function < 3,  # two functions are new
        lambda runs: runs.node_type < 2,  # a type is new
        lambda runs: ~np.isin(runs.node, (1, 4)),  # nodes of known types are new
        lambda runs: np.ones(len(runs), bool),
    ],
)
def test_rows_that_are_new_are_made_of_the_same_runs(told):
    runs = some_runs()
    known = answers.latencies(runs.take(np.flatnonzero(told(runs))))
    part = fresh(runs, known)
    whole, own, before = rows(answers.latencies(runs)), rows(answers.latencies(part)), rows(known)
    new = whole.keys() - before.keys()
    assert new <= own.keys()
    assert all(own[key] == whole[key] for key in new)
    assert len(part) < len(runs) or not before
