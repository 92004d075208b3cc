"""The snapshot in memory: swapped whole, kept when the new one is damaged, made again when the cluster changes."""

import dataclasses
import threading
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from featurestore.snapshot import TABLES, Snapshot, empty
from featurestore.store import published
from jobs.service.state import State
from tests.support.service import AT, wait_until


@dataclasses.dataclass(frozen=True)
class Seen:
    """A view that says what it was made from; *check* must equal the version."""

    version: str
    cluster: str
    check: str


def _prepare(snapshot: Snapshot, cluster: str, at: datetime) -> Seen:
    versions = snapshot["nodes"]["node"].to_pylist()
    return Seen(snapshot.version, cluster, versions[0] if versions else snapshot.version)


def _snapshot(version: str) -> Snapshot:
    nodes = TABLES["nodes"].empty_table().to_pydict() | {"node": [version]}
    table = pa.table({name: column or [None] for name, column in nodes.items()}, schema=TABLES["nodes"])
    blank = empty(AT, version)
    return dataclasses.replace(blank, clusters=("c1", "c2"), tables={**blank.tables, "nodes": table})


def test_without_a_file_an_empty_snapshot_answers_until_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    state = State(path, "c1", _prepare)
    assert (state.current.view.version, state.loads, state.failures) == ("empty", 0, 0)
    published.write(_snapshot("v1"), path)
    assert state.refresh()
    assert state.current.view == Seen("v1", "c1", "v1")
    assert state.loads == 1
    assert not state.refresh()


def test_a_damaged_snapshot_is_counted_and_the_former_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    published.write(_snapshot("v1"), path)
    state = State(path, "c1", _prepare)
    path.write_bytes(b"COLOSNP1 and then nothing of use")
    assert not state.refresh()
    assert state.current.view.version == "v1"
    assert state.failures == 1
    published.write(_snapshot("v2"), path)
    assert state.refresh()
    assert state.current.view.version == "v2"


def test_a_view_that_cannot_be_prepared_is_counted_and_the_former_one_stays(tmp_path: Path) -> None:
    def picky(snapshot: Snapshot, cluster: str, at: datetime) -> Seen:
        if snapshot.version == "bad":
            raise ValueError("odd column")
        return _prepare(snapshot, cluster, at)

    path = tmp_path / "snapshot"
    published.write(_snapshot("v1"), path)
    state = State(path, "c1", picky)
    published.write(_snapshot("bad"), path)
    assert not state.refresh()
    assert (state.current.view.version, state.failures) == ("v1", 1)


def test_a_snapshot_whose_view_could_not_be_prepared_is_taken_up_once_it_can(tmp_path: Path) -> None:
    changes, bad = [0], ["v2"]

    def prepare(snapshot: Snapshot, cluster: str, at: object) -> tuple[str, int]:
        if snapshot.version in bad:
            raise ValueError("an odd object of the cluster")
        return snapshot.version, changes[0]

    path = tmp_path / "snapshot"
    published.write(empty(AT, "v1"), path)
    state = State(path, "c1", prepare, changes=lambda: changes[0])
    state.SHORTEST, state.SHARE, state.RETRY = 0.0, 1000.0, 3600.0
    published.write(empty(AT, "v2"), path)
    assert not state.refresh()
    assert (state.current.view, state.failures) == (("v1", 0), 1)
    changes[0] += 1
    wait_until(state.refresh)
    assert state.current.view == ("v1", 1), "the cluster is followed meanwhile"
    assert state.failures == 1
    bad.clear()
    state._again = 0.0
    wait_until(lambda: state.refresh() and state.current.view == ("v2", 1))
    assert not state.refresh()


def test_readers_see_whole_moments_while_snapshots_are_swapped(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    published.write(_snapshot("v0"), path)
    state = State(path, "c1", _prepare)
    state.POLL = 0.001
    versions: set[str] = set()
    torn: list[object] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            moment = state.current
            if moment.view.version != moment.view.check or moment.view.version != moment.snapshot.version:
                torn.append(moment)
            versions.add(moment.view.version)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(1, 30):
        published.write(_snapshot(f"v{number}"), path)
        state.refresh()
    done.set()
    for reader in readers:
        reader.join()
    assert not torn
    assert state.current.view.version == "v29"
    assert len(versions) > 1


def test_the_watcher_takes_up_a_new_file_by_itself_and_tells_its_listeners(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    state = State(path, "c1", _prepare)
    heard: list[str] = []
    state.on_swap(lambda snapshot: heard.append(snapshot.version))
    state.start()
    try:
        published.write(_snapshot("v1"), path)
        wait_until(lambda: heard == ["empty", "v1"])
    finally:
        state.close()


def test_changes_of_the_cluster_are_taken_up_but_not_at_once_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("jobs.service.state.time.monotonic", lambda: clock[0])
    changes = [0]
    state = State(tmp_path / "none", "c1", _prepare, lambda: changes[0])
    number = state.current.number
    assert not state.refresh()
    changes[0] = 1
    assert state.refresh()
    assert state.current.number == number + 1
    changes[0] = 2
    assert not state.refresh()
    clock[0] += State.SHORTEST
    assert state.refresh()
    assert state.current.number == number + 2


def test_own_reservations_alone_and_costly_answers_are_taken_up_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, changes, reserved, seconds = [100.0], [0], [0], [0.0]
    monkeypatch.setattr("jobs.service.state.time.monotonic", lambda: clock[0])
    state = State(tmp_path / "none", "c1", _prepare, lambda: changes[0], lambda: reserved[0], lambda: seconds[0])
    changes[0] = 1
    assert state.refresh()
    reserved[0] = 1
    clock[0] += State.LONGEST - 0.5
    assert not state.refresh()
    clock[0] += 0.5
    assert state.refresh()
    changes[0], seconds[0] = 2, 5.0 * State.SHARE
    clock[0] += 4.5
    assert not state.refresh()
    clock[0] += 0.5
    assert state.refresh()


def test_views_of_other_clusters_are_made_when_asked_for_and_kept_for_the_moment(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    published.write(_snapshot("v1"), path)
    made: list[str] = []

    def counting(snapshot: Snapshot, cluster: str, at: datetime) -> Seen:
        made.append(cluster)
        return _prepare(snapshot, cluster, at)

    state = State(path, "c1", counting, now=lambda: datetime(2026, 3, 1, tzinfo=UTC))
    made.clear()
    assert state.view_of("c1") is state.current.view
    first = state.view_of("c2")
    assert state.view_of("c2") is first
    assert made == ["c2"]
    published.write(_snapshot("v2"), path)
    state.refresh()
    assert state.view_of("c2").version == "v2"
