"""Stored decisions as a serving process reads them, beside a writer that holds the store."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from featurestore.store.decision import Decision
from featurestore.store.decisions import Spool, flush
from featurestore.store.duck import Store
from jobs.config import Settings
from jobs.service import history
from jobs.service.history import History
from pipeline.errors import Temporary
from tests.support.service import AT


@contextmanager
def busy(store: Store) -> Iterator[None]:
    """Hold the store as a long write does."""
    holding, done = threading.Event(), threading.Event()

    def work(_: Any) -> None:
        holding.set()
        done.wait(60)

    writer = threading.Thread(target=store.write, args=[work])
    writer.start()
    try:
        assert holding.wait(60)
        yield
    finally:
        done.set()
        writer.join(60)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    store, spool = Store(tmp_path / "db"), Spool(tmp_path / "handed")
    spool.append(
        [Decision(name, AT + timedelta(minutes=number), "c1", "ns", "p", "f", "prefer", "v", True, "patched",
                  {"reasons": [name]}) for number, name in enumerate(["d1", "d2"])]
    )  # fmt: skip
    spool.close()
    flush(store, tmp_path / "handed")
    monkeypatch.setattr(history, "PATIENCE", timedelta(seconds=0.2))
    return History(Settings.model_validate({"store": {"path": tmp_path / "db", "spool": tmp_path / "spool"}}))


def names(rows: Any) -> list[str]:
    return [row["decision"] for row in rows]


def test_while_the_store_is_busy_a_question_is_answered_as_before_and_a_new_one_with_none(
    kept: History, tmp_path: Path
) -> None:
    assert names(kept.read({"cluster": "c1"}, 10)) == ["d2", "d1"]
    with busy(Store(tmp_path / "db")):
        assert names(kept.read({"cluster": "c1"}, 10)) == ["d2", "d1"]
        assert names(kept.read({"cluster": "c1"}, 1)) == []
        assert names(kept.read({"cluster": "c2"}, 10)) == []
    assert names(kept.read({"cluster": "c1"}, 1)) == ["d2"]


def test_one_decision_comes_with_its_document_and_a_busy_store_is_said(kept: History, tmp_path: Path) -> None:
    found = kept.one("d1")
    assert found is not None
    assert (found["at"], found["mode"]) == (AT, "prefer")
    assert msgspec.json.decode(msgspec.json.encode(found["document"])) == {"reasons": ["d1"]}
    assert kept.one("d3") is None
    with busy(Store(tmp_path / "db")), pytest.raises(Temporary, match="db: held by another process"):
        kept.one("d1")


def test_without_a_store_nothing_is_known_and_none_is_made(tmp_path: Path) -> None:
    kept = History(Settings.model_validate({"store": {"path": tmp_path / "db", "spool": tmp_path / "spool"}}))
    assert (kept.read({}, 10), kept.one("d1")) == ((), None)
    assert not (tmp_path / "db").exists()
