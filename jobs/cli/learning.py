"""``colocate learn``, ``import``, ``forget``, ``doctor``: history in, knowledge out of it, and a look at both.

What takes long to import is imported by the command that needs it: `colocate --help` answers at once.
"""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from jobs.cli.common import DONE, NO, PARTLY, Output, advance, progress_bar, say, settings, utc_now, warn
from jobs.cli.output import Format, document, rows
from jobs.cli.plain import line
from pipeline.errors import BadInput

if TYPE_CHECKING:
    from featurestore.store.duck import Store
    from jobs.config import Settings
    from jobs.learn import Outcome


#: All cores of this machine, without a Spark cluster.
_MASTER = "local[*]"


class Engine(StrEnum):
    """Where a fit is computed."""

    local = "local"
    spark = "spark"


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(learn)
    app.command(name="import")(import_)
    app.command()(forget)
    app.command()(doctor)


def learn(
    context: typer.Context,
    cluster: Annotated[list[str] | None, typer.Option("--cluster", help="only this cluster; may be repeated")] = None,
    full: Annotated[bool, typer.Option("--full", help="refit from the whole window")] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="list the models that are kept, and learn nothing; all columns: -o json")
    ] = False,
    use: Annotated[
        str | None,
        typer.Option("--use", metavar="N", help="let this model answer: its number, its name, or newest"),
    ] = None,
    refold: Annotated[
        bool, typer.Option("--refold", help="fold the stored days again beside the state, and learn nothing")
    ] = False,
    engine: Annotated[Engine, typer.Option("--engine", help="where the fit is computed")] = Engine.local,
    master: Annotated[
        str | None, typer.Option("--master", metavar="URL", help=f"of Spark; default: {_MASTER}")
    ] = None,
    tables: Annotated[
        str | None, typer.Option("--from", metavar="DIR", help="exported tables, a path or URL that Spark reads")
    ] = None,
    output: Output = Format.table,
) -> None:
    """Learn profiles and interference from the history, and publish the snapshot that answers come from.

    A model that was chosen with --use answers whatever is learned later, until --use newest. A new model that is
    worse than the one before, on runs that neither has seen, is saved and does not answer: exit code 3. With
    --refold the exit code is 1 where the stored days folded again are not the state. With --engine spark the whole
    window is fitted on a Spark cluster, from the tables of `colocate export parquet`; model and snapshot are saved
    here.
    """
    from featurestore.store.duck import Store
    from jobs import clusters, tracing
    from jobs import learn as learner
    from jobs.cli import models

    asked = (("--full", full), ("--list", listed), ("--use", use is not None), ("--refold", refold))
    if given := [name for name, on in asked if on][1:]:
        raise BadInput(f"{given[0]}: not together with the others of {', '.join(name for name, _ in asked)}")
    if engine is Engine.spark:
        if given := [name for name, on in asked[1:] if on]:
            raise BadInput(f"{given[0]}: not with --engine spark")
        if tables is None:
            raise BadInput("--engine spark: name the tables with --from (colocate export parquet)")
        if urlsplit(tables).password is not None:
            raise BadInput("--from: a URL with a password in it; Spark's configuration is the place for credentials")
    elif given := [name for name, value in (("--from", tables), ("--master", master)) if value is not None]:
        raise BadInput(f"{given[0]}: only with --engine spark")
    held = settings(context)
    tracing.check(held.trace)
    store = Store(held.store.path, held.store.deadline)
    known = learner.clusters(held, store) if held.clusters or held.store.path.exists() else []
    for name in cluster or ():
        clusters.there(name, known, ())
    if not known:
        raise BadInput("clusters: none is configured in colocate.toml and none was imported; nothing to learn from")
    if listed:
        models.show(store, cluster or known, output)
        return
    if use is not None:
        models.use(held, store, cluster or known, use, output)
        return
    if refold:
        raise typer.Exit(DONE if models.refold(held, store, cluster or known, output) else NO)
    outcomes = []
    with tracing.during(held.trace, "learn"), progress_bar() as bar:
        for name in cluster or known:
            if tables is not None:
                steps = advance(bar, f"learning {name}", "steps")
                outcomes.append(_on_spark(held, store, name, master or _MASTER, tables, steps))
                continue
            progress = advance(bar, f"learning {name}", "functions")
            outcomes.append(learner.run(held, name, now=utc_now, full=full, store=store, progress=progress))
    learner.follow(store, utc_now())
    learner.retain(held, store, utc_now())
    for outcome in outcomes:
        if outcome.message:
            as_before = not outcome.changed and not outcome.held_back
            (say if as_before else warn)(f"{outcome.cluster}: {outcome.message}")
    _show(outcomes, output)
    raise typer.Exit(PARTLY if any(outcome.held_back == "worse" for outcome in outcomes) else DONE)


