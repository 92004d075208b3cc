"""What ``colocate doctor`` reaches beside the clusters: the writer of a replica, and who takes traces."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Final

import httpx

from jobs import tracing
from jobs.config import Settings
from jobs.finding import Finding, remedy
from jobs.reaching import within
from jobs.service.replication.operations import PREFIX
from jobs.supervisor.replica import connect
from pipeline.clients.certificates import Unverified, unverified
from pipeline.errors import BadInput

#: What a writer is asked for: a few rows at most, and only with the token of replicas.
_ASKED: Final = f"{PREFIX}control"


def examine(settings: Settings) -> Iterator[Finding]:
    """Reach what is configured; what is not costs no line."""
    writer = settings.replica.writer
    if writer is not None:
        url = writer.rstrip("/") + _ASKED
        yield _reached(
            "writer",
            url,
            settings.replica.timeout,
            lambda: connect(settings.replica),
            lambda client: client.stream("GET", url),
            _signs,
        )
    if settings.trace.endpoint is not None:
        url = tracing.url(settings.trace.endpoint)
        trace = settings.trace
        yield _reached("traces", url, trace.timeout, lambda: tracing.connect(trace), tracing.probe(url), _is_no_page)


def _reached(
    source: str,
    url: str,
    timeout: timedelta,
    connect: Callable[[], httpx.Client],
    ask: Callable[[httpx.Client], AbstractContextManager[httpx.Response]],
    speaks: Callable[[httpx.Response], bool],
) -> Finding:
    """Ask once; the answer's status and headers count, its body is not read. *speaks* tells who is meant by them."""

    def first() -> tuple[int, bool]:
        with connect() as client, ask(client) as answer:
            return answer.status_code, speaks(answer)

    try:
        status, is_it = within(timeout, first)
    except BadInput as error:
        return Finding("", source, "settings", "failed", str(error), "correct the setting")
    except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, TimeoutError) as error:
        told = _told(error)
        return Finding("", source, "reach", "failed", f"{url}: {told.said}", remedy(told.reason))
    if 200 <= status < 300:
        if is_it:
            return Finding("", source, "reach", "ok", url)
        return Finding("", source, "reach", "failed", f"{url}: something else answers", remedy("not_json"))
    return Finding("", source, "reach", "failed", f"{url}: status {status}", remedy(f"status_{status}"))


def _signs(answer: httpx.Response) -> bool:
    """Whether an answer carries the digest that a writer's do."""
    return "Repr-Digest" in answer.headers


def _is_no_page(answer: httpx.Response) -> bool:
    """Receivers of traces answer in the form of the question or in none, a page is somebody else's."""
    return not answer.headers.get("Content-Type", "").startswith("text/html")


def _told(error: Exception) -> Unverified:
    """Return the stable word and the sentence of what a transport says."""
    if isinstance(error, (httpx.TimeoutException, TimeoutError)):
        return Unverified("timeout", "no answer in time")
    found = unverified(error)
    if found is not None:
        return found
    if isinstance(error, ssl.SSLError):
        return Unverified("tls", "no TLS connection")
    return Unverified("connection", "no connection")
