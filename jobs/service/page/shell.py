"""The files of the page, as they lie in the package: read once, served with a tag of their content.

They hold no data and are open to anybody; the page asks for the data itself, with the token that it is given.
"""

import hashlib
from dataclasses import dataclass
from importlib import resources
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from jobs.service.problems import problem

_MEDIA: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

#: Nothing but the page's own files and its own service; no script or style in the text of the page.
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Asked for each time, answered with 304: a page of one version never runs the modules of another.
    "Cache-Control": "no-cache",
}
_INDEX: Final = "index.html"


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    media: str
    tag: str


def _files() -> dict[str, _File]:
    found: dict[str, _File] = {}
    for each in resources.files("jobs.service.page").joinpath("static").iterdir():
        media = _MEDIA.get(each.name[each.name.rfind(".") :])
        if media is not None:
            content = each.read_bytes()
            found[each.name] = _File(content, media, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
    return found


class Shell:
    """Serves the page and its files."""

    def __init__(self) -> None:
        self._files = _files()

    async def index(self, request: Request) -> Response:
        """Answer the page itself."""
        return self._answer(request, _INDEX)

    async def file(self, request: Request) -> Response:
        """Answer one of its files, 404 for any other name."""
        return self._answer(request, request.path_params["file"])

    def _answer(self, request: Request, name: str) -> Response:
        file = self._files.get(name)
        if file is None:
            return problem(404, f"the page has no file {name!r}")
        headers = {**_HEADERS, "ETag": file.tag}
        known = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
        if file.tag in known or "*" in known:
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers=headers, media_type=file.media)
