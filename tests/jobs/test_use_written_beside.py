"""What activations used, written while victims are fitted: all of it is there, once, whatever becomes of the fits."""

import datetime as dt
import threading
from functools import partial

import pytest

from featurestore.store import queries, use
from featurestore.store.duck import Store
from jobs import beside, learn
from jobs.config import Settings, StoreSettings
from pipeline.errors import Temporary
from tests.featurestore.store.test_use_of_activations import used
from tests.support.history import BEGIN, fill, history
from tests.support.stores import select

NOW = BEGIN + dt.timedelta(hours=36)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(use, "PART", 10)
    return Store(tmp_path / "history.duckdb")


def numbers(store):
    return [number for (number,) in select(store, "SELECT activation_id::INT FROM activation_use ORDER BY ALL")]


def stored(store):
    return store.read(lambda con: queries.arrow(con, 'SELECT * FROM activation_use ORDER BY "start", activation_id'))


def test_all_parts_but_the_last_are_written_on_leaving(store):
    with beside.writing(store, "east") as keep:
        last = keep(used(*range(35)))
    assert numbers(store) == list(range(30))
    assert last.equals(used(*range(30, 35)))
    with beside.writing(store, "east") as keep:
        assert keep(used(40, 41)).equals(used(40, 41)), "no more than a part"
    assert numbers(store) == list(range(30))


def test_where_the_fits_fail_no_further_part_is_begun(store, monkeypatch):
    """The part that is being written when they do goes on once the failure is known."""

    class Known(threading.Event):
        def set(self):
            super().set()
            failed.set()

    def failing(con, cluster, rows):
        written.append(rows.num_rows)
        begun.set()
        assert failed.wait(60)
        return write(con, cluster, rows)

    write, written = use.write, []
    begun, failed = threading.Event(), threading.Event()
    monkeypatch.setattr(beside, "Event", Known)
    monkeypatch.setattr(use, "write", failing)
    with pytest.raises(KeyError), beside.writing(store, "east") as keep:
        keep(used(*range(35)))
        assert begun.wait(60)
        raise KeyError("fits")
    assert written == [10]
    assert numbers(store) == list(range(10))


def test_what_the_file_was_held_for_too_long_for_is_written_on_leaving(store, monkeypatch):
    write, asked = Store.write, threading.Event()

    def held(self, work, prepared=None):
        if not asked.is_set():
            asked.set()
            raise Temporary("store", "locked", "held by another process")
        return write(self, work, prepared)

    store.write(lambda con: None)
    monkeypatch.setattr(Store, "write", held)
    with beside.writing(store, "east") as keep:
        keep(used(*range(35)))
        assert asked.wait(60)
    assert numbers(store) == list(range(30))


def test_what_cannot_be_written_is_said(store, monkeypatch):
    def full(con, cluster, rows):
        raise OSError("disk full")

    monkeypatch.setattr(use, "write", full)
    with pytest.raises(OSError, match="disk full"), beside.writing(store, "east") as keep:
        keep(used(*range(35)))


def test_a_run_that_died_after_it_was_written_is_made_good_by_the_next(tmp_path, store, monkeypatch):
    settings = Settings(store=StoreSettings(path=store.path, snapshot=tmp_path / "snapshot"))
    fill(store, history(hours=4))
    run = partial(learn.run, settings, "c1", store=store)

    def die(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as dying, pytest.raises(KeyboardInterrupt):
        dying.setattr(learn, "conclude", die)
        run(now=lambda: NOW)
    written = stored(store)
    assert written.num_rows % 10 == 0 < written.num_rows
    assert not select(store, "SELECT model FROM models")
    first = run(now=lambda: NOW)
    kept = stored(store)
    assert kept.num_rows == first.activations
    assert kept.slice(0, written.num_rows).equals(written)
    run(now=lambda: NOW + dt.timedelta(minutes=15), full=True)
    assert stored(store).equals(kept)
