"""``colocate regions``: consistent regions of stream jobs, and the operator that keeps one job's."""

import os
import socket
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from jobs.cli.common import DONE, NO, PARTLY, Output, settings, warn
from jobs.cli.output import Format, document, rows
from pipeline.errors import BadInput

if TYPE_CHECKING:
    from pipeline.clients.kubernetes import KubernetesClient


def _job_name(value: str | None) -> str | None:
    """Refuse, as a parameter, what no job can be named."""
    from jobs.regions import names

    return value if value is None else names.job(value, "job")


def _namespace_name(value: str | None) -> str | None:
    from jobs.regions import names

    return value if value is None else names.namespace(value, "--namespace")


_JOB = Annotated[str, typer.Argument(metavar="JOB", help="name of the stream job", callback=_job_name)]
_INDEX = Annotated[int, typer.Argument(metavar="REGION", help="index of the region", min=0)]
_NAMESPACE = Annotated[str, typer.Option("--namespace", "-n", help="namespace of the job", callback=_namespace_name)]
_CLUSTER = Annotated[str | None, typer.Option("--cluster", help="name of the cluster; default: the only one")]
_URL = Annotated[str | None, typer.Option("--url", help="the operator's; default: its service, by the API server")]


#: What is said of a request to an operator.
ASKED = ("job", "region", "asked", "accepted", "state", "why", "namespace")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(no_args_is_help=True, help="Consistent regions of stream jobs.")
    for command in (apply, show, reset, drain, serve):
        group.command()(command)
    group.command(name="list")(list_)
    app.add_typer(group, name="regions")


def apply(
    context: typer.Context,
    file: Annotated[Path, typer.Option("--file", "-f", help="the job, YAML or JSON")],
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="default: the file's", callback=_namespace_name)
    ] = None,
    cluster: _CLUSTER = None,
    output: Output = Format.table,
) -> None:
    """Create or change the regions of a job and the resource of their operator."""
    from jobs.regions import applying, job

    read = job.read(file)
    client = _client(context, cluster)
    done = list(applying.apply(client, read, namespace or read.namespace or "default"))
    typer.echo(rows(applying.Applied._fields, (each._asdict() for each in done), output), nl=False)


def list_(
    context: typer.Context,
    job: Annotated[str | None, typer.Option("--job", help="only of this job", callback=_job_name)] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="default: all", callback=_namespace_name)
    ] = None,
    cluster: _CLUSTER = None,
    output: Output = Format.table,
) -> None:
    """The regions with their states, ids and times."""
    from jobs.regions import reading

    found = list(reading.rows(_client(context, cluster), namespace, job))
    typer.echo(rows(reading.COLUMNS, found, output, title="regions"), nl=False)


def show(
    context: typer.Context,
    job: _JOB,
    region: _INDEX = 0,
    namespace: _NAMESPACE = "default",
    cluster: _CLUSTER = None,
    output: Output = Format.yaml,
) -> None:
    """One region, whole."""
    from jobs.regions import reading

    if output not in (Format.json, Format.yaml):
        raise BadInput(f"--output: {output.value}: a region is shown as json or yaml")
    typer.echo(document(reading.one(_client(context, cluster), namespace, job, region), output), nl=False)


def reset(
    context: typer.Context,
    job: _JOB,
    region: _INDEX,
    force: Annotated[bool, typer.Option("--force", help="also where all attempts are used up")] = False,
    namespace: _NAMESPACE = "default",
    url: _URL = None,
    cluster: _CLUSTER = None,
    output: Output = Format.table,
) -> None:
    """Have a region reset to its last completed checkpoint."""
    from jobs.regions import reading

    client = _client(context, cluster)
    found = reading.one(client, namespace, job, region)
    state = (found.get("status") or {}).get("state", "STARTED")
    refused = state == "MAXIMUM_RESET_ATTEMPTS_REACHED" and not force
    why = f"region {region} of {job} has used up its attempts: only --force resets it" if refused else ""
    request = {"request": {"operator": "colocate", "force": str(force).lower()}}
    reading.ask(client, url, namespace, job, f"region/{region}/reset", request)
    _asked("reset", (namespace, job, region), state, why, output)


def drain(
    context: typer.Context,
    job: _JOB,
    region: _INDEX,
    operator: Annotated[str | None, typer.Option("--operator", help="on behalf of; default: the only one")] = None,
    namespace: _NAMESPACE = "default",
    url: _URL = None,
    cluster: _CLUSTER = None,
    output: Output = Format.table,
) -> None:
    """Have an operator-driven region drain, as if its operator had asked; a periodic one drains by itself.

    PEs are not told: the operator itself begins the drain. Without it the drain times out and the region is reset.
    """
    from jobs.regions import reading

    client = _client(context, cluster)
    found = reading.one(client, namespace, job, region)
    spec, status = found.get("spec") or {}, found.get("status") or {}
    state = status.get("state", "STARTED")
    why = ""
    if spec.get("trigger") != "operator driven":
        why = f"region {region} of {job} is periodic: it drains by itself every {spec.get('period', 0):g} s"
    elif state not in ("STARTED", "PROCESSING"):
        why = f"region {region} of {job} is {state}: it drains only from PROCESSING"
    if why:
        _asked("drain", (namespace, job, region), state, why, output)
    known = sorted(name for name, is_one in (spec.get("operatorsToTriggerMap") or {}).items() if is_one)
    chosen = operator or (known[0] if len(known) == 1 else None)
    if chosen not in known:
        raise BadInput(f"--operator: name one of {', '.join(known) or 'none'}")
    request = {"request": {"seqId": str(status.get("currentSeqID", 1)), "operator": chosen}}
    reading.ask(client, url, namespace, job, f"region/{region}/drain", request)
    _asked("drain", (namespace, job, region), state, "", output)


