"""POST /v1/recommendations: a Pod, or {"pod", "cluster", "mode"}; JSON or YAML."""

from collections.abc import Iterator

import httpx
import pytest

from tests.support.service import Fakes, running

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}
YAML_POD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers: []\n"


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with running(Fakes().parts()) as url, httpx.Client(base_url=url) as client:
        yield client


def test_a_bare_pod_in_json_and_in_yaml_is_the_same(client: httpx.Client) -> None:
    expected = {"pod": POD, "cluster": None, "mode": None}
    assert client.post("/v1/recommendations", json=POD).json() == expected
    assert client.post("/v1/recommendations", content=YAML_POD).json() == expected


def test_a_bare_pod_may_have_any_fields(client: httpx.Client) -> None:
    pod = {**POD, "pod": {}, "Mode": "require"}
    assert client.post("/v1/recommendations", json=pod).json() == {"pod": pod, "cluster": None, "mode": None}


def test_cluster_and_mode_can_be_given(client: httpx.Client) -> None:
    given = {"pod": POD, "cluster": "c2", "mode": "require"}
    assert client.post("/v1/recommendations", json=given).json() == given


def test_they_can_be_given_beside_a_pod_that_is_sent_as_it_is(client: httpx.Client) -> None:
    answer = client.post("/v1/recommendations?cluster=c2&mode=require", content=YAML_POD)
    assert answer.json() == {"pod": POD, "cluster": "c2", "mode": "require"}
    around = client.post("/v1/recommendations?mode=observe", json={"pod": POD, "mode": "require"})
    assert around.json() == {"pod": POD, "cluster": None, "mode": "require"}


@pytest.mark.parametrize(
    ("query", "said"),
    [("mode=shout", "mode: 'shout' is not one of observe, prefer, require"), ("pod=x", "pod: no such parameter")],
)
def test_a_wrong_parameter_is_a_problem_that_names_it(client: httpx.Client, query: str, said: str) -> None:
    answer = client.post(f"/v1/recommendations?{query}", content=YAML_POD)
    assert (answer.status_code, answer.json()["detail"][: len(said)]) == (400, said)


def test_times_in_yaml_stay_text(client: httpx.Client) -> None:
    answer = client.post("/v1/recommendations", content=YAML_POD.replace("name: p", "name: p\n  at: 2026-03-01"))
    assert answer.json()["pod"]["metadata"]["at"] == "2026-03-01"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "expected one object"),
        (b"[1]", "expected one object"),
        (b"just text", "expected one object"),
        (b"a: b: c", "neither JSON nor YAML"),
        (b"\xff\xfe\xff", "neither JSON nor YAML"),
        (b"1: 2", "the key 1 is no text"),
        (b"a: " + b"x" * 1_048_574, "body: YAML longer than 1048576 bytes; send JSON"),
        (b"a: " + b"x" * 1_048_573, "no Pod"),  # just not too long
        (b"[1]", "expected one object"),
        (b"a: &x [1]\nb: *x", "aliases are not accepted"),
        (b"kind: Pod\n---\nkind: Pod\n", "neither JSON nor YAML"),
        (b"kind: Pod\nspec: {containers: []}\nspec: {}\n", "'spec' stands twice"),
        (b'{"pod": {"kind": "' + b"x" * 9000 + b'", "spec": {}}}', f"kind '{'x' * 60}': not"),
        (b'{"pod": 1}', "pod"),
        (b'{"pod": {}, "mode": "shout"}', "mode: 'shout' is not one of observe, prefer, require"),
        (b'{"pod": {"spec": {}}, "Mode": "require"}', "body: 'Mode': no such field; there are pod, cluster, mode"),
        (b'{"pod": {"spec": {}}, "clusters": "c"}', "body: 'clusters': no such field; there are pod, cluster, mode"),
        (b'{"pod": {}, "mode": 7}', "mode: 7 is not one of"),
        (b"!!python/object/apply:os.system [id]", "neither JSON nor YAML"),
        (b"[" * 50_000, "neither JSON nor YAML"),
        (b'{"kind": "AdmissionReview", "request": {"object": {"kind": "Pod", "spec": {}}}}', "'AdmissionReview'"),
        (b'{"kind": "Deployment", "spec": {"template": {}}}', "kind 'Deployment'"),
        (b'{"pod": {"kind": "Node", "spec": {}}}', "kind 'Node'"),
        (b'{"request": null}', "spec is missing"),
        (b'{"kind": "Pod", "spec": []}', "spec is missing"),
        (b'{"pod": {"metadata": {"name": "p"}}}', "spec is missing"),
    ],
)
def test_another_body_is_a_problem_that_says_why(client: httpx.Client, body: bytes, said: str) -> None:
    answer = client.post("/v1/recommendations", content=body)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert said in answer.json()["detail"]
