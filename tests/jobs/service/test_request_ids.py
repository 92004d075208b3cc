"""Request ids: taken over where they are well-formed, else made; in the answer and in the log."""

import json
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest
import structlog
from structlog.contextvars import merge_contextvars
from structlog.testing import LogCapture, capture_logs

from jobs.service.auth import Token
from tests.support.service import Fakes, encoded, review, running


def broken(*_: object) -> object:
    raise RuntimeError("a fault of ours")


@pytest.fixture
def url() -> Iterator[str]:
    fakes = Fakes()
    fakes.deciding = broken  # type: ignore[assignment]
    with running(replace(fakes.parts(Token("secret-token", None)), recommend=broken)) as found:
        yield found


OURS = {"Authorization": "Bearer secret-token"}


@pytest.mark.parametrize("given", ["a", "0af7651916cd43dd8448eb211c80319c", "req-1:2/3+4=5_6.7", "x" * 128])
def test_a_well_formed_id_comes_back(url: str, given: str) -> None:
    answer = httpx.get(f"{url}/v1/nodes", headers={**OURS, "X-Request-Id": given})
    assert answer.headers.get_list("x-request-id") == [given]


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "<script>", "-a", 'a"b', "a;b"])
def test_any_other_is_replaced_by_a_new_one(url: str, given: str) -> None:
    first, second = (httpx.get(f"{url}/v1/nodes", headers={**OURS, "X-Request-Id": given}) for _ in range(2))
    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    assert len(first.headers["x-request-id"]) == 32


@pytest.mark.parametrize(("path", "status"), [("/v1/nodes", 401), ("/nowhere", 401), ("/healthz", 200)])
def test_every_answer_has_one_whoever_asks(url: str, path: str, status: int) -> None:
    answer = httpx.get(url + path)
    assert (answer.status_code, len(answer.headers["x-request-id"])) == (status, 32)


def test_an_error_of_ours_is_logged_under_the_id_that_is_answered(url: str) -> None:
    capture = LogCapture()
    structlog.configure(processors=[merge_contextvars, capture])
    try:
        pod = {"kind": "Pod", "spec": {"containers": []}}
        answer = httpx.post(
            f"{url}/v1/recommendations", content=json.dumps(pod), headers={**OURS, "X-Request-Id": "mine"}
        )
    finally:
        structlog.reset_defaults()
    assert (answer.status_code, answer.headers["x-request-id"]) == (500, "mine")
    [line] = [each for each in capture.entries if each["event"] == "request failed"]
    assert line["request_id"] == "mine"


def test_the_webhook_logs_the_uid_of_the_review(url: str) -> None:
    asked = review()
    with capture_logs() as lines:
        answer = httpx.post(f"{url}/mutate", content=encoded(asked), headers=OURS)
    assert answer.json()["response"]["allowed"] is True
    [line] = [each for each in lines if each["event"] == "admitted unchanged after an error"]
    assert line["request_id"] == asked["request"]["uid"]
