"""What is read from the store: windows, watermarks, health, retention."""

from pathlib import Path

import pytest

from featurestore.store import queries, windows
from featurestore.store.duck import Store
from featurestore.store.ingest import ingest
from featurestore.store.queries import Retention, Run
from pipeline.records import Batch, Window
from tests.support.stores import NOON, minutes, page, put, put_pages, record, select


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "s.duckdb")


def test_a_window_of_activations_is_half_open_and_in_order(store: Store, tmp_path: Path) -> None:
    put_pages(store, page(tmp_path / "p.json", [record(number) for number in (60, 0, 59, 30)]))
    found = windows.copy(store, "east", Window(NOON, NOON + minutes(1)))["activations"]
    assert [int(text, 16) for text in found["activation_id"].to_pylist()] == [0, 30, 59]
    assert windows.copy(store, "west", Window(NOON, NOON + minutes(1)))["activations"].num_rows == 0


def test_a_window_in_slices_is_the_window_in_one_piece(store: Store, tmp_path: Path) -> None:
    names = [f"{second * 7919 % 10007:05d}" for second in range(600)]
    records = [
        record(second // 3, activationId=name, annotations=[{"key": "path", "value": f"guest/f{second % 7}"}])
        for second, name in enumerate(names)
    ]  # three at a time, their ids in no order
    put_pages(store, page(tmp_path / "p.json", records[::-1]))
    span = Window(NOON - minutes(1), NOON + minutes(60))
    whole = windows.copy(store, "east", span)["activations"]
    sliced = windows.copy(store, "east", span, 50)["activations"]
    assert sliced["function"].num_chunks == 4  # 180 runs a minute
    assert sliced.to_pylist() == whole.to_pylist()
    wanted = sorted((second // 3, name, f"guest/f{second % 7}") for second, name in enumerate(names))
    began = [round((start - NOON).total_seconds()) for start in sliced["start"].to_pylist()]
    found = zip(began, sliced["activation_id"].to_pylist(), sliced["function"].to_pylist(), strict=True)
    assert list(found) == wanted


def test_a_window_of_placements_holds_every_life_that_overlaps_it(store: Store) -> None:
    pod = {"namespace": "", "pod": "", "node": "n", "named": False, "phase": "Running", "labels": "", "at": NOON}
    lives = {
        "before": (0, 10),
        "into": (0, 11),
        "inside": (12, 13),
        "out of": (19, 30),
        "after": (20, 30),
        "open": (5, None),
    }
    put(
        store,
        "placements",
        *(
            pod | {"uid": uid, "started": NOON + minutes(a), "ended": None if b is None else NOON + minutes(b)}
            for uid, (a, b) in lives.items()
        ),
    )
    found = store.read(lambda con: queries.placements(con, "east", NOON + minutes(10), NOON + minutes(20)))
    assert sorted(found["uid"].to_pylist()) == ["inside", "into", "open", "out of"]


def test_watermarks_never_go_back(store: Store) -> None:
    def move(at: int) -> object:
        return store.write(lambda con: queries.advance(con, "east", "usage", "node", NOON + minutes(at)))

    assert store.read(lambda con: queries.watermark(con, "east", "usage", "node")) is None
    for at in (0, 5, 3):
        move(at)
    assert store.read(lambda con: queries.watermark(con, "east", "usage", "node")) == NOON + minutes(5)
    assert store.read(lambda con: queries.watermark(con, "east", "usage", "pod")) is None
    assert len(select(store, "FROM watermarks")) == 1


def test_health_of_each_source(store: Store) -> None:
    def tell(con: queries.DuckDBPyConnection) -> None:
        for started, rows, outcome, reason in (
            (0, 7, "ok", ""),
            (5, 2, "partial", "refused"),
            (9, 0, "failed", "timeout"),
        ):
            at = NOON + minutes(started)
            queries.record_run(con, Run("east", "usage", at, at + minutes(1), rows, 1, outcome, reason, "why"))
        queries.advance(con, "east", "usage", "node", NOON + minutes(4))
        queries.advance(con, "east", "usage", "pod", NOON + minutes(3))
        queries.advance(con, "east", "nodes", "", NOON)

    store.write(tell)
    nodes, usage = store.read(queries.health).to_pylist()
    assert usage == {
        "cluster": "east",
        "source": "usage",
        "last_success": NOON + minutes(6),
        "last_attempt": NOON + minutes(10),
        "outcome": "failed",
        "reason": "timeout",
        "rows": 0,
        "refused": 1,
        "watermark": NOON + minutes(3),
        "rows_total": 9,
        "errors_total": 2,
    }
    assert (nodes["source"], nodes["watermark"], nodes["last_attempt"], nodes["rows_total"]) == (
        "nodes",
        NOON,
        None,
        0,
    )


def test_what_is_older_than_it_is_kept_goes(store: Store, tmp_path: Path) -> None:
    put_pages(store, page(tmp_path / "p.json", [record(0), record(60)]))
    sample = {"scope": "node", "namespace": "", "name": "n", "metric": "m", "value": 1.0}
    put(store, "usage", sample | {"at": NOON}, sample | {"at": NOON + minutes(1)})
    pod = {
        "namespace": "",
        "pod": "",
        "node": "n",
        "named": False,
        "phase": "",
        "labels": "",
        "at": NOON,
        "started": NOON,
    }
    put(store, "placements", pod | {"uid": "ended", "ended": NOON}, pod | {"uid": "alive"})
    keep = Retention(*[minutes(60)] * 4)
    gone = store.write(lambda con: queries.retain(con, NOON + minutes(60.5), keep))
    assert {table: count for table, count in gone.items() if count} == {"activations": 1, "usage": 1, "placements": 1}
    assert [int(text, 16) for (text,) in select(store, "SELECT activation_id FROM activations")] == [60]
    assert select(store, "SELECT uid FROM placements") == [("alive",)]


def test_an_old_history_that_is_imported_is_kept_as_long_from_its_import_on(store: Store, tmp_path: Path) -> None:
    files = (page(tmp_path / "p.json", [record(0), record(60)]),)
    brought = NOON + minutes(600)
    ingest(store, "east", Batch("activations", files=files), collected=brought, overlap=minutes(10))
    keep = Retention(*[minutes(60)] * 4)
    assert store.write(lambda con: queries.retain(con, brought + minutes(59), keep))["activations"] == 0
    assert store.write(lambda con: queries.retain(con, brought + minutes(61), keep))["activations"] == 2


def test_functions_are_what_ran_in_pods(store: Store, tmp_path: Path) -> None:
    sequence = record(2, name="chain", annotations=[{"key": "kind", "value": "sequence"}])
    put_pages(
        store, page(tmp_path / "p.json", [record(1), sequence, record(3, end=0, annotations=[], name="trigger")])
    )
    assert store.read(lambda con: queries.functions(con, "east")) == ["guest/hello"]
