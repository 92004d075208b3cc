"""What follows from frozen values alone, worked out once and kept beside them."""

from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")

#: Beyond so many results all are forgotten: what is asked again is worked out again.
_ROOM: Final = 20_000


class Memo:
    """Results by key. It belongs to one frozen value, and a key names everything else that the result depends on."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what *make* returns for *key*, from the first call on the same object."""
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= _ROOM:
                self._kept.clear()
            found = self._kept[key] = make()
        return cast(T, found)
