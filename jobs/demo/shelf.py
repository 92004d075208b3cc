"""Activation records by namespace and start, millions of them: bytes in a file or in memory, found by bisection."""

import mmap
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from pipeline.errors import BadInput

#: A record as a mapping or as its JSON.
Record = Mapping[str, object] | bytes


class _Head(msgspec.Struct):
    """What a record is filed under."""

    namespace: str
    start: int
    activationId: str = ""  # noqa: N815 - the record's own name
    name: str = ""


class _Shelf:
    """One namespace's records by ascending (start, id): *places* tells where each one's bytes are."""

    __slots__ = ("places", "starts")

    def __init__(self) -> None:
        self.starts = array("q")
        self.places = array("q")


class Shelves:
    """All records, each under its namespace; a file given is read where it lies, not into memory."""

    def __init__(self, records: Iterable[Record] | Path) -> None:
        self._file: mmap.mmap | bytes = b""
        self._ends = array("q", [0])
        self._loose: list[bytes] = []
        self._shelves: dict[str, _Shelf] = {}
        heads: list[tuple[int, str, int, str]] = []
        if isinstance(records, Path):
            heads = self._map(records)
        else:
            for place, head in self._take(records):
                heads.append((head.start, head.activationId, place, head.namespace))
        heads.sort()
        for start, _, place, namespace in heads:
            shelf = self._shelves.setdefault(namespace, _Shelf())
            shelf.starts.append(start)
            shelf.places.append(place)

    def add(self, records: Iterable[Record]) -> None:
        """File more records; among those of one millisecond each takes its place by id, not by arrival."""
        for place, head in self._take(records):
            shelf = self._shelves.setdefault(head.namespace, _Shelf())
            at = bisect_left(shelf.starts, head.start)
            end = bisect_right(shelf.starts, head.start)
            while at < end and self._head(shelf.places[at]).activationId < head.activationId:
                at += 1
            shelf.starts.insert(at, head.start)
            shelf.places.insert(at, place)

    def count(self, namespace: str, since: int, upto: int, name: str) -> int:
        """How many started in [since, upto], of one name where *name* is not empty."""
        return len(self._found(namespace, since, upto, name))

    def newest(self, namespace: str, since: int, upto: int, name: str, skip: int, limit: int) -> list[bytes]:
        """The records that started in [since, upto], newest first, without the first *skip*, *limit* at most."""
        found = self._found(namespace, since, upto, name)
        last = len(found) - skip
        return [self._bytes(found[at]) for at in range(last - 1, max(last - limit, 0) - 1, -1)]

    def _found(self, namespace: str, since: int, upto: int, name: str) -> "array[int] | memoryview[int]":
        shelf = self._shelves.get(namespace)
        if shelf is None:
            return array("q")
        first, last = bisect_left(shelf.starts, since), bisect_right(shelf.starts, upto)
        if not name:
            return memoryview(shelf.places)[first : max(last, first)]
        return array("q", (place for place in shelf.places[first:last] if self._head(place).name == name))

    def _take(self, records: Iterable[Record]) -> Iterable[tuple[int, _Head]]:
        """Keep each record's bytes; its place is negative: the complement of its number."""
        for record in records:
            text = bytes(record) if isinstance(record, bytes) else msgspec.json.encode(record)
            self._loose.append(text)
            yield ~(len(self._loose) - 1), _head(text, f"record {len(self._loose)}")

    def _map(self, path: Path) -> list[tuple[int, str, int, str]]:
        heads: list[tuple[int, str, int, str]] = []
        with path.open("rb") as file:
            for number, line in enumerate(file):
                self._ends.append(self._ends[-1] + len(line))
                if not line.isspace():
                    head = _head(line, f"{path} line {number + 1}")
                    heads.append((head.start, head.activationId, number, head.namespace))
            if heads:
                self._file = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return heads

    def _bytes(self, place: int) -> bytes:
        if place < 0:
            return self._loose[~place]
        return self._file[self._ends[place] : self._ends[place + 1]].rstrip()

    def _head(self, place: int) -> _Head:
        return _head(self._bytes(place), "record")


def _head(text: bytes, where: str) -> _Head:
    try:
        return msgspec.json.decode(text, type=_Head)
    except msgspec.DecodeError as error:
        raise BadInput(f"{where}: no activation record: {error}") from None
