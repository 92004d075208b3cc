"""``colocate learn --list``, ``--use``, ``--refold``: the models, which of them answers, and what they go on from."""

from collections.abc import Sequence

import typer

from featurestore.store.duck import Store
from jobs import choosing
from jobs import refold as folding
from jobs.cli.common import utc_now
from jobs.cli.output import Format, document, rows
from jobs.config import Settings
from pipeline.errors import BadInput

#: What `refold` says of each cluster.
REFOLDED = ("difference", "agrees", "cluster")


def show(store: Store, clusters: Sequence[str], output: Format) -> None:
    """Print the models of *clusters*, the newest first; a table has what is essential."""
    columns = choosing.ESSENTIAL if output is Format.table else choosing.COLUMNS
    typer.echo(rows(columns, choosing.listed(store, clusters), output, title="models"), nl=False)


def use(settings: Settings, store: Store, clusters: Sequence[str], which: str, output: Format) -> None:
    """Let the model *which* answer, and say so; raises `BadInput` where it is not clear of which cluster."""
    if len(clusters) != 1:
        raise BadInput(f"--use: of which cluster? name it with --cluster; there are {', '.join(clusters)}")
    chosen = choosing.choose(settings, store, clusters[0], which, utc_now)
    if output in (Format.json, Format.yaml):
        typer.echo(document(chosen, output), nl=False)
    elif output is Format.csv:
        columns = ("number", "model", "snapshot", "cluster")
        typer.echo(rows(columns, [{name: getattr(chosen, name) for name in columns}], output), nl=False)
    else:
        typer.echo(chosen.words)


def refold(settings: Settings, store: Store, clusters: Sequence[str], output: Format) -> bool:
    """Print how far the stored days of *clusters*, folded again in order, lie from their states; return whether all
    agree."""
    found = {name: folding.again(settings, store, name) for name in clusters}
    shown = [
        {"difference": f"{by:.1e}", "agrees": "yes" if by <= folding.AGREES else "no", "cluster": name}
        for name, by in found.items()
    ]
    typer.echo(rows(REFOLDED, shown, output, title="states"), nl=False)
    return all(by <= folding.AGREES for by in found.values())
