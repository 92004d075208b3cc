"""A span for each request but probes, scrapes and the page's files; where nothing is traced, no layer at all."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobs import tracing
from jobs.service.decide import Decide, Decided
from jobs.service.ids import request_id
from jobs.service.intents.paths import versioned
from jobs.service.review import AdmissionRequest

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_UNTRACED: Final = frozenset({"/healthz", "/readyz", "/metrics", "/"})
_UNTRACED_BELOW: Final = "/page/"
#: What a caller that traces too says of its own span.
_OF_THE_CALLER: Final = (b"traceparent", b"tracestate")
_FAULT: Final = 500


def layers(routes: Sequence[BaseRoute]) -> list[Middleware]:
    """Return the middleware that traces requests to *routes*: none where nothing is traced."""
    tracer = tracing.tracer()
    return [] if tracer is None else [Middleware(Traced, tracer=tracer, routes=routes)]


def deciding(decide: Decide) -> Decide:
    """Return *decide*, and where requests are traced one that tells their span what was decided, under the review's
    uid."""
    if tracing.tracer() is None:
        return decide
    from opentelemetry.trace import get_current_span

    def traced(request: AdmissionRequest, at: datetime, /, *, dry_run: bool) -> Decided:
        running = get_current_span()
        running.set_attributes({"request.id": request.uid, "k8s.namespace.name": request.namespace})
        try:
            decided = decide(request, at, dry_run=dry_run)
        except Exception as error:
            tracing.failed(running, type(error).__name__)
            raise
        kept = decided.kept
        told = {"mode": kept.mode, "outcome": kept.outcome, "reason": decided.reason, "function": kept.function}
        running.set_attributes({f"colocation.{name}": value for name, value in told.items()})
        running.set_attributes({"k8s.pod.name": kept.pod, "colocation.dry_run": dry_run})
        return decided

    return traced


class Traced:
    """ASGI middleware that makes a span of each request, named by its route, within that of a caller that traces."""

    def __init__(self, app: ASGIApp, tracer: "Tracer", routes: Sequence[BaseRoute]) -> None:
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._app = app
        self._tracer = tracer
        self._routes = [route for route in routes if isinstance(route, Route)]
        self._kind = SpanKind.SERVER
        self._caller = TraceContextTextMapPropagator()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, inside a span."""
        if scope["type"] != "http" or scope["path"] in _UNTRACED or scope["path"].startswith(_UNTRACED_BELOW):
            await self._app(scope, receive, send)
            return
        method, route = scope["method"], self._route(scope)
        told = {"http.request.method": method, "url.path": scope["path"]}
        if route is not None:
            told["http.route"] = route
        if (known := request_id()) is not None:
            told["request.id"] = known
        caller = {
            name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in _OF_THE_CALLER
        }
        with self._tracer.start_as_current_span(
            f"{method} {route}" if route is not None else method,
            context=self._caller.extract(caller),
            kind=self._kind,
            attributes=told,
            record_exception=False,
            set_status_on_exception=False,
        ) as running:

            async def seen(message: Message) -> None:
                if message["type"] == "http.response.start":
                    running.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= _FAULT:
                        tracing.failed(running, str(message["status"]))
                await send(message)

            try:
                await self._app(scope, receive, seen)
            except Exception as error:  # answered farther out
                running.set_attribute("http.response.status_code", _FAULT)
                tracing.failed(running, type(error).__name__)
                raise

    def _route(self, scope: Scope) -> str | None:
        """Return the path of the route with its parameters' names, of which there are few, None for no route."""
        asked = {**scope, "path": versioned(scope["path"])}
        return next((route.path for route in self._routes if route.matches(asked)[0] is Match.FULL), None)
