"""What the writer gives to its replicas, and takes from them: its snapshot, its control store, their decisions.

Nothing here is code or a pickle: the snapshot is Arrow behind a JSON head, the rest is JSON. Each answer carries the
SHA-256 of its bytes, as entity tag and as ``Repr-Digest`` (RFC 9530), so that what did not change is not sent and
what was cut or changed on the way is not taken.
"""

import os
from collections.abc import Callable, Iterator
from io import BufferedReader
from typing import Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from featurestore.store import copied, handed
from featurestore.store.control import Control
from jobs.config import StoreSettings
from jobs.service import body
from jobs.service.handlers import Handler
from jobs.service.periodic import Signature, signature
from jobs.service.problems import problem
from jobs.service.replication import digests
from pipeline.errors import BadInput, Temporary

_BLOCK: Final = 1 << 20


class Replication:
    """Answers from the files of *store*, and spools there what is handed back."""

    def __init__(self, store: StoreSettings) -> None:
        self._snapshot = store.snapshot
        self._control = Control(store.control)
        self._spool = store.spool
        self._digest: tuple[tuple[int, int, int], str] | None = None
        self._copy: tuple[Signature, bytes] | None = None

    def handlers(self) -> dict[str, Handler]:
        """Return the handler of every operation of `REPLICATION` by its name."""
        return {
            "replicated_snapshot": _conditional(self._published),
            "replicated_control": _conditional(self._asked_for),
            "replicated_decisions": self._receive,
        }

    def _published(self, known: str) -> Response:
        try:
            file = self._snapshot.open("rb")
        except OSError:
            return problem(404, "no snapshot has been published yet")
        try:
            digest = self._digest_of(file)
            headers = digests.headers(digest)
            if digests.matches(known, digest):
                file.close()
                return Response(status_code=304, headers=headers)
            headers["Content-Length"] = str(os.fstat(file.fileno()).st_size)
        except BaseException:
            file.close()
            raise
        # A snapshot is published by renaming: the open file stays the one that the digest is of.
        return StreamingResponse(_blocks(file), headers=headers, media_type="application/octet-stream")

    def _digest_of(self, file: BufferedReader) -> str:
        stat = os.fstat(file.fileno())
        key = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if self._digest is None or self._digest[0] != key:
            self._digest = key, digests.of_file(file)
            file.seek(0)
        return self._digest[1]

    def _asked_for(self, known: str) -> Response:
        path = self._control.path
        seen = signature([path, path.with_name(f"{path.name}-wal")])
        if self._copy is None or self._copy[0] != seen:
            self._copy = seen, copied.dump(self._control)
        content = self._copy[1]
        digest = digests.of(content)
        if digests.matches(known, digest):
            return Response(status_code=304, headers=digests.headers(digest))
        return Response(content, headers=digests.headers(digest), media_type="application/json")

    async def _receive(self, request: Request) -> Response:
        try:
            content = await body.read(request.receive)
        except body.TooLarge as error:
            return problem(413, str(error))
        try:
            received = await run_in_threadpool(handed.receive, self._spool, content)
        except Temporary as error:
            return problem(503, str(error), {"Retry-After": f"{error.delay:.0f}"})
        except BadInput as error:
            return problem(503, str(error))  # our disk, not the replica's fault: it keeps the decisions
        return Response(msgspec.json.encode(received), media_type="application/json")


def misdirected(writer: str) -> Handler:
    """Return what a replica answers to whoever asks it for a change."""

    async def handler(_request: Request) -> Response:
        return problem(421, f"a replica changes nothing: ask the writer at {writer}")

    return handler


def _conditional(answer: Callable[[str], Response]) -> Handler:
    async def handler(request: Request) -> Response:
        return await run_in_threadpool(answer, request.headers.get("if-none-match", ""))

    return handler


def _blocks(file: BufferedReader) -> Iterator[bytes]:
    with file:
        while block := file.read(_BLOCK):
            yield block
