"""Answers of the Kubernetes API that flow: a watch's events, and what a broken transport means."""

from collections.abc import Iterator
from http.client import IncompleteRead
from typing import Protocol

import msgspec
import urllib3
from urllib3 import exceptions as transport

from pipeline.clients.certificates import unverified
from pipeline.errors import NOT_JSON, Temporary

SOURCE = "kubernetes"
#: Bytes taken from the transport at once, at most.
PIECE = 1 << 20


class Event(msgspec.Struct, frozen=True):
    """One line of a watch: ADDED, MODIFIED, DELETED or BOOKMARK, and the object."""

    type: str
    object: msgspec.Raw


class Watching(Protocol):
    """A watch under way: iterate it in one thread, `close` it from any."""

    def __iter__(self) -> Iterator[Event]: ...

    def close(self) -> None: ...


class Status(msgspec.Struct):
    """What the API server says of a failure, as a body or inside an ERROR event."""

    code: int | None = None
    message: str | None = None
    reason: str | None = None


STATUSES = msgspec.json.Decoder(Status)
_EVENTS = msgspec.json.Decoder(Event)


class Stream:
    """The events of one watch, as its lines arrive; raises `Temporary` where it breaks or is refused."""

    def __init__(self, answer: urllib3.BaseHTTPResponse, what: str) -> None:
        self._answer, self._what = answer, what
        self._closed = False

    def __iter__(self) -> Iterator[Event]:
        rest = b""
        try:
            while piece := self._answer.read1(PIECE):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield self._event(line)
        except (transport.HTTPError, OSError, ValueError) as error:
            # Shut down by `close`, the connection fails in whatever way the transport likes.
            if not self._closed:
                raise failed(error, self._what) from None
        finally:
            self._answer.close()
        if rest.strip() and not self._closed:
            raise Temporary(SOURCE, "half_page", f"{self._what}: the watch ended inside an event")

    def close(self) -> None:
        self._closed = True
        try:
            self._answer.shutdown()
        except (ValueError, RuntimeError, OSError):
            self._answer.close()  # it had ended already

    def _event(self, line: bytes) -> Event:
        try:
            event = _EVENTS.decode(line)
            if event.type != "ERROR":
                return event
            status = STATUSES.decode(event.object)
        except NOT_JSON:
            raise Temporary(SOURCE, "not_json", f"{self._what}: a watch event is no JSON object") from None
        gone = status.code == 410 or status.reason in ("Expired", "Gone")
        message = f"{self._what}: watch error {status.code or ''}: {one_line(status.message or '')}"
        raise Temporary(SOURCE, "gone" if gone else "watch_error", message)


def failed(error: Exception, what: str) -> Temporary:
    """A transport failure in one line; its own text may hold an address with credentials and is left out."""
    refused = isinstance(error, transport.NewConnectionError)  # counted among the timeouts by urllib3
    if isinstance(error, transport.TimeoutError) and not refused:
        return Temporary(SOURCE, "timeout", f"{what}: no answer in time")
    if isinstance(error, (transport.ProtocolError, IncompleteRead)):
        if isinstance(error, IncompleteRead) or any(isinstance(part, IncompleteRead) for part in error.args):
            return Temporary(SOURCE, "half_page", f"{what}: the answer ended early")
        return Temporary(SOURCE, "connection", f"{what}: the connection broke")
    if (told := unverified(error)) is not None:
        return Temporary(SOURCE, told.reason, f"{what}: {told.said}")
    if isinstance(error, transport.SSLError):
        return Temporary(SOURCE, "tls", f"{what}: TLS: the server's certificate or the client's is not accepted")
    return Temporary(SOURCE, "connection", f"{what}: cannot connect")


def one_line(text: str) -> str:
    """The beginning of a foreign text, fit for a message."""
    return " ".join(text.split())[:200]
