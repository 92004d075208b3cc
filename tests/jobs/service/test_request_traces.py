"""Spans of requests: one each, under the request's id; the webhook's under the uid of its review."""

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from jobs import tracing
from jobs.config import TraceSettings
from jobs.service.auth import Token
from tests.support.otlp import Received, Receiver, receiving
from tests.support.service import Fakes, encoded, review, running, wait_until

OURS = {"Authorization": "Bearer secret-token"}


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")  # ms; a span ends after its answer was taken
    with receiving() as found:
        yield found


@pytest.fixture
def fakes() -> Fakes:
    return Fakes()


@pytest.fixture
def url(receiver: Receiver, fakes: Fakes) -> Iterator[str]:
    tracing.start(TraceSettings(endpoint=receiver.url), "serve")
    try:
        with running(fakes.parts(Token("secret-token", None))) as found:
            yield found
    finally:
        tracing.close()


def only(receiver: Receiver) -> Received:
    wait_until(lambda: receiver.spans)
    [span] = receiver.spans
    return span


def test_an_admission_is_a_span_under_the_uid_of_its_review(url: str, receiver: Receiver, fakes: Fakes) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"env": "hidden"}]}}
    assert httpx.post(f"{url}/mutate", content=encoded(review(pod)), headers=OURS).status_code == 200
    span = only(receiver)
    assert span.name == "POST /mutate"
    assert span.attributes == {
        "http.request.method": "POST",
        "url.path": "/mutate",
        "http.route": "/mutate",
        "http.response.status_code": 200,
        "request.id": "u-1",
        "k8s.namespace.name": "team",
        "k8s.pod.name": "p",
        "colocation.mode": "prefer",
        "colocation.outcome": "patched",
        "colocation.reason": "none",
        "colocation.function": "guest/hello",
        "colocation.dry_run": False,
    }
    sent = b"".join(receiver.bodies)
    assert b"secret-token" not in sent
    assert b"hidden" not in sent


def test_an_admission_that_fails_open_is_marked(url: str, receiver: Receiver, fakes: Fakes) -> None:
    def broken(*_: object) -> object:
        raise RuntimeError("what it held")

    fakes.deciding = broken  # type: ignore[assignment]
    answer = httpx.post(f"{url}/mutate", content=encoded(review()), headers=OURS)
    assert answer.json()["response"]["allowed"] is True
    span = only(receiver)
    assert (span.failed, span.attributes["error.type"], span.attributes["request.id"]) == (
        True,
        "RuntimeError",
        "u-1",
    )
    assert b"what it held" not in b"".join(receiver.bodies)


def test_any_other_request_is_a_span_under_the_id_that_is_answered(url: str, receiver: Receiver) -> None:
    answer = httpx.get(f"{url}/v1/nodes", headers={**OURS, "X-Request-Id": "mine"}, params={"cluster": "c1"})
    span = only(receiver)
    assert (span.name, span.attributes["request.id"]) == ("GET /v1/nodes", answer.headers["x-request-id"])
    assert span.attributes["request.id"] == "mine"
    assert span.attributes["http.response.status_code"] == 200


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/decisions/abc", "GET /v1/decisions/{decision}"),
        ("/projects/p1/composite-apps/ca1/v1/deployment-intent-groups/d1/hpa-intents", None),
        ("/nowhere/at/all", "GET"),
    ],
)
def test_spans_are_named_by_routes_of_which_there_are_few(
    path: str, name: str | None, url: str, receiver: Receiver
) -> None:
    httpx.get(url + path, headers=OURS)
    found = only(receiver).name
    assert found == name if name is not None else found.startswith("GET /v2/projects/{")


def test_a_refused_request_is_a_span_too(url: str, receiver: Receiver) -> None:
    assert httpx.get(f"{url}/v1/nodes").status_code == 401
    span = only(receiver)
    assert (span.attributes["http.response.status_code"], span.failed) == (401, False)


def test_a_span_belongs_to_the_trace_of_its_caller(url: str, receiver: Receiver) -> None:
    trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    httpx.get(f"{url}/v1/nodes", headers={**OURS, "traceparent": f"00-{trace}-{parent}-01"})
    span = only(receiver)
    assert (span.trace, span.parent) == (trace, parent)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/", "/page/page.css"])
def test_probes_scrapes_and_files_make_no_spans(path: str, url: str, receiver: Receiver) -> None:
    assert httpx.get(url + path, headers=OURS).status_code == 200
    httpx.get(f"{url}/v1/nodes", headers=OURS)
    assert only(receiver).name == "GET /v1/nodes"


def test_a_fault_of_ours_is_marked(receiver: Receiver, fakes: Fakes) -> None:
    def broken(*_: object) -> object:
        raise RuntimeError("what it held")

    with (
        tracing.during(TraceSettings(endpoint=receiver.url), "serve"),
        running(replace(fakes.parts(), recommend=broken)) as url,
    ):
        answer = httpx.post(f"{url}/v1/recommendations", json={"kind": "Pod", "spec": {"containers": []}})
    assert answer.status_code == 500
    span = only(receiver)
    assert (span.failed, span.attributes["http.response.status_code"]) == (True, 500)
