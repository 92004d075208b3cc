"""What the demo learned beside what the recording measured directly. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
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
        told = {each.name: row[each.name] for each in fields(Evidence)}
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
