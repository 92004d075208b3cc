"""Errors as problem documents (RFC 9457); never a traceback, never a secret."""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from jobs.service import ids
from pipeline.errors import BadInput

MEDIA_TYPE = "application/problem+json"
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


async def _http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = error.detail if error.detail != HTTPStatus(error.status_code).phrase else ""
    return problem(error.status_code, detail, error.headers)


async def _bad_input(_request: Request, error: Exception) -> Response:
    return problem(400, str(error))


async def _internal(request: Request, error: Exception) -> Response:
    _log.error("request failed", path=request.url.path, error=f"{type(error).__name__}: {error}")
    return problem(500, "an internal error was logged", ids.current())


#: For `Starlette(exception_handlers=...)`.
HANDLERS = {HTTPException: _http, BadInput: _bad_input, Exception: _internal}
