"""The store's helper: who may open the file, what is refused in one line, and what a transaction leaves behind."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest
from structlog.testing import capture_logs

from featurestore.store import duck, migrations
from featurestore.store.duck import Store, staging
from pipeline.errors import BadInput, Damaged, Permanent, Temporary
from tests.support.full import files_no_longer_than
from tests.support.stores import select

pytestmark = pytest.mark.usefixtures("made_anew")

_HOLD = """
import sys, time, duckdb
con = duckdb.connect(sys.argv[1], read_only=sys.argv[2] == "read")
print("held", flush=True)
sys.stdin.readline()
con.close()
"""


@contextmanager
def held(path: Path, how: str = "write") -> Iterator[subprocess.Popen[str]]:
    """Another process that has the file open until its input ends."""
    command = [sys.executable, "-c", _HOLD, str(path), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "held\n"
        try:
            yield other
        finally:
            other.stdin.close()


def remember(text: str) -> duck.Callable[[duckdb.DuckDBPyConnection], object]:
    return lambda con: con.execute("INSERT INTO watermarks VALUES ('c', ?, '', now())", [text])


def remembered(store: Store) -> list[str]:
    rows = store.read(lambda con: con.execute("SELECT source FROM watermarks ORDER BY source").fetchall())
    return [source for (source,) in rows]


def test_a_new_file_has_the_newest_schema_and_every_migration_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")
    applied = store.read(lambda con: con.execute("SELECT version FROM schema_version ORDER BY version").fetchall())
    assert applied == [(number,) for number in range(1, migrations.newest() + 1)]
    assert [number for number, _ in migrations.scripts()] == [number for (number,) in applied]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.duckdb"]


def test_between_the_calls_of_a_session_the_file_is_free_for_another_process(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb", deadline=timedelta(seconds=0.2))
    with store.session() as session:
        session.write(remember("one"))
        with held(store.path), pytest.raises(Temporary):
            session.read(lambda con: None)
        store.write(remember("two"))
        with pytest.raises(KeyError):
            session.write(lambda con: {}["stop"])
        assert remembered(session) == ["one", "two"]
        session.write(remember("three"))
    assert remembered(store) == ["one", "three", "two"]


def test_nothing_of_a_failed_transaction_stays(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")
    store.write(remember("kept"))

    def fail(con: duckdb.DuckDBPyConnection) -> None:
        remember("gone")(con)
        raise KeyError("stop")

    with pytest.raises(KeyError):
        store.write(fail)
    assert remembered(store) == ["kept"]


def test_a_statement_that_is_wrong_does_not_spoil_the_next_transaction(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")
    with pytest.raises(duckdb.CatalogException):
        store.write(lambda con: con.execute("SELECT * FROM nowhere"))
    store.write(remember("after"))
    assert remembered(store) == ["after"]


def test_reading_cannot_write(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")
    with pytest.raises(duckdb.InvalidInputException, match="read-only"):
        store.read(remember("never"))


def test_waits_for_another_process_and_then_goes_on(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb", timedelta(seconds=30))
    store.write(remember("first"))
    with held(store.path) as other:
        done: list[str] = []
        thread = threading.Thread(target=lambda: done.append(str(store.write(remember("second")))))
        thread.start()
        time.sleep(0.1)
        assert not done
        assert other.stdin is not None
        other.stdin.close()
        thread.join(30)
    assert remembered(store) == ["first", "second"]


@pytest.mark.parametrize(("how", "action"), [("write", "read"), ("write", "write"), ("read", "write")])
def test_after_the_deadline_one_line_says_who_is_waited_for(tmp_path: Path, how: str, action: str) -> None:
    store = Store(tmp_path / "s.duckdb", timedelta(seconds=0.2))
    store.write(remember("first"))
    with held(store.path, how), pytest.raises(Temporary) as caught:
        getattr(store, action)(lambda con: None)
    assert str(caught.value) == f"{store.path}: held by another process for longer than 0.2 s"
    assert caught.value.reason == "locked"


def test_readers_in_several_processes_do_not_wait_for_each_other(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb", timedelta(seconds=0.2))
    store.write(remember("first"))
    with held(store.path, "read"):
        assert remembered(store) == ["first"]


def test_threads_take_turns_with_one_file_under_two_names(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")
    store.write(lambda con: con.execute("CREATE TABLE counter AS SELECT 0 AS n"))
    (tmp_path / "link").symlink_to(tmp_path)
    other = Store(tmp_path / "link" / "s.duckdb")

    def count(mine: Store) -> None:
        for _ in range(5):
            mine.write(lambda con: con.execute("UPDATE counter SET n = n + 1"))

    threads = [threading.Thread(target=count, args=(mine,)) for mine in (store, other, store, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.read(lambda con: con.execute("SELECT n FROM counter").fetchall()) == [(20,)]


def test_holding_the_file_long_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duck, "HOLD", timedelta(0))
    with capture_logs() as logs:
        Store(tmp_path / "s.duckdb").write(remember("x"))
    assert [entry["event"] for entry in logs] == ["store held long"]


def one_line(error: pytest.ExceptionInfo[BadInput], path: Path) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert text.startswith(f"{path}: ")
    return text.removeprefix(f"{path}: ")


@pytest.mark.parametrize("action", ["read", "write"])
def test_a_file_that_is_no_database_is_named(tmp_path: Path, action: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello " * 5000)
    with pytest.raises(BadInput) as caught:
        getattr(Store(path), action)(lambda con: None)
    assert one_line(caught, path) == "not a DuckDB database"


@pytest.mark.parametrize("left", [1, 5000, 0.5])
def test_a_truncated_file_is_named(tmp_path: Path, left: float) -> None:
    path = tmp_path / "s.duckdb"
    Store(path).write(
        lambda con: con.execute("CREATE TABLE big AS SELECT range AS n, range::VARCHAR t FROM range(9999)")
    )
    size = path.stat().st_size
    os.truncate(path, int(left * size) if isinstance(left, float) else left)
    with pytest.raises(BadInput) as caught:
        Store(path).read(lambda con: con.execute("SELECT sum(n) FROM big").fetchall())
    assert "database" in one_line(caught, path)


@pytest.mark.parametrize("action", ["read", "write"])
def test_a_damaged_block_is_told_as_a_damaged_database(tmp_path: Path, action: str) -> None:
    path = tmp_path / "s.duckdb"
    Store(path).write(lambda con: con.execute("CREATE TABLE big AS SELECT uuid()::VARCHAR AS t FROM range(99999)"))
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 4)
        file.write(b"\xff" * (path.stat().st_size // 2))
    with pytest.raises(Damaged) as caught:
        getattr(Store(path), action)(lambda con: con.execute("SELECT max(t) FROM big").fetchall())
    assert one_line(caught, path).startswith("a damaged DuckDB database (Corrupt database file: ")


@pytest.mark.parametrize("action", ["read", "write"])
@pytest.mark.parametrize(
    "made",
    [
        "CREATE TABLE invoices (a INTEGER)",
        "CREATE TABLE activations (a INTEGER)",
        "CREATE SCHEMA sales; CREATE TABLE sales.invoices (a INTEGER)",
        "CREATE VIEW one AS SELECT 1 AS a",
        "CREATE TABLE schema_version AS SELECT 14 AS version, 'theirs' AS script",
        "CREATE TABLE schema_version AS SELECT '1.2' AS version, now() AS applied",
    ],
)
def test_a_database_of_somebody_else_is_refused_and_left_as_it_is(tmp_path: Path, made: str, action: str) -> None:
    path = tmp_path / "other.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute(made)
    before = path.read_bytes()
    with pytest.raises(BadInput) as caught:
        getattr(Store(path), action)(lambda con: None)
    assert one_line(caught, path) == "a DuckDB file, but no store of this product"
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["other.duckdb"]


def test_a_database_without_tables_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    duckdb.connect(str(path)).close()
    store = Store(path)
    assert remembered(store) == []
    store.write(remember("first"))
    assert remembered(store) == ["first"]


@pytest.mark.parametrize("rows", [20, 400_000])
def test_a_full_disk_is_one_line_and_costs_nothing_that_was_committed(tmp_path: Path, rows: int) -> None:
    store = Store(tmp_path / "s.duckdb")
    store.write(remember("first"))
    with pytest.raises(Permanent) as caught, files_no_longer_than(512 if rows == 20 else store.path.stat().st_size):
        store.write(
            lambda con: con.execute("CREATE TABLE big AS SELECT uuid()::VARCHAR t FROM range(?)", [rows]).fetchall()
        )
    assert "\n" not in str(caught.value)
    assert str(store.path) in str(caught.value)
    store.write(remember("second"))
    assert remembered(store) == ["first", "second"]


def test_a_full_disk_or_memory_while_preparing_is_one_line(tmp_path: Path) -> None:
    sorting = "CREATE TEMP TABLE big AS SELECT uuid()::VARCHAR t FROM range(1000000) ORDER BY t"
    with pytest.raises(Permanent) as caught, staging() as con:
        con.execute("SET memory_limit = '20MB'")
        con.execute(sorting)
    assert caught.value.reason == "out_of_memory"
    with pytest.raises(Permanent) as caught, files_no_longer_than(4096), staging(tmp_path / "spill") as con:
        con.execute("SET memory_limit = '20MB'")
        con.execute(sorting)
    assert str(tmp_path / "spill") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("action", ["read", "write"])
def test_a_directory_is_no_store(tmp_path: Path, action: str) -> None:
    with pytest.raises(BadInput) as caught:
        getattr(Store(tmp_path), action)(lambda con: None)
    assert one_line(caught, tmp_path) == "is a directory, not a DuckDB file"


@pytest.mark.parametrize("action", ["read", "write"])
def test_a_pipe_is_no_store_and_nobody_waits_for_it(tmp_path: Path, action: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match=f"{tmp_path}/pipe: is a pipe or a device, not a DuckDB file"):
        getattr(Store(tmp_path / "pipe"), action)(lambda con: None)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "s.duckdb"
    with pytest.raises(BadInput) as caught:
        Store(path).write(lambda con: None)
    assert one_line(caught, path) == f"no such directory as {path.parent}"


def test_a_directory_that_cannot_be_written_is_said() -> None:
    path = Path("/proc/s.duckdb")  # not even root may create a file there
    with pytest.raises(BadInput) as caught:
        Store(path).write(lambda con: None)
    assert "cannot be opened for writing" in one_line(caught, path)


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")
    store.write(lambda con: con.execute("INSERT INTO schema_version VALUES (9001, now())"))
    for action in (store.read, store.write):
        with pytest.raises(BadInput) as caught:
            action(lambda con: None)
        assert "written by a newer version (schema 9001" in one_line(caught, store.path)


def test_an_older_schema_is_brought_up_to_date_with_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE schema_version (version INTEGER NOT NULL, applied TIMESTAMPTZ NOT NULL)")
        con.execute(migrations.scripts()[0][1])
        con.execute("INSERT INTO schema_version VALUES (1, now())")
        con.execute("INSERT INTO watermarks VALUES ('c', 'old', '', now())")
    store = Store(path)
    assert remembered(store) == ["old"]
    assert store.read(migrations.version) == migrations.newest()
    assert store.read(lambda con: con.execute("SELECT count(*) FROM pairs").fetchall()) == [(0,)]


def test_a_migration_that_fails_leaves_the_older_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "s.duckdb")
    store.write(remember("kept"))
    known = migrations.scripts()
    number = migrations.newest() + 1
    wrong = (*known, (number, "CREATE TABLE half (a INTEGER)"), (number + 1, "CREATE TABLE half (b INTEGER)"))
    monkeypatch.setattr(migrations, "scripts", lambda folder="": wrong)
    with pytest.raises(duckdb.CatalogException):
        store.write(lambda con: None)
    monkeypatch.undo()
    assert store.read(migrations.version) == number - 1
    tables = store.read(lambda con: con.execute("SELECT table_name FROM duckdb_tables()").fetchall())
    assert ("half",) not in tables
    assert remembered(store) == ["kept"]


def test_a_log_left_by_a_killed_writer_is_read(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")
    store.write(remember("before"))
    script = (
        "import duckdb, os, sys\n"
        "con = duckdb.connect(sys.argv[1])\n"
        "con.execute(\"INSERT INTO watermarks VALUES ('c', 'killed', '', now())\")\n"
        "os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(store.path)], check=False)
    assert killed.returncode == -9
    assert Path(f"{store.path}.wal").exists()
    assert remembered(store) == ["before", "killed"]


def test_after_each_of_many_parts_the_file_is_free_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks for it again at once keeps those waiting who ask ten times a second."""
    store = Store(tmp_path / "s.duckdb")
    write, times = Store.write, list[float]()

    def timed(self: Store, work: Callable[[duckdb.DuckDBPyConnection], object]) -> object:
        times.append(time.monotonic())
        found = write(self, work)
        times.append(time.monotonic())
        return found

    monkeypatch.setattr(Store, "write", timed)
    store.write_each(
        lambda con, number=number: con.execute("INSERT INTO saving VALUES ('c', 'm', ?, ?)", [number, number])
        for number in range(3)
    )
    assert select(store, "SELECT first FROM saving ORDER BY 1") == [(0,), (1,), (2,)]
    assert min(after - before for before, after in zip(times[1::2], times[2::2], strict=False)) >= duck.PAUSE


def test_one_thread_writes_and_then_as_many_as_before() -> None:
    def threads() -> object:
        return con.execute("SELECT current_setting('threads')").fetchall()

    with staging(threads=3) as con:
        with pytest.raises(KeyError), duck.one_thread(con):
            assert threads() == [(1,)]
            raise KeyError
        assert threads() == [(3,)]
