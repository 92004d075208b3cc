"""A stand-in for the Kubernetes API server that is written to: versions, conflicts, status subresources, watches.

In memory and in threads of this process; what it does was compared with the real server by the cluster suite.
"""

import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

#: A request may be refused or mishandled: (method, path) -> None for the truth, a status, or ``"drop"`` to do it and
#: break the connection before the answer.
Fault = Callable[[str, str], "int | str | None"]

#: Plurals whose status is a subresource.
_WITH_STATUS = ("streamscrs", "streamscros", "streamspes", "deployments", "pods")


class KubeApi:
    """Collections by path, ``/api/v1/namespaces/x/pods``; made as they are written."""

    def __init__(self) -> None:
        self.version = 1
        self.fault: Fault = lambda method, path: None
        self.log: list[tuple[str, str]] = []
        self._objects: dict[str, dict[str, dict[str, Any]]] = {}
        self._events: deque[tuple[int, str, str, dict[str, Any], bytes]] = deque(maxlen=5000)
        self._forgotten = 0
        self._changed = threading.Condition()
        self._closed = False
        handler = type("Handler", (_Handler,), {"api": self})
        self._http = _Http(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self._http.block_on_close = False
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def kubeconfig(self, directory: Path) -> Path:
        """Write a kubeconfig for this server."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.url}}],
            "users": [{"name": "test", "user": {}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }
        path = directory / "kubeconfig"
        path.write_text(json.dumps(config))
        return path

    def get(self, path: str) -> dict[str, Any]:
        """One object; raises KeyError."""
        collection, _, name = path.rpartition("/")
        with self._changed:
            found: dict[str, Any] = json.loads(json.dumps(self._objects[collection][name]))
            return found

    def all(self, collection: str) -> dict[str, dict[str, Any]]:
        """All objects of a collection by name."""
        with self._changed:
            found: dict[str, dict[str, Any]] = json.loads(json.dumps(self._objects.get(collection, {})))
            return found

    def put(self, collection: str, thing: Mapping[str, Any]) -> dict[str, Any]:
        """Create or replace an object, status included."""
        name = thing["metadata"]["name"]
        with self._changed:
            before = self._objects.get(collection, {}).get(name)
            return self._keep(collection, name, json.loads(json.dumps(thing)), before)

    def delete(self, path: str) -> bool:
        """Delete an object; whether it was there."""
        collection, _, name = path.rpartition("/")
        with self._changed:
            thing = self._objects.get(collection, {}).pop(name, None)
            if thing is not None:
                self._tell("DELETED", collection, thing)
            return thing is not None

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _keep(
        self, collection: str, name: str, thing: dict[str, Any], before: dict[str, Any] | None
    ) -> dict[str, Any]:
        meta = thing["metadata"]
        if before is None:
            namespace = collection.split("/namespaces/")[-1].split("/")[0] if "/namespaces/" in collection else ""
            meta |= {"uid": meta.get("uid") or f"uid-{self.version + 1}", "namespace": namespace, "generation": 1}
        else:
            meta |= {"uid": before["metadata"]["uid"], "resourceVersion": before["metadata"]["resourceVersion"]}
            if thing == before:
                return before  # an update without a change is none
        self._tell("ADDED" if before is None else "MODIFIED", collection, thing)
        self._objects.setdefault(collection, {})[name] = thing
        return thing

    def _tell(self, kind: str, collection: str, thing: dict[str, Any]) -> None:
        self.version += 1
        thing["metadata"]["resourceVersion"] = str(self.version)
        if len(self._events) == self._events.maxlen:
            self._forgotten = self._events[0][0]
        line = json.dumps({"type": kind, "object": thing}).encode() + b"\n"
        self._events.append((self.version, kind, collection, thing["metadata"].get("labels") or {}, line))
        self._changed.notify_all()

    def write(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Do one write as the server does it."""
        parts = path.split("/")
        with self._changed:
            if method == "POST":
                name = body["metadata"]["name"]
                if name in self._objects.get(path, {}):
                    return _status(409, "AlreadyExists")
                if parts[-1] in _WITH_STATUS:
                    body.pop("status", None)
                return 201, self._keep(path, name, body, None)
            status = parts[-1] == "status"
            collection, name = "/".join(parts[:-2] if status else parts[:-1]), parts[-2] if status else parts[-1]
            before = self._objects.get(collection, {}).get(name)
            if before is None:
                return _status(404, "NotFound")
            expected = body.get("metadata", {}).get("resourceVersion")
            if expected is not None and expected != before["metadata"]["resourceVersion"]:
                return _status(409, "Conflict")
            after: dict[str, Any] = json.loads(json.dumps(before))
            if method == "PATCH":
                body.get("metadata", {}).pop("resourceVersion", None)
                body = _merged(after, body)
            if status:
                after["status"] = body.get("status")
            else:
                kept = after.get("status")
                after = {**body, "metadata": {**body["metadata"]}}
                if collection.rpartition("/")[2] in _WITH_STATUS:
                    after.pop("status", None)
                    after |= {} if kept is None else {"status": kept}
                for field in ("namespace", "generation"):
                    after["metadata"].setdefault(field, before["metadata"].get(field))
            return 200, self._keep(collection, name, after, before)

    def tried(self, method: str, path: str, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return what a dry run is answered; nothing is kept."""
        collection, name = (path, body["metadata"]["name"]) if method == "POST" else path.rsplit("/", 1)
        with self._changed:
            there = self._objects.get(collection, {}).get(name)
        if method == "POST":
            return (201, dict(body)) if there is None else _status(409, "AlreadyExists")
        return _status(404, "NotFound") if there is None else (200, there)

    def find(self, path: str) -> list[tuple[str, dict[str, dict[str, Any]]]]:
        """The collections under *path*: itself, or those of every namespace."""
        group, _, plural = path.rpartition("/")
        return [
            (each, things)
            for each, things in self._objects.items()
            if each == path or (each.startswith(f"{group}/namespaces/") and each.endswith(f"/{plural}"))
        ]

    def listed(self, path: str, labels: Mapping[str, str]) -> tuple[list[dict[str, Any]], int]:
        with self._changed:
            things = [thing for _, found in self.find(path) for thing in found.values()]
            return [
                thing for thing in things if _selected(thing["metadata"].get("labels") or {}, labels)
            ], self.version

    def lines(
        self,
        path: str,
        since: int,
        labels: Mapping[str, str],
        seconds: float,
        gone: Callable[[], bool] = lambda: False,
    ) -> Iterator[bytes]:
        """Events after *since* as lines of a watch, until the client is *gone* or nothing came for *seconds*."""
        group, _, plural = path.rpartition("/")
        if since < self._forgotten:
            yield json.dumps({"type": "ERROR", "object": _status(410, "Expired")[1]}).encode() + b"\n"
            return
        while True:
            with self._changed:
                new = []
                for event in reversed(self._events):
                    if event[0] <= since:
                        break
                    new.append(event)
                if not new and (self._closed or gone() or not self._changed.wait(seconds)):
                    return
                since = new[0][0] if new else since
            for _, _, collection, of, line in reversed(new):
                inside = collection == path or (
                    collection.startswith(f"{group}/namespaces/") and collection.endswith(f"/{plural}")
                )
                if inside and _selected(of, labels):
                    yield line


@contextmanager
def serving() -> Iterator[KubeApi]:
    """A server for the length of a with block."""
    api = KubeApi()
    try:
        yield api
    finally:
        api.close()


def _selected(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether *labels* have each value that is wanted; "" wants the label alone."""
    return all(key in labels and value in ("", labels[key]) for key, value in wanted.items())


def _merged(thing: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in patch.items():
        if value is None:
            thing.pop(key, None)
        elif isinstance(value, dict) and isinstance(thing.get(key), dict):
            _merged(thing[key], value)
        else:
            thing[key] = value
    return thing


def _status(code: int, reason: str) -> tuple[int, dict[str, Any]]:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": reason,
    }
    return code, body


class _Http(ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that went away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    api: KubeApi

    def do_GET(self) -> None:
        path, query = self._asked()
        fault = self._faulty(path)
        if not isinstance(fault, int):
            selector = query.get("labelSelector", "")
            labels = {part.partition("=")[0]: part.partition("=")[2] for part in selector.split(",") if part}
            if query.get("watch") == "true":
                self._watch(path, query, labels)
                return
            items, version = self.api.listed(path, labels)
            if path.rpartition("/")[2] in _PLURALS or self.api.find(path):
                meta = {"resourceVersion": str(version)}
                self._answer(200, {"kind": "List", "apiVersion": "v1", "metadata": meta, "items": items})
                return
            try:
                self._answer(200, self.api.get(path))
            except KeyError:
                self._answer(*_status(404, "NotFound"))
        else:
            self._answer(*_status(fault, "Fault"))

    def do_POST(self) -> None:
        self._write("POST")

    def do_PUT(self) -> None:
        self._write("PUT")

    def do_PATCH(self) -> None:
        self._write("PATCH")

    def do_DELETE(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _ = self._asked()
        found = self.api.delete(path)
        self._answer(*((200, {"kind": "Status", "status": "Success"}) if found else _status(404, "NotFound")))

    def _write(self, method: str) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        path, query = self._asked()
        fault = self._faulty(path)
        if isinstance(fault, int):
            self._answer(*_status(fault, "Fault"))
            return
        act = self.api.tried if query.get("dryRun") == "All" else self.api.write
        answer = act(method, path, body)
        if fault == "drop":
            self.close_connection = True
            self.connection.close()
            return
        self._answer(*answer)

    def _asked(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        return parts.path, {key: values[0] for key, values in parse_qs(parts.query).items()}

    def _faulty(self, path: str) -> int | str | None:
        self.api.log.append((self.command, path))
        del self.api.log[:-10_000]
        return self.api.fault(self.command, path)

    def _watch(self, path: str, query: Mapping[str, str], labels: Mapping[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        since, seconds = int(query.get("resourceVersion") or 0), float(query.get("timeoutSeconds", 30))
        try:
            for line in self.api.lines(path, since, labels, seconds, self._gone):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()
        except OSError:
            self.close_connection = True

    def _gone(self) -> bool:
        """Whether the client of a watch went away, which would keep its thread for as long as nothing concerns it."""
        try:
            seen: bytes = self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            return not seen
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _answer(self, code: int, thing: Mapping[str, Any]) -> None:
        body = json.dumps(thing).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Stay silent."""


_PLURALS = ("streamscrs", "streamscros", "streamspes", "streamsjobs", "pods", "services", "deployments", "leases")
