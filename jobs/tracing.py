"""OpenTelemetry traces of requests, collections, learning and new snapshots, by the extra ``otel``.

Off until `trace.endpoint` says where spans go: only then is OpenTelemetry imported. A span holds names, counts and
outcomes, never what a request or an answer held. Spans are sent by a thread of their own, and dropped where nobody
takes them.
"""

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

from jobs.config import TraceSettings
from pipeline.errors import BadInput

if TYPE_CHECKING:
    import httpx
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

Value = str | bool | int | float
#: Adds attributes to a span that has begun.
Tell = Callable[[Mapping[str, Value]], None]

_PATH: Final = "/v1/traces"
_provider: "TracerProvider | None" = None


def check(settings: TraceSettings) -> None:
    """Raise `BadInput` where traces are asked for that cannot be made."""
    if settings.endpoint is None:
        return
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace  # noqa: F401
    except ImportError:
        raise BadInput("trace.endpoint: needs the extra otel (in a checkout: pip install -e '.[otel]')") from None
    if settings.ca_file is not None and not settings.ca_file.is_file():
        raise BadInput(f"trace.ca_file: {settings.ca_file}: no such file")


def url(endpoint: str) -> str:
    """Return where the traces for *endpoint* are posted to."""
    return endpoint.rstrip("/") + _PATH


def connect(settings: TraceSettings) -> "httpx.Client":
    """Connect as spans are sent, to look whether they are taken; raises `BadInput` as `check` does."""
    import httpx

    check(settings)
    try:
        verify = True if settings.ca_file is None else ssl.create_default_context(cafile=settings.ca_file)
    except OSError:
        raise BadInput(f"trace.ca_file: {settings.ca_file}: no certificates") from None
    return httpx.Client(headers=_headers(settings), verify=verify, timeout=settings.timeout.total_seconds())


def probe(at: str) -> "Callable[[httpx.Client], AbstractContextManager[httpx.Response]]":
    """Return what posts a batch of no spans to *at*: as protocol buffers that is no bytes."""
    kind = {"Content-Type": "application/x-protobuf"}
    return lambda client: client.stream("POST", at, content=b"", headers=kind)


def _headers(settings: TraceSettings) -> dict[str, str]:
    return {name: value.get_secret_value() for name, value in settings.headers.items()}


def start(settings: TraceSettings, part: str) -> None:
    """Trace this process as *part* of the product, where *settings* ask for it; raises `BadInput` where they cannot
    be met."""
    global _provider
    check(settings)
    if settings.endpoint is None or _provider is not None:
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

    exporter = OTLPSpanExporter(
        endpoint=url(settings.endpoint),
        headers=_headers(settings),
        certificate_file=None if settings.ca_file is None else str(settings.ca_file),
        timeout=settings.timeout.total_seconds(),
    )
    about = {"service.name": "colocation-advisor", "service.version": _version(), "colocation.part": part}
    _provider = TracerProvider(
        sampler=ParentBasedTraceIdRatio(settings.ratio), resource=Resource.create(about), shutdown_on_exit=False
    )
    _provider.add_span_processor(BatchSpanProcessor(exporter))


def close() -> None:
    """Send what is left, for `trace.timeout` at most, and trace no more."""
    global _provider
    held, _provider = _provider, None
    if held is not None:
        held.shutdown()


@contextmanager
def during(settings: TraceSettings, part: str) -> Iterator[None]:
    """Trace what runs inside as `start` does, and send it all before going on."""
    start(settings, part)
    try:
        yield
    finally:
        close()


def tracer() -> "Tracer | None":
    """Return what makes spans, None where nothing is traced."""
    return None if _provider is None else _provider.get_tracer("colocation-advisor", _version())


@contextmanager
def span(name: str, attributes: Mapping[str, Value]) -> Iterator[Tell]:
    """Trace what runs inside; what is raised there is told by its class alone."""
    held = tracer()
    if held is None:
        yield lambda more: None
        return
    with held.start_as_current_span(
        name, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as running:
        try:
            yield lambda more: running.set_attributes(dict(more))
        except BaseException as error:
            failed(running, type(error).__name__)
            raise


def past(name: str, seconds: float, attributes: Mapping[str, Value]) -> None:
    """Trace what took *seconds* and has just ended."""
    if (held := tracer()) is not None:
        now = time.time_ns()
        held.start_span(name, start_time=now - int(seconds * 1e9), attributes=attributes).end(now)


def failed(running: "Span", kind: str) -> None:
    """Mark a span as failed, by a short word."""
    from opentelemetry.trace import StatusCode

    running.set_attribute("error.type", kind)
    running.set_status(StatusCode.ERROR)


def _version() -> str:
    try:
        return version("colocation-advisor")
    except PackageNotFoundError:
        return "unknown"
