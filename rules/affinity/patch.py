"""The difference of two JSON documents as a JSON Patch (RFC 6902), small and clean to apply."""

from collections.abc import Iterator
from typing import Any

Operation = dict[str, Any]


def json_patch(before: Any, after: Any, pointer: str = "") -> list[Operation]:
    """Return the operations that make *after* of *before*; none where they are equal.

    A missing parent is added whole; items put behind a list are added one by one, other changes of a list replace it.
    *pointer* (RFC 6901) says where in a larger document both stand.
    """
    return list(_changes(before, after, pointer))


def pointer_to(pointer: str, key: str) -> str:
    """Return *pointer* with *key* behind it; ``~`` and ``/`` in the key are escaped (RFC 6901)."""
    return f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"


def _changes(before: Any, after: Any, pointer: str) -> Iterator[Operation]:
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before:
            if key not in after:
                yield {"op": "remove", "path": pointer_to(pointer, key)}
        for key, value in after.items():
            if key not in before:
                yield {"op": "add", "path": pointer_to(pointer, key), "value": value}
            elif before[key] is not value:
                yield from _changes(before[key], value, pointer_to(pointer, key))
    elif _same(before, after):
        return
    elif _is_list(before) and _is_list(after) and len(before) < len(after) and _same(before, after[: len(before)]):
        for value in after[len(before) :]:
            yield {"op": "add", "path": f"{pointer}/-", "value": value}
    else:
        yield {"op": "replace", "path": pointer, "value": after}


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _same(one: Any, other: Any) -> bool:
    """Equality of JSON values: true is not 1."""
    if one is other:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if _is_list(one) and _is_list(other):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
