"""How activations are placed on nodes: the methods by name, and of how many the node is not certain."""

from collections.abc import Mapping

METHODS = ("exact", "node", "inferred", "ambiguous", "none", "given")
EXACT, NODE, INFERRED, AMBIGUOUS, NONE, GIVEN = range(6)

#: Whose node is certain enough to be evidence.
CERTAIN = (EXACT, NODE, INFERRED, GIVEN)


def unplaced(counts: Mapping[str, float]) -> tuple[int, int]:
    """Return of how many activations the node is not certain, and how many there are, given their *counts*."""
    number = [round(counts.get(name, 0.0)) for name in METHODS]
    return sum(number) - sum(number[code] for code in CERTAIN), sum(number)
