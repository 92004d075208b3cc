"""``colocate bootstrap``: tokens and certificates of an installation in a cluster."""

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command()(bootstrap)


def bootstrap(
    namespace: Annotated[str, typer.Option("--namespace", help="where the installation is")],
    host: Annotated[list[str], typer.Option("--host", help="a name that the service is called by")],
    webhook: Annotated[
        str, typer.Option("--webhook", help="the MutatingWebhookConfiguration that is told which CA to trust")
    ] = "",
    tokens_only: Annotated[bool, typer.Option("--tokens-only", help="certificates are somebody else's")] = False,
    once: Annotated[
        bool, typer.Option("--once", help="do what is due and end; exit code 3: something is missing")
    ] = False,
    every: Annotated[float, typer.Option("--every", min=1.0, help="seconds between two looks")] = 43200.0,
) -> None:
    """Make the Secrets of an installation (tokens, CA, certificate), and renew certificates before they expire."""
    from jobs import logs
    from jobs.bootstrap.keeping import Keeper, Objects, keep
    from jobs.ending import Ending, on_signals
    from pipeline.clients.kubernetes import KubernetesClient

    logs.configure()
    keeper = Keeper(KubernetesClient(), Objects(namespace, host, webhook, tokens_only=tokens_only))
    if once:
        raise typer.Exit(0 if keeper.turn() else 3)
    stopping = Ending()
    on_signals(stopping.set)
    keep(keeper, stopping.wait, every)
