"""What follows from frozen values alone, worked out once and kept beside them."""

from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")

#: Beyond so many results the newest gives way to the next: what is asked again is worked out again. Results that were
#: worked out ahead are the oldest, two for each of 10,000 functions, and are never lost to what single pods ask.
_ROOM: Final = 24_000


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
                self._kept.popitem()
            found = self._kept[key] = make()
        return cast(T, found)

    def found(self, key: Hashable) -> Any:
        """Return what is kept of *key*, None where nothing is: for where not even a function is to be made."""
        return self._kept.get(key)

    def drop(self, count: int) -> bool:
        """Forget *count* results, the newest first; returns whether any are left. Others may go on asking."""
        for _ in range(min(count, len(self._kept))):
            self._kept.popitem()
        return bool(self._kept)
