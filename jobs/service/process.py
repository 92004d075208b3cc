"""One serving process: ``python -m jobs.service.process``, started by the supervisor with the listening socket."""

import argparse
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import structlog
import uvicorn
from pydantic import SecretStr

from featurestore.snapshot import Snapshot
from featurestore.store.control import Control
from jobs import clusters, logs, tracing, wire
from jobs.config import Settings, admitted, load
from jobs.explaining import explain
from jobs.service import counts, history, memory, reached
from jobs.service.accepting import Server
from jobs.service.ahead import Ahead
from jobs.service.app import Parts, create_app
from jobs.service.auth import Token
from jobs.service.desk import Desk
from jobs.service.disks.controller import Running
from jobs.service.disks.desk import DiskDesk
from jobs.service.disks.live import LiveDisks
from jobs.service.disks.reserving import Reserving
from jobs.service.hosts import HostJobs
from jobs.service.intents.stored import Intents
from jobs.service.intents.watched import Watched
from jobs.service.live import Live
from jobs.service.metrics import Metrics
from jobs.service.others import Others
from jobs.service.periodic import Periodic
from jobs.service.prepared import Spent
from jobs.service.renewing import Renewing
from jobs.service.replication.answers import Replication
from jobs.service.reservations import Reservations
from jobs.service.retiring import Retiring
from jobs.service.routes import Readiness
from jobs.service.spool import Spool
from jobs.service.state import State
from jobs.service.tls import Protocol, context_of
from jobs.service.unwritten import Unwritten
from jobs.service.views import Views
from jobs.service.warming import Warming
from pipeline.errors import ColocationError
from rules.view import View

_log = structlog.get_logger(__name__)

#: How often files that may be renewed are looked at, and counts are left for the other processes, in seconds.
_HOUSEKEEPING = 1.0

#: How long a thread may hold Python's lock while another waits for it, in seconds; an answer takes about as long.
_SWITCH = 0.0002

#: How often it is looked whether answers are to be worked out anew, in seconds.
_RENEWING = 0.05
_AHEAD = 0.25

#: How long a replica waits for its first snapshot before it answers without, in seconds.
_FIRST_SNAPSHOT = 20.0


