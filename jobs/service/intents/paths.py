"""The intent API answers without its version in the path too, as its first publication has it."""

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

_ROOTS: Final = ("/projects", "/clusters")
_VERSION: Final = "/v2"


def versioned(path: str) -> str:
    """Return *path* with the version that it lacks, if it does."""
    return _VERSION + path if path.startswith(_ROOTS) else path


class WithoutVersion:
    """ASGI middleware that reads ``/projects/...`` and ``/clusters/...`` as ``/v2/...``."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] == "http" and (path := versioned(scope["path"])) != scope["path"]:
            scope = {**scope, "path": path}
        await self._app(scope, receive, send)
