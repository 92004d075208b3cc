"""What the Spark engine adds to the kernels, without Spark: which blocks a run is near, what travels, who works."""

import datetime as dt
import pickle
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from featurestore.designs import designs, expose
from featurestore.engines.folding import DAY, HOUR
from featurestore.engines.spark import files, gathered, rows, shared, work
from featurestore.exported import TABLES
from featurestore.exposure.sweep import OPEN, Exposure
from featurestore.interference.concurrency import Events, events
from tests.support.runs import NAMES, NODES, TYPES, runs_of


def history(seed):
    """Runs of up to three days over five days, and edges of blocks at full hours; the last block has no end."""
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 5 * DAY, 200)
    until = start + (rng.exponential(0.2, 200) * rng.choice([0.01, 1, 5], 200) * DAY).astype(np.int64)
    edges = np.array([DAY, int(1.5 * DAY), 2 * DAY, 3 * DAY, 3 * DAY + HOUR, OPEN])
    fitted = (
        (until >= DAY) & (until - start <= DAY) & (rng.random(200) < 0.5) & ~((until >= 2 * DAY) & (until < 3 * DAY))
    )
    return start, until, fitted, edges


def test_a_run_goes_to_every_block_that_would_look_at_it_and_to_no_other():
    for seed in range(20):
        start, until, fitted, edges = history(seed)
        firsts = np.full(len(edges) - 1, OPEN)
        wanted = set()
        for block in range(len(edges) - 1):
            own = fitted & (until >= edges[block]) & (until < edges[block + 1])
            if not own.any():
                continue
            firsts[block] = start[own].min()
            for row in range(len(start)):
                before = start[row] - 1_000 < edges[block + 1]  # runs count for a millisecond at least
                if start[row] >= edges[block] - DAY and before and until[row] >= firsts[block]:
                    wanted.add((row, block))
        found = list(zip(*(each.tolist() for each in work.reached(start, until, edges, firsts)), strict=True))
        assert len(found) == len(set(found))
        assert set(found) == wanted
        assert wanted
        assert firsts[2] == OPEN


def test_runs_travel_with_their_exposures_whatever_their_order():
    given = runs_of([10, 20, 20, 30, 40], [40, 25, 50, 60, 41], [3, 1, 3, 3, 1], [2, -1, 5, 2, 5], ("b", "a"))
    row, fitted = np.array([0, 0, 1, 2, 1], np.int32), np.array([True, False, True, False, True])
    exposure = Exposure(  # of the runs whose node is known, in some order
        np.array([3, 4, 0, 2], np.int32),
        np.array([0, 1, 1, 3, 4]),
        np.array([7, 8, 9, 6], np.int32),
        np.array([0.5, 1.0, 2.0, 3.0]),
        np.array([1, 0, 2, 3], np.uint16),
    )
    to = np.array([4, 4, 4, 4, -1])
    pieces = [
        body
        for own in (given.node == 2, given.node != 2)  # as if two workers sent them
        for key, body in rows.parcels(np.where(own, to, -1), given, row, fitted, exposure)
        if key == 4
    ]
    assert len(pieces) == 2
    for bodies in (pieces, pieces[::-1]):
        runs, rank, seen, back = rows.joined(bodies, NAMES, NODES, TYPES)
        assert runs.start.tolist() == [10, 20, 20, 30]
        assert list(zip(runs.function.tolist(), rank.tolist(), strict=True)) == [(3, 0), (1, 0), (3, 1), (3, 2)]
        assert seen.tolist() == [True, False, True, False]
        assert runs.execution.tolist() == [0, 1 / 7, 2 / 7, 3 / 7]
        assert [runs.versions[code] for code in runs.version] == ["b", "a", "b", "a"]
        found = {
            int(runs.start[at]): dict(
                zip(
                    back.indices[low:high].tolist(),
                    zip(back.values[low:high].tolist(), back.ending[low:high].tolist(), strict=True),
                    strict=True,
                )
            )
            for at, low, high in zip(back.rows, back.indptr[:-1], back.indptr[1:], strict=True)
        }
        assert found == {
            10: {8: (1.0, 0), 9: (2.0, 2)},
            20: {6: (3.0, 3)},
            30: {7: (0.5, 1)},
        }  # that on no known node is not there


