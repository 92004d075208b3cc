"""The words and numbers that some parameters of lists are of; commands and HTTP take the same, without importing a
table."""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Literal, get_args

from pipeline.errors import BadInput
from rules.policy import MODES
from rules.regions.region import State

Status = Literal["observed", "predicted", "unknown", "shared_cause"]
Dominant = Literal["cpu", "memory", "network", "disk", "mixed"]
Outcome = Literal["patched", "unchanged", "left_alone"]

#: By the name of the parameter.
WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "status": get_args(Status),
    "dominant": get_args(Dominant),
    "mode": MODES,
    "outcome": get_args(Outcome),
    "state": tuple(state.value for state in State),
}

#: From what to what a parameter goes that says the least of a column.
LEAST: Final[Mapping[str, tuple[float, float]]] = {
    "min_slowdown": (-1.0, math.inf),
    "min_probability": (0.0, 1.0),
}


def least(name: str, text: str) -> float:
    """Read the number that the parameter of this *name* is given as; raises `BadInput` naming it."""
    lowest, highest = LEAST[name]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and lowest <= value <= highest):
        limits = f"of at least {lowest:g}" if math.isinf(highest) else f"from {lowest:g} to {highest:g}"
        raise BadInput(f"{name}: {text!r:.60} is not a number {limits}")
    return value


def single(given: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the parameters of a query by their names; raises `BadInput` for one that stands twice."""
    found: dict[str, str] = {}
    for name, value in given:
        if name in found:
            raise BadInput(f"{name:.60}: stands twice")
        found[name] = value
    return found


def check(given: Mapping[str, object], known: Collection[str], *others: str) -> None:
    """Raise `BadInput` for a parameter that is none of *known* or *others*, or whose word is none of its `WORDS`."""
    for name, value in given.items():
        if name not in known and name not in others:
            raise BadInput(f"{name}: no such parameter; there are {', '.join((*known, *others)) or 'none'}")
        words = WORDS.get(name)
        if words is not None and value not in words:
            raise BadInput(f"{name}: {value!r:.60} is not one of {', '.join(words)}")
