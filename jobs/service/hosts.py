"""Stream jobs in the service: submitted and released over HTTP, and what their pods get when they are created."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Protocol

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from featurestore.snapshot import Snapshot
from featurestore.store.control import Control
from jobs.config import HostsSettings
from jobs.hosts import changing, hostpools, reading, stored
from jobs.hosts.answering import Answer, answer
from jobs.hosts.changing import Change, Ledger
from jobs.hosts.reading import Seen
from jobs.hosts.releasing import release
from jobs.service import body, text
from jobs.service.counts import TurnedDown
from jobs.service.handlers import Handler
from jobs.service.hostbodies import HostConstraints, HostConstraintsRequest, ReleasedJob
from jobs.service.periodic import Signature, signature
from jobs.service.problems import MEDIA_TYPE, Problem, problem
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.errors import BadInput, SourceError, Temporary
from rules.hosts import job as jobs
from rules.hosts.model import Conflict, Job
from rules.hosts.podrules import HostRules
from rules.view import View


class _Refusal(Problem, frozen=True):
    refused: tuple[Conflict, ...] = ()


class _Prepare(Protocol):
    def __call__(self, snapshot: Snapshot, cluster: str, at: datetime, /) -> View: ...


class HostJobs:
    """The submitted jobs of *cluster*; *client* connects to it, and raises `BadInput` where there is no way to."""

    def __init__(
        self,
        store: Control,
        cluster: str,
        settings: HostsSettings,
        client: Callable[[], KubernetesClient],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.rules: HostRules = MappingProxyType({})
        self.changes = 0
        self._store = store
        self._cluster = cluster
        self._settings = settings
        self._client = client
        self._now = now
        self._seen: Signature = ()

    def refresh(self) -> None:
        """Read the stored jobs again if the store changed; other processes write there too."""
        path = self._store.path
        seen = signature([path, path.with_name(f"{path.name}-wal")])
        if seen == self._seen:
            return
        found = stored.rules(self._store, self._cluster)
        self._seen = seen
        if found != self.rules:
            self.rules = MappingProxyType(found)
            self.changes += 1

    def around(self, prepare: _Prepare) -> _Prepare:
        """Return *prepare* with what pods of the jobs get in each view of the cluster."""

        def with_jobs(snapshot: Snapshot, cluster: str, at: datetime, /) -> View:
            view = prepare(snapshot, cluster, at)
            return replace(view, hosts=self.rules) if cluster == self._cluster and self.rules else view

        return with_jobs

    def submit(self, given: dict[str, Any]) -> HostConstraints | Answer:
        """Answer a posted job, and store it; returns the `Answer` where it is refused."""
        request = _request(given)
        job = jobs.read(request.job, "body")
        before = stored.known(self._store, self._cluster, job)
        client = None if request.nodes is not None else self._client()
        seen = _given(request.nodes) if client is None else reading.live(client)
        found = answer(job, seen, self._settings.deadline, None if before is None else before.pools)
        if found.plan is None:
            return found
        changed = 0
        if not request.dry_run:
            changed = self._keep(client, job, request.job, found, seen)
            self.refresh()
        shown = found.document
        return HostConstraints(shown["pods"], shown["nodes"], not request.dry_run, changed)

    def _keep(self, client: KubernetesClient | None, job: Job, document: object, found: Answer, seen: Seen) -> int:
        assert found.plan is not None
        plan, changes, actions = found.plan, list[Change](), found.changes(seen)
        if client is not None and self._settings.change_nodes:
            changes = [*changing.nodes(client, actions, seen), *(hostpools.changes(client, plan) or ())]
        ledger = Ledger()
        ledger.carry_out(changes)
        try:
            stored.keep(self._store, self._cluster, plan, document, self._now())
        except BaseException:
            ledger.take_back()
            raise
        return len(actions) if changes else 0

    def release(self, job: str) -> ReleasedJob | None:
        """Forget *job* and give back its nodes, where the service may change them; None where nothing is known."""
        may = self._settings.change_nodes
        if not may and stored.get(self._store, self._cluster, job) is None:
            return None
        if may:
            done = release(self._client(), self._store, self._cluster, job)
            known, actions = done.known, done.actions
        else:
            known, actions = stored.forget(self._store, self._cluster, job), ()
        self.refresh()
        return ReleasedJob([each.json for each in actions], may) if known or actions else None


def _request(given: dict[str, Any]) -> HostConstraintsRequest:
    """Read a body: a job's document as it is, or in ``job`` beside other things."""
    if not isinstance(given.get("job"), dict):
        return HostConstraintsRequest(given)
    try:
        return msgspec.convert(given, HostConstraintsRequest)
    except msgspec.ValidationError as error:
        raise BadInput(f"body: {str(error).replace('`$.', '`')}") from None


def _given(nodes: object) -> Seen:
    return reading.seen(reading.opened([nodes]), "body: nodes")


def handlers(known: HostJobs, turned_down: TurnedDown) -> dict[str, Handler]:
    """Return the handlers of the operations on stream jobs by name; *turned_down* is told of conflicts by kind."""

    def submitted(given: bytes) -> Response:
        found = known.submit(text.mapping(given))
        if isinstance(found, Answer):
            for kind in sorted({each.conflict for each in found.conflicts}):
                turned_down("hosts", kind)
        return _submitted(found)

    async def submit(request: Request) -> Response:
        try:
            given = await body.read(request.receive)
        except body.TooLarge as error:
            return problem(413, str(error))
        return await run_in_threadpool(_answered, lambda: submitted(given))

    async def release(request: Request) -> Response:
        job = request.path_params["job"]

        def work() -> Response:
            found = known.release(job)
            return problem(404, f"job {job}: nothing is known of it") if found is None else _json(found)

        return await run_in_threadpool(_answered, work)

    return {"host_constraints": submit, "host_release": release}


def _submitted(found: HostConstraints | Answer) -> Response:
    if isinstance(found, HostConstraints):
        return _json(found)
    refusal = _Refusal("Unprocessable Content", 422, "the job cannot be placed", refused=found.conflicts)
    return Response(msgspec.json.encode(refusal), 422, media_type=MEDIA_TYPE)


def _answered(work: Callable[[], Response]) -> Response:
    try:
        return work()
    except Temporary as error:
        return problem(503, str(error))
    except SourceError as error:
        return problem(502, str(error))


def _json(found: object) -> Response:
    return Response(msgspec.json.encode(found), media_type="application/json")
