"""Why one pair is told as it is: evidence, controls, placebo, the obvious comparison, what is missing. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from featurestore.attribution.methods import TELLS

Row = Mapping[str, Any]

#: A placebo beyond so many standard errors shows something.
_SHOWN = 2.0
#: Probabilities between which a pair is undecided.
_UNDECIDED = (0.1, 0.9)
_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a pair; rows are those of the tables of `featurestore.snapshot` and `featurestore.detailed`.

    *pair* is the told row, *reverse* that of the other direction. *seen* are rows of `interference.together` with
    their *node_type*; *node_types* and *nodes* (their number) those of the cluster. *details* says whether the
    store holds those of the model; *unplaced* that most activations of the cluster have no certain
    node (`methods.unplaced`).
    """

    pair: Row
    model: Row
    least_overlaps: float
    least_effect: float
    reverse: Row | None = None
    evidence: Row = field(default_factory=dict)
    fit: Row = field(default_factory=dict)
    comparison: Row = field(default_factory=dict)
    controls: Mapping[str, float] = field(default_factory=dict)
    base_ms: Mapping[str, float] = field(default_factory=dict)
    seen: Sequence[Row] = ()
    node_types: Sequence[str] = ()
    nodes: int = 0
    least_runs: int = 20
    unplaced: str = ""
    details: bool = True


def explanation(facts: Facts) -> dict[str, Any]:
    """Return the whole explanation as one document: the pair's columns, then a part for each question."""
    pair = facts.pair
    by_type: dict[str, int] = {}
    for place in facts.seen:
        by_type[place["node_type"]] = by_type.get(place["node_type"], 0) + place["runs"]
    return {
        **pair,
        "meaning": _meaning(facts),
        "model": dict(facts.model),
        "evidence": {
            "effective_overlaps": pair["effective_overlaps"],
            "activations": pair["activations"],
            "runs": _runs(facts),
            "alone": facts.comparison.get("alone"),
            "node_types": by_type,
            "nodes": [dict(place) for place in facts.seen],
        },
        "estimate": {
            "slowdown": facts.evidence.get("estimate"),
            "error": facts.evidence.get("error"),
            "widened": _root(facts.evidence.get("inflation")),
            "beyond_chance": facts.evidence.get("discovered") if _judged(facts) else None,
        },
        "controls": dict(facts.controls),
        "placebo": _placebo(facts),
        "naive": _naive(facts),
        "base_ms": dict(facts.base_ms),
        "other_direction": None if facts.reverse is None else dict(facts.reverse),
        "missing": list(missing(facts)),
    }


def _judged(facts: Facts) -> bool:
    """Return whether chance is judged: where the pair's own evidence decides, and speaks of no run made shorter."""
    estimate, error = (float(facts.evidence.get(name) or 0.0) for name in ("estimate", "error"))
    enough = float(facts.pair["effective_overlaps"] or 0.0) >= facts.least_overlaps
    return enough and facts.pair["status"] != "unknown" and estimate >= -_SHOWN * error


def _meaning(facts: Facts) -> str:
    pair = facts.pair
    victim, aggressor, status = pair["victim"], pair["aggressor"], pair["status"]
    if status == "unknown" or pair["slowdown"] is None:
        return f"it is not known whether {aggressor} slows {victim} down"
    told = (
        f"{victim} takes {percent(pair['slowdown'])} longer beside one always running {aggressor}"
        f" (90 % interval {percent(pair['low'])} to {percent(pair['high'])}); the probability that it is more than"
        f" {percent(facts.least_effect)} is {pair['probability']:.2f}"
    )
    if status == "predicted":
        seen = "too little of it seen" if facts.pair["activations"] else "never seen"
        return f"predicted from functions that are alike, {seen}: {told}"
    if status == "shared_cause":
        return f"{victim} is slow while {aggressor} runs on other nodes too: something else drives both ({told})"
    return told


def _placebo(facts: Facts) -> dict[str, Any] | None:
    effect, error = facts.evidence.get("placebo"), facts.evidence.get("placebo_error")
    if effect is None or not error:
        return None
    victim, aggressor = facts.pair["victim"], facts.pair["aggressor"]
    change = f"{percent(effect, sign=True)} ± {percent(1.645 * error)}"
    found = f"one more run of {aggressor} on other nodes goes with {change} for {victim}"
    if effect > _SHOWN * error:
        return {"effect": effect, "error": error, "meaning": f"{found}: something besides the node drives both"}
    return {"effect": effect, "error": error, "meaning": f"{found}: no sign of a cause that both share"}


def _naive(facts: Facts) -> dict[str, Any] | None:
    told = facts.comparison
    if told.get("naive") is None:
        return None
    names = {"own_part": "the aggressor", "others_part": "other co-runners"}
    names |= {"node_types_part": "node types", "rest_part": "all else"}
    parts = {name: math.expm1(told[key]) for key, name in names.items() if told.get(key) is not None}
    said = ", ".join(f"{name} {percent(part, sign=True)}" for name, part in parts.items())
    meaning = f"runs beside it took {percent(told['naive'], sign=True)} against those without it"
    if said:
        meaning += f"; of this, by what was learned: {said}"
    cold = [told["cold_beside"], told["cold_without"]]
    if None not in cold and max(cold) > 0:
        meaning += f" (cold starts: {percent(cold[0])} of those beside, {percent(cold[1])} of those without)"
    return {
        "slowdown": told["naive"],
        "parts": parts,
        "cold_beside": cold[0],
        "cold_without": cold[1],
        "meaning": meaning,
    }


