"""`colocate doctor`: each check on its own, whatever goes wrong in it."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from duckdb import DuckDBPyConnection

from featurestore.store import published, queries
from featurestore.store.duck import Store
from jobs import doctor, importing
from jobs.config import ClusterSettings, ReplicaSettings, Settings
from tests.support.history import fill, history
from tests.support.snapshots import snapshot

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_fault_of_ours_in_one_check_costs_only_that_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def broken(*_: object) -> None:
        raise RecursionError("a fault of ours")

    monkeypatch.setitem(doctor._SOURCES, "kubernetes", broken)
    found = list(doctor.examine(Settings(clusters=[ClusterSettings(name="c")]), NOW))
    assert [each.verdict for each in found if each.source == "kubernetes"] == ["failed"]
    assert {each.source for each in found} >= {"store", "kubernetes", "prometheus", "openwhisk"}


def _verdicts(settings: Settings) -> dict[tuple[str, str, str], tuple[str, str, str]]:
    found = doctor.examine(settings, NOW)
    return {(each.cluster, each.source, each.check): (each.verdict, each.said, each.fix) for each in found}


CLUSTERS = ("", "settings", "clusters")


def test_without_any_cluster_and_anything_known_something_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _verdicts(Settings())[CLUSTERS] == ("failed", "none is configured", "name one as [[clusters]]")


def test_where_history_came_from_files_only_what_is_known_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings()
    file = tmp_path / "h.csv"
    file.write_text("activation_id,function,start,end\n1,guest/a,2026-02-01T00:00:00Z,2026-02-01T00:00:01Z\n")
    importing.run(settings, "activations", [file], cluster="sim", now=lambda: NOW)
    found = _verdicts(settings)
    assert found[CLUSTERS] == ("ok", "none is configured; sim known from files", "")
    assert not [each for each in found.values() if each[0] == "failed"]
    assert found["", "store", "snapshot"][2] == "run colocate learn"


def test_a_replica_needs_no_cluster_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    replica = ReplicaSettings(writer="http://127.0.0.1:1")
    assert {key[1] for key in _verdicts(Settings(replica=replica))} == {"store", "writer"}


def test_a_history_that_is_none_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings()
    settings.store.path.write_bytes(b"no database" * 1000)
    assert [each for each, told in _verdicts(settings).items() if told[0] == "failed"] == [("", "store", "file")]


def test_a_database_of_somebody_else_is_told_once_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Settings().store.path
    with duckdb.connect(str(path)) as con:
        con.execute("CREATE TABLE activations (a INTEGER)")
    before = path.read_bytes()
    [broken] = [each for each in doctor.examine(Settings(), NOW) if each.verdict == "failed"]
    assert broken.said == f"{path}: a DuckDB file, but no store of this product"
    assert broken.fix == "correct store.path, or see the message"
    assert path.read_bytes() == before


def test_damage_of_what_was_collected_alone_is_told_with_what_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Settings().store.path
    fill(Store(path), history(an_hour=200), "edge")
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 4)
        file.write(b"\xff" * (path.stat().st_size // 2))
    [broken] = [each for each in doctor.examine(Settings(), NOW) if each.verdict == "failed"]
    assert "a damaged DuckDB database (Corrupt database file: " in broken.said
    assert broken.fix == "put a copy back in its place, or move it away: a new history begins then"


def test_each_damaged_file_is_told_with_what_mends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings()
    Store(settings.store.path).write(lambda con: con.execute("CREATE TABLE big AS SELECT range FROM range(99999)"))
    os.truncate(settings.store.path, 20_000)
    settings.store.snapshot.write_bytes(b"no snapshot")
    broken = [each for each in doctor.examine(settings, NOW) if each.verdict == "failed"]
    assert [(each.check, each.fix) for each in broken if each.source == "store"] == [
        ("file", "put a copy back in its place, or move it away: a new history begins then"),
        ("snapshot", "run colocate learn"),
    ]


@pytest.mark.parametrize(
    ("age", "said"),
    [
        (timedelta(minutes=3), "3 minutes old"),
        (timedelta(minutes=119), "119 minutes old"),
        (timedelta(hours=47), "47 hours old"),
        (timedelta(days=327), "327 days old"),
    ],
)
def test_the_age_of_the_snapshot_is_told_as_people_say_it(
    age: timedelta, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    published.write(snapshot(NOW - age, {}), Settings().store.snapshot)
    assert _verdicts(Settings())["", "store", "snapshot"][1].endswith(said)


@pytest.mark.parametrize(
    ("cluster", "outcome", "said"),
    [
        ("edge", "ok", ("warning", "run colocate collect")),
        ("edge", "failed", ("warning", "see the failures below, then run colocate collect")),
        ("gone", "ok", ("ok", "")),  # is not collected any more
    ],
)
def test_history_that_is_old_is_brought_up_to_date_by_what_collects_it(
    cluster: str, outcome: str, said: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings(clusters=[ClusterSettings(name="edge")])
    store = Store(settings.store.path, settings.store.deadline)
    old = datetime(2026, 2, 1, tzinfo=UTC)

    def write(con: DuckDBPyConnection) -> None:
        con.execute("INSERT INTO watermarks VALUES (?, 'nodes', '', ?)", [cluster, old])
        queries.record_run(con, queries.Run(cluster, "nodes", old, old, 5, 0, outcome, "", ""))

    store.write(write)
    verdict, _, fix = _verdicts(settings)[cluster, "nodes", "history"]
    assert (verdict, fix) == said


def test_learning_looks_at_some_activations_anew_and_adds_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings(clusters=[ClusterSettings(name="edge")])
    store = Store(settings.store.path, settings.store.deadline)

    def write(con: DuckDBPyConnection) -> None:
        for hour in (1, 2):
            at = datetime(2026, 2, 1, hour, tzinfo=UTC)
            for source in ("learn", "placements"):
                queries.record_run(con, queries.Run("edge", source, at, at, 1500))

    store.write(write)
    found = _verdicts(settings)
    assert found["edge", "learn", "history"][1] == "last run ok, 1,500 activations"
    assert found["edge", "placements", "history"][1] == "last run ok, 3,000 rows in all"
