"""What each process lays out of a snapshot's tables, laid out as it is published too, and mapped by all that answer.

A process lays out what it reads as if there were nothing else, and lets go of each column that the file has the same
of: what an older version published, or one that counts otherwise, costs memory and changes no answer.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from featurestore.snapshot import Column, Snapshot
from pipeline.lookup import Share

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

#: Smaller columns than a page of memory are not worth a place in the file.
_LEAST: Final = 4096


def shared(share: Share, name: str, value: T) -> T:
    """Return the dataclass *value* with its columns, called after *name*, as *share* has them."""
    columns = {each.name: getattr(value, each.name) for each in fields(value)}
    found = {key: share(f"{name}.{key}", column) for key, column in columns.items() if isinstance(column, np.ndarray)}
    return replace(value, **found)


def twins(columns: Mapping[str, Column]) -> Share:
    """Return what takes in place of a column its equal of the same name among *columns*, those of a file."""

    def share(name: str, column: Column) -> Column:
        twin = columns.get(name)
        if twin is None or twin.dtype != column.dtype or twin.size != column.size or not _own(column):
            return column
        bits = f"u{column.dtype.itemsize}"  # what is no number equals itself, too
        same = np.array_equal(twin.view(bits), column.reshape(-1).view(bits))
        return twin.reshape(column.shape) if same else column

    return share


class Kept:
    """Takes note of the columns of one cluster that do not lie in the tables of *snapshot* themselves."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.columns: dict[str, Column] = {}
        self._extents = sorted(_extents(snapshot))

    def __call__(self, name: str, column: Column) -> Column:
        """Note *column*, and return it."""
        at: int = column.__array_interface__["data"][0]
        place = bisect_right(self._extents, at, key=lambda each: each[0]) - 1
        there = place >= 0 and at + column.nbytes <= self._extents[place][1]
        if column.nbytes >= _LEAST and _own(column) and not there:
            self.columns[name] = column.reshape(-1)
        return column


def _own(column: Column) -> bool:
    """Whether *column* takes the room that its rows have: one value for all rows takes none."""
    return bool(column.flags.c_contiguous)


def _extents(snapshot: Snapshot) -> Iterator[tuple[int, int]]:
    for table in snapshot.tables.values():
        for column in table.columns:
            for chunk in column.chunks:
                parts: list[Any] = [chunk]
                if pa.types.is_dictionary(chunk.type):
                    parts = [chunk.indices, chunk.dictionary]
                for part in parts:
                    yield from (
                        (each.address, each.address + each.size) for each in part.buffers() if each is not None
                    )