def _asked(what: str, of: tuple[str, str, int], state: str, why: str, output: Format) -> NoReturn:
    """Say what became of a request to the operator, *state* being the region's before it; *why* it will not be met,
    "" where it will. Ends the command."""
    namespace, job, region = of
    told = {"job": job, "region": region, "asked": what, "accepted": not why, "state": state, "why": why}
    if why:
        warn(why)
    typer.echo(rows(ASKED, [told | {"namespace": namespace}], output), nl=False)
    raise typer.Exit(NO if why else DONE)


def serve(
    context: typer.Context,
    job: Annotated[
        str, typer.Option("--job", envvar="STREAMS_JOB_NAME", help="name of the stream job", callback=_job_name)
    ],
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace", "-n", envvar="MY_POD_NAMESPACE", help="namespace of the job", callback=_namespace_name
        ),
    ] = "default",
    host: Annotated[str, typer.Option("--host", help="address to listen on; default: all")] = "",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="of the REST interface")] = 10000,
    metrics_port: Annotated[int, typer.Option("--metrics-port", min=0, max=65535, help="of the metrics")] = 9696,
    notify_port: Annotated[int, typer.Option("--notify-port", min=1, max=65535, help="on which PEs listen")] = 10001,
    pe_address: Annotated[
        str, typer.Option("--pe-address", help="host of a PE: {job}, {pe}, {namespace}, {high}, {low} are filled in")
    ] = "{job}-{pe}.{namespace}",
    identity: Annotated[
        str | None,
        typer.Option(
            "--identity", envvar="MY_POD_NAME", help="this operator's, no other's; default: host and process"
        ),
    ] = None,
    lease: Annotated[
        float, typer.Option("--lease", min=1.0, max=3600.0, help="seconds until another operator may take over")
    ] = 15.0,
    regions: Annotated[
        int | None,
        typer.Option(
            "--regions", envvar="NUM_CONSISTENT_REGIONS", min=0, help="the job's, checked; default: unchecked"
        ),
    ] = None,
    job_id: Annotated[
        str, typer.Option("--job-id", envvar="STREAMS_JOB_ID", help="uid of the job, checked; default: unchecked")
    ] = "",
    generation: Annotated[
        int | None,
        typer.Option("--generation", envvar="STREAMS_GENERATION_ID", min=0, help="the job's; another one is logged"),
    ] = None,
    cluster: _CLUSTER = None,
) -> None:
    """Run the operator of one job: one acts, others wait for its lease."""
    from jobs import logs
    from jobs.ending import on_signals
    from jobs.regions.operator import Operator, Options
    from jobs.regions.told import Told

    try:
        pe_address.format(job=job, pe=0, namespace=namespace, high=0, low=1)
    except (KeyError, IndexError, ValueError):
        raise BadInput(
            f"--pe-address: {pe_address!r}: only {{job}}, {{pe}}, {{namespace}}, {{high}}, {{low}}"
        ) from None
    client = _client(context, cluster, timeout=min(4.0, lease / 4))
    levels = {**logs.LEVELS, "warn": logs.LEVELS["warning"]}
    level = levels.get(os.environ.get("STREAMS_LOG_LEVEL", "info").lower(), logs.LEVELS["info"])
    logs.configure(level, settings(context).log.form)
    options = Options(
        job=job,
        namespace=namespace,
        identity=identity or f"{socket.gethostname()}-{os.getpid()}",
        host=host,
        rest_port=port,
        metrics_port=metrics_port,
        notify_port=notify_port,
        address=pe_address,
        lease_seconds=lease,
        told=Told(regions, job_id, generation),
    )
    operator = Operator(client, options)
    on_signals(operator.stop)
    raise typer.Exit(DONE if operator.run() else PARTLY)


def _client(context: typer.Context, cluster: str | None, timeout: float | None = None) -> "KubernetesClient":
    """Reach the cluster that is meant; without any configured, the one of the kubeconfig or the pod."""
    from jobs import wire
    from jobs.config import KubernetesSettings

    held = settings(context)
    with_api = {each.name: each.kubernetes for each in held.clusters if each.kubernetes is not None}
    if cluster is not None and cluster not in with_api:
        raise BadInput(
            f"cluster {cluster!r}: not configured with kubernetes; there are {', '.join(with_api) or 'none'}"
        )
    if cluster is None and len(with_api) > 1:
        raise BadInput(f"--cluster: name one of {', '.join(with_api)}")
    chosen = with_api[cluster] if cluster is not None else next(iter(with_api.values()), KubernetesSettings())
    if timeout is not None:
        chosen = chosen.model_copy(update={"timeout": timedelta(seconds=timeout)})
    return wire.kubernetes(chosen)
