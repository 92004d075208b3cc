"""How activations are placed on nodes: the methods by name, and what is said where most have no certain one."""

from collections.abc import Mapping

METHODS = ("exact", "node", "inferred", "ambiguous", "none", "given")
EXACT, NODE, INFERRED, AMBIGUOUS, NONE, GIVEN = range(6)

#: Whose node is certain enough to be evidence.
CERTAIN = (EXACT, NODE, INFERRED, GIVEN)

#: What would tell the node of activations that have none.
TELLS = (
    "placements of their pods ([clusters.kubernetes], colocate collect), or a node in imported records, would tell it"
)


def unplaced(counts: Mapping[str, float]) -> str:
    """Say that most activations have no certain node, given their *counts* by method; "" where most have one."""
    number = [round(counts.get(name, 0.0)) for name in METHODS]
    every, certain = sum(number), sum(number[code] for code in CERTAIN)
    return f"{every - certain:,} of {every:,} activations have no certain node" if 2 * certain < every else ""
