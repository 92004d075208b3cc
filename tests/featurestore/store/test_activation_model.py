"""Ingestion against a dictionary: any batches, in any order, leave what a dictionary would hold."""

import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from featurestore.store import ingest, openwhisk
from featurestore.store.duck import Store, staging
from featurestore.store.ingest import Written
from tests.support.stores import NOON, NOON_MS, page, put_pages, record, select

#: A record by its number (its id and start) and version, so that the same one may come with other content.
BATCHES = st.lists(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3)), max_size=12), min_size=1, max_size=3)


@settings(max_examples=15, deadline=None)
@given(batches=BATCHES, split=st.integers(1, 5), part=st.sampled_from([1, 3, 1000]))
def test_the_first_batch_with_an_id_wins_and_in_a_batch_the_last(
    batches: list[list[tuple[int, int]]], split: int, part: int
) -> None:
    model: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as place, mock.patch.object(ingest, "PART", part):
        store = Store(Path(place) / "s.duckdb")
        for batch in batches:
            records = [record(number, version=str(version)) for number, version in batch]
            files = [
                page(Path(place) / f"{first}.json", records[first : first + split])
                for first in range(0, len(records), split)
            ]
            fresh = {each["activationId"]: each["version"] for each in records if each["activationId"] not in model}
            written = put_pages(store, *files)
            assert written == Written(rows=len(fresh), duplicates=len(records) - len(fresh))
            model |= fresh
        stored = select(store, "SELECT activation_id, version FROM activations")
        assert sorted(stored) == sorted(model.items())


def test_a_long_history_takes_several_transactions_and_the_watermark_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "PART", 10)
    store = Store(tmp_path / "s.duckdb")
    starts = [*range(25), *range(25)]  # two records at each start are not parted
    history = [record(n, start=NOON_MS + start, end=NOON_MS + start) for n, start in enumerate(starts)]
    file = page(tmp_path / "p.json", history)
    whole, held = Store.write, []

    def write(self: Store, work: Any, prepared: Any = None) -> Any:
        held.append(
            select(self, "SELECT count(*) FROM activations") + select(self, "SELECT count(*) FROM watermarks")
        )
        return whole(self, work, prepared)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "write", write)
        assert put_pages(store, file, watermark=NOON) == Written(rows=50)
    assert held == [[(before,), (0,)] for before in (0, 10, 20, 30, 40)]
    assert put_pages(store, file, watermark=NOON) == Written(duplicates=50)
    assert select(store, "SELECT count(*), count(DISTINCT activation_id) FROM activations") == [(50, 50)]
    assert len(select(store, "FROM watermarks")) == 1


def test_rows_keep_the_order_of_files_and_records(tmp_path: Path) -> None:
    """The last of several is the last in this order, however many files are read at once."""
    files = [page(tmp_path / f"{n:03d}.json", [record(n * 50 + k) for k in range(50)]) for n in reversed(range(60))]
    with staging() as con:
        openwhisk.stage_files(con, files)
        ids = [int(text, 16) for (text,) in con.execute("SELECT activation_id FROM staged ORDER BY rowid").fetchall()]
    assert ids == [n * 50 + k for n in reversed(range(60)) for k in range(50)]
