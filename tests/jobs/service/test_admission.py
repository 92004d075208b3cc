"""The webhook over a real server: what it answers, and that it fails open."""

import base64
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import jsonpatch
import pytest
from structlog.testing import capture_logs

from jobs.service.decide import Decided
from jobs.service.review import AdmissionRequest
from pipeline.errors import BadInput
from tests.support.service import Fakes, decided, encoded, review, running


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Fakes, httpx.Client]]:
    fakes = Fakes()
    with running(fakes.parts()) as url, httpx.Client(base_url=url) as client:
        yield fakes, client


@pytest.fixture
def fakes(served: tuple[Fakes, httpx.Client]) -> Fakes:
    served[0].reset()
    return served[0]


@pytest.fixture
def client(served: tuple[Fakes, httpx.Client]) -> httpx.Client:
    return served[1]


def test_a_real_review_is_answered_with_its_uid_and_a_patch_that_applies(
    client: httpx.Client, fakes: Fakes, real: Path
) -> None:
    body = (real / "admission_v1_pod_named.json").read_bytes()
    answer = client.post("/mutate", content=body)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    document = answer.json()
    assert document["apiVersion"] == "admission.k8s.io/v1"
    assert document["kind"] == "AdmissionReview"
    response = document["response"]
    assert response["uid"] == "1299d386-525b-4032-98ae-1949f69f9cfc"
    assert response["allowed"] is True
    assert response["patchType"] == "JSONPatch"
    pod = json.loads(body)["request"]["object"]
    patched = jsonpatch.apply_patch(pod, json.loads(base64.b64decode(response["patch"])))
    assert patched["metadata"]["labels"] == {"env": "test", "decided": "yes"}
    assert [one.kept.decision for one in fakes.kept] == ["1299d386-525b-4032-98ae-1949f69f9cfc"]
    assert fakes.asked[0].namespace == "default"


def test_no_patch_is_no_patch_type(client: httpx.Client, fakes: Fakes) -> None:
    fakes.deciding = lambda request: decided(request, patch=b"", outcome="unchanged")
    response = client.post("/mutate", content=encoded(review())).json()["response"]
    assert response == {"uid": "u-1", "allowed": True}


@pytest.mark.parametrize("error", [RuntimeError("lost"), KeyError("node"), MemoryError(), RecursionError()])
def test_an_error_in_the_rules_admits_the_pod_unchanged_and_is_counted(
    client: httpx.Client, fakes: Fakes, error: Exception
) -> None:
    def fail(_request: AdmissionRequest) -> Decided:
        raise error

    fakes.deciding = fail
    answer = client.post("/mutate", content=encoded(review()))
    assert answer.json()["response"] == {"uid": "u-1", "allowed": True}
    assert sum(fakes.tally.errors.values()) == 1
    assert not fakes.kept


def test_an_error_while_keeping_the_decision_admits_too(client: httpx.Client, fakes: Fakes) -> None:
    fakes.kept = None  # type: ignore[assignment]
    assert client.post("/mutate", content=encoded(review())).json()["response"]["allowed"] is True
    assert dict(fakes.tally.errors) == {"attribute_error": 1}


def test_a_decision_without_room_is_counted_as_dropped(client: httpx.Client, fakes: Fakes) -> None:
    fakes.room = False
    assert "patch" in client.post("/mutate", content=encoded(review())).json()["response"]
    assert fakes.tally.dropped == 1


def test_a_dry_run_is_answered_but_not_kept(client: httpx.Client, fakes: Fakes) -> None:
    response = client.post("/mutate", content=encoded(review(dryRun=True))).json()["response"]
    assert "patch" in response
    assert fakes.dry == [True]
    assert not fakes.kept


@pytest.mark.parametrize(
    "changes",
    [
        {"operation": "UPDATE"},
        {"operation": "DELETE", "object": None},
        {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}},
        {"kind": {"group": "example.org", "version": "v1", "kind": "Pod"}},
        {"subResource": "binding"},
    ],
)
def test_other_reviews_are_allowed_without_being_looked_at(
    client: httpx.Client, fakes: Fakes, changes: dict[str, object]
) -> None:
    response = client.post("/mutate", content=encoded(review(**changes))).json()["response"]
    assert response == {"uid": "u-1", "allowed": True}
    assert not fakes.asked


def test_a_review_with_an_odd_field_is_allowed_by_its_uid(client: httpx.Client, fakes: Fakes) -> None:
    response = client.post("/mutate", content=encoded(review(namespace=7))).json()["response"]
    assert response == {"uid": "u-1", "allowed": True}
    assert dict(fakes.tally.errors) == {"malformed_review": 1}


