"""What the demo learned beside what the recording measured directly. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from featurestore.snapshot import Snapshot
from rules.policy import Policy


@dataclass(frozen=True, slots=True)
class Finding:
    """One ordered pair: what was learned, and *measured*, the direct measurement (None where there is none).

    Slowdowns are fractions of the undisturbed time; *interferes* is whether the rules may act upon it.
    """

    victim: str
    aggressor: str
    status: str
    slowdown: float
    low: float
    high: float
    probability: float
    overlaps: float
    interferes: bool
    measured: Mapping[str, Any] | None


def findings(
    snapshot: Snapshot, cluster: str, measured: Sequence[Mapping[str, Any]], policy: Policy
) -> list[Finding]:
    """Return every learned pair of two functions, for all node types together, the strongest first."""
    direct = {(row["victim"], row["aggressor"]): row for row in measured}
    found = []
    for row in snapshot["pairs"].to_pylist():
        if row["cluster"] != cluster or row["node_type"] or row["victim"] == row["aggressor"]:
            continue
        acted = (
            row["status"] == "observed"
            and (row["probability"] or 0.0) >= policy.probability
            and row["slowdown"] >= policy.min_slowdown
            and row["effective_overlaps"] >= policy.min_overlaps
        )
        found.append(
            Finding(
                row["victim"],
                row["aggressor"],
                row["status"],
                _number(row["slowdown"]),
                _number(row["low"]),
                _number(row["high"]),
                _number(row["probability"]),
                row["effective_overlaps"],
                acted,
                direct.get((row["victim"], row["aggressor"])),
            )
        )
    return sorted(
        found, key=lambda each: (not each.interferes, -_sortable(each.slowdown), each.victim, each.aggressor)
    )


def strongest(found: Sequence[Finding]) -> Finding | None:
    """Return the pair with the largest learned slowdown among those that interfere."""
    return next((each for each in found if each.interferes), None)


def undisturbed(found: Sequence[Finding], limit: float) -> Finding | None:
    """Return the pair whose direct measurement is most narrowly around none, within *limit*; None where none is."""

    def farthest(each: Finding) -> float:
        return max(abs(each.measured["low"]), abs(each.measured["high"])) if each.measured else float("inf")

    nearest = min(found, key=farthest, default=None)
    return nearest if nearest is not None and farthest(nearest) < limit else None


def agreement(found: Sequence[Finding], limit: float) -> tuple[int, int, int, int]:
    """Count pairs: clearly above *limit* by measurement, found and all of them; clearly below, found and all."""
    above = [each for each in found if each.measured is not None and each.measured["low"] > limit]
    below = [each for each in found if each.measured is not None and each.measured["high"] < limit]
    return sum(each.interferes for each in above), len(above), sum(each.interferes for each in below), len(below)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _sortable(value: float) -> float:
    return value if value == value else float("-inf")
