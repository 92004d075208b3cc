"""The built-in scheduler: limits, outcomes, overrun and missed runs, order at the start, and its end."""

import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from jobs.supervisor import children, clockwork, status
from jobs.supervisor.board import Board, outcome
from jobs.supervisor.children import Ended
from jobs.supervisor.clockwork import Clockwork, Job, names
from jobs.supervisor.status import Status
from tests.support.processes import alive
from tests.support.service import wait_until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

Run = Callable[..., Clockwork]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "status.json"


@pytest.fixture
def run(path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setenv("PYTHONPATH", str(repository))
    monkeypatch.setattr(children, "GRACE", 0.2)
    started: list[Clockwork] = []

    def start(*jobs: Job) -> Clockwork:
        work = Clockwork(jobs, Board(path, names(jobs)))
        started.append(work)
        work.start()
        return work

    yield start
    for work in started:
        work.stop()


def _job(name: str, *arguments: str, every: float = 60, limit: float = 30, after_first: bool = False) -> Job:
    return Job(
        name, "tests.support.child", arguments, timedelta(seconds=every), timedelta(seconds=limit), after_first
    )


def _status(path: Path) -> Status:
    found = status.read(path)
    assert found is not None
    return found


def test_how_children_end_is_counted(run: Run, path: Path) -> None:
    run(_job("good", "exit", "0"), _job("half", "exit", "3"), _job("bad", "exit", "1"))
    wait_until(lambda: all(job.runs for job in _status(path).jobs.values()))
    jobs = _status(path).jobs
    assert jobs["good"].runs == {"ok": 1}
    assert jobs["half"].runs == {"partial": 1}
    assert jobs["bad"].runs == {"failed": 1}
    assert jobs["good"].last_success > 0
    assert jobs["bad"].last_success == 0
    assert not any(job.running for job in jobs.values())


def test_a_child_that_hangs_is_ended_with_all_that_it_started(run: Run, path: Path, tmp_path: Path) -> None:
    told = tmp_path / "pids"
    run(_job("hung", "hang", str(told), limit=3))
    wait_until(told.exists)
    pids = [int(pid) for pid in told.read_text().split()]
    assert all(alive(pid) for pid in pids)
    wait_until(lambda: _status(path).jobs["hung"].runs == {"timeout": 1})
    wait_until(lambda: not any(alive(pid) for pid in pids))


def test_a_start_that_falls_into_a_run_is_an_overrun(run: Run, path: Path, tmp_path: Path) -> None:
    run(_job("slow", "hang", str(tmp_path / "pids"), every=1))
    wait_until(lambda: _status(path).jobs["slow"].overrun >= 1)
    assert _status(path).jobs["slow"].running


def test_a_start_that_comes_too_late_is_missed(
    run: Run, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clockwork, "_AT_ONCE", 1)
    monkeypatch.setattr(clockwork, "_MISFIRE", timedelta(seconds=1))
    run(_job("first", "hang", str(tmp_path / "pids"), limit=2.5), _job("second", "exit", "0"))
    wait_until(lambda: sum(job.missed for job in _status(path).jobs.values()) == 1)


def test_learning_waits_for_the_first_collections_but_not_for_its_turn(run: Run, path: Path) -> None:
    learn = _job("learn", "exit", "0", every=3600, after_first=True)
    run(learn, _job("nodes", "exit", "0", every=3600), _job("usage", "exit", "1", every=3600))
    wait_until(lambda: _status(path).jobs["learn"].runs == {"ok": 1})
    jobs = _status(path).jobs
    first = [jobs[name].last_start + jobs[name].last_seconds for name in ("nodes", "usage")]
    assert jobs["learn"].last_start >= max(first) - 0.01
    assert jobs["nodes"].runs == {"ok": 1}


def test_stopping_ends_what_runs_and_starts_nothing_more(run: Run, path: Path, tmp_path: Path) -> None:
    told = tmp_path / "pids"
    work = run(_job("hung", "hang", str(told), every=1))
    wait_until(told.exists)
    pids = [int(pid) for pid in told.read_text().split()]
    work.stop()
    assert not any(alive(pid) for pid in pids)
    told.unlink()
    time.sleep(1.5)
    assert not told.exists()


@pytest.mark.parametrize(
    ("code", "timed_out", "word"),
    [(0, False, "ok"), (3, False, "partial"), (2, False, "failed"), (-9, False, "failed"), (-15, True, "timeout")],
)
def test_outcomes_follow_the_exit_codes_of_commands(code: int, timed_out: bool, word: str) -> None:
    assert outcome(Ended(code, 1.0, timed_out)) == word
