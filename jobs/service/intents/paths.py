"""The intent API answers without its version in the path too, as its first publication has it."""

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

_ROOTS: Final = ("/projects", "/clusters")
_VERSION: Final = "/v2"


class WithoutVersion:
    """ASGI middleware that reads ``/projects/...`` and ``/clusters/...`` as ``/v2/...``."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] == "http" and scope["path"].startswith(_ROOTS):
            scope = {**scope, "path": _VERSION + scope["path"]}
        await self._app(scope, receive, send)
