"""The REST interface between the operator and the PEs, and the page of metrics; both as plain ASGI applications.

A PUT only puts into the queue: 204 does not say that the region expects it.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec

from jobs.regions.gauges import CONTENT_TYPE
from jobs.service.problems import MEDIA_TYPE, Problem
from pipeline.errors import NOT_JSON
from rules.regions.events import (
    BlockingCheckpointDone,
    CheckpointDone,
    Event,
    OperatorDrain,
    OperatorReset,
    ResetDone,
)
from rules.regions.region import Region

BASE = "/api/consistentregion"

#: Bytes of a body at most.
_MOST = 4096

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Answer(NamedTuple):
    status: int
    body: bytes = b""
    media: str = "application/json"
    allow: str = ""


class Refused(Exception):
    """A request that is not done: *status* and one line."""

    def __init__(self, status: int, detail: str, allow: str = "") -> None:
        super().__init__(detail)
        self.status, self.allow = status, allow


class Progress(msgspec.Struct, rename="camel"):
    seq_id: str | int
    reset_attempt: str | int


class _Reset(msgspec.Struct):
    progress: Progress


class DrainRequest(msgspec.Struct, rename="camel"):
    seq_id: str | int
    operator: str


class _Drain(msgspec.Struct):
    request: DrainRequest


class ResetRequest(msgspec.Struct):
    operator: str
    force: str | bool = "false"


class _OperatorReset(msgspec.Struct):
    request: ResetRequest


_RESETS, _DRAINS = msgspec.json.Decoder(_Reset), msgspec.json.Decoder(_Drain)
_OPERATOR_RESETS = msgspec.json.Decoder(_OperatorReset)
_NUMBER = re.compile(r"[0-9]{1,18}")
_FORCE = {"true": True, "false": False, True: True, False: False}


def _number(value: str | int, name: str) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not _NUMBER.fullmatch(text):
        raise Refused(400, f"{name}: {text[:40]!r} is no number")
    return int(text)


def _decoded(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except NOT_JSON as error:
        raise Refused(400, f"body: {str(error)[:200]}") from None


def _checkpoint(pe: int, body: bytes) -> Event:
    return CheckpointDone(pe, _number(body.decode("ascii", "replace"), "body"))


def _blocking(pe: int, body: bytes) -> Event:
    return BlockingCheckpointDone(pe, _number(body.decode("ascii", "replace"), "body"))


def _reset_done(pe: int, body: bytes) -> Event:
    progress = _decoded(_RESETS, body).progress
    attempt = _number(progress.reset_attempt, "progress.resetAttempt")
    return ResetDone(pe, _number(progress.seq_id, "progress.seqId"), attempt)


def _drain(body: bytes) -> Event:
    request = _decoded(_DRAINS, body).request
    return OperatorDrain(request.operator, _number(request.seq_id, "request.seqId"))


def _reset(body: bytes) -> Event:
    request = _decoded(_OPERATOR_RESETS, body).request
    force = request.force.strip().lower() if isinstance(request.force, str) else request.force
    if force not in _FORCE:
        raise Refused(400, "request.force: neither true nor false")
    return OperatorReset(request.operator, _FORCE[force])


#: What a PE puts, by the last part of the path; what an operator of the region puts; what may be read of a region.
_FROM_PES: Mapping[str, Callable[[int, bytes], Event]] = {
    "checkpoint": _checkpoint,
    "blockingcheckpoint": _blocking,
    "reset": _reset_done,
}
_FROM_OPERATORS: Mapping[str, Callable[[bytes], Event]] = {"drain": _drain, "reset": _reset}
_READ: Mapping[str, Callable[[Region], object]] = {
    "state": lambda region: region.status.state.value,
    "lastcompletedseqid": lambda region: region.status.last_completed_seq_id,
    "trigger": lambda region: region.spec.trigger.value,
    "period": lambda region: region.spec.period,
    "draintimeout": lambda region: region.spec.drain_timeout,
    "resettimeout": lambda region: region.spec.reset_timeout,
    "maxconsecutiveresetattempts": lambda region: region.spec.max_consecutive_reset_attempts,
}


class Rest:
    """Answers PEs: *board* and *entry* say what a PE is told, *report* puts into the queue."""

    def __init__(
        self,
        board: Callable[[int], bytes | None],
        entry: Callable[[int, int], bytes | None],
        region: Callable[[int], Region | None],
        report: Callable[[int, Event], bool],
    ) -> None:
        self._board, self._entry, self._region, self._report = board, entry, region, report

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        try:
            body = await _body(receive) if scope["method"] == "PUT" else b""
            answer = self.answer(scope["method"], scope["path"], body)
        except Refused as error:
            answer = _problem(error)
        await _respond(send, answer)

    def answer(self, method: str, path: str, body: bytes) -> Answer:
        """Answer without a connection; raises `Refused`."""
        if not path.startswith(f"{BASE}/"):
            raise Refused(404, "")
        match path[len(BASE) + 1 :].split("/"):
            case ["pe", pe]:
                return self._told(method, self._board, pe)
            case ["pe", pe, "region", region]:
                return self._told(method, self._entry, pe, region)
            case ["region", region, "pe", pe, what] if what in _FROM_PES:
                _only("PUT", method)
                return self._put(_number(region, "region"), _FROM_PES[what](_number(pe, "pe"), body))
            case ["region", region, what] if what in _FROM_OPERATORS:
                _only("PUT", method)
                return self._put(_number(region, "region"), _FROM_OPERATORS[what](body))
            case ["region", region, what] if what in _READ:
                _only("GET", method)
                found = self._region(int(region)) if _NUMBER.fullmatch(region) else None
                if found is None:
                    raise Refused(404, f"no region {region[:40]}")
                return Answer(200, msgspec.json.encode(_READ[what](found)))
        raise Refused(404, "")

    def _told(self, method: str, find: Callable[..., bytes | None], *numbers: str) -> Answer:
        _only("GET", method)
        known = all(_NUMBER.fullmatch(number) for number in numbers)
        found = find(*map(int, numbers)) if known else None
        if found is None:
            raise Refused(404, "nothing to tell")
        return Answer(200, found)

    def _put(self, region: int, event: Event) -> Answer:
        if not self._report(region, event):
            raise Refused(503, "too many events wait; try again")
        return Answer(204)


def metrics(page: Callable[[], bytes]) -> App:
    """An application that answers ``GET /metrics`` (and ``/``) with *page*, and ``/healthz``."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] not in ("GET", "HEAD"):
            answer = _problem(Refused(405, "", "GET"))
        elif scope["path"] in ("/", "/metrics"):
            answer = Answer(200, page(), CONTENT_TYPE)
        elif scope["path"] == "/healthz":
            answer = Answer(200, b"ok\n", "text/plain")
        else:
            answer = _problem(Refused(404, ""))
        await _respond(send, answer)

    return app


def _only(wanted: str, method: str) -> None:
    if method != wanted:
        raise Refused(405, "", wanted)


async def _body(receive: Receive) -> bytes:
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Refused(400, "the request ended early")
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > _MOST:
            raise Refused(413, f"body: more than {_MOST} bytes")
        if not message.get("more_body"):
            return b"".join(pieces)


def _problem(error: Refused) -> Answer:
    body = msgspec.json.encode(Problem(HTTPStatus(error.status).phrase, error.status, str(error)))
    return Answer(error.status, body, MEDIA_TYPE, error.allow)


async def _respond(send: Send, answer: Answer) -> None:
    headers = []
    if answer.status != 204:
        headers = [(b"content-type", answer.media.encode()), (b"content-length", b"%d" % len(answer.body))]
    if answer.allow:
        headers.append((b"allow", answer.allow.encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
