"""``colocate hpa``: which clusters have the hardware that intents ask for, and saying so in manifests."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand

from jobs.cli.common import DONE, NO, settings, warn
from jobs.cli.output import Format, document
from jobs.cli.plain import line
from pipeline.errors import BadInput

if TYPE_CHECKING:
    from rules.hpa.fleet import Fleet
    from rules.hpa.needs import Stated, Workload
    from rules.hpa.placement import Placed

hpa = typer.Typer(no_args_is_help=True, help="Hardware intents: where applications fit.")

Files = Annotated[list[Path], typer.Option("--file", "-f", help="intents, YAML or JSON")]


class Several(TyperCommand):
    """A command whose ``-f`` and ``-m`` take all files up to the next option, as a shell expands ``*.yaml``."""

    _LISTS: Final = ("-f", "--file", "-m", "--manifests")

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give every file its own option."""
        spread: list[str] = []
        option = ""
        for each in args:
            if each.startswith("-") and each != "-":
                option = each if each in self._LISTS else ""
                spread.append(each)
            elif option and spread[-1] != option:
                spread += [option, each]
            else:
                spread.append(each)
        return super().parse_args(ctx, spread)


class Form(StrEnum):
    """The forms of ``-o``."""

    yaml = "yaml"
    json = "json"


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    hpa.command(cls=Several)(place)
    hpa.command(cls=Several)(apply)
    app.add_typer(hpa, name="hpa")


def place(
    context: typer.Context,
    files: Files,
    nodes: Annotated[
        list[Path] | None,
        typer.Option("--nodes", help="Node and Pod objects of each --cluster, in turn; default: the snapshot"),
    ] = None,
    cluster: Annotated[list[str] | None, typer.Option("--cluster", help="name of a cluster; may be repeated")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="add scores and reasons")] = False,
    output: Annotated[Form, typer.Option("--output", "-o", help="form of the answer")] = Form.yaml,
) -> None:
    """Say on which clusters every application of the intents fits, the best first.

    Exit code 1 where an application fits nowhere: the answer then says why.
    """
    from rules.hpa.placement import place as placed
    from rules.hpa.reasons import told

    intents = _intents(files)
    found = placed(intents, _fleet(context, nodes or [], cluster or []))
    if found.unsatisfied:
        typer.echo(document({"unsatisfied": found.unsatisfied}, Format(output.value)), nl=False)
        raise typer.Exit(NO)
    answer: dict[str, Any] = found.candidates()
    if explain:
        left = {each.app: each.combined for each in found.partitions}
        answer["scores"] = found.scores()
        answer["reasons"] = {
            each.key: told(each.key, each.loads, found.fleet, each.scored, left[each.key])
            for each in found.applications
        }
    typer.echo(document(answer, Format(output.value)), nl=False)
    raise typer.Exit(DONE)