def _on_spark(
    held: "Settings", store: "Store", cluster: str, master: str, tables: str, progress: Callable[[int, int], None]
) -> "Outcome":
    from jobs import sparking

    return sparking.run(held, cluster, master=master, tables=tables, now=utc_now, store=store, progress=progress)


def _show(outcomes: "list[Outcome]", output: Format) -> None:
    if output in (Format.json, Format.yaml):
        typer.echo(document(outcomes, output), nl=False)
        return
    columns = (
        "model",
        "snapshot",
        "activations",
        "evidence",
        "functions",
        "pairs",
        "attribution",
        "seconds",
        "cluster",
    )
    shown = ({name: _counts(getattr(each, name)) for name in columns} for each in outcomes)
    typer.echo(rows(columns, shown, output), nl=False)


def import_(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="activations, profiles or nodes")],
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="CSV or Parquet; activations also in JSON; nodes in JSON or YAML"),
    ],
    cluster: Annotated[str, typer.Option("--cluster", help="the cluster that this history is of")],
    output: Output = Format.table,
) -> None:
    """Bring history in from files; importing again adds nothing.

    A file that cannot be read, or a wrong row of a table, is named, and nothing of any file is imported. A record of
    OpenWhisk or an object that is wrong costs only itself: exit code 3.
    """
    from jobs import importing

    with progress_bar() as bar:
        progress = advance(bar, f"importing {line(kind)}", "steps")
        found = importing.run(settings(context), kind, files, cluster=cluster, now=utc_now, progress=progress)
    for refusal in found.refusals:
        warn(f"{refusal.what}: {refusal.why}")
    for note in found.notes:
        warn(note)
    if found.ignored:
        warn(f"columns not known and left out: {', '.join(found.ignored)}")
    if output in (Format.json, Format.yaml):
        typer.echo(document(found, output), nl=False)
    else:
        columns = ("kind", "rows", "duplicates", "refused", "cluster")
        typer.echo(rows(columns, [{name: getattr(found, name) for name in columns}], output), nl=False)
    raise typer.Exit(PARTLY if found.refused else DONE)


def forget(
    context: typer.Context,
    cluster: Annotated[str, typer.Argument(help="the cluster; one that is configured is refused")],
    output: Output = Format.table,
) -> None:
    """Delete all that is stored of a cluster, such as of a trial or of wrong files, and answer without it."""
    from jobs import forgetting

    with progress_bar() as bar:
        progress = advance(bar, f"forgetting {line(cluster)}", "tables")
        found = forgetting.run(settings(context), cluster, now=utc_now, progress=progress)
    shown = [{"table": each.table, "rows": each.rows, "cluster": each.cluster} for each in found]
    typer.echo(rows(("table", "rows", "cluster"), shown, output), nl=False)


def doctor(context: typer.Context, output: Output = Format.table) -> None:
    """Reach every source, check each metric and label that is needed, and say what to fix."""
    from jobs import doctor as examination

    found = list(examination.examine(settings(context), utc_now()))
    if output in (Format.json, Format.yaml):
        typer.echo(document(found, output), nl=False)
    else:
        columns = ("verdict", "source", "check", "said", "fix", "cluster")
        typer.echo(
            rows(columns, ({name: getattr(each, name) for name in columns} for each in found), output), nl=False
        )
    raise typer.Exit(PARTLY if any(each.verdict == "failed" for each in found) else DONE)


def _counts(value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{name} {count:g}" for name, count in value.items() if count) or "none"
    return value
