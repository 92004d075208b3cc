"""POST /mutate: every review is answered, and whatever goes wrong is answered with ``allowed: true``."""

from collections.abc import Callable
from datetime import UTC, datetime
from time import perf_counter
from typing import Final

import msgspec
import structlog
from starlette.types import Receive, Scope, Send

from jobs.service.body import TooLarge, read
from jobs.service.counts import Tally
from jobs.service.decide import Decide, Keep
from jobs.service.problems import problem
from jobs.service.review import AdmissionRequest, NotAReview, allow, decode, uid_of
from rules.labels import cut

_log = structlog.get_logger(__name__)
#: A review that waited longer than this for its turn (seconds) is answered at once: the API server waits for two
#: seconds, and those behind it wait too.
_LATE: Final = 0.5
#: So many characters of an error, which may name what stands in the pod, are logged.
_SAID: Final = 1000
_JSON = (b"content-type", b"application/json")


def _now() -> datetime:
    return datetime.now(UTC)


class Admission:
    """The webhook as an ASGI application; one instance a process.

    It is called by the API server while a pod waits to be created: no disk, no lock, no other process.
    """

    def __init__(self, decide: Decide, keep: Keep, tally: Tally, now: Callable[[], datetime] = _now) -> None:
        self._decide = decide
        self._keep = keep
        self._tally = tally
        self._now = now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["method"] != "POST":
            self._tally.rejected("method")
            await problem(405, "post an AdmissionReview", {"Allow": "POST"})(scope, receive, send)
            return
        try:
            body = await read(receive)
        except TooLarge as error:
            self._tally.rejected("too_large")
            await problem(413, str(error))(scope, receive, send)
            return
        started = perf_counter()
        late = started - scope.get("state", {}).get("arrived", started) > _LATE
        try:
            answer = self._overloaded(body) if late else self.answer(body)
        except NotAReview as error:
            self._tally.rejected(error.cause)
            await problem(400, str(error))(scope, receive, send)
            return
        self._tally.took(perf_counter() - started)
        headers = [_JSON, (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    def answer(self, body: bytes) -> bytes:
        """Answer a posted review; raises `NotAReview` only where it has no uid to answer to."""
        try:
            request = decode(body).request
        except NotAReview:
            raise
        except Exception as error:  # such as one field of an unknown form, or nesting that is too deep
            uid = uid_of(body)
            self._open("malformed_review", error, uid)
            return allow(uid)
        if not request.creates_pod:
            return allow(request.uid)
        try:
            return self._decided(request)
        except Exception as error:
            self._open(_cause(error), error, request.uid)
            return allow(request.uid)

    def _overloaded(self, body: bytes) -> bytes:
        """Admit unchanged what came too late to be looked at."""
        answer = allow(uid_of(body))
        self._tally.failed("overload")
        return answer

    def _decided(self, request: AdmissionRequest) -> bytes:
        dry_run = bool(request.dry_run)
        decided = self._decide(request, self._now(), dry_run=dry_run)
        answer = decided.answer(request.uid)
        self._tally.decided(decided.kept.mode, decided.kept.outcome, decided.reason)
        if not dry_run and not self._keep(decided):
            self._tally.lost(1)
        return answer

    def _open(self, cause: str, error: Exception, uid: str) -> None:
        self._tally.failed(cause)
        said = cut(f"{type(error).__name__}: {error}", _SAID)
        _log.error("admitted unchanged after an error", request_id=uid, cause=cause, error=said)


def _cause(error: Exception) -> str:
    """A short stable word for the metric."""
    if isinstance(error, msgspec.MsgspecError):
        return "malformed_object"
    name = type(error).__name__
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
