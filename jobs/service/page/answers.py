"""The handlers of the page and of what it shows."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from featurestore.snapshot import Snapshot
from jobs import clusters
from jobs.service import tables, words
from jobs.service.decide import Decided
from jobs.service.handlers import DECISIONS, Handler
from jobs.service.page import heat_map, sources
from jobs.service.page.loads import loads
from jobs.service.page.shell import Shell
from jobs.service.problems import problem
from jobs.supervisor.status import SourceHealth
from pipeline.errors import BadInput, ColocationError, SourceError

#: Rows and columns of a heat map, and rows of nodes, where the caller says nothing, and at most.
_SIZE: Final = (20, 100)
_NODES: Final = (50, 1000)
#: How long a person waits for the explanations that others asked for, in seconds.
_PATIENCE: Final = 10.0
#: So many answers of one snapshot are remembered.
_REMEMBERED: Final = 32
#: Names are shorter; what is searched for need not be longer.
_LONGEST: Final = 256


#: Return a kept decision by its id; None for none.
Stored = Callable[[str], Mapping[str, object] | None]


class Explain(Protocol):
    """Explain a pair once a cluster; raises `BadInput`, and `SourceError` where the store cannot be read."""

    def __call__(
        self, snapshot: Snapshot, victim: str, aggressor: str, cluster: str | None, node_type: str | None, /
    ) -> Sequence[Mapping[str, Any]]: ...


def unexplained(
    snapshot: Snapshot, victim: str, aggressor: str, cluster: str | None, node_type: str | None, /
) -> Sequence[Mapping[str, Any]]:
    """Explain nothing."""
    raise BadInput("explanations: nothing to explain from")


@dataclass(frozen=True, slots=True)
class Shown:
    """What the page is answered from.

    *health* tells how the sources fare, *stored* returns a kept decision by its id, a snapshot older than
    *stale_after* is too old, *configured* are the names of the clusters that the settings name.
    """

    snapshot: Callable[[], Snapshot]
    health: Callable[[Snapshot], Sequence[SourceHealth]]
    recent: Callable[[], Sequence[Decided]]
    stored: Stored
    explain: Explain
    stale_after: timedelta
    configured: Collection[str] = ()


def handlers(shown: Shown) -> Mapping[str, Handler]:
    """Return the handlers by the names of their operations."""
    shell = Shell()
    turn = threading.Lock()  # an explanation reads many runs: one at a time, beside admission
    maps = _OfSnapshot(heat_map.heat_map)

    def named(query: Mapping[str, str], snapshot: Snapshot) -> str | None:
        name = query.get("cluster")
        return None if name is None else clusters.there(name, shown.configured, snapshot.clusters)

    def health(query: Mapping[str, str]) -> Response:
        words.check(query, ())
        snapshot = shown.snapshot()
        return _json(sources.told(snapshot, shown.health(snapshot), shown.stale_after, datetime.now(UTC)))

    def nodes(query: Mapping[str, str]) -> Response:
        words.check(query, ("cluster", "search", "limit", "offset"))
        snapshot = shown.snapshot()
        cluster = named(query, snapshot)
        limit, offset = tables.count(query, "limit", *_NODES), tables.count(query, "offset", 0, None)
        total, rows = loads(snapshot, cluster, _search(query), limit, offset)
        return _json(tables.Page(snapshot.version, total, rows))

    def pairs(query: Mapping[str, str]) -> Response:
        words.check(query, ("cluster", "search", "size"))
        size = tables.count(query, "size", *_SIZE)
        snapshot = shown.snapshot()
        return _json(maps(snapshot, named(query, snapshot), _search(query), size))

    def evidence(query: Mapping[str, str]) -> Response:
        words.check(query, ("victim", "aggressor", "cluster", "node_type"))
        for name in ("victim", "aggressor"):
            if name not in query:
                raise BadInput(f"{name}: needed")
        snapshot = shown.snapshot()
        cluster = named(query, snapshot)
        if not turn.acquire(timeout=_PATIENCE):
            return problem(503, "others are asking for evidence; ask again")
        try:
            found = shown.explain(snapshot, query["victim"], query["aggressor"], cluster, query.get("node_type"))
        finally:
            turn.release()
        return _json(tables.Page(snapshot.version, len(found), [dict(each) for each in found]))

    def decision(name: str) -> Response:
        made = next((one for one in reversed(shown.recent()) if one.kept.decision == name), None)
        try:
            stored = shown.stored(name)  # only the store tells what became of it
        except ColocationError:  # it is busy, or none that can be read
            if made is None:
                raise
            stored = None
        if stored is not None:
            return _json(stored)
        if made is None:
            return problem(404, f"decision {name!r}: not known here")
        kept = made.record()
        row = {column: getattr(kept, column, None) for column in DECISIONS.names}
        return _json({**row, "document": kept.document})

    return {
        "page": shell.index,
        "page_file": shell.file,
        "sources": _of_query(health),
        "loads": _of_query(nodes),
        "heat_map": _of_query(pairs),
        "evidence": _of_query(evidence),
        "decision": _answered(decision, lambda request: request.path_params["decision"]),
    }


class _OfSnapshot:
    """Remembers what follows from a snapshot alone until there is another: everybody who looks asks for the same."""

    def __init__(self, work: Callable[..., object]) -> None:
        self._work = work
        self._known: tuple[Snapshot | None, dict[tuple[object, ...], object]] = (None, {})

    def __call__(self, snapshot: Snapshot, *asked: object) -> object:
        """Return what *work* makes of *snapshot* and what is *asked*."""
        of, answers = self._known
        if of is not snapshot or len(answers) >= _REMEMBERED:
            answers = {}
            self._known = snapshot, answers
        if asked not in answers:
            answers[asked] = self._work(snapshot, *asked)
        return answers[asked]


def _of_query(work: Callable[[Mapping[str, str]], Response]) -> Handler:
    return _answered(work, lambda request: words.single(request.query_params.multi_items()))


def _answered(work: Callable[[Any], Response], asked: Callable[[Request], Any]) -> Handler:
    async def handle(request: Request) -> Response:
        try:
            return await run_in_threadpool(work, asked(request))
        except SourceError as error:
            return problem(503, str(error))

    return handle


def _search(query: Mapping[str, str]) -> str:
    search = query.get("search", "")
    if len(search) > _LONGEST:
        raise BadInput(f"search: longer than {_LONGEST} characters")
    return search


def _json(document: object) -> Response:
    return Response(msgspec.json.encode(document), media_type="application/json")
