"""The exported history: every kind of series from rows whose course over time is plain."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from featurestore.store import models, queries
from featurestore.store.duck import Store
from featurestore.store.models import Model
from jobs.cli import main
from jobs.exporting.history import export
from pipeline.errors import BadInput
from tests.support.snapshots import table

DAY = datetime(2026, 3, 1, tzinfo=UTC)
#: Late on the first day, so that the history goes on into the second.
START = DAY + timedelta(hours=23, minutes=30)
STEP = timedelta(minutes=10)


def minute(number: float) -> datetime:
    return START + timedelta(minutes=number)


def _fill(con: object) -> None:
    execute = con.execute  # type: ignore[attr-defined]
    for number, value in ((0, 1.0), (5, 3.0)):
        execute("INSERT INTO usage VALUES ('c1', 'node', '', 'n1', 'cpu_cores', ?, ?)", [minute(number), value])
    columns = "cluster, node, uid, valid_from, valid_to, node_type, ready, schedulable, cpu_cores, memory_bytes,"
    columns += " gpu_count, gpu_model, disk_type, labels, taints, addresses, conditions, capacity, allocatable"
    for since, until, ready, cores in ((minute(10), minute(35), True, 4.0), (minute(35), None, False, 8.0)):
        execute(
            f"INSERT INTO node_specs ({columns}) VALUES ('c1', 'n1', 'u', ?, ?, 't', ?, true, ?, 1e9, 0, '', '',"
            " '{}', '[]', '{}', '{}', '{}', '{}')",
            [since, until, ready, cores],
        )
    for number, outcome in ((1, "patched"), (11, "patched"), (31, "unchanged")):
        execute(
            "INSERT INTO decisions VALUES (?, ?, 'c1', 'ns', 'p', 'f', 'prefer', 'v', true, ?, ?)",
            [str(number), minute(number), outcome, '{"cause": "stale"}' if outcome == "unchanged" else "{}"],
        )
    for number, followed in ((1, True), (11, False), (31, False)):
        execute(
            "INSERT INTO decision_outcomes VALUES ('c1', ?, ?, 'u', 'n1', ?, NULL, ?, 5, 80, 100, ?)",
            [str(number), minute(number), minute(number), followed, minute(number)],
        )
    for number, outcome, rows in ((2, "ok", 100), (22, "failed", 0), (42, "ok", 50)):
        reason = "timeout" if outcome == "failed" else ""
        queries.record_run(
            con,  # type: ignore[arg-type]
            queries.Run("c1", "usage", minute(number), minute(number), rows, 0, outcome, reason),
        )
    for number, took in ((5, 1000), (15, 3000)):
        execute(
            "INSERT INTO region_spans VALUES ('c1', 'ns', 'j', 0, 'drain', ?, ?, ?)",
            [number, minute(number) - timedelta(milliseconds=took), minute(number)],
        )
    for number, latency in ((-20, 100.0), (-10, 200.0), (-5, 300.0), (25, 900.0)):  # the last is the model's to tell
        execute(
            'INSERT INTO activation_use (cluster, activation_id, start, "end", function, node, latency_ms)'
            " VALUES ('c1', ?, ?, ?, 'guest/f', 'n1', ?)",
            [str(number), minute(number) - timedelta(seconds=1), minute(number), latency],
        )
    for number, slowdown in ((20, 0.5), (40, 0.75)):
        pair = {"cluster": "c1", "victim": "v", "aggressor": "a", "node_type": "", "status": "observed",
                "slowdown": slowdown, "effective_overlaps": 40.0, "activations": 5}  # fmt: skip
        model = Model(f"m{number}", "c1", minute(number), metrics={"drift": {"v": slowdown}})
        models.save(con, model, {"pairs": table("pairs", [pair])})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = Store(tmp_path_factory.mktemp("history") / "s.duckdb")
    made.write(_fill)
    return made


@pytest.fixture(scope="module")
def files(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("exported")
    written = export(store, directory, most=10, step=STEP)
    assert [one.path.name for one in written] == ["2026-03-01.openmetrics", "2026-03-02.openmetrics"]
    return directory


def _course(files: Path, name: str, **labels: str) -> Mapping[float, float]:
    """Return value by minutes since START of the one series of *name* that has *labels*."""
    found: dict[float, float] = {}
    for path in sorted(files.iterdir()):
        for family in text_string_to_metric_families(path.read_text()):
            for sample in family.samples:
                if sample.name == f"colocation_{name}" and labels.items() <= sample.labels.items():
                    at = (float(sample.timestamp) - START.timestamp()) / 60
                    assert at not in found
                    found[at] = sample.value
    return found


def test_measured_load_stands_at_the_times_of_its_samples(files: Path) -> None:
    assert _course(files, "node_cpu_used_cores", node="n1") == {0: 1.0, 5: 3.0}


def test_nodes_are_what_they_were_listed_as_and_before_that_as_first_listed(files: Path) -> None:
    course = _course(files, "node_cpu_allocatable_cores", node="n1")
    assert course == {0: 4.0, 10: 4.0, 20: 4.0, 30: 4.0, 40: 8.0, 50: 8.0}
    assert _course(files, "nodes", state="ready") == dict.fromkeys((0, 10, 20, 30), 1.0)
    assert _course(files, "nodes", state="not_ready") == dict.fromkeys((40, 50), 1.0)


def test_a_model_speaks_until_the_next(files: Path) -> None:
    assert _course(files, "pair_slowdown_ratio") == {20: 0.5, 30: 0.5, 40: 0.75, 50: 0.75}
    assert _course(files, "function_drift") == {20: 0.5, 30: 0.5, 40: 0.75, 50: 0.75}
    assert _course(files, "model_info", model="m20") == {20: 1, 30: 1}


def test_before_the_first_model_run_times_are_told_by_the_hour(files: Path) -> None:
    """Of 100, 200 and 300 ms the median is 200 and the 95th percentile, between the last two, 290."""
    told = {"function": "guest/f", "node_type": "t"}
    median = _course(files, "function_latency_seconds", quantile="0.5", **told)
    assert median == dict.fromkeys((-30, -20, -10, 0, 10), 0.2)
    assert set(_course(files, "function_latency_seconds", quantile="0.95", **told).values()) == {0.29}


def test_decisions_add_up_over_days(files: Path) -> None:
    patched = _course(files, "decisions_total", outcome="patched", reason="none")
    assert patched == {10: 1, 20: 2, 30: 2, 40: 2, 50: 2}
    assert _course(files, "decisions_total", outcome="unchanged", reason="stale") == {40: 1, 50: 1}


def test_what_became_of_decisions_is_told_by_the_hour(files: Path) -> None:
    """Half past eleven is the history's first moment; the decision of one minute past midnight counts from one on."""
    for followed in ("yes", "no"):
        assert _course(files, "decided_pods", followed=followed) == {30: 1, 40: 1, 50: 1}
        assert _course(files, "decided_latency_ratio", followed=followed) == {30: 0.8, 40: 0.8, 50: 0.8}


