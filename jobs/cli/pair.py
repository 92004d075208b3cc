"""How the explanation of one pair is shown to people."""

from collections.abc import Mapping, Sequence
from typing import Any

from featurestore.explained import percent
from jobs.cli.output import Format, rows
from jobs.cli.plain import line
from rules.digits import digits

#: Nodes that are listed where two functions met.
_PLACES = 5


def shown(told: Mapping[str, Any]) -> str:
    """Render one explanation of `featurestore.explained.explanation` as text."""
    victim, aggressor = line(told["victim"]), line(told["aggressor"])
    where = f" on node type {line(told['node_type'])}" if told["node_type"] else ""
    parts = [f"{victim} beside {aggressor}{where}: {told['status']}\n{line(told['meaning'])}.\n"]
    parts.append(_evidence(told))
    places = told["evidence"]["nodes"]
    if places:
        title = f"runs of {told['victim']} beside {told['aggressor']}, by node"
        columns = [column for column in ("node", "node_type", "from", "to", "runs") if column in places[0]]
        parts.append(rows(columns, places[:_PLACES], Format.table, title=title))
        if len(places) > _PLACES:
            parts.append(f"and {len(places) - _PLACES} more nodes\n")
    if told["controls"]:
        held = ", ".join(f"{line(name)} {percent(moved)}" for name, moved in told["controls"].items())
        parts.append(f"Held constant (and how much each moves the time of {victim}): {held}.\n")
    for name, head in (("placebo", "Other nodes"), ("naive", "Obvious comparison")):
        if told[name] is not None:
            parts.append(f"{head}: {line(told[name]['meaning'])}.\n")
    if told["base_ms"]:
        alone = ", ".join(f"{digits(ms)} ms on {line(kind) or 'any node'}" for kind, ms in told["base_ms"].items())
        parts.append(f"Undisturbed, {victim} takes: {alone}.\n")
    if told["other_direction"] is not None:
        parts.append(_other(told["other_direction"]))
    parts.append(_listed("To know more", told["missing"]))
    parts.append(_model(told["model"], told["cluster"]))
    return "".join(parts)


def _evidence(told: Mapping[str, Any]) -> str:
    evidence, estimate = told["evidence"], told["estimate"]
    runs, alone = evidence["runs"], evidence["alone"]
    of = f" of {runs:,}" if runs else ""
    said = (
        f"Seen: {evidence['activations']:,}{of} runs met it, {evidence['effective_overlaps']:,.1f} effective overlaps"
    )
    if alone is not None:
        said += f"; {alone:,} runs met nobody"
    if estimate["slowdown"] is not None:
        beyond = estimate["beyond_chance"]
        chance = "" if beyond is None else f" ({'beyond' if beyond else 'within'} chance among all pairs)"
        alone, error = percent(estimate["slowdown"], sign=True), percent(estimate["error"])
        said += f". By its own evidence {alone}, standard error {error}{chance}"
    return f"{said}.\n"


def _other(row: Mapping[str, Any]) -> str:
    pair = f"The other way, {line(row['victim'])} beside {line(row['aggressor'])}: {row['status']}"
    if row["slowdown"] is None:
        return f"{pair}.\n"
    slowdown, low, high = (percent(row[name]) for name in ("slowdown", "low", "high"))
    return f"{pair}, {slowdown} longer ({low} to {high}), probability {row['probability']:.2f}.\n"


def _listed(head: str, sentences: Sequence[str]) -> str:
    return "".join([f"{head}:\n", *(f"  - {line(each)}\n" for each in sentences)]) if sentences else ""


def _model(model: Mapping[str, Any], cluster: str) -> str:
    if not model.get("model"):
        return f"Cluster {line(cluster)}; nothing has been learned yet.\n"
    number = f"{model['number']} " if model.get("number") else ""
    reason = f", {model['reason']}" if model.get("reason") else ""
    return f"Cluster {line(cluster)}, model {number}({model['model']}{reason}).\n"
