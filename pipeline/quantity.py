"""Kubernetes quantities: one reader for every field that holds one.

The arithmetic is the official client's; the grammar is checked before, since the client also reads what the API
server refuses (inner spaces, ``1_000``, ``NaN``). See apimachinery's ``resource.Quantity`` for the grammar.
"""

import math
import re
from functools import lru_cache

from kubernetes.utils.quantity import parse_quantity

from pipeline.errors import BadInput

_GRAMMAR = re.compile(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3}|[KMGTPE]i|[numkKMGTPE])?")


def parse(field: str, text: object) -> float:
    """Return the amount in base units (cores, bytes, items) that *text* states: a string, or a bare number.

    Raises `BadInput` naming *field* for what is no quantity, not finite, or below zero.
    """
    try:
        if isinstance(text, str):
            return _of_text(text)
        if isinstance(text, (int, float)) and not isinstance(text, bool):
            return _checked(float(text))
    except (ValueError, OverflowError):
        pass
    raise BadInput(f"{field}: {_short(text)} is no quantity such as 500m, 2 or 1.5Gi")


@lru_cache(maxsize=16384)
def _of_text(text: str) -> float:
    if _GRAMMAR.fullmatch(text) is None:
        raise ValueError(text)
    return _checked(float(parse_quantity(text)))  # type: ignore[no-untyped-call]


def _checked(amount: float) -> float:
    if not math.isfinite(amount) or amount < 0:
        raise ValueError(amount)
    return amount


def _short(text: object) -> str:
    shown = repr(text)
    return shown if len(shown) <= 60 else shown[:57] + "..."
