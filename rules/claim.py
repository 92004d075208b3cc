"""What was learned of a pair, in a sentence for people."""

from datetime import datetime
from functools import lru_cache

from rules.advice import Evidence


def because(evidence: Evidence) -> str:
    """Return one sentence that names both functions and everything that the claim rests on."""
    where = f"on node type {evidence.node_type}" if evidence.node_type else "on all node types"
    window = _window(evidence.window_start, evidence.window_end)
    told = "predicted from similar functions" if evidence.status == "predicted" else "observed"
    return (
        f"{evidence.victim} runs {evidence.slowdown:.0%} longer beside one always running {evidence.aggressor} "
        f"({told}; interval {evidence.low:.0%} to {evidence.high:.0%}, probability {evidence.probability:.2f}, "
        f"{evidence.effective_overlaps:.0f} effective overlaps, {where}{window})"
    )


@lru_cache(maxsize=1024)
def _window(start: datetime | None, end: datetime | None) -> str:
    """Say the window; one fit has few of them."""
    if start is None or end is None:
        return ""
    return f", from {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"
