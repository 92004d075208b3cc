"""Arrow's columns as NumPy's arrays, read where they lie where that is possible: in the snapshot's file, which all
processes that answer map."""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.lookup import Numbered
from pipeline.texts import column as column_of
from rules.candidates import Ids
from rules.functions import Floats, Rows

_V = TypeVar("_V", bound=np.generic)


def turned(order: Rows, table: pa.Table) -> Rows | slice:
    """Return what puts columns of *table* in *order*: none where they stand so already, as published.

    What lies in the snapshot's file is then not copied.
    """
    return slice(None) if np.array_equal(order, np.arange(len(table))) else order


def pick(values: npt.NDArray[_V], codes: Ids) -> npt.NDArray[_V]:
    """Return the value of each row by its code; 0 for all where there are no values."""
    if len(values) == 1:  # as of pairs that speak for all node types: one value takes no room
        return np.broadcast_to(values[0], codes.shape)
    return values[codes] if len(values) else np.zeros(len(codes), dtype=values.dtype)


def encoded(column: pa.ChunkedArray) -> tuple[list[str], Ids]:
    """Return the texts of *column*, each once, and the code of each row; null is "".

    The codes of a dictionary column without nulls are read where they lie; some of its texts may then have no row.
    """
    whole = dictionary(column)
    return whole.dictionary.to_pylist(), whole.indices.to_numpy(zero_copy_only=False)


def interned(column: pa.ChunkedArray) -> tuple[tuple[str, ...], Ids]:
    """Return what `encoded` does, the texts as they are kept in values that are frozen."""
    names, codes = encoded(column)
    return tuple(names), codes


def numbered(column: pa.ChunkedArray, index: Mapping[str, int]) -> Ids:
    """Return for each row the number that *index*, which counts its texts from 0, gives to its text, -1 for none.

    Where the dictionary of *column* begins with just these texts, as functions are published, the codes are read
    where they lie.
    """
    whole = dictionary(column)
    texts = column_of(index.names if isinstance(index, Numbered) else index)
    found = pc.fill_null(pc.index_in(whole.dictionary, value_set=texts), -1)
    numbers: Ids = found.to_numpy(zero_copy_only=False)
    codes: Ids = whole.indices.to_numpy(zero_copy_only=False)
    first = np.count_nonzero(numbers >= 0)
    same = np.array_equal(numbers[:first], np.arange(first)) and codes.max(initial=-1) < first
    return codes if same else numbers[codes]


def dictionary(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return the texts of *column*, null as "", each once, with the code of each row; as it lies where it does."""
    found = whole(column)
    if pa.types.is_dictionary(found.type) and not found.null_count:
        return found
    return pc.fill_null(found.cast(pa.string()), "").dictionary_encode()


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Return *column* in one piece, as it lies where it does."""
    if column.num_chunks == 1:
        return column.chunk(0)
    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.unify_dictionaries().chunks) if found.num_chunks else pa.array([], column.type)
    return found


def floats(column: pa.ChunkedArray) -> Floats:
    """Return *column* as floats; null is NaN."""
    numbers: Floats = _plain(column.cast(pa.float64()))
    return numbers


def integers(column: pa.ChunkedArray, missing: int = 0) -> Rows:
    """Return *column* (integers or times) as integers; null is *missing*."""
    whole = column.cast(pa.int64())
    counts: Rows = _plain(pc.fill_null(whole, missing) if whole.null_count else whole)
    return counts


def _plain(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return the numbers of *column*, read only; where they lie in one piece without nulls, as they lie there."""
    whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    numbers: npt.NDArray[Any] = whole.to_numpy(zero_copy_only=False)
    return numbers
