"""Numbers by text in eight bytes each, where dictionaries of the texts would take two hundred: every process that
answers has tens of thousands of them. Pure.

What is kept are plain columns, the same in every process: CRC-32 hashes, which no process seeds by itself.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, overload
from zlib import crc32

import numpy as np
import numpy.typing as npt

#: So many names are found again without looking for them.
_LATELY: Final = 1024

#: Takes the name of a column and the column; returns it, or the same one as it lies in memory that processes share.
Share = Callable[[str, npt.NDArray[Any]], npt.NDArray[Any]]


def alone(name: str, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Share nothing."""
    return column


class Lookup:
    """Finds by a text the numbers that it was given for, one or several, ascending; the texts are not kept.

    Their hashes are, and whether a number's text is the one asked for *means* says: it gets the number and the text.
    """

    __slots__ = ("_hashes", "_means", "_numbers")

    def __init__(self, texts: Iterable[tuple[str, int]], means: Callable[[int, str], bool]) -> None:
        found = array("q")
        for text, number in texts:
            found.append(_hash(text))
            found.append(number)
        pairs = np.frombuffer(found, dtype=np.int64).reshape(-1, 2)
        order = np.lexsort((pairs[:, 1], pairs[:, 0]))
        # As memory they are bisected in a third of the time that numpy's columns take.
        self._hashes = pairs[order, 0].astype(np.uint32).data
        self._numbers = pairs[order, 1].astype(np.int32).data
        self._means = means

    def __len__(self) -> int:
        return len(self._hashes)

    def shared(self, share: Share, name: str) -> "Lookup":
        """Return this with its columns, called after *name*, as *share* has them."""
        self._hashes = share(f"{name}.hashes", np.asarray(self._hashes)).data
        self._numbers = share(f"{name}.numbers", np.asarray(self._numbers)).data
        return self

    def of(self, text: str) -> tuple[int, ...]:
        """Return the numbers that *text* stands for, none for an unknown one."""
        said, hashes, numbers = _hash(text), self._hashes, self._numbers
        at = bisect_left(hashes, said)
        if at == len(hashes) or hashes[at] != said:
            return ()
        found = []
        while at < len(hashes) and hashes[at] == said:
            if self._means(numbers[at], text):
                found.append(numbers[at])
            at += 1
        return tuple(found)


class Numbered(Mapping[str, int]):
    """What number each of *names*, which are all different, has: its place among them.

    A table of places by hash, half empty at least, with the next free one where two meet. Every review asks it: the
    names that were found lately are remembered.
    """

    __slots__ = ("_last", "_lately", "_places", "names")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self._last = last = (1 << (2 * len(names)).bit_length()) - 1
        places = array("i", (-1,)) * (last + 1)
        for number, name in enumerate(names):
            at = _hash(name) & last
            while places[at] >= 0:
                at = (at + 1) & last
            places[at] = number
        self._places = memoryview(places)
        self._lately: dict[str, int] = {}

    def shared(self, share: Share, name: str) -> "Numbered":
        """Return this with its column, called after *name*, as *share* has it."""
        self._places = share(f"{name}.places", np.asarray(self._places)).data
        return self

    def __getitem__(self, name: str) -> int:
        found = self._number(name)
        if found < 0:
            raise KeyError(name)
        return found

    @overload  # type: ignore[override]
    def get(self, name: str) -> int | None: ...
    @overload
    def get(self, name: str, default: int) -> int: ...
    def get(self, name: str, default: int | None = None) -> int | None:
        """Return the number of *name*, *default* where there is none."""
        found = self._number(name)
        return found if found >= 0 else default

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._number(name) >= 0

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def _number(self, name: str) -> int:
        found = self._lately.get(name)
        if found is not None:
            return found
        names, places, at = self.names, self._places, _hash(name) & self._last
        while (number := places[at]) >= 0 and names[number] != name:
            at = (at + 1) & self._last
        if number >= 0:
            if len(self._lately) >= _LATELY:
                self._lately.clear()
            self._lately[name] = number
        return number


def _hash(text: str) -> int:
    return crc32(text.encode("utf-8", "surrogatepass"))
