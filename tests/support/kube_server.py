"""A stand-in for the Kubernetes API server: lists in pages, watches, and the ways in which they go wrong.

Bodies are put together from bytes encoded beforehand, so that a benchmark measures the reader and not this server.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

#: What one request of a script may be answered with instead of the truth.
HTML = (200, b"<html><body>Sign in</body></html>", "text/html")


def status(code: int, message: str = "", reason: str = "") -> tuple[int, bytes, str]:
    """An API error as the server words it."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "message": message,
        "reason": reason,
    }
    return code, json.dumps(body).encode(), "application/json"


class KubeServer:
    """Serve *collections*, objects by path, until closed.

    *script* answers requests first, used up from the front: each entry is (status, body, content type), ``"half"``
    for half of the true answer, ``"hang"`` for none, ``"trickle"`` for a byte now and then, or None for the truth.
    *token* is the bearer token asked for; None admits everybody.
    """

    def __init__(self, collections: Mapping[str, Sequence[Mapping[str, Any]]] | None = None) -> None:
        self.version = 1000
        self.collections: dict[str, list[bytes]] = {}
        self.token: str | None = None
        self.script: list[Any] = []
        self.requests: list[tuple[str, dict[str, str]]] = []
        #: Continue tokens given out so far are answered with 410 while this is above zero (one less each time).
        self.expire = 0
        #: A watch from a version below this one gets ERROR 410.
        self.oldest = 0
        #: Rights that a SelfSubjectAccessReview denies, as (group, resource, verb).
        self.denied: set[tuple[str, str, str]] = set()
        self.put("/version", [])
        self._events: list[tuple[int, str, bytes]] = []
        self._changed = threading.Condition()
        self._ends = 0
        for path, objects in (collections or {}).items():
            self.put(path, objects)
        self.released = threading.Event()
        handler = type("Handler", (_Handler,), {"server_of": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def put(self, path: str, objects: Sequence[Mapping[str, Any] | bytes]) -> None:
        """Replace a collection without an event."""
        self.collections[path] = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in objects]

    def event(self, path: str, kind: str, thing: Mapping[str, Any]) -> int:
        """Send an event to every watch of *path*; returns its version. A BOOKMARK carries only the version."""
        with self._changed:
            self.version += 1
            meta = {**thing.get("metadata", {}), "resourceVersion": str(self.version)}
            body = json.dumps({"type": kind, "object": {**thing, "metadata": meta}}).encode()
            self._events.append((self.version, path, body))
            self._changed.notify_all()
            return self.version

    def raw_event(self, path: str, line: bytes) -> None:
        """Send a line as it is."""
        with self._changed:
            self.version += 1
            self._events.append((self.version, path, line))
            self._changed.notify_all()

    def end_watches(self) -> None:
        """End every watch quietly."""
        with self._changed:
            self._ends += 1
            self._changed.notify_all()

    def lines(self, path: str, since: int, seconds: float) -> Iterator[bytes]:
        with self._changed:
            ends = self._ends
        while True:
            with self._changed:
                new = [each for each in self._events if each[0] > since and each[1] == path]
                if not new:
                    if self._ends != ends or not self._changed.wait(seconds):
                        return
                    continue
            for version, _, body in new:
                since = version
                yield body

    def kubeconfig(self, directory: Path, token: str | None = None) -> Path:
        """Write a kubeconfig for this server that reads its token from a file beside it."""
        (directory / "token").write_text(token or self.token or "none")
        user = {"tokenFile": str(directory / "token")}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.url}}],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
        path = directory / "kubeconfig"
        path.write_text(json.dumps(config))
        return path

    def close(self) -> None:
        self.released.set()
        self.end_watches()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@contextmanager
def serving(collections: Mapping[str, Sequence[Mapping[str, Any]]] | None = None) -> Iterator[KubeServer]:
    """A server for the length of a with block."""
    server = KubeServer(collections)
    try:
        yield server
    finally:
        server.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_of: KubeServer

    def do_GET(self) -> None:
        server = self.server_of
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        server.requests.append((parts.path, query))
        if server.token is not None and self.headers.get("Authorization") != f"Bearer {server.token}":
            self._answer(*status(401, "Unauthorized", "Unauthorized"))
            return
        scripted = server.script.pop(0) if server.script else None
        if scripted == "hang":
            server.released.wait(30)
            self.close_connection = True
        elif scripted == "trickle":
            self._trickle()
        elif isinstance(scripted, tuple):
            self._answer(*scripted)
        elif parts.path not in server.collections:
            self._answer(*status(404, "the server could not find the requested resource", "NotFound"))
        elif query.get("watch") == "true":
            self._watch(parts.path, query)
        else:
            self._list(parts.path, query, half=scripted == "half")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked.get("kind") != "SelfSubjectAccessReview":
            self._answer(*status(404, "the server could not find the requested resource", "NotFound"))
            return
        right = asked["spec"]["resourceAttributes"]
        allowed = (right["group"], right["resource"], right["verb"]) not in self.server_of.denied
        self._answer(201, json.dumps({**asked, "status": {"allowed": allowed}}).encode(), "application/json")

    def _list(self, path: str, query: dict[str, str], half: bool) -> None:
        server = self.server_of
        objects = server.collections[path]
        start, limit = int(query.get("continue", 0)), int(query.get("limit", 0)) or len(objects)
        if start and server.expire:
            server.expire -= 1
            self._answer(*status(410, "The provided continue parameter is too old", "Expired"))
            return
        page = objects[start : start + limit]
        meta = {"resourceVersion": str(server.version)}
        if start + limit < len(objects):
            meta["continue"] = str(start + limit)
        head = b'{"kind":"List","apiVersion":"v1","metadata":' + json.dumps(meta).encode() + b',"items":['
        body = head + b",".join(page) + b"]}"
        self._answer(200, body, "application/json", sent=len(body) // 2 if half else None)

    def _watch(self, path: str, query: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        since = int(query.get("resourceVersion") or 0)
        if since < self.server_of.oldest:
            gone = json.loads(status(410, "too old resource version", "Expired")[1])
            self._chunk(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
        else:
            for line in self.server_of.lines(path, since, float(query.get("timeoutSeconds", 30))):
                self._chunk(line + b"\n")
        self._chunk(b"")

    def _trickle(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        while not self.server_of.released.wait(0.05):
            try:
                self.wfile.write(b" ")
            except OSError:
                return

    def _chunk(self, data: bytes) -> None:
        try:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        except OSError:
            self.close_connection = True

    def _answer(self, code: int, body: bytes, kind: str, sent: int | None = None) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body if sent is None else body[:sent])
        except OSError:
            self.close_connection = True
        if sent is not None:
            self.close_connection = True

    def log_message(self, *arguments: object) -> None:
        """Stay silent."""
