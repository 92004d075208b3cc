"""``colocate collect``: one collection, now."""

from typing import TYPE_CHECKING, Annotated

import typer

from jobs.cli.common import Output, progress_bar, say, settings, utc_now
from jobs.cli.output import Format, document, rows

if TYPE_CHECKING:
    from jobs import collect as collection


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(collect)


def collect(
    context: typer.Context,
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE", help="nodes, workflows, placements, disks, regions, usage, activations; default: all"
        ),
    ] = None,
    cluster: Annotated[list[str] | None, typer.Option("--cluster", help="only this cluster; may be repeated")] = None,
    output: Output = Format.table,
) -> None:
    """Collect once, now, what is configured (default: everything); any number may run at once."""
    from jobs import collect as collection
    from jobs import tracing

    held = settings(context)
    with tracing.during(held.trace, "collect"), progress_bar() as bar:
        task = bar.add_task("collecting", total=None)

        def done(outcome: collection.Outcome) -> None:
            bar.advance(task)
            if bar.disable:
                _say(outcome)

        outcomes = collection.run(held, now=utc_now, only=sources or (), clusters=cluster or (), progress=done)
    if output in (Format.json, Format.yaml):
        typer.echo(document(outcomes, output), nl=False)
    else:
        columns = ("source", "scope", "rows", "duplicates", "refused", "outcome", "reason", "message", "cluster")
        typer.echo(rows(columns, ({c: getattr(o, c) for c in columns} for o in outcomes), output), nl=False)
    raise typer.Exit(collection.exit_code(outcomes))


def _say(outcome: "collection.Outcome") -> None:
    scope = f"/{outcome.scope}" if outcome.scope else ""
    said = f": {outcome.message}" if outcome.message else ""
    say(
        f"{outcome.cluster} {outcome.source}{scope}: {outcome.outcome}, {outcome.rows} new rows{said}",
        well=outcome.outcome == "ok",
        cluster=outcome.cluster,
        source=outcome.source,
        scope=outcome.scope,
        reason=outcome.reason,
    )