def missing(facts: Facts) -> Iterator[str]:
    """Yield what would have to be seen to know more, in sentences."""
    pair, victim, aggressor = facts.pair, facts.pair["victim"], facts.pair["aggressor"]
    if not facts.details:
        yield "the store does not hold this model's details: evidence, placebo and comparison are not shown"
    yield from _not_fitted(facts)
    overlaps = float(pair["effective_overlaps"] or 0.0)
    if overlaps < facts.least_overlaps:
        yield (
            f"about {math.ceil(facts.least_overlaps - overlaps)} more effective overlaps until their own evidence"
            f" decides{_pace(pair, facts.least_overlaps - overlaps)}"
        )
    elif pair["status"] == "unknown" and facts.evidence.get("estimate") is not None:
        yield (
            f"{victim} would run much shorter beside {aggressor}, which no neighbour brings about: one may start the"
            " other, or both start together; runs that met by chance would tell"
        )
    elif pair["status"] == "unknown" and not facts.fit.get("reason"):
        yield f"{victim} met {aggressor} only together with others: runs beside it alone would tell them apart"
    else:
        if pair["low"] is not None and pair["high"] > pair["low"]:
            more = 3 * overlaps  # errors fall with the square root of what is seen
            yield f"about {more:,.0f} more effective overlaps would halve the interval{_pace(pair, more)}"
        if pair["probability"] is not None and _UNDECIDED[0] < pair["probability"] < _UNDECIDED[1]:
            yield f"undecided: the evidence allows less than {percent(facts.least_effect)} as well as more"
    if not facts.fit.get("reason") and pair["activations"] == (_runs(facts) or 0) > 0:
        yield f"{victim} never ran without {aggressor}: only how long they ran together tells what it does"
    if facts.comparison.get("alone") == 0:
        yield f"{victim} never ran on a node alone: its undisturbed time is worked out from partial overlaps"
    yield from _places(facts)


def _runs(facts: Facts) -> int | None:
    """Return how many runs the victim has; None where that is not known: those of older versions count as what they
    are worth, but all of them where they met somebody or nobody."""
    runs: int | None = facts.fit.get("runs")
    told = facts.pair["activations"] + (facts.comparison.get("alone") or 0)
    return None if runs is None or told > runs else runs


def _not_fitted(facts: Facts) -> Iterator[str]:
    reason, victim = facts.fit.get("reason"), facts.pair["victim"]
    if not reason:
        return
    runs = facts.fit.get("runs") or 0
    if runs < facts.least_runs:
        yield f"{victim} has {runs} runs that count; {facts.least_runs - runs} more are needed for an estimate"
        if facts.unplaced:
            yield f"{facts.unplaced}: {TELLS}"
    else:
        yield f"nothing can be estimated for {victim}: {reason}"


def _places(facts: Facts) -> Iterator[str]:
    victim = facts.pair["victim"]
    if facts.nodes == 1:
        yield "the cluster has one node: a cause that functions share cannot be told from interference"
    together = {place["node_type"] for place in facts.seen}
    for kind in facts.node_types:
        if facts.fit and not facts.fit.get("reason") and kind not in facts.base_ms:
            yield f"no runs of {victim} on node type {kind}"
        elif facts.seen and kind not in together:
            yield f"never seen together on node type {kind}"
    if len(facts.seen) == 1 and facts.nodes > 1:
        yield f"all seen on one node, {facts.seen[0]['node']}: seeing both on another would confirm it"
    if facts.seen:
        first, last = min(place["from"] for place in facts.seen), max(place["to"] for place in facts.seen)
        if (last - first).total_seconds() < _DAY:
            yield "all seen within one day: another day would tell the hour from the neighbour"


def _pace(pair: Row, more: float) -> str:
    """Say how long *more* overlaps take as they came in the window of the evidence."""
    start, end, overlaps = pair["window_start"], pair["window_end"], pair["effective_overlaps"]
    if start is None or end is None or not overlaps or end <= start:
        return ""
    days = more * (end - start).total_seconds() / _DAY / overlaps
    if 24 * days < 2:
        return f" (some {max(1, round(24 * 60 * days)):,} minutes as things go)"
    return f" (some {days:,.0f} days as things go)" if days >= 2 else f" (some {24 * days:,.0f} hours as things go)"


def percent(share: float, *, sign: bool = False) -> str:
    """Write a share with a tenth of a percent at most, and no zeros that say nothing."""
    text = f"{100 * share:{'+' if sign else ''}.1f}".removesuffix(".0")
    return "0%" if text in ("-0", "+0") else f"{text}%"


def _root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)
