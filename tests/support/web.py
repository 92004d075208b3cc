"""A local HTTP server that answers as a test says, rightly or wrongly."""

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Asked:
    """One request: path without query, query parameters (the last of a name), headers by lower-case name."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Reply:
    """One answer; *cut* sends only so many bytes of the body that was promised, *pause* waits before it.

    *trickle* is how many seconds to wait before each byte of the body.
    """

    body: str | bytes = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    pause: float = 0.0
    cut: int | None = None
    trickle: float = 0.0


@contextmanager
def answering(reply: Callable[[Asked], Reply], certificate: tuple[Path, Path] | None = None) -> Iterator[str]:
    """Serve *reply* on an ephemeral loopback port and yield the base URL; over TLS with (certificate, key) files."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = reply(Asked(parts.path, dict(parse_qsl(parts.query, keep_blank_values=True)), headers))
            body = answer.body.encode() if isinstance(answer.body, str) else answer.body
            time.sleep(answer.pause)
            try:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                sent = body if answer.cut is None else body[: answer.cut]
                for piece in (sent,) if not answer.trickle else (sent[n : n + 1] for n in range(len(sent))):
                    time.sleep(answer.trickle)
                    self.wfile.write(piece)
            except OSError:  # the client gave up, which may be what the test is about
                self.close_connection = True
            if answer.cut is not None:
                self.close_connection = True

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
