"""The ASGI application: the table of routes with a handler each, behind authentication."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.metadata import version

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Route

from featurestore.snapshot import Snapshot
from jobs.service import handlers, hosts, openapi, traced
from jobs.service.admission import Admission
from jobs.service.auth import Auth, Token
from jobs.service.counts import Tally
from jobs.service.decide import Decide, Decided, Keep
from jobs.service.disks import answers as disks
from jobs.service.disks.desk import DiskDesk
from jobs.service.disks.extender import Company, Plans
from jobs.service.ids import RequestIds
from jobs.service.intents import answers as intents
from jobs.service.intents.paths import WithoutVersion
from jobs.service.intents.stored import Intents
from jobs.service.metrics import Metrics
from jobs.service.page import answers as page
from jobs.service.problems import HANDLERS
from jobs.service.replication.answers import Replication, misdirected
from jobs.service.routes import ROUTES, Readiness


@dataclass(frozen=True, slots=True)
class Parts:
    """What the application is made of; `jobs.service.process` puts it together, a test puts in its own."""

    snapshot: Callable[[], Snapshot]
    decide: Decide
    recommend: handlers.Recommend
    keep: Keep
    recent: Callable[[], Sequence[Decided]]
    history: handlers.History
    ready: Callable[[], Readiness]
    metrics: Metrics
    tally: Tally
    intents: Intents
    disks: DiskDesk
    hosts: hosts.HostJobs
    replication: Replication
    token: Token = field(default_factory=lambda: Token(None, None))
    replicas: Token = field(default_factory=lambda: Token(None, None))
    client_ca: bool = False
    writer: str | None = None
    open_admission: bool = False
    reserving: Plans | None = None
    company: Company | None = None
    stored: page.Stored = lambda decision: None
    explain: page.Explain = page.unexplained
    stale_after: timedelta = timedelta(hours=1)
    configured: tuple[str, ...] = ()


def create_app(parts: Parts) -> Starlette:
    """Make the application of one serving process."""
    document = openapi.document(ROUTES, version("colocation-advisor"))
    answering = {
        "recommendations": handlers.recommendations(parts.recommend),
        "functions": handlers.known("functions", parts.snapshot, parts.configured),
        "interference": handlers.known("interference", parts.snapshot, parts.configured),
        "nodes": handlers.known("nodes", parts.snapshot, parts.configured),
        "regions": handlers.known("regions", lambda: parts.metrics.with_regions(parts.snapshot()), parts.configured),
        "decisions": handlers.decisions(parts.history, parts.recent, parts.snapshot, parts.configured),
        "metrics": handlers.metrics(parts.metrics.page),
        "healthz": handlers.healthz,
        "readyz": handlers.readyz(parts.ready),
        "openapi": handlers.openapi(document),
        **page.handlers(
            page.Shown(
                parts.snapshot,
                parts.metrics.health,
                parts.recent,
                parts.stored,
                parts.explain,
                parts.stale_after,
                parts.configured,
            )
        ),
        **disks.handlers(parts.disks, parts.reserving, parts.tally.turned_down, parts.company),
        **intents.handlers(parts.intents, parts.snapshot, parts.tally.turned_down),
        **hosts.handlers(parts.hosts, parts.tally.turned_down),
        **parts.replication.handlers(),
    }
    if parts.writer is not None:
        elsewhere = misdirected(parts.writer)
        answering |= {route.name: elsewhere for route in ROUTES if route.changes}
    admission = Admission(traced.deciding(parts.decide), parts.keep, parts.tally)
    routes: list[BaseRoute] = [
        Route(route.path, admission)  # an ASGI application of its own: the shortest way through the framework
        if route.name == "mutate"
        else Route(route.path, answering[route.name], methods=[route.method])
        for route in ROUTES
    ]
    guard = Middleware(
        Auth,
        token=parts.token,
        client_ca=parts.client_ca,
        refused=parts.tally.refused,
        replicas=parts.replicas,
        open_admission=parts.open_admission,
    )
    layers = [Middleware(RequestIds), *traced.layers(routes), guard, Middleware(WithoutVersion)]
    return Starlette(routes=routes, middleware=layers, exception_handlers=HANDLERS)
