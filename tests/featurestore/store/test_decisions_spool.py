"""Decisions reach the store exactly once, whoever dies on the way."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from featurestore.store import decisions
from featurestore.store.decision import Decision
from featurestore.store.decisions import Flushed, Spool
from featurestore.store.duck import Store
from pipeline.errors import BadInput
from tests.support.stores import NOON, minutes, select


def decision(number: int, cluster: str = "east") -> Decision:
    return Decision(
        decision=f"d{number}",
        at=NOON + minutes(number),
        cluster=cluster,
        namespace="apps",
        pod="web-1",
        function="guest/hello",
        mode="observe",
        snapshot="v1",
        satisfiable=True,
        outcome="unchanged",
        document={"nodes": [{"name": "n1", "score": 0.5}]},
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "s.duckdb")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def stored(store: Store) -> list[str]:
    return sorted(name for (name,) in select(store, "SELECT decision FROM decisions"))


def test_decisions_arrive_with_all_they_hold(store: Store, directory: Path) -> None:
    spool = Spool(directory)
    spool.append([decision(1)])
    spool.close()
    assert decisions.flush(store, directory) == Flushed(rows=1)
    assert select(store, "FROM decisions") == [
        (
            "d1", NOON + minutes(1), "east", "apps", "web-1", "guest/hello", "observe", "v1", True, "unchanged",
            '{"nodes":[{"name":"n1","score":0.5}]}',
        )
    ]  # fmt: skip
    assert list(directory.iterdir()) == []


def test_what_is_still_written_to_is_left_until_it_is_handed_over(store: Store, directory: Path) -> None:
    spool = Spool(directory, seconds=1000)
    spool.append([decision(1)])
    assert decisions.flush(store, directory) == Flushed()
    spool.rotate()
    spool.append([decision(2)])
    assert decisions.flush(store, directory) == Flushed(rows=1)
    spool.close()
    assert decisions.flush(store, directory) == Flushed(rows=1)
    assert stored(store) == ["d1", "d2"]


def test_a_file_is_handed_over_by_age_and_by_size(store: Store, directory: Path) -> None:
    Spool(directory, seconds=0).append([decision(1)])
    Spool(directory, seconds=1000, size=10).append([decision(2)])
    assert decisions.flush(store, directory) == Flushed(rows=2)


def test_killed_between_insert_and_removal_nothing_comes_twice(
    store: Store, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(directory)
    spool.append([decision(1), decision(2)])
    spool.close()
    assert stored(store) == []  # making the store removes a file too

    def die(self: Path, missing_ok: bool = False) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(decisions.Path, "unlink", die)
        decisions.flush(store, directory)
    assert len(list(directory.iterdir())) == 1
    assert stored(store) == ["d1", "d2"]
    assert decisions.flush(store, directory) == Flushed(duplicates=2)
    assert stored(store) == ["d1", "d2"]
    assert list(directory.iterdir()) == []


def test_files_of_a_killed_process_are_taken_over(store: Store, directory: Path, repository: Path) -> None:
    script = """
import os, sys
from pathlib import Path
from featurestore.store.decisions import Spool
sys.path.insert(0, "tests/featurestore/store")
from test_decisions_spool import decision
spool = Spool(Path(sys.argv[1]), seconds=1000)
spool.append([decision(1), decision(2)])
with spool._path.open("ab") as torn:
    torn.write(b'{"decision": "d3", "at": "2025-')
os.kill(os.getpid(), 9)
"""
    environment = os.environ | {"PYTHONPATH": str(repository)}
    killed = subprocess.run(
        [sys.executable, "-c", script, str(directory)], cwd=repository, env=environment, check=False
    )
    assert killed.returncode == -9
    assert decisions.flush(store, directory) == Flushed(rows=2, refused=1)
    assert stored(store) == ["d1", "d2"]


def test_lines_that_are_no_decision_cost_only_themselves(store: Store, directory: Path) -> None:
    spool = Spool(directory)
    spool.append([decision(1)])
    spool.close()
    [file] = directory.iterdir()
    good = file.read_bytes()
    naive = good.replace(b"d1", b"d9").replace(b"T12:01:00Z", b"T12:01:00")
    assert naive != good.replace(b"d1", b"d9")
    file.write_bytes(b"[]\n\xff\n" + naive + good)
    assert decisions.flush(store, directory) == Flushed(rows=1, refused=3)
    assert stored(store) == ["d1"]


def test_a_spool_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(BadInput) as caught:
        Spool(blocked).append([decision(1)])
    assert str(caught.value).startswith(f"{blocked}: cannot be written")


def test_recent_decisions_are_the_newest_that_fit(store: Store, directory: Path) -> None:
    spool = Spool(directory)
    spool.append([decision(1), decision(2, "west"), decision(3), decision(4)])
    spool.close()
    decisions.flush(store, directory)

    def recent(**given: str) -> list[str]:
        found = store.read(lambda con: decisions.recent(con, limit=2, **given))
        return [str(name) for name in found["decision"].to_pylist()]

    assert recent() == ["d4", "d3"]
    assert recent(cluster="west") == ["d2"]
    assert recent(cluster="east", pod="web-1", mode="observe") == ["d4", "d3"]
    assert recent(function="guest/other") == []


def test_one_decision_is_found_with_its_document_and_no_other_is(store: Store, directory: Path) -> None:
    spool = Spool(directory)
    spool.append([decision(1), decision(2, "west")])
    spool.close()
    decisions.flush(store, directory)
    found = store.read(lambda con: decisions.one(con, "d2"))
    assert found is not None
    assert (found["decision"], found["cluster"], found["node"]) == ("d2", "west", None)
    assert json.loads(found["document"]) == json.loads(msgspec.json.encode(decision(2).document))
    assert store.read(lambda con: decisions.one(con, "d")) is None
