"""``colocate hosts``: host constraints of stream jobs become pods and node changes, or a refusal that says why."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.cli.common import DONE, NO, PARTLY, Cluster, Output, settings, utc_now, warn
from jobs.cli.output import Format, document, rows
from pipeline.errors import BadInput

if TYPE_CHECKING:
    from featurestore.store.control import Control
    from jobs.config import Settings
    from jobs.hosts.answering import Answer
    from pipeline.clients.kubernetes import KubernetesClient
    from rules.hosts.actions import NodeAction

ChangeNodes = Annotated[
    bool, typer.Option("--change-nodes", help="allow labels and taints of nodes to be changed, as pools need")
]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    hosts = typer.Typer(help="Host constraints of stream jobs.", no_args_is_help=True)
    for command in (apply, release, reconcile):
        hosts.command()(command)
    app.add_typer(hosts, name="hosts")


def apply(
    context: typer.Context,
    file: Annotated[Path, typer.Option("--file", "-f", help="the job, YAML or JSON; - for standard input")],
    nodes: Annotated[
        Path | None, typer.Option("--nodes", help="nodes (and pods) from a file instead of the cluster")
    ] = None,
    create: Annotated[
        bool, typer.Option("--create", help="create the pods, after every check; else they are only shown")
    ] = False,
    change_nodes: ChangeNodes = False,
    deadline: Annotated[
        float | None, typer.Option("--deadline", min=0.001, help="seconds to search for a placement at most")
    ] = None,
    cluster: Cluster = None,
    output: Output = Format.table,
) -> None:
    """Show the pods of a stream job and what its pools ask of nodes, or create them.

    Exit code 1 where the job cannot be placed: every conflict is told, and nothing is created.
    """
    from jobs.cli.answering import standard_input
    from jobs.hosts import reading, stored
    from jobs.hosts.answering import answer
    from jobs.hosts.submitting import Submission, submit

    held = settings(context)
    if create and nodes is not None:
        raise typer.BadParameter("--create: checks against the cluster itself, so leave --nodes out")
    job, given = reading.job_of(file, standard_input() if str(file) == "-" else None)
    limit = timedelta(seconds=deadline) if deadline is not None else held.hosts.deadline
    chosen = cluster or _admitted(held)
    store = _store(held)
    if create:
        submission = Submission(job, given, chosen, utc_now(), limit, change_nodes)
        done = submit(_client(held, chosen), store, submission)
        found = done.answer
        if done.warning:
            warn(done.warning)
    else:
        before = stored.known(store, chosen, job)
        seen = reading.nodes_of(nodes) if nodes is not None else reading.live(_client(held, chosen))
        found = answer(job, seen, limit, None if before is None else before.pools)
    typer.echo(_shown(found, output), nl=False)
    if create and found.plan is not None and output is Format.table:
        typer.echo(f"{done.created} pods created, {done.changed} nodes changed")
    raise typer.Exit(DONE if found.plan is not None else NO)


def release(
    context: typer.Context,
    job: Annotated[str, typer.Argument(help="name of the job")],
    nodes: Annotated[
        Path | None, typer.Option("--nodes", help="show what would go from the nodes of a file, and change nothing")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="ask whether it could be done, and change nothing")
    ] = False,
    cluster: Cluster = None,
    output: Output = Format.table,
) -> None:
    """Give back the nodes of a job's pools, and forget the job; its pods are left to who runs them.

    Exit code 1 where nothing of the job is known.
    """
    from jobs.hosts import reading
    from jobs.hosts.releasing import release as given_back
    from rules.hosts.actions import released

    held = settings(context)
    if nodes is not None:
        actions = released(job, (each.node for each in reading.nodes_of(nodes).nodes))
        typer.echo(_actions(actions, output), nl=False)
        raise typer.Exit(DONE if actions else NO)
    chosen = cluster or _admitted(held)
    done = given_back(_client(held, chosen), _store(held), chosen, job, dry=dry_run)
    typer.echo(_actions(done.actions, output), nl=False)
    if done.running:
        warn(f"job {job}: {done.running} of its pods still run on nodes that are open to others now")
    if not done.known and not done.actions:
        warn(f"job {job}: nothing is known of it")
        raise typer.Exit(NO)


def reconcile(
    context: typer.Context, change_nodes: ChangeNodes = False, cluster: Cluster = None, output: Output = Format.table
) -> None:
    """Bring nodes and HostPools back to what the stored jobs ask for; for cron, and `serve` does it too.

    Exit code 3 where some job could not be met.
    """
    from jobs.hosts.reconciling import reconcile as reconciled

    held = settings(context)
    if not change_nodes:
        raise BadInput("hosts reconcile: changes labels and taints of nodes: allow it by --change-nodes")
    chosen = cluster or _admitted(held)
    found = list(reconciled(_client(held, chosen), _store(held), chosen, utc_now(), held.hosts.deadline))
    told = [{"job": each.job, "outcome": each.outcome, "nodes": each.nodes, "why": each.why} for each in found]
    typer.echo(rows(("job", "outcome", "nodes", "why"), told, output, "jobs"), nl=False)
    raise typer.Exit(PARTLY if any(each.outcome in ("refused", "failed") for each in found) else DONE)


def _admitted(held: "Settings") -> str:
    from jobs.config import admitted

    return admitted(held)


def _store(held: "Settings") -> "Control":
    from featurestore.store.control import Control

    return Control(held.store.control, held.store.deadline)


def _client(held: "Settings", cluster: str) -> "KubernetesClient":
    from jobs import wire

    return wire.kubernetes_of(held, cluster)


def _shown(found: "Answer", output: Format) -> str:
    if output in (Format.json, Format.yaml):
        return document(found.document, output)
    if found.plan is None:
        told = [
            {
                "conflict": each.conflict,
                "pes": ", ".join(map(str, each.pes)),
                "operators": ", ".join(each.operators),
                "tokens": ", ".join(each.tokens),
                "message": each.message,
            }
            for each in found.conflicts
        ]
        return rows(("conflict", "pes", "operators", "tokens", "message"), told, output, "refused")
    pods = [_pod(pe, pod) for pe, pod in zip((pe.id for pe in found.job.pes), found.pods, strict=True)]
    columns = ("pe", "pod", "node", "node_terms", "with", "apart_from")
    return rows(columns, pods, output, "pods") + (
        _actions(found.actions, output) if output is Format.table and found.actions else ""
    )


def _pod(pe: object, pod: Mapping[str, dict[str, object]]) -> dict[str, object]:
    spec = pod["spec"]
    affinity = spec.get("affinity")
    parts = affinity if isinstance(affinity, dict) else {}
    return {
        "pe": str(pe),
        "pod": pod["metadata"]["name"],
        "node": spec.get("nodeName", ""),
        "node_terms": _terms(parts.get("nodeAffinity")),
        "with": _terms(parts.get("podAffinity")),
        "apart_from": _terms(parts.get("podAntiAffinity")),
    }


def _terms(given: object) -> str:
    """Tell a part of an affinity in a line: the last part of each key, and its values."""
    found: list[str] = []

    def walk(value: object) -> None:
        if isinstance(value, dict) and "operator" in value:
            values = ", ".join(map(str, value.get("values", ())))
            key = str(value["key"]).rpartition("/")[2].replace("metadata.name", "node")
            found.append(f"{key.split('.')[0]} {value['operator']} {values}".strip())
        elif isinstance(value, dict):
            for each in value.values():
                walk(each)
        elif isinstance(value, list):
            for each in value:
                walk(each)

    walk(given)
    return "; ".join(each for each in dict.fromkeys(found) if not each.startswith("job In"))


def _actions(actions: "Sequence[NodeAction]", output: Format) -> str:
    if output in (Format.json, Format.yaml):
        return document({"nodes": [each.json for each in actions]}, output)
    told = [
        {
            "node": each.name,
            "labels": ", ".join(f"{key}={value}" for key, value in each.labels.items()),
            "taints": ", ".join(f"{taint['key']}={taint['value']}:{taint['effect']}" for taint in each.taints),
            "remove": ", ".join([*each.stale, *(["taint streams.ibm.com/exclusive"] if each.untaint else [])]),
        }
        for each in actions
    ]
    return rows(("node", "labels", "taints", "remove"), told, output, "node changes")
