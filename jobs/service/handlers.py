"""The handlers of every route but the webhook; anything that takes longer than a moment runs in a thread."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec
import pyarrow as pa
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from featurestore.snapshot import Snapshot
from jobs import clusters
from jobs.service import body, manifest, tables, words
from jobs.service.decide import Decided
from jobs.service.known import KNOWN, select
from jobs.service.metrics import CONTENT_TYPE
from jobs.service.problems import problem
from jobs.service.routes import Readiness, RecommendationRequest

Handler = Callable[[Request], Awaitable[Response]]


class Recommend(Protocol):
    """Answer about one pod; raises `BadInput` where the request cannot be understood."""

    def __call__(self, request: RecommendationRequest, /) -> object: ...


class History(Protocol):
    """Decisions that were kept, the newest first, at most *limit*, equal to every one of *filters*."""

    def __call__(self, filters: Mapping[str, str], limit: int, /) -> Sequence[Mapping[str, object]]: ...


DECISIONS = pa.schema(
    [
        pa.field("decision", pa.string()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("namespace", pa.string()),
        pa.field("pod", pa.string()),
        pa.field("function", pa.string()),
        pa.field("mode", pa.string()),
        pa.field("outcome", pa.string()),
        pa.field("satisfiable", pa.bool_()),
        pa.field("node", pa.string()),
        pa.field("followed", pa.bool_()),
        pa.field("activations", pa.int64()),
        pa.field("p50_ms", pa.float64()),
        pa.field("usual_ms", pa.float64()),
        pa.field("snapshot", pa.string()),
        pa.field("cluster", pa.string()),
    ]
)
_DECISION_FILTERS = ("cluster", "namespace", "function", "mode", "outcome")


def known(name: str, snapshot: Callable[[], Snapshot], configured: Collection[str]) -> Handler:
    """Return the handler of ``GET /v1/NAME``; clusters are *configured*, or imported."""

    def answer(query: Mapping[str, str]) -> Response:
        current = snapshot()
        filters = {key: value for key, value in query.items() if key not in tables.PAGING}
        if "cluster" in filters:
            clusters.there(filters["cluster"], configured, current.clusters)
        return tables.answer(select(KNOWN[name], current, filters), current.version, query)

    async def handler(request: Request) -> Response:
        return await run_in_threadpool(answer, words.single(request.query_params.multi_items()))

    return handler


def decisions(
    history: History,
    recent: Callable[[], Sequence[Decided]],
    snapshot: Callable[[], Snapshot],
    configured: Collection[str],
) -> Handler:
    """Return the handler of ``GET /v1/decisions``: those just made here, and the kept ones.

    They may be of a cluster that is not *configured* any more.
    """

    def answer(query: Mapping[str, str]) -> Response:
        filters = {key: value for key, value in query.items() if key not in tables.PAGING}
        words.check(filters, _DECISION_FILTERS, *tables.PAGING)
        _, limit, offset = tables.paging(query)
        rows = {
            row["decision"]: row
            for row in (
                *({field: getattr(one.kept, field, None) for field in DECISIONS.names} for one in recent()),
                *history(filters, limit + offset),
            )
            if all(row[name] == value for name, value in filters.items())
        }
        current = snapshot()
        if "cluster" in filters and not rows:
            clusters.there(filters["cluster"], configured, current.clusters)
        newest = sorted(rows.values(), key=_moment, reverse=True)
        table = pa.Table.from_pylist([{name: row.get(name) for name in DECISIONS.names} for row in newest], DECISIONS)
        return tables.answer(table, current.version, query)

    async def handler(request: Request) -> Response:
        return await run_in_threadpool(answer, words.single(request.query_params.multi_items()))

    return handler


def _moment(row: Mapping[str, Any]) -> datetime:
    at: datetime = row["at"]
    return at


def recommendations(recommend: Recommend) -> Handler:
    """Return the handler of ``POST /v1/recommendations``."""

    def answer(given: bytes, query: Mapping[str, str]) -> Response:
        asked = manifest.parse(given, query)
        return Response(msgspec.json.encode(recommend(asked)), media_type="application/json")

    async def handler(request: Request) -> Response:
        try:
            given = await body.read(request.receive)
        except body.TooLarge as error:
            return problem(413, str(error))
        return await run_in_threadpool(answer, given, words.single(request.query_params.multi_items()))

    return handler


def metrics(page: Callable[[], bytes]) -> Handler:
    """Return the handler of ``GET /metrics``."""

    async def handler(_request: Request) -> Response:
        return Response(await run_in_threadpool(page), headers={"content-type": CONTENT_TYPE})

    return handler


async def healthz(_request: Request) -> Response:
    """Say that the process answers."""
    return PlainTextResponse("ok\n")


def readyz(ready: Callable[[], Readiness]) -> Handler:
    """Return the handler of ``GET /readyz``: 200 once answers can be given, else 503."""

    async def handler(_request: Request) -> Response:
        state = ready()
        status = 200 if state.status == "ready" else 503
        return Response(msgspec.json.encode(state), status, media_type="application/json")

    return handler


def openapi(document: Mapping[str, Any]) -> Handler:
    """Return the handler of ``GET /openapi.json``."""
    encoded = msgspec.json.encode(document)

    async def handler(_request: Request) -> Response:
        return Response(encoded, media_type="application/json")

    return handler