def apply(
    context: typer.Context,
    files: Files,
    manifests: Annotated[list[Path], typer.Option("--manifests", "-m", help="manifests, YAML or JSON")],
    cluster: Annotated[str, typer.Option("--cluster", help="the cluster that the manifests are for")],
    nodes: Annotated[
        list[Path] | None,
        typer.Option("--nodes", help="Node and Pod objects of the cluster; default: the snapshot"),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="tell which wishes are granted")] = False,
    output: Annotated[Form, typer.Option("--output", "-o", help="form of the manifests")] = Form.yaml,
) -> None:
    """Write what the intents ask for into the manifests, all of it or nothing; warnings go to standard error.

    A wish is written where the cluster has it. Exit code 1 where manifests and intents are in conflict.
    """
    from jobs import hpa as reading
    from rules.hpa.action import apply as applied
    from rules.hpa.errors import Contradiction
    from rules.hpa.placement import place as placed

    intents = _intents(files)
    read = [reading.manifests(file) for file in manifests]
    found = placed(intents, _fleet(context, nodes or [], [cluster] * max(1, len(nodes or ()))))
    granted = _granted(found, cluster)

    def chosen(load: "Workload") -> list["Stated"]:
        wishes = [each for each in load.optional if each in granted]
        for consumer, requirement in load.optional if explain else ():
            said = "granted" if (consumer, requirement) in wishes else "not there, left out"
            warn(f"{load.kind} {load.name}: {consumer.name}: {requirement}: {said}")
        return wishes

    try:
        every = [each for file in read for each in file.documents]
        done = applied(every, intents.consumers, cluster, chosen, reading.text)
    except Contradiction as error:
        warn(str(error))
        raise typer.Exit(NO) from None
    for warning in (*done.warnings, *_misplaced(found, cluster)):
        warn(f"warning: {warning}")
    if output is Form.json:
        plain = [reading.plain(each) for each in done.manifests]
        typer.echo(document(plain[0] if len(plain) == 1 else plain, Format.json), nl=False)
        return
    texts, first = [], 0
    for file in read:
        texts.append(file.written(done.manifests[first : first + len(file.documents)]))
        first += len(file.documents)
    typer.echo("".join(t if not n or t.startswith("---") else f"---\n{t}" for n, t in enumerate(texts)), nl=False)


def _intents(files: list[Path]) -> Any:
    from jobs import hpa as reading

    read = reading.read(files)
    for kind, count in sorted(read.ignored.items()):
        warn(f"{line(kind)}: {count} document{'s' if count > 1 else ''} of no hardware intent, passed over")
    if not read.intents.apps:
        raise BadInput(f"{files[0]}: no hardware intent in it (path .../hpa-intents)")
    return read.intents


def _fleet(context: typer.Context, files: list[Path], names: list[str]) -> "Fleet":
    """Return the clusters as files state them, else as the snapshot last saw them."""
    import numpy as np

    from featurestore.store import published
    from jobs import hpa as reading
    from rules.hpa import fleet

    if not files:
        held = settings(context)
        if not held.store.snapshot.exists():
            warn(f"{held.store.snapshot}: no snapshot and no --nodes: nothing is known of any cluster")
            return fleet.of_records(dict.fromkeys(names, ((), ())))
        whole = fleet.of_snapshot(published.load(held.store.snapshot), names)
        if not names:
            return whole
        chosen = [number for number, name in enumerate(whole.clusters) if name in names]
        return fleet.part(whole, np.array(chosen, dtype=np.intp))[0]
    if len(files) != len(names):
        raise BadInput(f"--nodes: {len(files)} files for {len(names)} times --cluster; each file is of one cluster")
    found: dict[str, tuple[list[Any], list[Any]]] = {}
    for name, file in zip(names, files, strict=True):
        nodes, pods = reading.nodes(file)
        known = found.setdefault(name, ([], []))
        known[0].extend(nodes)
        known[1].extend(pods)
    return fleet.of_records(found)


def _granted(found: "Placed", cluster: str) -> list["Stated"]:
    chosen: Mapping[str, list[Stated]] = found.chosen(cluster) if cluster in found.fleet.clusters else {}
    return [each for wishes in chosen.values() for each in wishes]


def _misplaced(found: "Placed", cluster: str) -> list[str]:
    """Return what keeps the applications from *cluster*, where something is known of it."""
    from rules.hpa.reasons import blamed

    if not found.fleet.nodes or cluster not in found.fleet.clusters:
        return [f"nothing is known of cluster {cluster}: wishes are left out"]
    here = [name == cluster for name in found.fleet.clusters]
    return [
        f"{each.key} does not fit on {cluster}: {refusal.message}"
        for each in found.applications
        for refusal in blamed(each.key, each.loads, found.fleet, each.scored, _mask(here))
    ]


def _mask(flags: list[bool]) -> Any:
    import numpy as np

    return np.array(flags, dtype=np.bool_)
