"""Consistent regions in the store: the last state of each, and every drain and reset once."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from featurestore.store import assemble, queries
from featurestore.store import regions as stored
from featurestore.store.duck import Store
from featurestore.store.ingest import Written, ingest
from pipeline.collectors import regions
from pipeline.records import Refusal
from tests.pipeline.test_regions_collector import STATUS, listing, resource

AT = datetime(2026, 3, 1, tzinfo=UTC)


def bring(store: Store, at: datetime, *things: Any, cluster: str = "c1") -> Written:
    batch = regions.collect(listing(*things), at)
    return ingest(store, cluster, batch, collected=at, overlap=timedelta(0))


def states(store: Store) -> list[tuple[str, str, int, str]]:
    rows = store.read(stored.current).to_pylist()
    return [(row["cluster"], row["stream_job"], row["region"], row["state"]) for row in rows]


def spans(store: Store) -> list[tuple[str, int, datetime, datetime]]:
    query = "SELECT kind, seq_id, started, ended FROM region_spans ORDER BY started, kind"
    return store.read(lambda con: con.execute(query).fetchall())


def test_the_last_list_stands_and_what_is_gone_goes(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")
    assert bring(store, AT, resource(0, STATUS), resource(1, STATUS)).rows == 4
    assert states(store) == [("c1", "j", 0, "DRAINING"), ("c1", "j", 1, "DRAINING")]
    bring(store, AT, resource(0), cluster="c2")
    bring(store, AT + timedelta(minutes=1), resource(0, STATUS | {"state": "PROCESSING"}))
    assert states(store) == [("c1", "j", 0, "PROCESSING"), ("c2", "j", 0, "STARTED")]


def test_the_same_list_again_adds_nothing_and_an_older_one_changes_no_state(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")
    bring(store, AT, resource(0, STATUS))
    assert bring(store, AT, resource(0, STATUS)).rows == 0
    assert bring(store, AT - timedelta(minutes=1), resource(0, STATUS | {"state": "PROCESSING"})).rows == 0
    assert states(store) == [("c1", "j", 0, "DRAINING")]


def test_each_drain_and_reset_is_kept_once_with_its_times(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")
    bring(store, AT, resource(0, STATUS))
    more = {
        "recentDrains": [*STATUS["recentDrains"], {"seqId": 8, "startedAt": 1772323210000, "milliseconds": 1500}],
        "recentResets": [{"seqId": 8, "startedAt": 1772323220000, "milliseconds": 250}],
    }
    for _ in range(2):
        bring(store, AT + timedelta(minutes=1), resource(0, STATUS | more))
    began = datetime(2026, 3, 1, tzinfo=UTC)
    assert spans(store) == [
        ("drain", 7, began - timedelta(seconds=1), began),
        ("drain", 8, began + timedelta(seconds=10), began + timedelta(seconds=11.5)),
        ("reset", 8, began + timedelta(seconds=20), began + timedelta(seconds=20.25)),
    ]


def test_a_region_that_could_not_be_read_is_not_gone(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")
    bring(store, AT, resource(0, STATUS), resource(1, STATUS))
    batch = regions.collect(listing(resource(0, STATUS)), AT + timedelta(minutes=1))
    from dataclasses import replace

    spared = replace(batch, refused=(Refusal("streamscrs/streams/j-cr1", "odd"),))
    ingest(store, "c1", spared, collected=AT + timedelta(minutes=1), overlap=timedelta(0))
    assert len(states(store)) == 2


def test_the_snapshot_holds_them_and_old_drains_are_deleted(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")
    bring(store, AT, resource(0, STATUS))
    known = store.read(lambda con: assemble.snapshot(con, AT))
    [row] = known["regions"].to_pylist()
    assert (row["cluster"], row["stream_job"], row["average_drain_ms"], row["pes"]) == ("c1", "j", 1200, 2)
    retention = queries.Retention(activations=timedelta(days=1))
    gone = store.write(lambda con: queries.retain(con, AT + timedelta(days=2), retention))
    assert gone["region_spans"] == 1
