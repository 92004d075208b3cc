"""The handlers of the intent API: what a request says goes to the store, and its errors become problem documents."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from featurestore.snapshot import Snapshot
from featurestore.store.tree import Missing, Taken
from jobs.service import body, text, words
from jobs.service.counts import TurnedDown
from jobs.service.handlers import Handler
from jobs.service.intents.operations import Placement
from jobs.service.intents.stored import Intents
from jobs.service.problems import problem
from pipeline.errors import BadInput, Temporary
from rules.hpa.errors import Undecodable
from rules.hpa.fleet import of_snapshot
from rules.hpa.levels import LEVELS, Level
from rules.hpa.placement import place

_Work = Callable[[], Any]

#: Why an intent, or what it hangs under, was refused, by the status that says so.
_CAUSES = {400: "invalid", 404: "no-parent", 409: "taken", 422: "unreadable"}


def handlers(intents: Intents, snapshot: Callable[[], Snapshot], turned_down: TurnedDown) -> dict[str, Handler]:
    """Return the handler of every operation of `operations.INTENTS` by its name; *turned_down* hears of refusals."""
    found: dict[str, Handler] = {"placement": _placement(intents, snapshot, turned_down)}
    for name, level in LEVELS.items():
        found[f"create_{name}"] = _reading(intents.create, name, 201, turned_down)
        found[f"list_{name}"] = _listing(intents, name, level)
        found[f"get_{name}"] = _plain(intents.get, name, 200)
        found[f"put_{name}"] = _reading(intents.replace, name, 200, turned_down)
        found[f"delete_{name}"] = _plain(intents.delete, name, 204)
    return found


def _reading(
    do: Callable[[str, dict[str, str], object], Any], name: str, status: int, turned_down: TurnedDown
) -> Handler:
    async def handler(request: Request) -> Response:
        try:
            given = await body.read(request.receive)
        except body.TooLarge as error:
            return problem(413, str(error))
        if not given.strip():
            return problem(400, "body: empty")
        answer = await _answered(lambda: do(name, request.path_params, text.mapping(given)), status)
        if answer.status_code in _CAUSES:
            turned_down("hpa", _CAUSES[answer.status_code])
        return answer

    return handler


def _plain(do: Callable[[str, dict[str, str]], Any], name: str, status: int) -> Handler:
    async def handler(request: Request) -> Response:
        return await _answered(lambda: do(name, request.path_params), status)

    return handler


def _listing(intents: Intents, name: str, level: Level) -> Handler:
    async def handler(request: Request) -> Response:
        query = words.single(request.query_params.multi_items())
        wanted = next((query[each] for each in level.filter if each in query), None)
        if wanted is None:
            return await _answered(lambda: intents.listed(name, request.path_params), 200)
        return await _answered(lambda: intents.get(name, {**request.path_params, level.parts[0]: wanted}), 200)

    return handler


def _placement(intents: Intents, snapshot: Callable[[], Snapshot], turned_down: TurnedDown) -> Handler:
    def work(fields: dict[str, str]) -> Placement:
        wanted, clusters = intents.of_group(fields)
        placed = place(wanted, of_snapshot(snapshot(), clusters))
        refused = {each.app for each in placed.unsatisfied}
        for each in placed.unsatisfied:
            turned_down("hpa", "requirement" if each.requirement else "room" if each.consumer else "clusters")
        left = {app: told for app, told in placed.candidates().items() if app not in refused}
        scores = {app: told for app, told in placed.scores().items() if app in left}
        return Placement(left, scores, list(placed.unsatisfied))

    async def handler(request: Request) -> Response:
        return await _answered(lambda: work(request.path_params), 200)

    return handler


def _answered(work: _Work, status: int) -> Awaitable[Response]:
    return run_in_threadpool(_answer, work, status)


def _answer(work: _Work, status: int) -> Response:
    try:
        result = work()
    except (Undecodable, text.NoObject) as error:
        return problem(422, str(error))
    except BadInput as error:
        return problem(400, str(error))
    except Missing as error:
        return problem(404, str(error))
    except Taken as error:
        return problem(409, str(error))
    except Temporary as error:
        return problem(503, str(error), {"Retry-After": "1"})
    if status == 204:
        return Response(status_code=204)
    return Response(msgspec.json.encode(result), status, media_type="application/json")
