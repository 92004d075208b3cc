"""The control store: many small writers, revisions, and one line for a file that is none."""

import sqlite3
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from featurestore.store import control, migrations
from featurestore.store.control import Conflict, Control, Document
from pipeline.errors import BadInput, Temporary
from tests.support.stores import NOON, minutes


@pytest.fixture
def store(tmp_path: Path) -> Control:
    return Control(tmp_path / "c.sqlite")


def test_documents_are_put_read_listed_and_deleted(store: Control) -> None:
    for name in ("b", "a"):
        store.write(lambda con, name=name: control.put(con, "intent", name, {"n": [1, None, "\u00e9"]}, NOON))
    store.write(lambda con: control.put(con, "pool", "a", [], NOON))
    assert store.write(lambda con: control.put(con, "intent", "a", {}, NOON + minutes(1))) == 2
    assert store.read(lambda con: control.listed(con, "intent")) == [
        Document("intent", "a", {}, NOON + minutes(1), 2),
        Document("intent", "b", {"n": [1, None, "\u00e9"]}, NOON, 1),
    ]
    assert store.write(lambda con: control.delete(con, "intent", "a"))
    assert not store.write(lambda con: control.delete(con, "intent", "a"))
    assert store.read(lambda con: control.get(con, "intent", "a")) is None


def test_a_document_changed_meanwhile_is_a_conflict(store: Control) -> None:
    first = store.write(lambda con: control.put(con, "intent", "a", 1, NOON, expected=0))
    store.write(lambda con: control.put(con, "intent", "a", 2, NOON, expected=first))
    with pytest.raises(Conflict, match=r"intent a: changed meanwhile \(revision 2, not 1\)"):
        store.write(lambda con: control.put(con, "intent", "a", 3, NOON, expected=first))
    found = store.read(lambda con: control.get(con, "intent", "a"))
    assert found is not None
    assert (found.body, found.revision) == (2, 2)


def test_settings_are_written_over(store: Control) -> None:
    assert store.read(lambda con: control.setting(con, "mode")) is None
    for value in ("observe", "prefer"):
        store.write(lambda con, value=value: control.set_setting(con, "mode", value))
    assert store.read(lambda con: control.setting(con, "mode")) == "prefer"


def test_nothing_of_a_failed_transaction_stays(store: Control) -> None:
    def fail(con: sqlite3.Connection) -> None:
        control.set_setting(con, "mode", "require")
        raise KeyError("stop")

    with pytest.raises(KeyError):
        store.write(fail)
    assert store.read(lambda con: control.setting(con, "mode")) is None


def test_many_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"  # made by whichever is first

    def count() -> None:
        for _ in range(10):
            Control(path).write(add)

    def add(con: sqlite3.Connection) -> None:
        known = control.get(con, "job", "counter")
        control.put(con, "job", "counter", (known.body if known else 0) + 1, NOON)

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Control(path).read(lambda con: control.get(con, "job", "counter"))
    assert found == Document("job", "counter", 80, NOON, 80)


def test_readers_do_not_wait_for_a_writer(store: Control) -> None:
    store.write(lambda con: control.set_setting(con, "mode", "observe"))

    def write(con: sqlite3.Connection) -> str | None:
        control.set_setting(con, "mode", "prefer")
        return Control(store.path, timedelta(seconds=0.1)).read(lambda other: control.setting(other, "mode"))

    assert store.write(write) == "observe"


def test_a_writer_that_waits_too_long_says_so(store: Control) -> None:
    impatient = Control(store.path, timedelta(seconds=0.1))

    def write(con: sqlite3.Connection) -> None:
        with pytest.raises(Temporary, match=r"c\.sqlite: locked for longer than 0\.1 s"):
            impatient.write(lambda other: control.set_setting(other, "a", "b"))

    store.write(write)


def test_a_file_that_is_no_control_store_is_named_in_one_line(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("hello " * 1000)
    places = {
        text: "not an SQLite database",
        tmp_path: "is a directory, not an SQLite file",
        tmp_path / "nowhere" / "c": f"no such directory as {tmp_path / 'nowhere'}",
        Path("/proc/c.sqlite"): "cannot be opened for writing",
    }
    for path, reason in places.items():
        with pytest.raises(BadInput) as caught:
            Control(path).read(lambda con: None)
        assert str(caught.value) == f"{path}: {reason}"


def test_a_newer_schema_is_refused(store: Control) -> None:
    store.write(lambda con: None)
    with sqlite3.connect(store.path) as con:
        con.execute("PRAGMA user_version = 9001")
    with pytest.raises(BadInput, match="written by a newer version"):
        store.read(lambda con: None)


def test_the_newest_schema_is_made_once(store: Control) -> None:
    for _ in range(2):
        [version] = store.read(lambda con: con.execute("PRAGMA user_version").fetchone())
        assert version == migrations.newest("control")
    assert store.read(lambda con: con.execute("PRAGMA journal_mode").fetchone()) == ("wal",)
