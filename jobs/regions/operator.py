"""The operator of one job: watches, queue, consumer, REST, metrics, and the lease that lets it act."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
import structlog
import uvicorn

from jobs.ending import Ending
from jobs.regions import paths
from jobs.regions.boards import Boards
from jobs.regions.consumer import Consumer
from jobs.regions.gauges import Gauges
from jobs.regions.inbox import Gone, Inbox, Listed, Seen
from jobs.regions.lease import Lease
from jobs.regions.messenger import Addresses, Messenger
from jobs.regions.resources import Conflict, Resource, Resources, Started, read
from jobs.regions.rest import Rest, metrics
from jobs.regions.surroundings import Surroundings
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.clients.watch import Watcher
from pipeline.errors import BadInput, Permanent, SourceError
from pipeline.objects.wire import name_of

_log = structlog.get_logger(__name__)

#: How long the start waits between tries to read the job's resource, in seconds.
_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class Options:
    """What an operator is told: *address* is the template of a PE's host (`jobs.regions.messenger.Addresses`)."""

    job: str
    namespace: str
    identity: str
    host: str = ""
    rest_port: int = 10000
    metrics_port: int = 9696
    notify_port: int = 10001
    address: str = "{job}-{pe}.{namespace}"
    lease_seconds: float = 15.0


@dataclass(slots=True)
class Operator:
    """Runs until `stop`; `run` returns whether it ended because it was asked to."""

    client: KubernetesClient
    options: Options
    _stopped: Ending = field(default_factory=Ending)
    #: The ports that are listened on, once they are: REST and metrics.
    ports: tuple[int, int] = (0, 0)
    listening: threading.Event = field(default_factory=threading.Event)

    def stop(self) -> None:
        """End `run` soon; may be called from a signal handler."""
        self._stopped.set()

    def run(self) -> bool:
        """Wait for the lease, act until stopped or until the lease is lost; raises `BadInput`, `SourceError`."""
        options = self.options
        resources = Resources(self.client, options.namespace, options.job)
        name = paths.operator_name(options.job)
        lease = Lease(
            self.client,
            paths.leases(options.namespace),
            name,
            options.identity,
            seconds=options.lease_seconds,
        )
        resources.operator()  # a job without one is said at once
        if not lease.acquire(self._stopped.is_set):
            lease.release()
            return True
        try:
            started = self._mark(resources)
            return True if started is None else self._act(resources, started, lease)
        finally:
            lease.release()

    def _mark(self, resources: Resources) -> Started | None:
        """Read whether an operator ran before, and note that one runs now, before anything else happens."""
        while not self._stopped.is_set():
            try:
                started = resources.operator()
                if not started.has_started:
                    resources.mark_started(started)
                return started
            except Conflict:
                continue
            except Permanent:
                raise
            except SourceError as error:
                _log.warning("operator not started yet", error=str(error))
                self._stopped.wait(_PAUSE)
        return None

    def _act(self, resources: Resources, started: Started, lease: Lease) -> bool:
        options = self.options
        inbox, boards = Inbox(), Boards()
        surroundings = Surroundings(options.job, inbox.recheck)
        addresses = Addresses(options.address, options.notify_port, options.job, options.namespace)
        messenger = Messenger(boards, addresses)
        consumer = Consumer(
            inbox,
            resources,
            boards,
            messenger,
            surroundings.health,
            expected=started.regions,
            restarted=started.has_started,
            leading=lease.held,
        )
        gauges = Gauges(
            lambda: consumer.shown,
            lambda: {
                "events": consumer.handled,
                "ignored_events": consumer.ignored,
                "datagrams": messenger.sent,
                "datagrams_failed": messenger.failed,
            },
        )
        rest = Rest(boards.of, boards.entry, consumer.region, inbox.report)
        with Web((rest, options.rest_port), (metrics(gauges.page), options.metrics_port), host=options.host) as web:
            self.ports = web.ports
            watchers = _watchers(self.client, options, inbox, surroundings)
            consuming = threading.Thread(
                target=consumer.run, args=(lambda: self._stopped.is_set() or not lease.held(),), name="consumer"
            )
            _log.info(
                "operator started",
                job=options.job,
                regions=started.regions,
                restarted=started.has_started,
                ports=web.ports,
            )
            try:
                messenger.start()
                consuming.start()
                for watcher in watchers:
                    watcher.start()
                self.listening.set()
                while consuming.is_alive() and not self._stopped.wait(0.1):
                    pass
                lost = not lease.held()
            finally:
                self._stopped.set()
                inbox.close()
                for watcher in watchers:
                    watcher.stop()
                consuming.join(15.0)
                messenger.close()
        if lost:
            _log.error("the lease was lost: another operator may act", job=options.job)
        return not lost


