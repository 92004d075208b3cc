"""Decisions handed from spool to spool: bounded batches, bounded waiting, none twice."""

from pathlib import Path

import msgspec
import pytest

from featurestore.store import decisions, handed
from featurestore.store.decisions import Flushed, Spool
from featurestore.store.duck import Store
from featurestore.store.handed import Received
from pipeline.errors import BadInput, Temporary
from tests.featurestore.store.test_decisions_spool import decision

LINES = [msgspec.json.encode(decision(number)) + b"\n" for number in range(5)]


def test_a_batch_that_comes_twice_is_stored_once(tmp_path: Path) -> None:
    for _ in range(2):
        assert handed.receive(tmp_path / "spool", b"".join(LINES)) == Received(5, 0)
    assert decisions.flush(Store(tmp_path / "s.duckdb"), tmp_path / "spool") == Flushed(5, 5, 0)


def test_a_line_that_is_cut_is_refused_alone(tmp_path: Path) -> None:
    assert handed.receive(tmp_path, LINES[0] + LINES[1][:40]) == Received(1, 1)
    [file] = tmp_path.iterdir()
    assert file.read_bytes() == LINES[0]
    assert handed.receive(tmp_path, b"") == Received(0, 0)


def test_no_more_is_received_than_there_is_room_for(tmp_path: Path) -> None:
    handed.receive(tmp_path, LINES[0], files=2)
    handed.receive(tmp_path, LINES[1], files=2)
    with pytest.raises(Temporary, match="2 files wait"):
        handed.receive(tmp_path, LINES[2], files=2)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_spool_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file")
    with pytest.raises(BadInput, match="spool: cannot be written"):
        handed.receive(tmp_path / "spool", LINES[0])


def test_a_file_is_sent_in_batches_that_hold_every_line_once(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"".join(LINES))
    size = len(LINES[0])
    assert [batch.count(b"\n") for batch in handed.batches(file, 2 * size)] == [2, 2, 1]
    assert [batch.count(b"\n") for batch in handed.batches(file, 1)] == [1] * 5
    assert b"".join(handed.batches(file, 3 * size)) == file.read_bytes()


def test_what_a_process_left_behind_waits_too_and_what_one_holds_does_not(tmp_path: Path) -> None:
    left, held = Spool(tmp_path), Spool(tmp_path)
    left.append([decision(1)])
    held.append([decision(2)])
    assert left._file is not None
    left._file.close()  # as the end of its process would
    [path] = handed.waiting(tmp_path)
    assert b'"d1"' in path.read_bytes()


def test_the_oldest_files_are_given_up_for_room(tmp_path: Path) -> None:
    for line in LINES:
        handed.receive(tmp_path, line)
    room = 2 * len(LINES[0])
    assert handed.shed(tmp_path, room) == 3
    assert b"".join(path.read_bytes() for path in handed.waiting(tmp_path)) == LINES[3] + LINES[4]
    assert handed.shed(tmp_path, room) == 0
