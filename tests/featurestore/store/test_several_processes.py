"""Ingestion by several processes at once, and by processes that are killed."""

import multiprocessing
from pathlib import Path

from benchmarks.activation_pages import NEWEST, pages
from benchmarks.killing import RECORDS, kill_repeatedly, look
from featurestore.store import queries
from featurestore.store.duck import Store
from featurestore.store.ingest import Written, ingest
from pipeline.records import Batch
from tests.support.forked import CONTEXT
from tests.support.stores import NOON, OVERLAP, minutes, page, put, put_pages, record, rows, select

#: As many as are asked for of every collection.
KILLS = 20


def test_twenty_kills_lose_nothing_double_nothing_and_leave_no_half_batch(tmp_path: Path) -> None:
    after = kill_repeatedly(tmp_path, KILLS, seed=20)
    assert (after.kills, after.lost, after.halves, after.doubles) == (KILLS, 0, 0, 0)
    assert after.batches >= 1
    assert not list(tmp_path.glob("killed.duckdb.*.new"))


def test_looking_for_losses_finds_them(tmp_path: Path) -> None:
    """The check above is able to fail."""
    store = Store(tmp_path / "s.duckdb")
    for number in range(3):
        files = tuple(pages(tmp_path / f"{number}", RECORDS, page=1000, seed=number))
        batch = Batch("activations", files=files, watermark=NEWEST)
        ingest(store, f"batch{number}", batch, collected=NEWEST, overlap=OVERLAP)
    assert (look(store, 3).lost, look(store, 3).halves, look(store, 3).doubles) == (0, 0, 0)
    store.write(lambda con: con.execute("DELETE FROM activations WHERE cluster = 'batch0'"))
    store.write(lambda con: con.execute("INSERT INTO activations FROM activations WHERE cluster = 'batch1' LIMIT 7"))
    store.write(lambda con: con.execute("DELETE FROM activations WHERE cluster = 'batch2' AND function LIKE '%07'"))
    found = look(store, 3)
    assert (found.lost, found.halves, found.doubles) == (1, 2, 7)  # a mark without rows, and a batch of too few


def _collect(path: Path, files: list[Path], barrier: "multiprocessing.synchronize.Barrier", mine: int) -> None:
    store = Store(path)
    barrier.wait(60)
    put_pages(store, *files, watermark=NOON + minutes(mine), scope="guest")
    for value in range(5):
        sample = {"scope": "node", "namespace": "", "name": "n1", "metric": "cpu_cores", "at": NOON, "value": 1.0}
        put(store, "usage", sample, sample | {"name": f"n{mine}-{value}"})
    pod = {
        "uid": "p",
        "namespace": "",
        "pod": "p",
        "node": "n",
        "named": False,
        "phase": "",
        "labels": "",
        "started": NOON,
    }
    for minute in range(3):
        put(store, "placements", pod | {"at": NOON + minutes(minute)}, whole=False)


def test_four_at_once_lose_nothing_and_add_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"  # made by whichever process is first
    shared = page(tmp_path / "shared.json", [record(number) for number in range(500)])
    barrier = CONTEXT.Barrier(4)
    children = []
    for mine in range(4):
        own = page(tmp_path / f"own-{mine}.json", [record(1000 * (mine + 1) + number) for number in range(100)])
        children.append(CONTEXT.Process(target=_collect, args=(path, [shared, own], barrier, mine)))
    for child in children:
        child.start()
    for child in children:
        child.join(120)
    assert [child.exitcode for child in children] == [0, 0, 0, 0]
    store = Store(path)
    expected = {f"{n:032x}" for n in range(500)} | {
        f"{1000 * (m + 1) + n:032x}" for m in range(4) for n in range(100)
    }
    found = [text for (text,) in select(store, "SELECT activation_id FROM activations")]
    assert len(found) == len(expected)
    assert set(found) == expected
    assert len(select(store, "SELECT DISTINCT ON (name) name FROM usage")) == 21
    assert len(select(store, "FROM usage")) == 21
    assert select(store, "SELECT uid, last_seen FROM placements") == [("p", NOON + minutes(2))]
    assert store.read(lambda con: queries.watermark(con, "east", "activations", "guest")) == NOON + minutes(3)


def test_a_reader_beside_writers_sees_whole_batches(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")
    batch = Batch(
        "activations",
        rows=rows("activations", *({"activation_id": str(n), "function": "f", "start": NOON} for n in range(1000))),
    )
    writer = CONTEXT.Process(target=_write, args=(store, batch))
    writer.start()
    seen = set()
    while writer.is_alive():
        seen |= set(select(store, "SELECT cluster, count(*) FROM activations GROUP BY cluster"))
    writer.join()
    assert writer.exitcode == 0
    assert {count for _, count in seen} <= {1000}
    assert select(store, "SELECT count(*) FROM activations") == [(8000,)]


def _write(store: Store, batch: Batch) -> None:
    for number in range(8):
        assert ingest(store, f"c{number}", batch, collected=NOON, overlap=OVERLAP) == Written(rows=1000)
