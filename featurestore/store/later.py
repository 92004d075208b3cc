"""Victims' values that are unpacked once they are looked at: the store's file is free again by then."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

T = TypeVar("T")


class Later(Mapping[int, T]):
    """What *unpack* makes of *parts*, by victim; unpacked once."""

    def __init__(self, parts: Sequence[bytes], unpack: Callable[[Iterable[bytes]], dict[int, T]]) -> None:
        self._parts, self._unpack = parts, unpack

    @cached_property
    def _found(self) -> dict[int, T]:
        return self._unpack(self._parts)

    def __getitem__(self, victim: int) -> T:
        return self._found[victim]

    def __iter__(self) -> Iterator[int]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)
