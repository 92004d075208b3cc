"""A remote file system that Spark's own client knows without a connector: a directory, read over WebHDFS.

A stand-in for the server alone: it lists, and sends who reads a file on to where the bytes are, as a name node does.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

_API = "/webhdfs/v1"


@dataclass
class Served:
    """Where a directory is served, and the paths of files that were *read*."""

    address: str
    read: set[str] = field(default_factory=set)


@contextmanager
def served(root: Path) -> Iterator[Served]:
    """Serve what is below *root* on loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            asked = {name: values[0] for name, values in parse_qs(url.query).items()}
            path = unquote(url.path.removeprefix(_API)).lstrip("/")
            here, operation = root / path, asked["op"]
            if not here.exists():
                self._error(404, "FileNotFoundException", f"File does not exist: /{path}")
            elif operation == "GETFILESTATUS":
                self._say({"FileStatus": _status(here, "")})
            elif operation in ("LISTSTATUS", "LISTSTATUS_BATCH"):
                told = [_status(each, each.name) for each in sorted(here.iterdir())] if here.is_dir() else []
                found = {"FileStatuses": {"FileStatus": told or [_status(here, "")] if here.is_file() else told}}
                batch = {"DirectoryListing": {"partialListing": found, "remainingEntries": 0}}
                self._say(batch if operation == "LISTSTATUS_BATCH" else found)
            elif operation == "GETFILEBLOCKLOCATIONS":
                self._say({"BlockLocations": {"BlockLocation": [_block(here)]}})
            elif operation == "OPEN" and "node" not in asked:
                self.send_response(307)
                self.send_header("Location", f"{known.address.replace('webhdfs', 'http', 1)}{self.path}&node=1")
                self.send_header("Content-Length", "0")
                self.end_headers()
            elif operation == "OPEN":
                known.read.add(path)
                first = int(asked.get("offset", 0))
                body = here.read_bytes()[first:][: int(asked.get("length", 1 << 62))]
                self._send(200, body, "application/octet-stream")
            else:
                self._error(400, "UnsupportedOperationException", operation)

        def _say(self, told: dict[str, Any]) -> None:
            self._send(200, json.dumps(told).encode(), "application/json")

        def _error(self, code: int, kind: str, message: str) -> None:
            told = {"exception": kind, "javaClassName": f"java.io.{kind}", "message": message}
            self._send(code, json.dumps({"RemoteException": told}).encode(), "application/json")

        def _send(self, code: int, body: bytes, kind: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        known = Served(f"webhdfs://127.0.0.1:{server.server_address[1]}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield known
        finally:
            server.shutdown()


def _status(path: Path, suffix: str) -> dict[str, Any]:
    told = path.stat()
    return {
        "pathSuffix": suffix,
        "type": "DIRECTORY" if path.is_dir() else "FILE",
        "length": 0 if path.is_dir() else told.st_size,
        "modificationTime": int(told.st_mtime * 1000),
        "accessTime": 0,
        "blockSize": 0 if path.is_dir() else 128 * 1024**2,
        "replication": 0 if path.is_dir() else 1,
        "permission": "755",
        "owner": "colocate",
        "group": "colocate",
        "fileId": told.st_ino,
        "childrenNum": 0,
        "storagePolicy": 0,
    }


def _block(path: Path) -> dict[str, Any]:
    return {
        "offset": 0,
        "length": path.stat().st_size,
        "hosts": ["127.0.0.1"],
        "names": ["127.0.0.1:9866"],
        "topologyPaths": ["/default-rack/127.0.0.1:9866"],
        "cachedHosts": [],
        "storageIds": [],
        "storageTypes": ["DISK"],
        "corrupt": False,
    }