def test_large_groups_are_several_parcels(monkeypatch):
    monkeypatch.setattr(rows, "MOST", 3)
    given = runs_of(np.arange(8), np.arange(8) + 5, [2] * 8, [0] * 8)
    row, all_of_them = np.arange(8, dtype=np.int32), np.ones(8, bool)
    sent = list(rows.parcels(np.zeros(8, np.int64), given, row, all_of_them))
    assert [key for key, _ in sent] == [0, 0, 0]
    runs, rank, _, exposure = rows.joined([body for _, body in reversed(sent)], NAMES, NODES, TYPES)
    assert runs.start.tolist() == rank.tolist() == list(range(8))
    assert exposure is None


def test_records_travel_by_their_keys(monkeypatch):
    monkeypatch.setattr(work, "_RECORDS", 4)
    usage = pa.Table.from_pylist(
        [{"key": number % 3, "name": f"p{number}", "value": float(number)} for number in range(10)],
        schema=pa.schema([("key", pa.int32()), *TABLES["usage"]]),
    )
    sent = pa.Table.from_batches(list(work.pack(iter(usage.to_batches(max_chunksize=2)), "usage")))
    for key in range(3):
        own = sent.filter(pa.compute.equal(sent["key"], key))
        back = rows.records(rows.bodies(own, "usage"), TABLES["usage"])
        assert back.schema == TABLES["usage"]
        assert back["name"].to_pylist() == [f"p{number}" for number in range(10) if number % 3 == key]
    assert rows.records([], TABLES["usage"]).num_rows == 0


def test_activations_tell_whom_they_name_and_composites_stay_behind():
    given = [
        {
            "key": 1,
            "activation_id": str(number),
            "function": f"f{number % 3}",
            "node": None,
            "composite": number % 3 == 2,
        }
        for number in range(6)
    ]
    schema = pa.schema([("key", pa.int32()), *TABLES["activations"]])
    for kept, names in ((given, ["f0", "f1"]), (given[2:3], [])):
        table = pa.Table.from_pylist(kept, schema=schema)
        sent = pa.Table.from_batches(list(work.pack(iter(table.to_batches()), "activations")))
        [told] = [pickle.loads(body) for body in rows.bodies(sent, work.TOLD)]
        composites = sum(each["composite"] for each in kept)
        assert (told["count"], told["composites"]) == (len(kept), composites)
        assert told["function"].to_pylist() == names
        assert told["node"].to_pylist() == []
        back = rows.records(rows.bodies(sent, "activations"), TABLES["activations"])
        assert back["activation_id"].to_pylist() == [each["activation_id"] for each in kept if not each["composite"]]


def test_files_are_read_where_they_are_worked_on_each_row_under_its_function(tmp_path: Path):
    names = ("guest/a", "guest/ä", "guest/b")
    given = [
        {
            "activation_id": f"{number:02}",
            "function": names[number % 3],
            "start": dt.datetime.fromtimestamp(number, dt.UTC),
            "composite": number == 4,
            "memory_mb": 256,
        }
        for number in range(12)
    ]
    kept = pa.schema([field for field in TABLES["activations"] if field.name not in ("node", "pod")])  # of long ago
    pq.write_table(pa.Table.from_pylist(given[:8], schema=kept), tmp_path / "one")
    pq.write_table(pa.Table.from_pylist(given[8:], schema=kept), tmp_path / "two")
    rows_of = [
        {"node": node, "path": str(tmp_path / name), "content": (tmp_path / name).read_bytes()}
        for node, name in (("n1", "one"), (None, "two"))
    ]
    sent = pa.Table.from_batches(
        list(files.activations(iter(pa.Table.from_pylist(rows_of).to_batches()), 2_000_000, 11_000_000, 7))
    )
    told = [pickle.loads(body) for body in rows.bodies(sent, work.TOLD)]
    assert (sum(each["count"] for each in told), sum(each["composites"] for each in told)) == (9, 1)
    found = set()
    for key in set(sent["key"].to_pylist()) - {-1}:
        own = rows.records(
            rows.bodies(sent.filter(pa.compute.equal(sent["key"], key)), "activations"), TABLES["activations"]
        )
        assert own["pod"].null_count == len(own)
        for each in own.to_pylist():
            assert zlib.crc32(each["function"].encode()) % 7 == key
            found.add((each["activation_id"], each["function"], each["node"], each["start"], each["memory_mb"]))
    assert found == {
        (f"{number:02}", names[number % 3], "n1" if number < 8 else None, given[number]["start"], 256)
        for number in (2, 3, 5, 6, 7, 8, 9, 10)
    }


