"""``colocate recommend``: where a pod should run, and why."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.cli.common import DONE, NO, Cluster, cluster_of, settings, snapshot, utc_now
from jobs.cli.output import Format, document, rows
from jobs.cli.plain import line
from pipeline.errors import BadInput
from rules.policy import Mode

if TYPE_CHECKING:
    from jobs.recommending import Answer


class AnswerFormat(StrEnum):
    """The forms of ``-o`` of an answer: those of lists, and the JSON patch alone."""

    table = "table"
    json = "json"
    yaml = "yaml"
    csv = "csv"
    patch = "patch"


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(recommend)


def recommend(
    context: typer.Context,
    file: Annotated[
        Path, typer.Option("--file", "-f", help="a Pod or a workload, YAML or JSON; - for standard input")
    ],
    mode: Annotated[Mode | None, typer.Option("--mode", help="default: prefer, or the pod's own annotation")] = None,
    cluster: Cluster = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="where the pod is created; default: the manifest's")
    ] = None,
    output: Annotated[
        AnswerFormat, typer.Option("--output", "-o", help="form of the answer; csv: the nodes, patch: the JSON patch")
    ] = AnswerFormat.table,
) -> None:
    """Show where a new pod should run: its affinity, the patch, the ranked nodes and the reasons.

    Exit code 1 where no node can hold the pod as it states its needs.
    """
    from featurestore.store.control import Control
    from jobs import wire
    from jobs.disks.files import wanted
    from jobs.hosts import stored
    from jobs.recommending import answer

    held = settings(context)
    given = wanted(file, standard_input() if str(file) == "-" else None, namespace=namespace)
    known = snapshot(held)
    chosen = cluster_of(cluster, held, known)
    policy = wire.policy(held, chosen, mode=mode or "prefer")
    hosts = stored.rules(Control(held.store.control, held.store.deadline), chosen)
    answers = [
        answer(
            each,
            known,
            policy,
            cluster=chosen,
            namespace=namespace,
            at=utc_now(),
            hosts=hosts,
            symmetric=held.disks.symmetric,
        )
        for each in given
    ]
    typer.echo(_shown(answers, output), nl=False)
    raise typer.Exit(DONE if all(each.recommendation.satisfiable for each in answers) else NO)


def standard_input() -> str:
    """Read standard input; raises `BadInput` for what is no UTF-8 text."""
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput("standard input: not UTF-8 text") from None


def _shown(answers: list["Answer"], output: AnswerFormat) -> str:
    if output is AnswerFormat.table:
        return "\n".join(f"{_told(each)}\n{_affinity(each)}" for each in answers)
    if output is AnswerFormat.csv:
        columns = ("pod", "node", "score", "reasons")
        return rows(columns, (row for each in answers for row in each.ranked()), Format.csv)
    if output is AnswerFormat.patch:
        found: list[object] = [each.recommendation.patch for each in answers]
        form = Format.json
    else:
        found, form = [each.recommendation for each in answers], Format(output.value)
    return document(found[0] if len(found) == 1 else found, form)


def _told(answered: "Answer") -> str:
    from rules import explain

    return "\n".join(map(line, explain.text(answered.recommendation).split("\n")))


def _affinity(answered: "Answer") -> str:
    affinity = answered.recommendation.affinity
    return f"\n{document({'affinity': affinity}, Format.yaml)}" if affinity else ""
