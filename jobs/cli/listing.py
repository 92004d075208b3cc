"""``colocate interference``, ``functions``, ``nodes``, ``decisions``: what is known, as a table or for programs."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.cli.common import Cluster, Output, settings, snapshot, there, warn
from jobs.cli.output import Format, document, rows
from jobs.service.words import Dominant, Status
from pipeline.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa

    from featurestore.snapshot import Snapshot

#: Columns of pairs that the table of a terminal has no room for.
_ASIDE = ("effective_overlaps", "activations", "window_start", "window_end")

Limit = Annotated[int, typer.Option("--limit", min=1, help="rows at most")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    for command in (interference, functions, nodes, decisions):
        app.command()(command)


def interference(
    context: typer.Context,
    victim: Annotated[str | None, typer.Argument(help="only this victim")] = None,
    aggressor: Annotated[str | None, typer.Argument(help="only this aggressor")] = None,
    status: Annotated[Status | None, typer.Option(help="only pairs known in this way")] = None,
    node_type: Annotated[str | None, typer.Option(help="only this node type")] = None,
    min_slowdown: Annotated[
        float | None, typer.Option(help="only pairs of at least this slowdown, .25 = 25 %")
    ] = None,
    min_probability: Annotated[
        float | None, typer.Option(help="only pairs of at least this probability, 0 to 1")
    ] = None,
    cluster: Cluster = None,
    limit: Limit = 100_000,
    wide: Annotated[bool, typer.Option("--wide", help="in a table how much was seen, and when, as well")] = False,
    output: Output = Format.table,
) -> None:
    """Which function is slowed down by which, the strongest first: .25 = 25 % longer beside one always running.

    With VICTIM and AGGRESSOR the pair is explained: evidence, what was held constant, what is missing (not in CSV).
    """
    told = {
        "status": status,
        "min_slowdown": None if min_slowdown is None else str(min_slowdown),
        "min_probability": None if min_probability is None else str(min_probability),
    }
    if victim is not None and aggressor is not None and output is not Format.csv and not any(told.values()):
        _explain(context, victim, aggressor, cluster, node_type, output)
        return
    given = {"victim": victim, "aggressor": aggressor, **told, "node_type": node_type, "cluster": cluster}
    aside = _ASIDE if output is Format.table and not wide else ()
    _show(
        context, "interference", given, limit, output,
        named=(victim, aggressor), told=lambda found, known: found.drop_columns(list(aside)),
    )  # fmt: skip


def _explain(
    context: typer.Context, victim: str, aggressor: str, cluster: str | None, node_type: str | None, output: Format
) -> None:
    from jobs.cli.pair import shown
    from jobs.explaining import explain

    held = settings(context)
    known = snapshot(held)
    chosen = None if cluster is None else there(cluster, held, known)
    found = explain(held, known, victim, aggressor, chosen, node_type)
    typer.echo("\n".join(map(shown, found)) if output is Format.table else document(found, output), nl=False)


def functions(
    context: typer.Context,
    function: Annotated[str | None, typer.Argument(help="only this function")] = None,
    dominant: Annotated[Dominant | None, typer.Option(help="only where this resource is used most")] = None,
    node_type: Annotated[str | None, typer.Option(help="on this node type; default: all together")] = None,
    cluster: Cluster = None,
    limit: Limit = 100_000,
    wide: Annotated[bool, typer.Option("--wide", help="amounts as well: per second busy, and per run")] = False,
    output: Output = Format.table,
) -> None:
    """What functions use, how much of each resource, how fast they answer, and what is declared otherwise."""
    from featurestore.declared import otherwise

    def told(found: "pa.Table", known: "Snapshot") -> "pa.Table":
        differ = otherwise(found, known["workflows"])
        return found.add_column(found.num_columns - 1, "declared_otherwise", differ)  # the cluster stays the last

    given = {"function": function, "dominant": dominant, "node_type": node_type, "cluster": cluster}
    _show(context, "functions", given, limit, output, named=(function,), wide=wide, told=told)


def nodes(
    context: typer.Context,
    node: Annotated[str | None, typer.Argument(help="only this node")] = None,
    node_type: Annotated[str | None, typer.Option(help="only this node type")] = None,
    cluster: Cluster = None,
    limit: Limit = 100_000,
    output: Output = Format.table,
) -> None:
    """The nodes with their allocatable resources and last known use."""
    _show(context, "nodes", {"node": node, "node_type": node_type, "cluster": cluster}, limit, output)


def decisions(
    context: typer.Context,
    cluster: Cluster = None,
    namespace: Annotated[str | None, typer.Option(help="only pods of this namespace")] = None,
    function: Annotated[str | None, typer.Option(help="only this function")] = None,
    limit: Limit = 100,
    output: Output = Format.table,
) -> None:
    """The decisions recorded so far, the newest first; those of the last seconds may not be stored yet."""
    from featurestore.store import decisions as history
    from featurestore.store.duck import Store

    held = settings(context)
    if not held.store.path.exists():
        raise BadInput(f"store.path: {held.store.path}: no such file (colocate serve records decisions)")
    store = Store(held.store.path, held.store.deadline)
    found = store.read(
        lambda con: history.recent(con, limit=limit, cluster=cluster, namespace=namespace, function=function)
    )
    if cluster is not None and not len(found):
        there(cluster, held, snapshot(held))
    _print(found, output, "decisions")


def _show(
    context: typer.Context,
    name: str,
    given: Mapping[str, str | None],
    limit: int,
    output: Format,
    *,
    named: Sequence[str | None] = (),
    wide: bool = False,
    told: "Callable[[pa.Table, Snapshot], pa.Table]" = lambda found, known: found,
) -> None:
    from jobs import names
    from jobs.service.known import KNOWN, select

    held = settings(context)
    known = snapshot(held)
    if (cluster := given.get("cluster")) is not None:
        there(cluster, held, known)
    chosen = {key: value for key, value in given.items() if value is not None}
    found = select(KNOWN[name], known, chosen, wide=wide)
    if not len(found):
        names.there([each for each in named if each is not None], names.known(known), cluster)
    if len(found) > limit:
        warn(f"{limit:,} of {len(found):,} rows are shown; --limit {len(found)} shows all")
    found = found.slice(0, limit)
    _print(told(found, known), output, name)


def _print(table: "pa.Table", output: Format, title: str) -> None:
    typer.echo(rows(table.column_names, table.to_pylist(), output, title=title), nl=False)
