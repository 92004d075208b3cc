"""A receiver of OpenTelemetry traces: OTLP over HTTP as its protocol buffers define it, on a loopback port."""

import gzip
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue


@dataclass(frozen=True)
class Received:
    """One span: ids in hexadecimal, times in nanoseconds, *about* the attributes of its process."""

    name: str
    trace: str
    parent: str
    began: int
    ended: int
    failed: bool
    attributes: Mapping[str, object]
    about: Mapping[str, object]


@dataclass
class Receiver:
    """What has arrived; *refusing* answers 503 instead of taking it."""

    url: str = ""
    refusing: bool = False
    spans: list[Received] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> int:
        """Decode one request, and return the status of the answer."""
        if self.refusing:
            return 503
        if path != "/v1/traces" or headers["content-type"] != "application/x-protobuf":
            return 404
        plain = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        self.headers.append(headers)
        self.bodies.append(plain)
        for of in ExportTraceServiceRequest.FromString(plain).resource_spans:
            about = _mapping(of.resource.attributes)
            self.spans += [
                Received(
                    each.name,
                    each.trace_id.hex(),
                    each.parent_span_id.hex(),
                    each.start_time_unix_nano,
                    each.end_time_unix_nano,
                    each.status.code == 2,
                    _mapping(each.attributes),
                    about,
                )
                for scope in of.scope_spans
                for each in scope.spans
            ]
        return 200


def _mapping(pairs: "Iterator[KeyValue] | object") -> dict[str, object]:
    return {each.key: _value(each.value) for each in pairs}  # type: ignore[attr-defined]


def _value(value: AnyValue) -> object:
    return getattr(value, value.WhichOneof("value") or "string_value")


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Take traces until the block ends."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = receiver.take(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