def test_sources_are_told_of_run_by_run(files: Path) -> None:
    assert _course(files, "source_rows_total") == {10: 100, 20: 100, 30: 100, 40: 100, 50: 150}
    assert _course(files, "source_errors_total") == {10: 0, 20: 0, 30: 1, 40: 1, 50: 1}
    assert _course(files, "source_failing", reason="timeout") == {30: 1, 40: 1}
    success = _course(files, "source_last_success_timestamp_seconds")
    assert success == {at: minute(2 if at < 50 else 42).timestamp() for at in (10, 20, 30, 40, 50)}


def test_drains_have_the_mean_of_the_last_ten(files: Path) -> None:
    course = _course(files, "region_average_drain_time_milliseconds")
    assert course == {10: 1000, 20: 2000, 30: 2000, 40: 2000, 50: 2000}
    assert _course(files, "region_last_completed_drain_seq_id")[10] == 5


def test_a_part_of_the_history_counts_what_was_before_it(store: Store, tmp_path: Path) -> None:
    second = DAY + timedelta(days=1)
    [written] = export(store, tmp_path, most=10, step=STEP, since=second, until=second + timedelta(minutes=5))
    assert written.path.name == "2026-03-02.openmetrics"
    assert _course(tmp_path, "decisions_total", outcome="patched") == {30: 2}


