"""What the demo prints."""

import sys
from typing import TYPE_CHECKING

import msgspec
import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from jobs.demo.findings import Finding, agreement, undisturbed
from jobs.demo.replay import CLUSTER

if TYPE_CHECKING:
    from jobs.demo.run import Result

#: Pairs in the table.
_SHOWN = 10


def show(result: "Result") -> None:
    """Print what was collected, attributed and learned, then the recommendation and its reasons."""
    console = Console(width=None if sys.stdout.isatty() else 150, highlight=False)
    _recorded(console, result)
    _collected(console, result)
    counts = result.snapshot.attribution.get(CLUSTER, {})
    said = ", ".join(f"{name} {value:,.0f}" for name, value in counts.items() if value)
    console.print(f"Attribution of activations to pods and nodes: {said or 'none'}\n")
    _pairs(console, result)
    _recommended(console, result)


def _recorded(console: Console, result: "Result") -> None:
    manifest = result.recording.manifest
    machine = manifest["machine"]
    console.print(f"[bold]A recorded cluster[/bold]: {escape(str(manifest['how']))}")
    console.print(
        f"Recorded on {machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}, from"
        f" {manifest['recorded'][0]} to {manifest['recorded'][1]}.\n"
    )


def _collected(console: Console, result: "Result") -> None:
    table = Table(title="Collected", title_justify="left")
    for column in ("source", "scope", "outcome", "new rows", "refused"):
        table.add_column(column, justify="right" if column in ("new rows", "refused") else "left")
    for each in result.outcomes:
        table.add_row(each.source, escape(each.scope), each.outcome, f"{each.rows:,}", str(each.refused))
    console.print(table)
    for each in result.outcomes:
        if each.message:
            console.print(escape(f"{each.source}/{each.scope}: {each.message}"))


def _pairs(console: Console, result: "Result") -> None:
    table = Table(
        title="The strongest pairs: learned from the records, beside measured directly", title_justify="left"
    )
    table.add_column("victim")
    table.add_column("aggressor")
    for column in ("longer", "90 % interval", "probability", "effective overlaps", "measured", "90 % interval"):
        table.add_column(column, justify="right")
    for each in [found for found in result.findings if found.interferes][:_SHOWN]:
        table.add_row(*map(escape, _row(each)))
    quiet = undisturbed(result.findings, result.policy.min_slowdown)
    if quiet is not None:
        table.add_section()
        table.add_row(*map(escape, _row(quiet)))
    console.print(table)
    if quiet is not None:
        told = "is taken for interference" if quiet.interferes else "is rightly not taken for interference"
        console.print(f"The last, which by direct measurement does not interfere, {told}.")
    limit = result.policy.min_slowdown
    found, above, wrong, below = agreement(result.findings, limit)
    console.print(
        f"Of {above} ordered pairs measured to slow down by more than {limit:.0%}, {found} were found; of {below}"
        f" measured to slow down by less, {wrong} were.\n"
    )


def _row(each: Finding) -> tuple[str, ...]:
    learned, direct = each.evidence, each.measured
    measured = (
        ("-", "-") if direct is None else (f"{direct['slowdown']:+.0%}", _interval(direct["low"], direct["high"]))
    )
    return (
        learned.victim,
        learned.aggressor,
        f"{learned.slowdown:+.0%}",
        _interval(learned.low, learned.high),
        f"{learned.probability:.2f}",
        f"{learned.effective_overlaps:.0f}",
        *measured,
    )


def _interval(low: float, high: float) -> str:
    return f"{low:+.0%} to {high:+.0%}"


def _recommended(console: Console, result: "Result") -> None:
    recommendation = result.answer.recommendation
    console.print(
        f"[bold]A new pod[/bold] {escape(recommendation.pod)}: its name says that it is"
        f" {escape(str(recommendation.function))}'s."
    )
    table = Table(title="Nodes, best first", title_justify="left")
    for column in ("node", "score", "reasons"):
        table.add_column(column)
    for node in recommendation.nodes:
        table.add_row(escape(node.name), f"{node.score:.3f}", escape("; ".join(node.reasons)))
    console.print(table)
    console.print("\n[bold]Because[/bold]")
    for reason in recommendation.reasons:
        console.print(f"- {escape(reason.sentence)}", soft_wrap=True)
    console.print("\n[bold]Affinity for the pod[/bold]")
    affinity = {"affinity": msgspec.to_builtins(recommendation.affinity)}
    console.print(yaml.safe_dump(affinity, sort_keys=False), markup=False, soft_wrap=True)
