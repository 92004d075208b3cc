"""The service's application with exchangeable parts, on a real server in a thread of its own."""

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette

from featurestore.snapshot import Snapshot, empty
from featurestore.store.control import Control
from featurestore.store.decision import Decision
from jobs.config import DiskSettings, HostsSettings, StoreSettings
from jobs.service.app import Parts, create_app
from jobs.service.auth import Token
from jobs.service.counts import Tally
from jobs.service.decide import Decided
from jobs.service.disks.desk import DiskDesk
from jobs.service.hosts import HostJobs
from jobs.service.intents.stored import Intents
from jobs.service.metrics import Metrics
from jobs.service.replication.answers import Replication
from jobs.service.review import AdmissionRequest
from jobs.service.routes import Readiness
from jobs.service.state import Current
from jobs.service.tls import Protocol
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.errors import BadInput
from rules.view import View
from tests.support.worlds import NOW, World

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def decided(
    request: AdmissionRequest,
    *,
    mode: str = "prefer",
    outcome: str = "patched",
    at: datetime = AT,
    patch: bytes = b'[{"op":"add","path":"/metadata/labels/decided","value":"yes"}]',
) -> Decided:
    """A decision that adds one label."""
    kept = Decision(
        decision=request.uid, at=at, cluster="c1", namespace=request.namespace, pod=request.name,
        function="guest/hello", mode=mode, snapshot="v1", satisfiable=True, outcome=outcome,
        document={"why": "a test"},
    )  # fmt: skip
    return Decided(kept, "none", patch)


def _no_cluster() -> KubernetesClient:
    raise BadInput("clusters.kubernetes: cluster c1 has none")


class Fixed:
    """A state with one view at a time, at first that of *world*."""

    cluster = "c1"

    def __init__(self, world: World, view: View | None = None) -> None:
        self.current: Current[View] = Current(world.snapshot(), view or world.view(), NOW, 0)

    def show(self, view: View) -> None:
        """Be what *view* shows from now on."""
        self.current = replace(self.current, view=view)


class Fakes:
    """Parts that remember what they were asked; *deciding* may be replaced to go wrong."""

    def __init__(
        self,
        snapshot: Snapshot | None = None,
        directory: Path | None = None,
        control: Path = Path("nowhere/c.sqlite"),
    ) -> None:
        self.intents = Intents(Control(control))
        self.store = StoreSettings(control=control, snapshot=Path("nowhere/snapshot"), spool=Path("nowhere/spool"))
        self.hosts = HostJobs(Control(control), "c1", HostsSettings(), _no_cluster)
        self.snapshot = snapshot or empty(AT)
        self.tally = Tally()
        self.metrics = Metrics(self.tally, directory, 0, 100)
        self.metrics.seen(self.snapshot)
        self.reset()

    def reset(self) -> None:
        """Forget what was asked, and decide rightly again."""
        for name, value in msgspec.structs.asdict(Tally()).items():
            setattr(self.tally, name, value)
        self.asked: list[AdmissionRequest] = []
        self.dry: list[bool] = []
        self.kept: list[Decided] = []
        self.room = True
        self.deciding: Callable[[AdmissionRequest], Decided] = decided

    def decide(self, request: AdmissionRequest, at: datetime, *, dry_run: bool) -> Decided:
        self.asked.append(request)
        self.dry.append(dry_run)
        return self.deciding(request)

    def keep(self, one: Decided) -> bool:
        if self.room:
            self.kept.append(one)
        return self.room

    def history(self, filters: Mapping[str, str], limit: int) -> Sequence[Mapping[str, object]]:
        return ()

    def parts(self, token: Token | None = None, client_ca: bool = False) -> Parts:
        return Parts(
            snapshot=lambda: self.snapshot,
            decide=self.decide,
            recommend=lambda request: {"pod": request.pod, "cluster": request.cluster, "mode": request.mode},
            keep=self.keep,
            recent=lambda: self.kept,
            history=self.history,
            ready=lambda: Readiness("ready", self.snapshot.version, False),
            metrics=self.metrics,
            tally=self.tally,
            intents=self.intents,
            disks=DiskDesk(DiskSettings(), "c1", lambda: self.snapshot, None),
            hosts=self.hosts,
            replication=Replication(self.store),
            token=token or Token(None, None),
            client_ca=client_ca,
        )


def running(parts: Parts, tls: ssl.SSLContext | None = None) -> AbstractContextManager[str]:
    """Serve the application of *parts*; the value is its base URL."""
    return running_app(create_app(parts), tls)


@contextmanager
def running_app(app: Starlette, tls: ssl.SSLContext | None = None, port: int = 0) -> Iterator[str]:
    """Serve *app*, on a free port unless one is given, and yield its base URL."""
    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        ssl_context_factory=(lambda *_: tls) if tls is not None else None,
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", port)) as listening:
        port = listening.getsockname()[1]
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            wait_until(lambda: server.started)
            yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join(10)


def wait_until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait until *condition* holds; raises `AssertionError` when it does not in time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"not within {seconds} s")
        time.sleep(0.02)


def review(pod: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A review of a pod's creation."""
    thing = pod or {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {}}, "spec": {}}
    request = {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "team",
        "name": "p",
        "object": thing,
        "dryRun": False,
        **changes,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def encoded(document: Mapping[str, Any]) -> bytes:
    """Return *document* as a body."""
    return json.dumps(document).encode()
