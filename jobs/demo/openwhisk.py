"""A stand-in for OpenWhisk's API host: its listing of activations, with the original's habits.

30 records by default and 200 at most, newest first, ``since`` and ``upto`` inclusive in epoch milliseconds, short
listings without ``docs=true``, one key a namespace, records that arrive late. It can be told to fail.
"""

import base64
import binascii
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from jobs.demo.shelf import Record, Shelves

DEFAULT_LIMIT = 30
MAX_LIMIT = 200

#: What can go wrong on the way: a server's error, a page for people, half a page, silence, another's key, a crowd.
Fault = Literal["error", "html", "half", "hang", "forbidden", "busy"]

_PATH = re.compile(r"/api/v1/namespaces/([^/]+)/activations/?")


@dataclass(frozen=True, slots=True)
class Late:
    """Records that arrive only once *requests* have been answered and *seconds* have passed since the start."""

    records: Sequence[Record]
    requests: int = 0
    seconds: float = 0.0


class _Refused(Exception):
    """An answer other than 200, in OpenWhisk's form."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status = status


class StandIn:
    """The server, on an ephemeral loopback port while the context lasts.

    *records* are activation records, or a file with one a line; each belongs to the namespace it names. *keys* maps
    namespaces to their ``user:password``. *faults* are used up one a request, None for a good answer. *asked* lists
    the requests' parameters.
    """

    def __init__(
        self,
        records: Iterable[Record] | Path,
        keys: Mapping[str, str],
        *,
        late: Iterable[Late] = (),
        faults: Iterable[Fault | None] = (),
        max_limit: int = MAX_LIMIT,
    ) -> None:
        self.asked: list[Mapping[str, str]] = []
        self._shelves = Shelves(records)
        self._namespaces = {key: namespace for namespace, key in keys.items()}
        self._late = list(late)
        self._faults = iter(faults)
        self._max_limit = max_limit
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._started = time.monotonic()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "StandIn":
        self._started = time.monotonic()
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def add(self, records: Iterable[Record]) -> None:
        """Let *records* arrive now."""
        with self._lock:
            self._shelves.add(records)

    def answer(self, target: str, authorization: str) -> tuple[int, bytes]:
        """Status and JSON body for a request of *target* (path and query)."""
        parts = urlsplit(target)
        parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
        with self._lock:
            self._arrive()
            self.asked.append(parameters)
            try:
                return 200, self._list(parts.path, parameters, authorization)
            except _Refused as refused:
                body = {"error": str(refused), "code": f"{len(self.asked):032x}"}
                return refused.status, msgspec.json.encode(body)

    def fault(self) -> Fault | None:
        """What is to go wrong with this request."""
        with self._lock:
            return next(self._faults, None)

    def hang(self, seconds: float) -> None:
        """Keep silent for *seconds*, or until the server ends."""
        self._closing.wait(seconds)

    def _arrive(self) -> None:
        passed = time.monotonic() - self._started
        due = [one for one in self._late if len(self.asked) >= one.requests and passed >= one.seconds]
        for one in due:
            self._late.remove(one)
            self._shelves.add(one.records)

    def _list(self, path: str, parameters: Mapping[str, str], authorization: str) -> bytes:
        own = self._namespaces.get(_credentials(authorization))
        if own is None:
            raise _Refused(401, "The supplied authentication is invalid.")
        found = _PATH.fullmatch(path)
        if found is None:
            raise _Refused(404, "The requested resource does not exist.")
        namespace = unquote(found[1])
        if namespace not in ("_", own):
            raise _Refused(403, "The supplied authentication is not authorized to access this resource.")
        limit = _whole(parameters, "limit", DEFAULT_LIMIT)
        skip = _whole(parameters, "skip", 0)
        if limit > self._max_limit:
            raise _malformed("limit", f"The value '{limit}' is not in the range of 0 to {self._max_limit}.")
        since, upto = _whole(parameters, "since", 0), _whole(parameters, "upto", 2**62)
        name = parameters.get("name", "")
        if _flag(parameters, "count"):
            total = max(self._shelves.count(own, since, upto, name) - skip, 0)
            return msgspec.json.encode({"activations": total})
        records = self._shelves.newest(own, since, upto, name, skip, limit or self._max_limit)
        if not _flag(parameters, "docs"):
            records = [_summary(record) for record in records]
        return b"[" + b",".join(records) + b"]"


@contextmanager
def serve(
    records: Iterable[Record] | Path,
    keys: Mapping[str, str],
    *,
    late: Iterable[Late] = (),
    faults: Iterable[Fault | None] = (),
) -> Iterator[str]:
    """Serve *records* as `StandIn` does and yield the API host's URL."""
    with StandIn(records, keys, late=late, faults=faults) as server:
        yield server.url


def _credentials(authorization: str) -> str:
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _whole(parameters: Mapping[str, str], name: str, default: int) -> int:
    text = parameters.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"\d{1,18}", text):
        raise _malformed(name, f"'{text}' is not a whole number of zero or more.")
    return int(text)


def _flag(parameters: Mapping[str, str], name: str) -> bool:
    text = parameters.get(name, "false")
    if text not in ("true", "false"):
        raise _malformed(name, f"'{text}' is neither true nor false.")
    return text == "true"


def _malformed(name: str, why: str) -> _Refused:
    return _Refused(400, f"The query parameter '{name}' was malformed:\n{why}")


def _summary(record: bytes) -> bytes:
    """The short form: no response and no logs; end, duration and statusCode only where a run has ended."""
    whole = msgspec.json.decode(record)
    kept = ("namespace", "name", "version", "publish", "annotations", "activationId", "start", "cause")
    short = {field: whole[field] for field in kept if field in whole}
    if whole.get("end"):
        short |= {field: whole[field] for field in ("end", "duration") if field in whole}
        short["statusCode"] = whole.get("response", {}).get("statusCode", 0)
    return msgspec.json.encode(short)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def _handler(server: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # header and body leave together

        def do_GET(self) -> None:
            fault = server.fault()
            if fault == "hang":
                server.hang(60)
            status, body = server.answer(self.path, self.headers.get("Authorization", ""))
            kind = "application/json"
            if fault in ("error", "forbidden", "busy"):
                status = {"error": 500, "forbidden": 403, "busy": 429}[fault]
                body = b'{"error":"There was an internal server error.","code":"0"}'
            elif fault == "html":
                kind, body = "text/html", b"<!DOCTYPE html><html><body>Please log in</body></html>"
            sent = body[: len(body) // 2] if fault == "half" else body
            self.close_connection = self.close_connection or fault in ("half", "hang")
            try:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(sent)
                self.wfile.flush()
            except OSError:
                self.close_connection = True  # the client went away

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: whoever runs the stand-in sees what was asked in `StandIn.asked`."""

    return Handler
