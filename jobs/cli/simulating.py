"""``colocate simulate``: what policies of placement would have made of recorded history."""

from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.common import Cluster, Output, moment, progress_bar, settings, utc_now, warn
from jobs.cli.output import Format, document, rows
from rules.policy import Mode

_COLUMNS = ("policy", "mean", "p95", "p99", "slowed", "pending", "delayed", "unserved", "nodes", "pods", "runs")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(simulate)


def simulate(
    context: typer.Context,
    policy: Annotated[
        list[str] | None, typer.Option("--policy", help="only this policy; may be repeated; default: all")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="RFC 3339; default: where the learning window begins")
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", help="RFC 3339; learned from before, replayed after; default: the middle")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", help="RFC 3339; default: where the history ends")] = None,
    truth: Annotated[
        Path | None,
        typer.Option("--truth", help="the true slowdowns: victim, aggressor, slowdown; CSV, Parquet or JSON"),
    ] = None,
    mode: Annotated[Mode, typer.Option("--mode", help="mode of the advice")] = "prefer",
    seed: Annotated[int, typer.Option("--seed", min=0, help="decides between nodes that are as good")] = 0,
    cluster: Cluster = None,
    output: Output = Format.table,
) -> None:
    """Replay recorded history under policies of placement, and show how much longer runs would have taken.

    The first part of the window is learned from, the second is replayed, by slowdowns learned from it alone or by a
    given truth. Latencies are multiples of what a run takes alone on its best hardware; slowed is the share of runs
    that took more than half as long again. Pods that never got a node are pending, those that waited for one delayed;
    runs that no pod was there for are unserved, and not in the mean.
    """
    from jobs import simulating

    held = settings(context)
    chosen = simulating.cluster_of(held, cluster)
    with progress_bar() as bar:
        task = bar.add_task(f"simulating {chosen}", total=None)
        found = simulating.run(
            held,
            chosen,
            now=utc_now(),
            since=moment("--since", since),
            split=moment("--split", split),
            until=moment("--until", until),
            policies=policy or (),
            seed=seed,
            truth=truth,
            mode=mode,
            progress=lambda done, of: bar.update(task, completed=done, total=of),
        )
    if not found.truth:
        warn("no truth is given: the replay goes by slowdowns learned from the replayed part, which are estimates")
    if output in (Format.json, Format.yaml):
        typer.echo(document(found, output), nl=False)
        return
    shown = [{name: getattr(each, name) for name in _COLUMNS} | {"cluster": found.cluster} for each in found.outcomes]
    title = f"{found.cluster}, {found.split:%Y-%m-%d %H:%M} to {found.until:%Y-%m-%d %H:%M} UTC"
    typer.echo(rows((*_COLUMNS, "cluster"), shown, output, title=title), nl=False)
