"""Errors as problem documents (RFC 9457); never a traceback, never a secret."""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from jobs.service import ids
from pipeline.errors import BadInput

MEDIA_TYPE = "application/problem+json"
#: So much of a path is told.
_LONGEST = 200
_log = structlog.get_logger(__name__)


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What went wrong: *detail* is about this request, *title* about every one of its kind."""

    title: str = msgspec.field()
    status: int = msgspec.field()
    detail: str = ""
    type: str = "about:blank"
    instance: str = ""


def problem(status: int, detail: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """Return the response for *status*, with one line of *detail*."""
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    body = msgspec.json.encode(Problem(title, status, detail))
    return Response(body, status, dict(headers or {}), MEDIA_TYPE)


async def _http(request: Request, error: Exception) -> Response:
    """Answer for the framework, which knows no such path or no such method of it; others keep their own words."""
    assert isinstance(error, HTTPException)
    path = request.url.path[:_LONGEST]
    if error.status_code == HTTPStatus.NOT_FOUND:
        return problem(404, f"{path}: no such path; GET /openapi.json lists those there are")
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        methods = ", ".join(_methods(request))
        return problem(
            405, f"{request.method} {path}: no such method of this path; there are {methods}", {"Allow": methods}
        )
    return problem(error.status_code, error.detail, error.headers)


def _methods(request: Request) -> list[str]:
    """Return the methods of a path, each of which has a route of its own."""
    routes = (route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE)
    return sorted({method for route in routes for method in route.methods or ()})


async def _bad_input(_request: Request, error: Exception) -> Response:
    return problem(400, str(error))


async def _internal(request: Request, error: Exception) -> Response:
    _log.error("request failed", path=request.url.path, error=f"{type(error).__name__}: {error}")
    return problem(500, "an internal error was logged", ids.current())


#: For `Starlette(exception_handlers=...)`.
HANDLERS = {HTTPException: _http, BadInput: _bad_input, Exception: _internal}