def _watchers(
    client: KubernetesClient, options: Options, inbox: Inbox, surroundings: Surroundings
) -> Sequence[Watcher]:
    def warn(error: Exception) -> None:
        _log.warning("watch failed", error=str(error))

    def listed(raws: Sequence[msgspec.Raw]) -> None:
        names = frozenset(name_of(raw).rpartition("/")[2] for raw in raws)
        inbox.watched(Listed([found for raw in raws if (found := _readable(raw)) is not None], names))

    def event(kind: str, raw: msgspec.Raw) -> None:
        found = _readable(raw)
        if found is not None:
            inbox.watched(Gone(found.name) if kind == "DELETED" else Seen(found))

    kinds: tuple[tuple[str, str, Callable[..., None], Callable[..., None]], ...] = (
        (
            paths.elements(options.namespace),
            paths.elements_of(options.job),
            surroundings.replace_elements,
            surroundings.element,
        ),
        (paths.pods(options.namespace), paths.pods_of(options.job), surroundings.replace_pods, surroundings.pod),
        (paths.regions(options.namespace), f"{paths.JOB}={options.job}", listed, event),
    )
    return [
        Watcher(
            client,
            path,
            on_replace=replace,
            on_event=take,
            on_error=warn,
            label_selector=selector,
            pauses=(0.2, 10.0),
        )
        for path, selector, replace, take in kinds
    ]


def _readable(raw: msgspec.Raw) -> Resource | None:
    try:
        return read(raw)
    except BadInput as error:
        _log.error("region left alone", error=str(error))
        return None


class Web:
    """Serves several applications, each on its port, in one thread; port 0 lets the system choose."""

    def __init__(self, *served: tuple[object, int], host: str) -> None:
        self._sockets: list[socket.socket] = []
        try:
            for _, port in served:
                self._sockets.append(_listen(host, port))
        except BadInput:
            self._close_sockets()
            raise
        self._servers = [
            uvicorn.Server(
                uvicorn.Config(
                    app,  # type: ignore[arg-type]
                    ws="none",
                    lifespan="off",
                    interface="asgi3",
                    log_config=None,
                    access_log=False,
                    proxy_headers=False,
                    server_header=False,
                    timeout_graceful_shutdown=2,
                    timeout_keep_alive=75,
                )
            )
            for app, _ in served
        ]
        self._thread = threading.Thread(target=self._run, name="web", daemon=True)

    @property
    def ports(self) -> tuple[int, int]:
        first, second = (each.getsockname()[1] for each in self._sockets)
        return first, second

    def __enter__(self) -> "Web":
        self._thread.start()
        while self._thread.is_alive() and not all(server.started for server in self._servers):
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.should_exit = True
        self._thread.join(10.0)
        self._close_sockets()

    def _run(self) -> None:
        async def serve() -> None:
            pairs = zip(self._servers, self._sockets, strict=True)
            await asyncio.gather(*(server.serve(sockets=[sock]) for server, sock in pairs))

        asyncio.run(serve())

    def _close_sockets(self) -> None:
        for sock in self._sockets:
            sock.close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        if not host and socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=1024
        )
    except OSError as error:
        raise BadInput(f"port {port}: cannot listen on {host or '*'}:{port}: {error.strerror or error}") from None
