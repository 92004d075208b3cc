"""Arrow columns to the plain arrays that kernels take, and back."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from featurestore.arrays import OPEN, Codes, Floats, Ints

TEXT = pa.dictionary(pa.int32(), pa.string())
TIME = pa.timestamp("us", tz="UTC")

#: Rows that are worked on at a time where what comes in between would be as long as all of them: memory that is used
#: again is in the cache, and new memory is slow.
PART = 1 << 18


def micros(column: pa.ChunkedArray, missing: int = OPEN) -> Ints:
    """Return the times of a column as microseconds since the epoch, *missing* where there is none."""
    return _filled(column.cast(TIME).cast(pa.int64()), missing, np.dtype(np.int64))


def floats(column: pa.ChunkedArray) -> Floats:
    """Return a column of numbers, NaN where there is none."""
    return _filled(column.cast(pa.float64()), float("nan"), np.dtype(np.float64))


def integers(column: pa.ChunkedArray, missing: int) -> Ints:
    """Return a column of integers, *missing* where there is none."""
    return _filled(column.cast(pa.int64()), missing, np.dtype(np.int64))


def flags(column: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Return a column of truth values, False where there is none."""
    return _filled(column, False, np.dtype(np.bool_))


def codes(column: pa.ChunkedArray, names: pa.Array) -> Codes:
    """Return where each value of a text column stands in *names*, -1 where it does not.

    Of a dictionary column only the dictionary is looked up.
    """
    if not pa.types.is_dictionary(column.type):
        return _filled(pc.index_in(column, value_set=names), -1, np.dtype(np.int32))
    found = np.empty(len(column), np.int32)
    at = 0
    for chunk in column.chunks:
        place = _filled(pc.index_in(chunk.dictionary.cast(pa.string()), value_set=names), -1, np.dtype(np.int32))
        index = chunk.indices.fill_null(len(place)) if chunk.null_count else chunk.indices
        np.append(place, np.int32(-1)).take(index.to_numpy(), out=found[at : at + len(chunk)], mode="clip")
        at += len(chunk)
    return found


def texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of texts as it is, in a dictionary or not; one without a type, all null, as texts."""
    return column.cast(pa.string()) if pa.types.is_null(column.type) else column


def distinct(*columns: pa.ChunkedArray) -> pa.Array:
    """Return the different texts of all *columns*, sorted, without nulls."""
    # The values that a dictionary column has, not those that its dictionary offers.
    parts = [_values(pc.unique(column)) for column in columns if len(column)]
    found = pc.unique(pa.chunked_array(parts, pa.string())).drop_null()
    return found.take(pc.sort_indices(found))


def named(code: npt.NDArray[np.integer], names: pa.Array | Sequence[str]) -> pa.DictionaryArray:
    """Return the dictionary column of *code* into *names*, null where a code is negative."""
    values = names if isinstance(names, pa.Array) else pa.array(names, pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(code.astype(np.int32), mask=code < 0), values)


def _values(unique: pa.Array) -> pa.Array:
    return unique.dictionary_decode() if pa.types.is_dictionary(unique.type) else unique


def _filled(column: pa.ChunkedArray | pa.Array, missing: float, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return an array of its own, which kernels may write to; nothing but it is as long as the column."""
    found = np.empty(len(column), kind)
    at = 0
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        whole = chunk.fill_null(missing) if chunk.null_count else chunk
        found[at : at + len(whole)] = whole.to_numpy(zero_copy_only=False)
        at += len(whole)
    return found


def numbered(value: Ints) -> tuple[Ints, Ints]:
    """Return the different integers, in order, and which of them each *value* is (n,): looked up, not sorted."""
    encoded = pa.array(value).dictionary_encode()
    present = encoded.dictionary.to_numpy()
    order = np.argsort(present)
    place = np.empty(len(present), np.int64)
    place[order] = np.arange(len(present))
    return present[order], place[encoded.indices.to_numpy()]


def combinations(*columns: npt.NDArray[np.integer]) -> tuple[Ints, Ints]:
    """Return the different rows (k, columns) of some integer columns (n,), in order, and which each row is (n,).

    By one ranking of plain integers: sorting rows as such takes ten times as long. What is before a column is ranked
    by itself only where both together would be too many to be looked up.
    """
    code, number = np.zeros(len(columns[0]), np.int64), 1
    for column in columns if len(code) else ():
        low, width = int(column.min()), int(column.max()) - int(column.min()) + 1
        own = column.astype(np.int64)
        if number * width > _looked_up(len(code)):
            number, code = ranked(code)
            width, own = ranked(own)
        elif low:
            own -= low
        if number > 1:
            code *= width
            own += code
        code, number = own, number * width
    _, code = ranked(code)
    first = np.full(int(code.max(initial=-1)) + 1, -1, np.int64)
    first[code] = np.arange(len(code))
    return np.stack([column[first].astype(np.int64) for column in columns], axis=1), code


def ranked(value: Ints) -> tuple[int, Ints]:
    """Return how many different integers there are, and which of them, in order, each *value* is (n,).

    Codes lie close together: they are looked up in a table and not sorted.
    """
    if not len(value):
        return 0, value
    low, high = int(value.min()), int(value.max())
    if high - low >= _looked_up(len(value)):
        present, code = numbered(value)
        return len(present), code
    there = np.zeros(high - low + 1, bool)
    there[value - low] = True
    place = np.cumsum(there) - 1
    return int(place[-1]) + 1, place[value - low]


def _looked_up(rows: int) -> int:
    """Return of how many integers so many *rows* are looked up in a table, and not sorted."""
    return 4 * rows + 1025
