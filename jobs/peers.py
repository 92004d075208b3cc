"""What ``colocate doctor`` reaches beside the clusters: the writer of a replica, and who takes traces."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final

import httpx

from jobs import tracing
from jobs.config import Settings
from jobs.finding import FIXES, Finding
from jobs.service.replication.operations import PREFIX
from jobs.supervisor.replica import connect
from pipeline.errors import BadInput

#: What a writer is asked for: a few rows at most, and only with the token of replicas.
_ASKED: Final = f"{PREFIX}control"


def examine(settings: Settings) -> Iterator[Finding]:
    """Reach what is configured; what is not costs no line."""
    writer = settings.replica.writer
    if writer is not None:
        url = writer.rstrip("/") + _ASKED
        yield _reached(
            "writer", url, lambda: connect(settings.replica), lambda client: client.stream("GET", url), _signs
        )
    if settings.trace.endpoint is not None:
        url = tracing.url(settings.trace.endpoint)
        yield _reached("traces", url, lambda: tracing.connect(settings.trace), tracing.probe(url), _is_no_page)


def _reached(
    source: str,
    url: str,
    connect: Callable[[], httpx.Client],
    ask: Callable[[httpx.Client], AbstractContextManager[httpx.Response]],
    speaks: Callable[[httpx.Response], bool],
) -> Finding:
    """Ask once; the answer's status and headers count, its body is not read. *speaks* tells who is meant by them."""
    try:
        with connect() as client, ask(client) as answer:
            status, is_it = answer.status_code, speaks(answer)
    except BadInput as error:
        return Finding("", source, "settings", "failed", str(error), "correct the setting")
    except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError) as error:
        reason = _reason(error)
        return Finding("", source, "reach", "failed", f"{url}: {_SAID[reason]}", FIXES[reason])
    if 200 <= status < 300:
        if is_it:
            return Finding("", source, "reach", "ok", url)
        return Finding("", source, "reach", "failed", f"{url}: something else answers", FIXES["not_json"])
    fix = FIXES.get(f"status_{status}", "look at its own log" if status >= 500 else "check the address")
    return Finding("", source, "reach", "failed", f"{url}: status {status}", fix)


def _signs(answer: httpx.Response) -> bool:
    """Whether an answer carries the digest that a writer's do."""
    return "Repr-Digest" in answer.headers


def _is_no_page(answer: httpx.Response) -> bool:
    """Receivers of traces answer in the form of the question or in none, a page is somebody else's."""
    return not answer.headers.get("Content-Type", "").startswith("text/html")


_SAID: Final = {
    "timeout": "no answer in time",
    "tls": "the certificate could not be verified",
    "connection": "no connection",
}


def _reason(error: Exception) -> str:
    if isinstance(error, httpx.TimeoutException):
        return "timeout"
    return "tls" if isinstance(error, ssl.SSLError) or "CERTIFICATE_VERIFY_FAILED" in str(error) else "connection"
