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
    """What number each of *names*, which are all different, has: its place among them."""

    __slots__ = ("_found", "_names")

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._found = Lookup(((name, number) for number, name in enumerate(names)), lambda n, text: names[n] == text)

    def __getitem__(self, name: str) -> int:
        found = self._found.of(name)
        if not found:
            raise KeyError(name)
        return found[0]

    def get(self, name: str, default: int | None = None) -> int | None:  # type: ignore[override]
        """Return the number of *name*, *default* where there is none."""
        found = self._found.of(name)
        return found[0] if found else default

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self._found.of(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
