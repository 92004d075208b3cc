"""Texts as they lie in a column: every process that answers has tens of thousands, and all map the same. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import pyarrow as pa


class Texts(Sequence[str]):
    """The texts of an Arrow column in one piece without nulls, and behind them *more*.

    Each is decoded as it is asked for, in .2 us; none takes memory beside the column's.
    """

    __slots__ = ("_bytes", "_starts", "array", "more")

    def __init__(self, array: pa.StringArray, more: Iterable[str] = ()) -> None:
        _, starts, texts = array.buffers()
        self.array = array
        self.more = tuple(more)
        self._starts = (
            memoryview(starts or bytes(4)).cast("B").cast("i")[array.offset : array.offset + len(array) + 1]
        )
        self._bytes = memoryview(texts or b"").cast("B")

    def __len__(self) -> int:
        return len(self.array) + len(self.more)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...
    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        if isinstance(place, slice):
            return tuple(self[each] for each in range(*place.indices(len(self))))
        size = len(self._starts) - 1
        if 0 <= place < size:
            return str(self._bytes[self._starts[place] : self._starts[place + 1]], "utf-8")
        return self.more[place - size] if place >= 0 else self[range(len(self))[place]]

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))

    def arrow(self) -> pa.Array:
        """Return all texts as a column."""
        return pa.concat_arrays([self.array, pa.array(self.more, pa.string())]) if self.more else self.array


def behind(texts: Sequence[str], more: Iterable[str]) -> Sequence[str]:
    """Return *texts* and *more* behind them; what lies in a column is not copied."""
    return Texts(texts.array, (*texts.more, *more)) if isinstance(texts, Texts) else (*texts, *more)


def column(texts: Iterable[str]) -> pa.Array:
    """Return *texts* as an Arrow column, as it lies where it is one."""
    return texts.arrow() if isinstance(texts, Texts) else pa.array(list(texts), pa.string())
