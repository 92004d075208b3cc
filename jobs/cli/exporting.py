"""``colocate export``: the stored history for other programs."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.common import Output, moment, progress_bar, say, settings
from jobs.cli.output import Format, rows
from pipeline.errors import BadInput

_export = typer.Typer(help="Write the stored history for other programs.", no_args_is_help=True)

#: What is said of each file that was written.
SERIES, TABLES = ("file", "samples"), ("file", "rows")

#: Prometheus takes a series for gone that has no sample for five minutes.
_LONGEST = 290


def _directory(given: str) -> Path:
    """Return where the files go; nothing is not here, whatever a shell made of a variable that is not set."""
    if not given.strip():
        raise BadInput(f"DIR: {given!r} names no directory")
    return Path(given)


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(_export, name="export")


@_export.command()
def openmetrics(
    context: typer.Context,
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", parser=_directory, help="where the files go; made where it is not there")
    ],
    since: Annotated[
        str | None, typer.Option("--since", help="RFC 3339 or a day; from its day on; default: all")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="RFC 3339, or a day: its begin; default: where the history ends")
    ] = None,
    step: Annotated[
        int, typer.Option("--step", min=1, max=_LONGEST, help="seconds between samples of what lasts")
    ] = 120,
    output: Output = Format.table,
) -> None:
    """Write the history as OpenMetrics with timestamps, a file a day, under the names of /metrics.

    Load each into Prometheus: promtool tsdb create-blocks-from openmetrics FILE DATA_DIRECTORY
    """
    from featurestore.store.duck import Store
    from jobs.exporting.history import Written, export

    begin, end = moment("--since", since, day=True), moment("--until", until, day=True)
    if begin is not None and end is not None and begin > end:
        raise BadInput(f"--since: {since} is later than --until {until}")
    held = settings(context)
    with progress_bar() as bar:
        task = bar.add_task("exporting days", total=None)

        def told(one: Written) -> None:
            if bar.disable:
                say(f"{one.path}: {one.samples:,} samples")

        written = export(
            Store(held.store.path, held.store.deadline),
            directory,
            most=held.serve.metrics_pairs,
            step=timedelta(seconds=step),
            since=begin,
            until=end,
            told=told,
            progress=lambda done, of: bar.update(task, completed=done, total=of),
        )
    found = ({"file": str(each.path), "samples": each.samples} for each in written)
    typer.echo(rows(SERIES, found, output, title="files"), nl=False)


@_export.command()
def parquet(
    context: typer.Context,
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", parser=_directory, help="where the tables go; made where it is not there")
    ],
    cluster: Annotated[list[str] | None, typer.Option("--cluster", help="only this cluster; may be repeated")] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", help="RFC 3339 or a day; activations and usage from its day on; default: all"),
    ] = None,
    output: Output = Format.table,
) -> None:
    """Write the tables that learning reads as Parquet, in directories by cluster, day and node.

    A day is there as a whole or not at all; exporting again replaces it. Copy DIR to an object store as it is.
    """
    from featurestore.store.duck import Store
    from jobs.exporting.parquet import Written, export

    held = settings(context)
    with progress_bar() as bar:
        task = bar.add_task("exporting tables by day", total=None)

        def told(one: Written) -> None:
            bar.advance(task)
            if bar.disable:
                say(f"{one.path}: {one.rows:,} rows")

        written = export(
            Store(held.store.path, held.store.deadline),
            directory,
            clusters=cluster or (),
            since=moment("--since", since, day=True),
            told=told,
        )
    found = ({"file": str(each.path), "rows": each.rows} for each in written)
    typer.echo(rows(TABLES, found, output, title="files"), nl=False)
