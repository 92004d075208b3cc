"""Another process that ends a transaction while this one opens the file."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from featurestore.store.duck import Store, staging
from featurestore.store.headers import Headers
from pipeline.errors import Damaged
from tests.support.stores import select


def _remember(text: str) -> Callable[[duckdb.DuckDBPyConnection], object]:
    return lambda con: con.execute("INSERT INTO watermarks VALUES ('c', ?, '', now())", [text])


class _Overtaken:
    """A connection whose first ATTACH reads the headers before, and has the lock after, *later* became the content.

    What came between has the lock no more, so that the file can be written as if by it: DuckDB sees the same.
    """

    def __init__(self, con: duckdb.DuckDBPyConnection, path: Path, later: bytes, *, refused: bool) -> None:
        self._con, self._path, self._later, self._refused = con, path, later, refused
        self.attached = 0
        self._file = os.open(path, os.O_WRONLY)  # closing it would give DuckDB's lock away

    def execute(self, query: str, parameters: Any = None) -> Any:
        if not query.startswith("ATTACH"):
            return self._con.execute(query, parameters)
        self.attached += 1
        if self.attached > 1:
            return self._con.execute(query, parameters)
        if not self._refused:
            self._con.execute(query, parameters)
        os.pwrite(self._file, self._later, 0)
        if self._refused:
            raise duckdb.IOException("IO Error: Could not read enough bytes from file")
        return self._con

    def close(self) -> None:
        os.close(self._file)


@pytest.mark.parametrize("refused", [False, True], ids=["stale", "torn"])
def test_a_transaction_that_ends_while_the_file_is_opened_is_not_lost(tmp_path: Path, refused: bool) -> None:
    store = Store(tmp_path / "s.duckdb")
    store.write(_remember("before"))
    before = store.path.read_bytes()
    store.write(_remember("another's"))
    later = store.path.read_bytes()
    store.path.write_bytes(before)
    with staging() as con:
        overtaken = _Overtaken(con, store.path, later, refused=refused)
        store.write(_remember("ours"), prepared=overtaken)  # type: ignore[arg-type]
        overtaken.close()
    assert overtaken.attached == 2
    assert select(store, "SELECT source FROM watermarks ORDER BY 1") == [("another's",), ("before",), ("ours",)]


def test_an_error_that_nobody_else_is_the_reason_of_is_told_at_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")
    store.write(_remember("before"))
    with staging() as con:
        overtaken = _Overtaken(con, store.path, b"", refused=True)
        with pytest.raises(Damaged, match="Could not read enough"):
            store.write(_remember("ours"), prepared=overtaken)  # type: ignore[arg-type]
        overtaken.close()
    assert overtaken.attached == 1


def test_each_transaction_changes_the_headers_and_a_look_does_not(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")
    store.write(_remember("one"))
    with Headers(store.path) as headers:
        select(store, "FROM watermarks")
        assert not headers.changed()
        store.write(_remember("two"))
        assert headers.changed()


@pytest.mark.parametrize("name", ["missing", "."])
def test_what_is_no_file_has_none(tmp_path: Path, name: str) -> None:
    with Headers(tmp_path / name) as headers:
        assert not headers.changed()
