"""``colocate disks``: which disks the volumes of a pod would lie on, and why not others."""

from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.answering import standard_input
from jobs.cli.common import DONE, NO, Cluster, Output, cluster_of, settings, snapshot
from jobs.cli.output import Format, document, rows
from pipeline.errors import BadInput

commands = typer.Typer(help="Disk affinity of volumes: plans by the annotations of a pod.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands, name="disks")


@commands.command()
def plan(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Option("--file", "-f", help="a Pod or workload with its claims, YAML or JSON; - for standard input"),
    ],
    state: Annotated[
        Path | None,
        typer.Option("--state", help="a directory of Kubernetes objects to plan from; default: what was collected"),
    ] = None,
    sequential: Annotated[
        bool, typer.Option("--sequential", help="wait while another reservation asks for the same class of group")
    ] = False,
    symmetric: Annotated[
        bool, typer.Option("--symmetric", help="keep off drives whose pods require to be apart from this one")
    ] = False,
    cluster: Cluster = None,
    output: Output = Format.table,
) -> None:
    """Show on which drives of which nodes the volumes of a pod would lie.

    Exit code 1 where no node can hold them.
    """
    from jobs.disks import answer, files, layout
    from rules.disks.plan import plan as planned

    wanted = files.wanted(file, standard_input() if str(file) == "-" else None)
    if state is not None:
        objects = files.state(state)
        layouts = [layout.lay_out_of([*each.beside, *objects]) for each in wanted]
    else:
        held = settings(context)
        sequential, symmetric = sequential or held.disks.sequential, symmetric or held.disks.symmetric
        known = snapshot(held)
        chosen = cluster_of(cluster, held, known)
        layouts = [layout.of_snapshot(known, chosen, each.beside) for each in wanted]
    plans = []
    for each, disks in zip(wanted, layouts, strict=True):
        try:
            plans.append(planned(each.pod, disks, sequential=sequential, symmetric=symmetric))
        except BadInput as error:
            raise BadInput(f"{file}: pod {each.pod.name}: {error}") from None
    if output in (Format.json, Format.yaml):
        found = [answer.document(each) for each in plans]
        typer.echo(document(found[0] if len(found) == 1 else found, output), nl=False)
    else:
        columns = ("pod", "node", "score", "plan", "notes")
        told = (row for each, of in zip(wanted, plans, strict=True) for row in answer.rows(each.pod.name, of))
        typer.echo(rows(columns, told, output), nl=False)
    raise typer.Exit(NO if any(each.status == "REJECTED" for each in plans) else DONE)
