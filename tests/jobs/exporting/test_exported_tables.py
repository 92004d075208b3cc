"""Exported Parquet is what learning reads: every row, where it belongs, whole days whatever happens meanwhile."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute
import pyarrow.dataset
import pyarrow.parquet
import pytest

from featurestore.exported import TABLES, UNKNOWN
from featurestore.store import windows
from featurestore.store.duck import Store
from jobs.cli import main
from jobs.exporting.parquet import export
from pipeline.errors import BadInput
from pipeline.records import Window
from tests.support.full import files_no_longer_than
from tests.support.history import BEGIN, fill, history

CLUSTER = "edge/1 north"
SPAN = Window(BEGIN - timedelta(days=2), BEGIN + timedelta(days=30))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """36 hours from a midnight on, with a run that names its node and one of a region's drains."""
    made = Store(tmp_path_factory.mktemp("store") / "history.duckdb")
    fill(made, history(an_hour=4), CLUSTER)

    def more(con: object) -> None:
        execute = con.execute  # type: ignore[attr-defined]
        execute(
            "INSERT INTO activations SELECT * REPLACE ('named' AS activation_id, 'n%/ 1' AS node) FROM activations"
            " LIMIT 1"
        )
        execute(
            "INSERT INTO usage VALUES ($1, 'pod', 'ns', 'stranger', 'cpu_cores', $2, 1),"
            " ($1, 'node', '', 'n0', 'cpu_cores', $2, 1)",
            [CLUSTER, BEGIN],
        )
        execute("INSERT INTO declared_profiles VALUES (?, 'guest/f0', '', 1, 2, 3, NULL, ?)", [CLUSTER, BEGIN])
        execute("INSERT INTO workflows VALUES (?, 'ns', 'w', ?, '{}')", [CLUSTER, BEGIN])

    made.write(more)
    return made


@pytest.fixture(scope="module")
def exported(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tables") / "it's here"
    export(store, directory)
    return directory


def read(directory: Path, table: str) -> pa.Table:
    """All rows of a table as any reader of Hive's partitions has them."""
    fields = pa.schema([("cluster", pa.string()), ("day", pa.string()), ("node", pa.string())])
    found = pa.dataset.dataset(directory / table, partitioning=pa.dataset.partitioning(fields, flavor="hive"))
    return found.to_table()


def ordered(rows: pa.Table, names: list[str]) -> list[dict[str, object]]:
    return sorted(rows.select(names).to_pylist(), key=repr)


@pytest.mark.parametrize("table", list(TABLES))
def test_what_is_read_back_is_what_learning_copies_out_of_the_store(store: Store, exported: Path, table: str) -> None:
    learned_from = windows.copy(store, CLUSTER, SPAN)[table]
    found = read(exported, table)
    names = list(learned_from.column_names)
    assert sorted(names) == sorted(name for name in TABLES[table].names if (table, name) != ("usage", "node"))
    assert ordered(found, names) == ordered(learned_from, names)
    assert found.num_rows > 0
    assert set(found["cluster"].to_pylist()) == {CLUSTER}
    for name in names:
        assert found.schema.field(name).type == TABLES[table].field(name).type


def test_a_directory_says_cluster_day_and_node(exported: Path) -> None:
    days = exported / "activations" / f"cluster={quote(CLUSTER, safe='')}"
    assert sorted(day.name for day in days.iterdir()) == ["day=2024-05-01", "day=2024-05-02"]
    assert sorted(node.name for node in (days / "day=2024-05-01").iterdir()) == [
        f"node={UNKNOWN}",
        "node=n%25%2F%201",
    ]
    own = read(exported, "activations").filter(pa.compute.equal(pa.compute.field("day"), "2024-05-02"))
    assert {at.date().isoformat() for at in own["start"].to_pylist()} == {"2024-05-02"}


def test_a_sample_is_where_its_pod_was(store: Store, exported: Path) -> None:
    nodes = {
        row["pod"]: row["node"] for row in windows.copy(store, CLUSTER, SPAN)["placements"].to_pylist()
    }  # each pod of this history lives once
    found = {(row["name"], row["node"]) for row in read(exported, "usage").to_pylist()}
    assert ("stranger", None) in found
    assert len(found) > 20
    assert all(nodes.get(name) == node for name, node in found)


def contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*.parquet"))
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def test_exporting_again_changes_nothing(store: Store, exported: Path) -> None:
    before = contents(exported)
    export(store, exported)
    assert contents(exported) == before
    assert [path.name for path in exported.iterdir() if path.name.startswith(".")] == []


def test_only_days_from_since_on_are_written_of_what_does_not_change(store: Store, tmp_path: Path) -> None:
    written = export(store, tmp_path, since=BEGIN + timedelta(days=1))
    days = {(path.parts[-3], path.name) for path, _ in written if path.name.startswith("day=")}
    assert {day for table, day in days if table in ("activations", "usage")} == {"day=2024-05-02"}
    assert ("placements", "day=2024-05-01") in days


def test_a_run_of_the_last_day_that_there_is(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")
    fill(store, history(an_hour=1), CLUSTER)
    last = datetime(9999, 12, 31, 23, 59, 58, tzinfo=UTC)
    one = 'UPDATE activations SET "start" = $at, "end" = $at WHERE rowid = (SELECT min(rowid) FROM activations)'
    store.write(lambda con: con.execute(one, {"at": last}))
    export(store, tmp_path / "out")
    [found] = (tmp_path / "out" / "activations").glob("**/day=9999-12-31/**/*.parquet")
    assert pa.parquet.read_table(found).num_rows == 1


KILLED = """
import os, signal, sys
from pathlib import Path
from featurestore.store.duck import Store
from jobs.exporting import parquet
put, seen = parquet._put, []
def dies(directory, place, made):
    seen.append(place)
    if len(seen) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    put(directory, place, made)
parquet._put = dies
parquet.export(Store(Path(sys.argv[1])), Path(sys.argv[2]))
"""


def test_an_export_that_is_killed_leaves_whole_days_and_the_next_one_mends(
    store: Store, exported: Path, tmp_path: Path
) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, store.path, tmp_path], check=False, timeout=120)
    assert done.returncode == -9
    assert (tmp_path / ".writing").is_dir()
    whole = contents(exported)
    left = {name: held for name, held in contents(tmp_path).items() if not name.startswith(".")}
    first = {name: held for name, held in whole.items() if "activations" in name and "day=2024-05-01" in name}
    assert left == first
    assert read(tmp_path, "activations").num_rows == sum(
        at.date().isoformat() == "2024-05-01" for at in read(exported, "activations")["start"].to_pylist()
    )
    export(store, tmp_path)
    assert contents(tmp_path) == whole