@pytest.mark.parametrize(("since", "until"), [(400, None), (None, -400)])
def test_where_nothing_is_asked_for_no_day_is_looked_at(
    store: Store, tmp_path: Path, since: int | None, until: int | None
) -> None:
    days: list[int] = []
    begin, end = (None if each is None else DAY + timedelta(days=each) for each in (since, until))
    given = {"most": 10, "step": STEP, "since": begin, "until": end}
    assert export(store, tmp_path, **given, progress=lambda done, of: days.append(of)) == []  # type: ignore[arg-type]
    assert set(days) == {0}


@pytest.mark.parametrize(
    ("since", "until", "said"),
    [
        ("2026-03-02", "2026-03-01T23:00:00Z", "--since: 2026-03-02 is later than --until 2026-03-01T23:00:00Z"),
        ("2026-03-01T12:00:00Z", "2026-03-01T11:00:00Z", "is later than --until 2026-03-01T11:00:00Z"),
        ("2026-03-01T12:00:00", "2026-03-02", "--since: '2026-03-01T12:00:00' is no RFC 3339 time with a time zone"),
    ],
)
def test_a_window_that_is_none_is_refused(
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    since: str,
    until: str,
    said: str,
) -> None:
    monkeypatch.setenv("COLOCATE_STORE__PATH", str(store.path))
    into = tmp_path / "out"
    assert main(["export", "openmetrics", str(into), "--since", since, "--until", until]) == 2
    assert said in capsys.readouterr().err
    assert not into.exists()
    assert main(["export", "openmetrics", str(into), "--since", "2026-03-01", "--until", "2026-03-02"]) == 0
    assert [each.name for each in into.glob("*.openmetrics")] == ["2026-03-01.openmetrics"]


def test_days_of_which_nothing_is_known_are_passed_over(tmp_path: Path) -> None:
    """A run dated year 1 lies some 739,000 days before the others: three days have something to tell."""
    store = Store(tmp_path / "s.duckdb")
    store.write(_fill)
    first = datetime(1, 1, 1, 6, tzinfo=UTC)
    store.write(
        lambda con: con.execute("INSERT INTO usage VALUES ('c1', 'node', '', 'n1', 'cpu_cores', ?, 1)", [first])
    )
    days: list[int] = []
    written = export(store, tmp_path / "out", most=10, step=STEP, progress=lambda done, of: days.append(of))
    assert set(days) == {3}
    assert [each.path.name for each in written][-2:] == ["2026-03-01.openmetrics", "2026-03-02.openmetrics"]
    later = export(store, tmp_path / "later", most=10, step=STEP, since=DAY)
    assert [each.samples for each in later] == [each.samples for each in written][-2:]


def test_the_last_hour_of_the_last_year_has_its_day(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")
    store.write(_fill)
    last = datetime(9999, 12, 31, 23, 59, 58, tzinfo=UTC)
    store.write(
        lambda con: con.execute("INSERT INTO usage VALUES ('c1', 'node', '', 'n1', 'cpu_cores', ?, 1)", [last])
    )
    written = export(store, tmp_path / "out", most=10, step=timedelta(hours=1))
    assert written[-1].path.name == "9999-12-31.openmetrics"


def test_no_history_and_a_bad_directory_are_told_in_a_line(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLOCATE_STORE__PATH", str(tmp_path / "none.duckdb"))
    assert main(["export", "openmetrics", str(tmp_path / "out")]) == 2
    assert "no history yet" in capsys.readouterr().err
    for kind in ("openmetrics", "parquet"):
        assert main(["export", kind, ""]) == 2
        assert "DIR" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="file"):
        export(store, tmp_path / "file", most=1, step=STEP)


def test_two_exports_do_not_write_one_directory(store: Store, tmp_path: Path) -> None:
    def again(_: object) -> None:
        with pytest.raises(BadInput, match="another export writes there"):
            export(store, tmp_path, most=1, step=STEP)

    assert export(store, tmp_path, most=1, step=STEP, told=again)


def test_a_file_that_cannot_be_put_in_place_is_named_and_leaves_nothing_half_written(
    store: Store, tmp_path: Path
) -> None:
    (tmp_path / ".2026-02-01.openmetrics").write_text("half of one that was killed")
    (tmp_path / "2026-03-02.openmetrics").mkdir()
    with pytest.raises(BadInput, match=r"2026-03-02\.openmetrics: Is a directory"):
        export(store, tmp_path, most=1, step=STEP)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["2026-03-01.openmetrics", "2026-03-02.openmetrics"]
