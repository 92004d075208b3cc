"""Processes that serve side by side take up a new snapshot one after another."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from featurestore.snapshot import Snapshot, empty
from featurestore.store import published
from jobs.exporting.alone import alone
from jobs.service.state import State
from jobs.service.turns import PATIENCE, Turns
from tests.support.service import AT, wait_until

_OTHER = """
import sys
from pathlib import Path
from jobs.service.turns import Turns
with Turns(Path(sys.argv[1])).turn() as mine:
    print(mine, flush=True)
    sys.stdin.read()
"""


def _version(snapshot: Snapshot, cluster: str, at: object) -> str:
    return snapshot.version


@contextmanager
def somebody_elses_turn(path: Path) -> Iterator[None]:
    with Turns(path).turn() as taken:  # locks of one process by two descriptors exclude each other too
        assert taken
        yield


def test_while_another_process_takes_a_snapshot_up_the_former_one_answers_and_the_cluster_is_followed(
    tmp_path: Path,
) -> None:
    path, changes = tmp_path / "snapshot", [0]
    published.write(empty(AT, "v1"), path)
    with somebody_elses_turn(path):  # the first is taken up at once
        state = State(path, "c1", _version, changes=lambda: changes[0])
        state.SHORTEST = 0.0
        state.SHARE = 1000.0
        assert state.current.view == "v1"
        published.write(empty(AT, "v2"), path)
        assert not state.refresh()
        changes[0] += 1
        wait_until(state.refresh)
        assert (state.current.view, state.current.number, state.loads) == ("v1", 2, 1)
    assert state.refresh()
    assert (state.current.view, state.loads) == ("v2", 2)


def test_a_process_that_ends_gives_its_turn_back(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _OTHER, str(tmp_path / "snapshot")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        with Turns(tmp_path / "snapshot").turn() as mine:
            assert not mine
        other.kill()
    with Turns(tmp_path / "snapshot").turn() as mine:
        assert mine


def test_whoever_hangs_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    now = [0.0]
    turns = Turns(tmp_path / "snapshot", clock=lambda: now[0])
    taken = []
    with somebody_elses_turn(tmp_path / "snapshot"):
        for seconds in (0.0, PATIENCE - 1.0, PATIENCE + 1.0, PATIENCE + 2.0):
            now[0] = seconds
            with turns.turn() as mine:
                taken.append(mine)
    assert taken == [False, False, True, False]


def test_exports_into_the_snapshots_own_directory_and_turns_do_not_hinder_each_other(tmp_path: Path) -> None:
    with Turns(tmp_path / "snapshot").turn() as mine, alone(tmp_path):
        assert mine
    with alone(tmp_path), Turns(tmp_path / "snapshot").turn() as mine:
        assert mine


def test_without_the_directory_everybody_has_a_turn(tmp_path: Path) -> None:
    with Turns(tmp_path / "away" / "snapshot").turn() as mine:
        assert mine
