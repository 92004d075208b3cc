"""Request ids: the caller's where it is well-formed, else a new one; in the answer's header and in each log line.

The webhook goes by the uid of its review, which its own log lines name: nothing is done for it here.
"""

import re
import uuid
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars, get_contextvars

HEADER: Final = "X-Request-Id"
_NAME: Final = HEADER.lower().encode()
#: What may stand in a log and a header as it is; longer or other ids are not taken over.
_WELL_FORMED: Final = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:/+=-]{0,127}")
_WEBHOOK: Final = "/mutate"


class RequestIds:
    """ASGI middleware that gives each request its id; each request is a task, whose context ends with it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and its id back."""
        if scope["type"] != "http" or scope["path"] == _WEBHOOK:
            await self._app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == _NAME), b"")
        chosen = given if _WELL_FORMED.fullmatch(given) else uuid.uuid4().hex.encode()
        bind_contextvars(request_id=chosen.decode())

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (_NAME, chosen)]
            await send(message)

        await self._app(scope, receive, told)


def request_id() -> str | None:
    """Return the id of the request that is being answered; None for the webhook's."""
    return get_contextvars().get("request_id")


def current() -> dict[str, str]:
    """Return the header of the request that is being answered, for answers made outside of the middleware."""
    found = request_id()
    return {HEADER: found} if found else {}
