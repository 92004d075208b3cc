"""The operator of one job: watches, queue, consumer, REST, metrics, and the lease that lets it act."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
import structlog

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
from jobs.regions.told import NOTHING, Told
from jobs.regions.web import Web
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.clients.watch import Watcher
from pipeline.errors import BadInput, Temporary
from pipeline.objects.wire import name_of

_log = structlog.get_logger(__name__)

#: Pauses between tries to read the job's resource at the start, in seconds: doubled from the first to the last.
_PAUSES = (0.2, 10.0)


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
    told: Told = NOTHING


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
        if self._read(resources) is None:  # a job without one is said at once, and not when the lease is free
            return True
        if not lease.acquire(self._stopped.is_set):
            lease.release()
            return True
        try:
            started = self._mark(resources)
            return True if started is None else self._act(resources, started, lease)
        finally:
            lease.release()

    def _mark(self, resources: Resources) -> Started | None:
        """Note that an operator runs, before anything else happens; return what was noted before."""
        while (started := self._read(resources)) is not None:
            if started.has_started:
                return started
            try:
                resources.mark_started(started)
                return started
            except Conflict:
                continue
            except Temporary as error:
                self._pause(error, 0)
        return None

    def _read(self, resources: Resources) -> Started | None:
        """Read the job's own resource, for as long as it takes; None where `stop` came first.

        Raises `Permanent` where the API server refuses, and `BadInput` where the resource is not the one that this
        operator was started for: trying again would change nothing.
        """
        tries = 0
        while not self._stopped.is_set():
            try:
                found = resources.operator()
                self.options.told.check(found, paths.operator_name(self.options.job))
                return found
            except Temporary as error:
                self._pause(error, tries)
                tries += 1
        return None

    def _pause(self, error: Temporary, tries: int) -> None:
        _log.warning("operator not started yet", error=str(error))
        pause = min(_PAUSES[1], _PAUSES[0] * 2.0 ** min(tries, 20))
        self._stopped.wait(max(pause, min(error.delay, _PAUSES[1])))

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
