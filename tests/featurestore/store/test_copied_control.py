"""The control store copied for replicas: all of it, in one piece, or not at all."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from featurestore.store import control, copied, tree
from featurestore.store.control import Control
from pipeline.errors import BadInput, Permanent

AT = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def writer(tmp_path: Path) -> Control:
    store = Control(tmp_path / "writer.sqlite")
    store.write(lambda con: tree.add(con, "", "projects", "projects/p1", {"metadata": {"name": "p1"}}, AT))
    store.write(lambda con: tree.add(con, "projects/p1", "projects/p1/a", "projects/p1/a/b", {"x": [1]}, AT))
    store.write(lambda con: control.put(con, "job", "c1/ex", {"job": "ex"}, AT))
    return store


def _everything(store: Control) -> tuple[object, ...]:
    return store.read(lambda con: (tree.changes(con), tree.below(con, ""), control.listed(con, "job")))


def test_a_copy_holds_the_same_items_documents_and_count_of_changes(writer: Control, tmp_path: Path) -> None:
    replica = Control(tmp_path / "replica.sqlite")
    replica.write(lambda con: tree.add(con, "", "projects", "projects/old", {}, AT))
    copied.restore(replica, copied.dump(writer))
    assert _everything(replica) == _everything(writer)
    assert copied.dump(replica) == copied.dump(writer)


def test_a_store_that_is_not_there_is_copied_as_an_empty_one_and_not_made(writer: Control, tmp_path: Path) -> None:
    absent = Control(tmp_path / "absent.sqlite")
    copied.restore(writer, copied.dump(absent))
    assert _everything(writer) == (0, [], [])
    assert not absent.path.exists()


@pytest.mark.parametrize("content", [b"", b"[", b"{}", b"[2,[],[],[[1]]]", b"\xff"])
def test_what_is_no_copy_is_refused_and_changes_nothing(writer: Control, content: bytes) -> None:
    before = _everything(writer)
    with pytest.raises(BadInput, match="cannot be read"):
        copied.restore(writer, content)
    assert _everything(writer) == before


def test_a_copy_of_another_version_is_refused(writer: Control) -> None:
    schema, *rest = msgspec.json.decode(copied.dump(writer))
    with pytest.raises(BadInput, match=f"of schema {schema + 1}, this version knows {schema}"):
        copied.restore(writer, msgspec.json.encode([schema + 1, *rest]))


def test_a_child_without_its_parent_is_refused_whole(writer: Control) -> None:
    before = _everything(writer)
    schema, settings, _, resources = msgspec.json.decode(copied.dump(writer))
    orphans = [row for row in resources if row[0] != "projects/p1"]
    assert len(orphans) == 1
    with pytest.raises(Permanent, match="FOREIGN KEY"):
        copied.restore(writer, msgspec.json.encode([schema, settings, [], orphans]))
    assert _everything(writer) == before