def test_a_file_that_is_no_parquet_is_named():
    row = {"node": "n1", "path": "file:/tables/one.parquet", "content": b"no table at all"}
    with pytest.raises(ValueError, match=r"^file:/tables/one\.parquet: "):
        list(files.activations(iter(pa.Table.from_pylist([row]).to_batches()), 0, 1, 7))


def test_a_share_of_the_victims_knows_the_whole_cluster(tmp_path: Path):
    rng = np.random.default_rng(3)
    n = 300
    start = np.sort(rng.integers(0, 100_000_000, n))
    whole = runs_of(start, start + rng.integers(0, 9_000_000, n), rng.integers(0, 4, n), rng.integers(0, 2, n))
    wanted = {each.victim: each.around for each, _ in designs(whole, expose(whole), 0.1, every=False)}

    order = np.argsort(whole.function, kind="stable")  # function by function, as the driver has them
    counts = np.bincount(whole.function, minlength=len(NAMES))
    known = events(whole.function[order], whole.start[order], whole.end[order], len(NAMES))
    shared.write(known, np.cumsum(counts) - counts, tmp_path / "file")
    back, offsets = shared.read(tmp_path / "file")
    assert back.functions == known.functions
    for name in Events._fields[1:]:
        assert np.array_equal(getattr(back, name), getattr(known, name))

    row = np.empty(n, np.int64)
    row[order] = np.arange(n) - offsets[whole.function[order]]
    mine = np.flatnonzero(np.isin(whole.function, (1, 3)))
    exposure = expose(whole)
    kept = np.isin(exposure.rows, mine)
    widths = np.diff(exposure.indptr)
    entries = np.repeat(kept, widths)
    own = Exposure(
        np.searchsorted(mine, exposure.rows[kept]).astype(np.int32),
        np.concatenate([[0], np.cumsum(widths[kept])]),
        exposure.indices[entries],
        exposure.values[entries],
        exposure.ending[entries],
    )
    some = whole.take(mine)
    found = [
        each for each, _ in designs(some, own, 0.1, every=False, among=(back, offsets[some.function] + row[mine]))
    ]
    assert [each.victim for each in found] == [1, 3]
    for each in found:
        assert np.array_equal(each.around.columns, wanted[each.victim].columns)
        np.testing.assert_allclose(each.around.everywhere, wanted[each.victim].everywhere, rtol=1e-12)
        np.testing.assert_allclose(each.around.beside, wanted[each.victim].beside, rtol=1e-12, atol=1e-12)


def test_what_groups_of_functions_say_is_put_together_function_by_function():
    said = [
        SimpleNamespace(
            functions=np.array([2, 0]), runs=np.array([2, 1]), start=np.array([20, 21, 1]), end=np.array([30, 31, 2]),
            hours=np.array([4, 6]), ended=np.array([2, 1]), begun=np.array([20, 7]),
        ),
        SimpleNamespace(
            functions=np.array([3]), runs=np.array([1]), start=np.array([40]), end=np.array([50]),
            hours=np.array([6]), ended=np.array([5]), begun=np.array([3]),
        ),
    ]  # fmt: skip
    counts, start, end = gathered.runs(said, 5)
    assert counts.tolist() == [1, 0, 2, 1, 0]
    assert start.tolist() == [1, 20, 21, 40]
    assert end.tolist() == [2, 30, 31, 50]
    assert [each.tolist() for each in gathered.hours(said)] == [[4, 6], [2, 6], [20, 3]]


def test_groups_of_victims_have_about_as_many_runs_each():
    counts = np.array([90_000, 10, 40_000, 0, 50_000, 41_000, 49_000, 85_000])
    found = gathered.chunks(counts, 4)
    held = np.bincount(found, weights=counts, minlength=4)
    assert sorted(set(found.tolist())) == [0, 1, 2, 3]
    assert held.max() <= 95_000  # no group could do with less than 90,000, all come to 355,010


def test_a_file_with_values_of_another_kind_names_itself_and_the_column():
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"function": ["a"], "start": ["noon"]}), sink)
    row = {"node": "n1", "path": "file:/tables/one.parquet", "content": sink.getvalue().to_pybytes()}
    with pytest.raises(ValueError, match=r"^file:/tables/one\.parquet, column start: "):
        list(files.activations(iter(pa.Table.from_pylist([row]).to_batches()), 0, 1, 7))
