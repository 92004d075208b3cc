"""Values as JSON can say them, and text as one line of a terminal."""

import math
from typing import Any

import msgspec


def plain(value: object) -> Any:
    """Turn *value* into what JSON can say: structs to mappings, times to RFC 3339, NaN and infinities to null."""
    return _finite(msgspec.to_builtins(value))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def line(text: str) -> str:
    """Make *text* one line that a terminal only shows: names of others can hold line ends and control sequences."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
