"""A plan as programs and people read it: plain values, and rows of a table."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rules.disks.plan import Plan


def document(plan: Plan) -> dict[str, Any]:
    """Return *plan* with its parts by name; what it waits for only where it waits."""
    found = asdict(plan)
    if not plan.waits:
        del found["waits"]
    return found


def rows(pod: str, plan: Plan) -> Iterator[dict[str, object]]:
    """Yield a row for each node: those that can hold the volumes by score, then the others."""
    if plan.waits:
        yield {
            "pod": pod,
            "node": "",
            "score": None,
            "plan": plan.status,
            "notes": "waits for " + ", ".join(plan.waits),
        }
    elif not plan.plan and not plan.failed:
        yield {"pod": pod, "node": "", "score": None, "plan": plan.status, "notes": "no node with disks is known"}
    for node in sorted(plan.plan, key=lambda each: (-plan.scores.get(each, 0), each)):
        chosen = ", ".join(f"{request} -> {capacity}" for request, capacity in plan.plan[node].items())
        notes = [f"gives up {name}" for name in plan.violated.get(node, ())]
        notes += [
            f"dedicates {each} to {plan.taint[each]}" for each in plan.plan[node].values() if each in plan.taint
        ]
        yield {
            "pod": pod,
            "node": node,
            "score": plan.scores.get(node),
            "plan": chosen or "no volume of this driver",
            "notes": "; ".join(dict.fromkeys(notes)),
        }
    for node, why in sorted(plan.failed.items()):
        yield {"pod": pod, "node": node, "score": None, "plan": "", "notes": why}
