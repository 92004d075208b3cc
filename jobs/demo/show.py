"""What the demo prints."""

import math
import os
import shutil
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from featurestore.profiles import RESOURCES
from jobs.demo.findings import Finding, agreement, covered, undisturbed
from jobs.demo.replay import CLUSTER
from jobs.demo.result import Result
from rules.scoring import told

if TYPE_CHECKING:
    from jobs.demo.recorded import Recording

#: Pairs in the table.
_SHOWN = 10
#: What the pairs rest on is left out where a terminal has less room than this.
_EVIDENCE, _ROOMY = ("probability", "effective overlaps"), 130


def opening(recording: "Recording") -> None:
    """Say what is replayed, before it is."""
    console = _console()
    manifest = recording.manifest
    made_on = manifest["machine"]
    console.print(f"[bold]A recorded cluster[/bold]: {escape(str(manifest['how']))}")
    begun, ended = (datetime.fromisoformat(text) for text in manifest["recorded"])
    shown = datetime.fromisoformat(manifest["shown"][0])
    console.print(
        f"Recorded on {escape(made_on['processor'])}, {made_on['cores']} cores,"
        f" Linux {escape(made_on['kernel'])}, from {begun:%Y-%m-%d %H:%M} to {ended:%H:%M} UTC;"
        f" shown as of {shown:%Y-%m-%d}.\n"
    )
    console.print("This takes some seconds, the first time a minute or two: its own loops are compiled then.")
    sys.stdout.flush()


def step(said: str) -> None:
    """Say what begins now."""
    _console().print(f"{escape(said)} ...")
    sys.stdout.flush()


def region(said: str) -> None:
    """Print what a consistent region did."""
    _console().print(f"\n{escape(said)}\n")


def show(result: Result, kept: Path | None = None) -> None:
    """Print what was collected, attributed and learned, then the recommendation and its reasons.

    *kept* is the settings file where the demo's files stay.
    """
    console = _console()
    _collected(console, result)
    counts = result.snapshot.attribution.get(CLUSTER, {})
    said = ", ".join(f"{name} {value:,.0f}" for name, value in counts.items() if value)
    console.print(f"Attribution of activations to pods and nodes: {said or 'none'}\n")
    _functions(console, result)
    _pairs(console, result)
    _recommended(console, result)
    if kept is not None:
        console.print(f"\nLook around: {escape(command())} --config {escape(str(kept))} interference", soft_wrap=True)


def command() -> str:
    """Return what a shell here would call: the bare name only where it is found."""
    return "colocate" if shutil.which("colocate") else os.path.relpath(Path(sys.executable).with_name("colocate"))


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 150, highlight=False)


def _collected(console: Console, result: Result) -> None:
    table = Table(title="Collected", title_justify="left")
    for column in ("source", "scope", "outcome", "new rows", "refused"):
        table.add_column(column, justify="right" if column in ("new rows", "refused") else "left")
    for each in result.outcomes:
        table.add_row(each.source, escape(each.scope), each.outcome, f"{each.rows:,}", str(each.refused))
    console.print(table)
    for each in result.outcomes:
        if each.message:
            console.print(escape(f"{each.source}/{each.scope}: {each.message}"))


def _functions(console: Console, result: Result) -> None:
    table = Table(title="Functions: what they were written to use, and what was measured", title_justify="left")
    for column in ("function", "written to use", "uses most", *RESOURCES):
        table.add_column(column, no_wrap=column != "written to use", overflow="fold")
    written = result.recording.manifest["functions"]
    for row in result.snapshot["functions"].to_pylist():
        if row["cluster"] == CLUSTER and not row["node_type"]:
            function = row["function"]
            levels = (row[name] or "-" for name in ("dominant", *RESOURCES))
            table.add_row(escape(function), escape(written.get(function, "-")), *levels)
    console.print(table)
    console.print()


def _pairs(console: Console, result: Result) -> None:
    table = Table(
        title="The strongest pairs: learned from the records, beside measured directly", title_justify="left"
    )
    for column in ("victim", "aggressor"):
        table.add_column(column, no_wrap=True)
    for column in ("longer", "90 % interval", *_EVIDENCE, "measured", "90 % interval"):
        if column not in _EVIDENCE or console.width >= _ROOMY:
            table.add_column(column, justify="right")
    for each in [found for found in result.findings if found.interferes][:_SHOWN]:
        table.add_row(*map(escape, _row(each, console.width >= _ROOMY)))
    quiet = undisturbed(result.findings, result.policy.min_slowdown)
    if quiet is not None:
        table.add_section()
        table.add_row(*map(escape, _row(quiet, console.width >= _ROOMY)))
    console.print(table)
    if quiet is not None:
        told = "is taken for interference" if quiet.interferes else "is rightly not taken for interference"
        console.print(f"The last, which by direct measurement does not interfere, {told}.")
    limit = result.policy.min_slowdown
    found, above, wrong, below = agreement(result.findings, limit)
    console.print(
        f"Of {above} ordered pairs measured to slow down by more than {limit:.0%}, {found} were found; of {below}"
        f" measured to slow down by less, {wrong} were."
    )
    inside, compared = covered(result.findings)
    console.print(f"Within their 90 % intervals, {inside} of {compared} slowdowns are as measured.\n")


def _row(each: Finding, evidence: bool) -> tuple[str, ...]:
    learned, direct = each.evidence, each.measured
    measured = (
        ("-", "-") if direct is None else (_percent(direct["slowdown"]), _interval(direct["low"], direct["high"]))
    )
    rests_on = (f"{learned.probability:.2f}", f"{learned.effective_overlaps:.0f}") if evidence else ()
    interval = _interval(learned.low, learned.high)
    return learned.victim, learned.aggressor, _percent(learned.slowdown), interval, *rests_on, *measured


def _percent(share: float) -> str:
    whole = round(100 * share) if math.isfinite(share) else share
    return f"{whole:+d}%" if whole else "0%"


def _interval(low: float, high: float) -> str:
    return f"{_percent(low)} to {_percent(high)}"


def _recommended(console: Console, result: Result) -> None:
    recommendation = result.answer.recommendation
    console.print(
        f"[bold]A new pod[/bold] {escape(recommendation.pod)}: its name says that it is"
        f" {escape(str(recommendation.function))}'s."
    )
    console.print("\n[bold]Its affinity[/bold]")
    affinity = {"affinity": msgspec.to_builtins(recommendation.affinity)}
    written = yaml.safe_dump(affinity, sort_keys=False, default_flow_style=None, width=console.width)
    console.print(written, markup=False, soft_wrap=True)
    table = Table(title="Nodes, best first", title_justify="left")
    for column in ("node", "score", "reasons"):
        table.add_column(column)
    for node in recommendation.nodes:
        table.add_row(escape(node.name), told(node.score), escape("; ".join(node.reasons)))
    console.print(table)
    console.print("\n[bold]Because[/bold]")
    for reason in recommendation.reasons:
        console.print(f"- {escape(reason.sentence)}", soft_wrap=True)
