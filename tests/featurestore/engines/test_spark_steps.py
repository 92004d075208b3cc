"""What the Spark engine adds to the kernels, without Spark: which blocks a run is near, and what travels."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from featurestore.engines.folding import DAY
from featurestore.engines.spark import shared, work
from featurestore.engines.spark.rows import ROWS, exposed, exposure_of, runs_of, schema
from featurestore.exposure.sweep import OPEN, Exposure
from featurestore.interference.concurrency import build, mean


def rows(start, until, fitted):
    """A batch of runs of one function on one node."""
    n = len(start)
    given = {
        "row": range(n),
        "start": start,
        "until": until,
        "fitted": fitted,
        "evidence": fitted,
        "version": ["v"] * n,
        **{name: [0] * n for name in ("function", "node", "node_type")},
    }
    return pa.Table.from_pydict({**{name: [None] * n for name in ROWS}, **given}, schema=schema(ROWS))


def history(seed):
    """Runs of up to three days over five days, and edges of blocks; the last block has no end."""
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 5 * DAY, 200)
    until = start + (rng.exponential(0.2, 200) * rng.choice([0.01, 1, 5], 200) * DAY).astype(np.int64)
    edges = np.array([DAY, int(1.5 * DAY), 2 * DAY, 3 * DAY, int(3.1 * DAY), OPEN])
    fitted = (
        (until >= DAY) & (until - start <= DAY) & (rng.random(200) < 0.5) & ~((until >= 2 * DAY) & (until < 3 * DAY))
    )
    return start, until, fitted, edges


def test_a_run_goes_to_every_block_that_would_look_at_it_and_to_no_other():
    for seed in range(20):
        start, until, fitted, edges = history(seed)
        batches = rows(start, until, fitted).to_batches(max_chunksize=70)
        firsts = np.full(len(edges) - 1, OPEN)
        for batch in work.begins(iter(batches), edges):
            np.minimum.at(firsts, batch.column("block").to_numpy(), batch.column("start").to_numpy())
        wanted = set()
        for block in range(len(edges) - 1):
            own = fitted & (until >= edges[block]) & (until < edges[block + 1])
            if not own.any():
                assert firsts[block] == OPEN
                continue
            first = start[own].min()
            assert firsts[block] == first
            for row in range(len(start)):
                if start[row] >= edges[block] - DAY and start[row] < edges[block + 1] and until[row] >= first:
                    wanted.add((row, block))
        found = pa.Table.from_batches(list(work.near(iter(batches), edges, firsts)))
        pairs = list(zip(found["row"].to_pylist(), found["block"].to_pylist(), strict=True))
        assert len(pairs) == len(set(pairs))
        assert set(pairs) == wanted
        assert wanted
        assert firsts[2] == OPEN


def test_exposures_travel_with_their_rows_whatever_their_order():
    table = rows([30, 10, 20], [40, 50, 25], [True, True, False])
    exposure = Exposure(
        np.array([2, 0, 1], np.int32),
        np.array([0, 1, 1, 3]),
        np.array([7, 8, 9], np.int32),
        np.array([0.5, 1.0, 2.0]),
    )
    sent = pa.concat_tables([exposed(table, exposure), rows([5], [6], [False])])
    names = pa.array([f"f{number}" for number in range(10)])
    runs, ordered = runs_of(sent, names, pa.array(["n"]), pa.array(["t"]))
    assert runs.start.tolist() == [5, 10, 20, 30]
    back = exposure_of(ordered)
    found = {
        int(runs.start[row]): dict(zip(back.indices[low:high].tolist(), back.values[low:high].tolist(), strict=True))
        for row, low, high in zip(back.rows, back.indptr[:-1], back.indptr[1:], strict=True)
    }
    assert found == {20: {7: 0.5}, 30: {}, 10: {8: 1.0, 9: 2.0}}  # that of 5 is not known


def test_the_concurrency_is_the_same_after_its_journey(tmp_path: Path):
    rng = np.random.default_rng(3)
    function, start = rng.integers(0, 4, 50), rng.uniform(0, 100, 50)
    end = start + rng.exponential(5, 50)
    whole = build(function, start, end, 4)
    shared.write(whole, tmp_path / "file")
    back = shared.read(tmp_path / "file")
    for name in ("functions", "offsets", "times", "integral"):
        assert np.array_equal(getattr(back, name), getattr(whole, name))
    every = np.arange(5)
    assert np.array_equal(mean(back, every, start, end), mean(whole, every, start, end))
