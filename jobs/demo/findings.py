"""What the demo learned beside what the recording measured directly. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from featurestore.snapshot import Snapshot
from rules.advice import Evidence
from rules.policy import Policy


@dataclass(frozen=True, slots=True)
class Finding:
    """One ordered pair: what was learned, *measured* directly (None where it was not), may the rules act upon it."""

    evidence: Evidence
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
        told = {name: row[name] for name in Evidence.__struct_fields__}
        told |= {name: float("nan") for name in ("slowdown", "low", "high", "probability") if row[name] is None}
        evidence = Evidence(**told)
        pair = (evidence.victim, evidence.aggressor)
        found.append(Finding(evidence, _acted_upon(evidence, policy), direct.get(pair)))
    return sorted(found, key=_strength)


def _acted_upon(evidence: Evidence, policy: Policy) -> bool:
    return (
        evidence.status == "observed"
        and evidence.probability >= policy.probability
        and evidence.slowdown >= policy.min_slowdown
        and evidence.effective_overlaps >= policy.min_overlaps
    )


def _strength(each: Finding) -> tuple[bool, float, str, str]:
    slowdown = each.evidence.slowdown
    known = slowdown if slowdown == slowdown else float("-inf")
    return not each.interferes, -known, each.evidence.victim, each.evidence.aggressor


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


def consistent(each: Finding) -> bool | None:
    """Return whether learned and measured slowdown differ by no more than their two 90 % intervals allow, on the log
    scale; None where either is not known.

    The interval of the difference is that of Zou and Donner, Statistics in Medicine 27 (2008) 1693. Only slowdowns
    are learned: one that was measured to be below none, a function that runs faster beside another, counts as none.
    """
    told, direct = each.evidence, each.measured
    if direct is None or not math.isfinite(told.slowdown):
        return None
    learned = [math.log1p(value) for value in (told.slowdown, told.low, told.high)]
    measured = [math.log1p(max(0.0, direct[name])) for name in ("slowdown", "low", "high")]
    difference = learned[0] - measured[0]
    low = difference - math.hypot(learned[0] - learned[1], measured[2] - measured[0])
    high = difference + math.hypot(learned[2] - learned[0], measured[0] - measured[1])
    return low <= 1e-9 and high >= -1e-9


def covered(found: Sequence[Finding]) -> tuple[int, int]:
    """Count the pairs whose learned slowdown is consistent with the measured one, and all that were compared."""
    said = [consistent(each) for each in found]
    return said.count(True), len(said) - said.count(None)