class Process:
    """Everything of one serving process; `start` and `close` its threads, `run` the server."""

    def __init__(
        self, settings: Settings, directory: Path | None, slot: int, unwritten: Unwritten | None = None
    ) -> None:
        """Put the parts together; raises `BadInput` for settings that cannot be served from."""
        unwritten = unwritten or Unwritten()
        memory.modest()
        serve = settings.serve
        cluster = admitted(settings)
        policy = wire.policy(settings, cluster)
        self._tls = context_of(serve)
        self._patience = time.monotonic() + _FIRST_SNAPSHOT if settings.replica.writer is not None else 0.0
        token = Token(_revealed(serve.token), serve.token_file)
        replicas = Token(_revealed(serve.replica_token), serve.replica_token_file, "serve.replica_token")
        tally = counts.read(directory / f"serving-{slot}.json") if directory is not None else counts.Tally()
        self.reservations = Reservations()
        others = Others(
            self.reservations, policy, lambda pod: self.state.current.view.learned.owners.function_of(pod)
        )
        self.live = reached.live(settings, cluster, others)
        spent = Spent()
        kubernetes = partial(wire.kubernetes_of, settings, cluster)
        self.hosts = HostJobs(Control(settings.store.control), cluster, settings.hosts, kubernetes)
        retiring = Retiring()
        self.ahead = Ahead(retiring.answers, workers=serve.workers)
        views = Views(cluster, policy, self.reservations, lambda: self.live)
        self.state: State[View] = State(
            settings.store.snapshot,
            cluster,
            self.hosts.around(views),
            self._changes,
            lambda: self.reservations.changes,
            lambda: spent.seconds,
            retire=self._retired(retiring),
        )
        self.metrics = Metrics(tally, directory, slot, serve.metrics_pairs)
        self.metrics.loads = lambda: (self.state.loads, self.state.failures)
        self.state.on_swap(self.metrics.seen)
        if not settings.clusters and serve.cluster is None:
            self.state.on_swap(partial(_unnamed, cluster))
        disks = self.disks = reached.live_disks(settings, cluster)
        watching = {"answers": self.live, "disks": disks}
        self.metrics.watches = lambda: reached.watches(cluster, watching, time.time())
        self._reservations: Running | None = None
        reserving: Reserving | None = None
        if disks is not None:
            self.state.on_swap(disks.seen)
            if settings.disks.reserve:
                reserving = Reserving(disks.client, disks.layout_for, symmetric=settings.disks.symmetric)
                self._reservations = reached.controller(settings, disks)
        kept = history.History(settings)
        self._history = kept
        if lost := unwritten.inherit():
            tally.lost(lost)
            _log.warning("decisions of a process that was killed are not recorded", at_most=lost)
        self.spool = Spool(kept.keep, tally.lost, unwritten=unwritten)
        self._housekeeping = Periodic("housekeeping", _HOUSEKEEPING, self._keep_house(token, replicas), finally_=True)
        warming = Warming(lambda: self.state.current.view, policy)
        self._jobs = Periodic("stream jobs", _HOUSEKEEPING, self.hosts.refresh)
        self._warming = Periodic("warming", _HOUSEKEEPING, warming.work)
        self._retiring = Periodic("retiring", _HOUSEKEEPING, retiring.work)
        self.intents = Watched(settings.store.control, cluster)
        deadline = settings.advice.deadline.total_seconds()
        disk_desk = DiskDesk(settings.disks, cluster, lambda: self.state.current.snapshot, disks)
        if disks is None:
            self.state.on_swap(disk_desk.seen)
        desk = Desk(
            self.state,
            policy,
            self.reservations,
            spent,
            tally.without,
            deadline,
            lambda: self.intents.current,
            volumes=disk_desk.volumes if disks is not None else None,
            retire=retiring.answers,
            renewing=Renewing(spent),
            ahead=self.ahead,
            named=bool(settings.clusters) or serve.cluster is not None,
        )
        self._renewing = Periodic("renewing", _RENEWING, desk.renew)
        self._ahead = Periodic("ahead", _AHEAD, desk.prepare_ahead)
        self.app = create_app(
            Parts(
                snapshot=lambda: self.state.current.snapshot,
                decide=desk.decide,
                recommend=desk.recommend,
                keep=self.spool,
                recent=lambda: self.spool.recent,
                history=kept.read,
                stored=kept.one,
                explain=partial(explain, settings, patience=history.PATIENCE),
                stale_after=settings.advice.stale_after,
                configured=clusters.configured(settings),
                ready=self._ready,
                metrics=self.metrics,
                tally=tally,
                intents=Intents(Control(settings.store.control), self.intents.wake),
                reserving=reserving,
                company=desk.company if settings.disks.interference else None,
                disks=disk_desk,
                hosts=self.hosts,
                replication=Replication(settings.store),
                writer=settings.replica.writer,
                token=token,
                replicas=replicas,
                open_admission=serve.open_admission,
                client_ca=serve.client_ca is not None,
            )
        )

    @property
    def _threads(self) -> tuple[State[View] | Periodic | Live | LiveDisks | Running | Watched | Spool | None, ...]:
        """What runs beside the server; what writes last is closed last."""
        watching = (self._reservations, self._jobs, self.intents, self.disks, self.live)
        working = (self._warming, self._renewing, self._ahead, self._retiring)
        return (*watching, *working, self.state, self.spool, self._housekeeping)

    def start(self) -> None:
        """Start the threads."""
        for part in reversed(self._threads):
            if part is not None:
                part.start()

    def close(self) -> None:
        """Stop the threads; decisions that wait are written first."""
        for part in self._threads:
            if part is not None:
                part.close()
        self._history.close()

    def server(self) -> uvicorn.Server:
        """Make the server; its connections come from a socket that is handed to `run`."""
        tls = self._tls
        config = uvicorn.Config(
            self.app,
            http=Protocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=5,
            timeout_keep_alive=75,
            backlog=1,  # see `Server`
            ssl_context_factory=(lambda _config, _default: tls) if tls is not None else None,
        )
        return Server(config)

    def _retired(self, retiring: Retiring) -> Callable[[View, View], None]:
        def retire(former: View, view: View) -> None:
            self.ahead.turn(former, view)
            retiring.view(former, view)

        return retire

    def _changes(self) -> int:
        return self.hosts.changes + (self.live.changes if self.live is not None else 0)

    def _keep_house(self, *tokens: Token) -> Callable[[], None]:
        def work() -> None:
            for token in tokens:
                token.refresh()
            if self._tls is not None:
                self._tls.refresh()
            self.metrics.publish()

        return work

    def _ready(self) -> Readiness:
        """Ready with whatever is known: a fresh installation, without snapshot, has to answer too.

        A replica gets some time to fetch one first: beside it others answer that have theirs.
        """
        live = self.live is not None and self.live.synced
        fetching = not self.state.loads and time.monotonic() < self._patience
        return Readiness("starting" if fetching else "ready", self.state.current.snapshot.version, live)


def _unnamed(cluster: str, snapshot: Snapshot) -> None:
    """Say that pods are advised of a *cluster* of which nothing is known, where another was meant."""
    if snapshot.clusters and cluster not in snapshot.clusters:
        known = ", ".join(snapshot.clusters)
        _log.warning("pods are advised from nothing: set serve.cluster to a cluster that is known", known=known)


def _revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def run(
    settings: Settings, sock: socket.socket, directory: Path | None, slot: int, unwritten: Unwritten | None = None
) -> None:
    """Serve until told to end."""
    tracing.start(settings.trace, "serve")
    process = Process(settings, directory, slot, unwritten)
    # The server raises the signal that ended it once more when it is done: there is still something to close.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A thread that works beside the answers gives way to one sooner than after Python's usual 5 ms.
    sys.setswitchinterval(_SWITCH)
    process.start()
    try:
        process.server().run(sockets=[sock])
    finally:
        process.close()
        tracing.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the serving process that the supervisor describes."""
    parser = argparse.ArgumentParser(prog="python -m jobs.service.process")
    parser.add_argument("--config", type=Path)
    parser.add_argument("--descriptor", type=int, required=True)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--slot", type=int, default=0)
    parser.add_argument("--unwritten", type=int)
    given = parser.parse_args(arguments)
    logs.configure()
    try:
        settings = load(given.config)
        logs.configure(logs.LEVELS[settings.log.level], settings.log.form)
        unwritten = Unwritten(given.unwritten, given.slot)
        run(settings, socket.socket(fileno=given.descriptor), given.directory, given.slot, unwritten)
    except ColocationError as error:
        _log.error("not served", error=str(error))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
