"""What several commands share: the settings, the snapshot that answers come from, options that recur."""

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobs.cli.output import Format
from jobs.cli.plain import line
from pipeline.errors import BadInput

if TYPE_CHECKING:
    from rich.progress import Progress

    from featurestore.snapshot import Snapshot
    from jobs.config import Settings

#: Exit codes: done; the answer is no; bad input or configuration; some of the work failed and the rest was done.
DONE, NO, BAD, PARTLY = 0, 1, 2, 3

#: Set for commands that the supervisor runs: its standard error is a log, and what they say there are lines of it.
LOGGED = "COLOCATE_LOGGED"

#: Seconds between the lines of work that takes long, where there is no terminal.
_A_LINE = 30.0

Output = Annotated[Format, typer.Option("--output", "-o", help="form of the answer")]
Cluster = Annotated[str | None, typer.Option("--cluster", help="name of the cluster; default: the only one")]


def settings(context: typer.Context) -> "Settings":
    """Read the settings that the command was given, and log as they say."""
    from jobs import config, logs

    root = context.find_root()
    held = config.load(root.obj if isinstance(root.obj, Path) else None)
    verbose = root.params.get("verbose") or LOGGED in os.environ
    logs.configure(logs.LEVELS[held.log.level if verbose else "warning"], held.log.form)
    return held


def utc_now() -> datetime:
    """Return the time that a command hands on: aware, in UTC, read once."""
    return datetime.now(UTC)


def snapshot(held: "Settings") -> "Snapshot":
    """Map the published snapshot; an empty one, with a warning on standard error, where none was published."""
    from featurestore.snapshot import empty
    from featurestore.store import published

    if held.store.snapshot.exists():
        return published.load(held.store.snapshot)
    warn(f"{held.store.snapshot}: no snapshot yet (colocate collect, then colocate learn); answering from nothing")
    return empty(utc_now())


def warn(message: str) -> None:
    """Say *message* in one line on standard error."""
    if LOGGED in os.environ:
        _logger().error(line(message))
    else:
        print(f"colocate: {line(message)}", file=sys.stderr)


def say(message: str, *, well: bool = True, **about: object) -> None:
    """Say how work that takes long goes on, in one line on standard error; in a log with what it is *about*, as a
    warning where not all is *well*."""
    if LOGGED in os.environ:
        (_logger().info if well else _logger().warning)(line(message), **about)
    else:
        print(line(message), file=sys.stderr, flush=True)


def _logger() -> Any:
    import structlog

    return structlog.get_logger("jobs.cli")


def cluster_of(name: str | None, held: "Settings", known: "Snapshot") -> str:
    """Return the cluster that is meant: the named one, else the served one, else the only one, else ``default``.

    Raises `BadInput` for a name that is none of those known, where any is.
    """
    if name is not None:
        return there(name, held, known)
    if held.serve.cluster is not None:
        return held.serve.cluster
    names = [cluster.name for cluster in held.clusters] or list(known.clusters)
    return names[0] if len(names) == 1 else "default" if not names else _ambiguous(names)


def there(name: str, held: "Settings", known: "Snapshot") -> str:
    """Return the *name* of a cluster; raises `BadInput` where it is none of those known, if any is."""
    from jobs import clusters

    return clusters.there(name, clusters.configured(held), known.clusters)


def _ambiguous(names: list[str]) -> str:
    raise typer.BadParameter(f"--cluster: name one of {', '.join(names)}")


def progress_bar() -> "Progress":
    """A bar on a terminal; elsewhere it shows nothing (`advance` then writes lines)."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        disable=LOGGED in os.environ or not console.is_terminal,
        transient=True,
    )


def advance(
    bar: "Progress", name: str, what: str, clock: Callable[[], float] = monotonic
) -> Callable[[int, int], None]:
    """Return what moves a bar called *name* to how many of how many *what* are done.

    Without a terminal it is a plain line on standard error every `_A_LINE` seconds, so that work that takes long is
    seen to go on, and short work says nothing.
    """
    task = bar.add_task(name, total=None)
    said = clock()

    def moved(done: int, of: int) -> None:
        nonlocal said
        bar.update(task, completed=done, total=of)
        if bar.disable and clock() - said >= _A_LINE:
            said = clock()
            say(f"{name}: {done:,} of {of:,} {what}")

    return moved


def moment(option: str, given: str | None, *, day: bool = False) -> datetime | None:
    """Read the RFC 3339 time that *option* was *given*; with *day* a date alone is where it begins in UTC.

    Raises `BadInput`, also for a time without a zone.
    """
    if given is None:
        return None
    try:
        at = datetime.fromisoformat(given)
        if at.tzinfo is not None:
            return at.astimezone(UTC)
        if day and at.date().isoformat() == given:
            return at.replace(tzinfo=UTC)
        lacking = " with a time zone"
    except (ValueError, OverflowError):  # the year 0 or 10000 in UTC
        lacking = ""
    raise BadInput(f"{option}: {given!r} is no RFC 3339 time{lacking}, such as 2026-05-01T12:00:00Z")