def test_a_day_that_was_moved_away_when_an_export_was_killed_comes_back(store: Store, tmp_path: Path) -> None:
    export(store, tmp_path)
    place = Path("usage") / f"cluster={quote(CLUSTER, safe='')}" / "day=2024-05-01"
    kept = contents(tmp_path / place)
    before = tmp_path / ".before" / quote(str(place), safe="")
    before.parent.mkdir()
    (tmp_path / place).rename(before)
    export(store, tmp_path, since=BEGIN + timedelta(days=1))  # which does not write that day
    assert contents(tmp_path / place) == kept
    assert not before.parent.exists()


def test_two_exports_do_not_write_one_directory(store: Store, tmp_path: Path) -> None:
    def again(_: object) -> None:
        with pytest.raises(BadInput, match="another export writes there"):
            export(store, tmp_path)

    assert export(store, tmp_path, since=datetime(2024, 5, 2, tzinfo=UTC), told=again)


def test_a_file_is_no_directory_to_export_to(store: Store, tmp_path: Path) -> None:
    (tmp_path / "tables").write_text("kept", "utf-8")
    with pytest.raises(BadInput, match=r"/tables: a file, where a directory to export to is wanted"):
        export(store, tmp_path / "tables")
    assert (tmp_path / "tables").read_text("utf-8") == "kept"


def test_a_full_disk_is_told_of_the_directory_and_costs_only_the_day_that_was_written(
    store: Store, tmp_path: Path
) -> None:
    export(store, tmp_path)
    kept = {each: contents(tmp_path / each) for each in TABLES}
    with pytest.raises(BadInput) as caught, files_no_longer_than(512):
        export(store, tmp_path)
    assert str(caught.value) == f"{tmp_path}: File too large"
    assert {each: contents(tmp_path / each) for each in TABLES} == kept
    assert not [each.name for each in tmp_path.iterdir() if each.name not in TABLES]


def test_a_cluster_that_is_not_known_is_refused_with_those_that_are(store: Store, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cluster 'moon': no history of it; there are edge/1 north"):
        export(store, tmp_path / "tables", clusters=["moon"])
    assert not (tmp_path / "tables").exists()


def test_the_command_names_what_it_wrote(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLOCATE_STORE__PATH", str(store.path))
    assert main(["export", "parquet", str(tmp_path / "tables"), "--since", "2024-05-02", "-o", "json"]) == 0
    said = capsys.readouterr()
    place = f"{tmp_path}/tables/workflows/cluster=edge%2F1%20north"
    assert f"{place}: 1 rows" in said.err.splitlines()
    assert {"file": place, "rows": 1} in json.loads(said.out)
    (tmp_path / "file").write_text("")
    assert main(["export", "parquet", str(tmp_path / "file")]) == 2
    assert f"{tmp_path}/file" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["export", "parquet", "to"], ["export", "openmetrics", "to"], ["learn"]])
def test_a_damaged_store_is_one_line_of_any_command_that_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "colocation.duckdb"
    fill(Store(path), history(an_hour=200), "edge")
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 4)
        file.write(b"\xff" * (path.stat().st_size // 2))
    assert main(command) == 2
    [said] = capsys.readouterr().err.splitlines()
    assert said.startswith(f"colocate: {path}: a damaged DuckDB database (Corrupt database file: ")
