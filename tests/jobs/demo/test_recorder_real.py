"""A few seconds of real work, recorded: the records agree with each other and with a real Prometheus."""

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import duckdb
import pytest

from jobs import collect, config
from jobs.demo import recorded, replay
from jobs.demo.recorder import __main__ as recorder
from jobs.demo.recorder import answers, assemble
from jobs.demo.recorder.functions import FUNCTIONS
from tests.support.prometheus import needs_prometheus, start_prometheus

pytestmark = pytest.mark.measures

#: Threads that may use a core at once: transcode's four, stream's own and its peer's.
THREADS = {"media/transcode": 5, "media/stream": 2, "shop/journal": 1}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of three functions, each session a fraction of the plan's length."""
    out = tmp_path_factory.mktemp("recording")
    arguments = ["--out", str(out), "--functions", ",".join(THREADS), "--repeats", "1", "--scale", "0.15"]
    assert recorder.main([*arguments, "--foreign", "1"]) == 0
    return out


@pytest.fixture(scope="module")
def records(recording: Path) -> list[dict[str, Any]]:
    lines = gzip.decompress((recording / "activations.ndjson.gz").read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


def test_every_function_ran_alone_and_beside_each_other(recording: Path) -> None:
    sessions = [assemble.read_json(path) for path in sorted((recording / "sessions").glob("*"))]
    members = sorted(tuple(sorted(session["members"])) for session in sessions)
    names = sorted(THREADS)
    assert members == sorted([(n,) for n in names] + [(a, b) for a in names for b in names if a < b])


def test_an_invocation_takes_time_and_no_more_processor_than_its_threads_could(records: list[dict[str, Any]]) -> None:
    assert len(records) > 9
    for record in records:
        threads = THREADS[f"{record['namespace']}/{record['name']}"]
        used = record["response"]["result"]
        assert record["duration"] == record["end"] - record["start"] > 0
        # start and end are whole milliseconds, each cut off
        assert 0 <= used["cpu_ms"] <= threads * (record["duration"] + 2)
        assert used["memory_bytes"] > 1 << 20


def test_work_shows_where_it_was_done(records: list[dict[str, Any]], recording: Path) -> None:
    moved: dict[str, list[float]] = defaultdict(list)
    for record in records:
        result = record["response"]["result"]
        moved[record["name"]].append(result["sent_bytes"])
        moved[record["name"] + " writes"].append(result["written_bytes"])
    assert min(moved["stream"]) > 10_000_000
    assert max(moved["journal"]) == max(moved["transcode"]) == 0
    session = assemble.read_json(next((recording / "sessions").glob("pair-*journal*")))
    if session["disk"]:  # a file system in memory writes to no disk
        assert min(moved["journal writes"]) >= 1_000_000


def test_the_first_invocation_of_a_container_is_cold_and_no_other(records: list[dict[str, Any]]) -> None:
    cold = [r for r in records if any(a["key"] == "initTime" for a in r["annotations"])]
    assert len(cold) == 3 + 2 * 3  # three sessions alone, three of two
    for record in cold:
        [init] = [a["value"] for a in record["annotations"] if a["key"] == "initTime"]
        assert 0 < init < record["duration"]


def test_an_unknown_function_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert recorder.main(["--out", str(tmp_path), "--functions", "media/none"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_is_recorded_is_not_run_again(recording: Path) -> None:
    before = {path: path.read_bytes() for path in recording.glob("*.*")}
    arguments = ["--out", str(recording), "--functions", ",".join(THREADS), "--repeats", "1", "--minutes", "0"]
    assert recorder.main(arguments) == 0
    assert {path: path.read_bytes() for path in recording.glob("*.*")} == before


@needs_prometheus
@pytest.mark.prometheus
def test_the_collectors_find_the_recorded_processor_time_in_a_real_prometheus(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Over a whole round a rate loses least of work that falls between two windows.
    monkeypatch.setenv("COLOCATE_SCHEDULE__STEP", "5m")
    history = tmp_path / "history.openmetrics"
    history.write_bytes(gzip.decompress((recording / "history.openmetrics.gz").read_bytes()))
    live = recorded.load(directory=recording, answers=False)
    with start_prometheus(history) as url:
        answers.write(recording / recorded.ANSWERS, answers.keep(live, url))
    replayed = recorded.load(directory=recording)
    moment = replay.moment(replayed)
    with replay.replay(replayed, tmp_path) as settings:
        outcomes = collect.run(config.load(settings), now=lambda: moment)
    assert [each.message for each in outcomes if each.outcome != "ok"] == []
    spent: dict[str, float] = defaultdict(float)
    for record in replayed.activations:
        spent[record["name"]] += record["response"]["result"]["cpu_ms"] / 1000
    with duckdb.connect(str(tmp_path / "colocation.duckdb"), read_only=True) as con:
        found = con.execute(
            "SELECT p.function, sum(u.value) * 300 FROM usage u JOIN placements p ON p.pod = u.name"
            " WHERE u.scope = 'pod' AND u.metric = 'cpu_cores' GROUP BY ALL"
        ).fetchall()
    # The first scrape finds a container already at work, and a rate stretches to the window's ends; what a process
    # does between invocations counts too.
    assert {name.split("/")[1]: cpu for name, cpu in found} == pytest.approx(spent, rel=0.15)
    assert {name for name, _ in found} == set(THREADS) <= set(FUNCTIONS)


def test_a_session_that_others_disturbed_is_not_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--out", str(tmp_path), "--functions", "shop/poll,shop/journal", "--repeats", "1", "--scale", "0.05"]
    assert recorder.main([*arguments, "--foreign=-1", "--minutes", "0.02"]) == 3
    assert "of the cores; once more" in capsys.readouterr().out
    assert list((tmp_path / "sessions").iterdir()) == []
