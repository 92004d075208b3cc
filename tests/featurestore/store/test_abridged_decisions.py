"""Decisions that have a document in common are written short, and read as if they had not been."""

import json
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from featurestore.store import decisions, handed
from featurestore.store.abridged import Common, names
from featurestore.store.decision import Decision
from featurestore.store.decisions import Flushed, Spool
from featurestore.store.duck import Store
from tests.featurestore.store.test_decisions_spool import decision
from tests.support.stores import select

LONG = {"nodes": [f"n{number}" for number in range(500)]}


class Shared(Common):
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def document(self, decision: str, namespace: str, pod: str) -> msgspec.Raw:
        self.asked += 1
        told = msgspec.json.encode({"decision": decision, "patch": f"[{decision}]", **LONG})
        return msgspec.Raw(told[:-1] + names(namespace, pod))


def named(number: int, common: Common, namespace: str = "apps", pod: str = "web-1") -> Decision:
    uid = f"{number:08d}-0000-4000-8000-000000000000"
    return structs.replace(decision(number), decision=uid, namespace=namespace, pod=pod, document=common)


def expected(one: Decision) -> dict[str, object]:
    told = {"decision": one.decision, "patch": f"[{one.decision}]", **LONG}
    return {**told, "namespace": one.namespace, "pod": one.pod}


def stored(store: Store) -> dict[str, object]:
    return {name: json.loads(text) for name, text in select(store, "SELECT decision, document FROM decisions")}


def test_each_has_its_own_names_in_the_store_and_the_rest_is_written_once(tmp_path: Path) -> None:
    one, other, spool = Shared(), Shared(), Spool(tmp_path / "spool")
    given = [named(1, one), named(2, other, pod="x"), named(3, one, 'a"b', "web-3"), named(4, one, "apps", "")]
    spool.append(given[:2])
    spool.append(given[2:])
    spool.close()
    [file] = (tmp_path / "spool").iterdir()
    lengths = [len(line) for line in file.read_bytes().splitlines()]
    assert min(lengths[:2]) > 3000
    assert max(lengths[2:]) < 400
    assert (one.asked, other.asked) == (1, 1)
    store = Store(tmp_path / "s.duckdb")
    assert decisions.flush(store, tmp_path / "spool") == Flushed(rows=4)
    assert stored(store) == {each.decision: expected(each) for each in given}


def test_a_file_stands_by_itself(tmp_path: Path) -> None:
    one, spool = Shared(), Spool(tmp_path)
    for number in (1, 2):
        spool.append([named(number, one)])
        spool.rotate()
    assert one.asked == 2
    assert all(len(file.read_bytes()) > 3000 for file in tmp_path.iterdir())


def test_what_a_file_stands_for_is_bounded(tmp_path: Path) -> None:
    spool = Spool(tmp_path, seconds=1000, size=20_000)
    one = Shared()
    length = len(bytes(one.document("d" * 36, "apps", "web-1")))
    for number in range(3 * 8 * 20_000 // length):
        spool.append([named(number, one)])
    assert len(list(tmp_path.glob("*.jsonl"))) == 2  # the third is not full yet: eight times as much each


def test_short_names_are_not_looked_for_in_a_document(tmp_path: Path) -> None:
    one, spool = Shared(), Spool(tmp_path / "spool")
    given = [structs.replace(decision(number), document=one) for number in (1, 2)]
    spool.append(given)
    spool.close()
    store = Store(tmp_path / "s.duckdb")
    decisions.flush(store, tmp_path / "spool")
    assert stored(store) == {each.decision: expected(each) for each in given}


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_one_whose_document_is_lost_is_refused(tmp_path: Path, damage: str) -> None:
    spool = Spool(tmp_path / "spool")
    one = Shared()
    spool.append([named(number, one) for number in (1, 2)])
    spool.close()
    [file] = (tmp_path / "spool").iterdir()
    first, second = file.read_bytes().splitlines(keepends=True)
    file.write_bytes((first[:100] + b"\n" if damage == "cut" else b"") + second)
    found = decisions.flush(Store(tmp_path / "s.duckdb"), tmp_path / "spool")
    assert (found.rows, found.refused) == (0, 2 if damage == "cut" else 1)


def test_what_is_handed_to_another_process_is_whole(tmp_path: Path) -> None:
    one, spool = Shared(), Spool(tmp_path / "here")
    given = [named(number, one, pod=f"p{number}") for number in range(5)]
    spool.append(given)
    spool.close()
    [path] = handed.waiting(tmp_path / "here")
    for batch in handed.batches(path, 8000):
        assert handed.receive(tmp_path / "there", batch).refused == 0
    store = Store(tmp_path / "s.duckdb")
    assert decisions.flush(store, tmp_path / "there") == Flushed(rows=5)
    assert stored(store) == {each.decision: expected(each) for each in given}