def test_a_uid_of_the_longest_is_answered_and_a_namespace_that_is_none_is_not_looked_at(
    client: httpx.Client, fakes: Fakes
) -> None:
    longest = "u" * 128
    response = client.post("/mutate", content=encoded(review(uid=longest))).json()["response"]
    assert (response["uid"], [one.kept.decision for one in fakes.kept]) == (longest, [longest])
    response = client.post("/mutate", content=encoded(review(namespace="n" * 254))).json()["response"]
    assert response == {"uid": "u-1", "allowed": True}
    assert (len(fakes.kept), dict(fakes.tally.errors)) == (1, {"malformed_review": 1})


def test_only_the_beginning_of_a_long_error_is_logged(client: httpx.Client, fakes: Fakes) -> None:
    def wrong(request: AdmissionRequest) -> Decided:
        raise BadInput("x" * 1_000_000)

    fakes.deciding = wrong
    with capture_logs() as logs:
        assert client.post("/mutate", content=encoded(review())).json()["response"]["allowed"]
    [line] = [each for each in logs if each.get("cause") == "bad_input"]
    assert len(line["error"]) == 1000
    assert line["error"].startswith("BadInput: xxx")


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (b"", "empty"),
        (b"not json", "not_json"),
        (b"[]", "not_a_review"),
        (b"{}", "not_a_review"),
        (b"<html></html>", "not_json"),
        (b"\xff\xfe", "not_utf8"),
        (encoded(review(uid="?")).replace(b"?", b"\xff\xfe"), "not_utf8"),
        (b"[" * 100_000, "not_a_review"),
        (
            encoded({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"kind": "Pod"}}),
            "not_a_review",
        ),
        (encoded({**review(), "apiVersion": "admission.k8s.io/v1beta1"}), "not_a_review"),
        (encoded({**review(), "kind": "Pod"}), "not_a_review"),
        (encoded(review(uid="")), "not_a_review"),
        (encoded(review(uid="u" * 129)), "not_a_review"),
        (encoded(review(uid="u" * 129, namespace=7)), "not_a_review"),
    ],
)
def test_what_is_no_review_is_a_problem_document_and_counted(
    client: httpx.Client, fakes: Fakes, body: bytes, cause: str
) -> None:
    answer = client.post("/mutate", content=body)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == 400
    assert problem["title"] == "Bad Request"
    assert "AdmissionReview" in problem["detail"]
    assert not fakes.asked
    assert (dict(fakes.tally.rejections), dict(fakes.tally.errors)) == ({cause: 1}, {})
    assert f'colocation_webhook_rejected_total{{cause="{cause}"}} 1.0' in client.get("/metrics").text


def test_a_body_beyond_the_limit_is_refused(client: httpx.Client, fakes: Fakes) -> None:
    answer = client.post("/mutate", content=b" " * (8 * 1024 * 1024 + 1))
    assert (answer.status_code, answer.json()["status"]) == (413, 413)
    assert fakes.tally.rejections == {"too_large": 1}


def test_only_post_is_accepted(client: httpx.Client, fakes: Fakes) -> None:
    answer = client.get("/mutate")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert fakes.tally.rejections == {"method": 1}
    assert answer.headers["content-type"] == "application/problem+json"


def test_latency_is_counted_once_a_review(client: httpx.Client, fakes: Fakes) -> None:
    for _ in range(3):
        client.post("/mutate", content=encoded(review()))
    assert sum(fakes.tally.buckets) == 3
    assert fakes.tally.decisions == {("prefer", "patched", "none"): 3}


def test_reviews_that_waited_too_long_are_admitted_unchanged_and_counted(fakes: Fakes, served: object) -> None:
    """Eight at once, each of which takes .2 s: those at the end are not looked at."""

    def slowly(request: AdmissionRequest) -> Decided:
        time.sleep(0.2)
        return decided(request)

    fakes.deciding = slowly
    with running(fakes.parts()) as url, ExitStack() as stack:
        port = int(url.rpartition(":")[2])
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(8)]
        body = encoded(review())
        head = b"POST /mutate HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
        for each in clients:
            each.sendall(head + body)
        answers = [b"".join(iter(lambda client=each: client.recv(65536), b"")) for each in clients]
    responses = [json.loads(answer.partition(b"\r\n\r\n")[2])["response"] for answer in answers]
    assert all(response["allowed"] for response in responses)
    unchanged = [response for response in responses if "patch" not in response]
    assert 1 <= len(unchanged) < 8
    assert fakes.tally.errors == {"overload": len(unchanged)}
    assert len(fakes.kept) == 8 - len(unchanged)
