"""Numbers by text in twelve bytes each, where dictionaries of the texts would take two hundred: every process that
answers has tens of thousands of them. Pure.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np


class Lookup:
    """Finds by a text the numbers that it was given for, one or several, ascending; the texts are not kept.

    Their hashes are, and whether a number's text is the one asked for *means* says: it gets the number and the text.
    """

    __slots__ = ("_hashes", "_means", "_numbers")

    def __init__(self, texts: Iterable[tuple[str, int]], means: Callable[[int, str], bool]) -> None:
        found = array("q")
        for text, number in texts:
            found.append(hash(text))
            found.append(number)
        pairs = np.frombuffer(found, dtype=np.int64).reshape(-1, 2)
        order = np.lexsort((pairs[:, 1], pairs[:, 0]))
        self._hashes = array("q", pairs[order, 0].tobytes())  # bisected in a third of the time that numpy's takes
        self._numbers = array("i", pairs[order, 1].astype(np.intc).tobytes())
        self._means = means

    def __len__(self) -> int:
        return len(self._hashes)

    def of(self, text: str) -> tuple[int, ...]:
        """Return the numbers that *text* stands for, none for an unknown one."""
        said, hashes, numbers = hash(text), self._hashes, self._numbers
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

    A table of places by hash, half empty at least, with the next free one where two meet: every review asks it.
    """

    __slots__ = ("_last", "_names", "_places")

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._last = last = (1 << (2 * len(names)).bit_length()) - 1
        self._places = places = array("i", (-1,)) * (last + 1)
        for number, name in enumerate(names):
            at = hash(name) & last
            while places[at] >= 0:
                at = (at + 1) & last
            places[at] = number

    def __getitem__(self, name: str) -> int:
        found = self._number(name)
        if found < 0:
            raise KeyError(name)
        return found

    def get(self, name: str, default: int | None = None) -> int | None:  # type: ignore[override]
        """Return the number of *name*, *default* where there is none."""
        found = self._number(name)
        return found if found >= 0 else default

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._number(name) >= 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def _number(self, name: str) -> int:
        names, places, at = self._names, self._places, hash(name) & self._last
        while (number := places[at]) >= 0 and names[number] != name:
            at = (at + 1) & self._last
        return number
