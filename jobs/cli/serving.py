"""``colocate serve`` and ``colocate demo``: what stays up, and what shows it all at once."""

from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.common import settings


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(serve)
    app.command()(demo)


def serve(
    context: typer.Context,
    schedule: Annotated[
        bool, typer.Option("--schedule/--no-schedule", help="collect and learn on a schedule")
    ] = True,
) -> None:
    """Serve the admission webhook, the API and the metrics; collect and learn on a schedule."""
    from jobs.ending import orderly
    from jobs.supervisor.main import serve as run

    given, root = settings(context), context.find_root().obj
    raise typer.Exit(orderly(lambda: run(given, root if isinstance(root, Path) else None, schedule=schedule)))


def demo(
    directory: Annotated[
        Path | None, typer.Option("--directory", help="keep the demo's files here; default: a temporary directory")
    ] = None,
    serve: Annotated[bool, typer.Option("--serve", help="keep the service up afterwards")] = False,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="with --serve: the port; 0 takes one that is free")
    ] = None,
    swap: Annotated[
        tuple[str, str] | None, typer.Option("--swap", help="exchange the names of two functions in the recording")
    ] = None,
) -> None:
    """Run the whole pipeline on the recorded cluster; ends with a recommendation and its reasons."""
    from jobs.demo.run import demo as run
    from jobs.ending import orderly

    def shown() -> int:
        return run(directory=directory, serve=serve, port=port, swap=swap)

    raise typer.Exit(orderly(shown) if serve else shown())
