"""GET /v1/...: columns, filters, order, paging, and no bare NaN."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import httpx
import pytest

from tests.support.service import AT, Fakes, decided, encoded, review, running
from tests.support.snapshots import snapshot

PAIRS = [
    {"cluster": "c1", "victim": "a", "aggressor": "b", "node_type": "", "status": "observed", "slowdown": 0.25,
     "low": 0.1, "high": 0.4, "probability": 0.99, "effective_overlaps": 80.0, "activations": 900,
     "window_start": datetime(2026, 2, 1, tzinfo=UTC), "window_end": datetime(2026, 3, 1, tzinfo=UTC)},
    {"cluster": "c1", "victim": "b", "aggressor": "a", "node_type": "", "status": "unknown",
     "slowdown": float("nan"), "low": float("-inf"), "high": float("inf"),
     "effective_overlaps": 3.0, "activations": 9},
    {"cluster": "c2", "victim": "a", "aggressor": "c", "node_type": "", "status": "observed", "slowdown": 0.8,
     "low": 0.7, "high": 0.9, "probability": 1.0, "effective_overlaps": 50.0, "activations": 70},
]  # fmt: skip
FUNCTIONS = [
    {"cluster": "c1", "function": "f", "node_type": "", "dominant": "cpu", "cpu": "high", "memory": "low",
     "network": "low", "disk": "low", "source": "measured", "activations": 10, "p50_ms": 12.5, "p95_ms": 20.0},
    {"cluster": "c1", "function": "f", "node_type": "t1", "dominant": "cpu", "cpu": "high", "memory": "low",
     "network": "low", "disk": "low", "source": "measured", "activations": 4, "p50_ms": 11.0, "p95_ms": 19.0},
]  # fmt: skip
NODES = [
    {"cluster": "c1", "node": name, "node_type": "t1", "ready": True, "schedulable": name != "n2", "gpu_count": 0}
    for name in ("n2", "n1", "n3")
]


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    known = snapshot(AT, {"pairs": PAIRS, "functions": FUNCTIONS, "nodes": NODES}, clusters=("c1", "c2"))
    with running(replace(Fakes(known).parts(), configured=("c0",))) as url, httpx.Client(base_url=url) as client:
        yield client


def _rows(answer: httpx.Response) -> list[dict[str, str]]:
    assert answer.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_interference_as_csv_has_the_agreed_columns_and_the_cluster_last(client: httpx.Client) -> None:
    answer = client.get("/v1/interference?format=csv")
    assert answer.text.splitlines()[0] == (
        "victim,aggressor,node_type,status,slowdown,low,high,probability,effective_overlaps,activations,"
        "window_start,window_end,cluster"
    )
    strongest = _rows(answer)[0]
    assert (strongest["victim"], strongest["slowdown"], strongest["cluster"]) == ("a", "0.25", "c1")
    assert strongest["window_end"] == "2026-03-01T00:00:00Z"


def test_numbers_that_are_not_finite_are_null_and_empty(client: httpx.Client) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"bare {constant}")

    answer = client.get("/v1/interference?victim=b")
    [row] = json.loads(answer.text, parse_constant=refuse)["items"]
    assert (row["slowdown"], row["low"], row["high"], row["effective_overlaps"]) == (None, None, None, 3.0)
    [row] = _rows(client.get("/v1/interference?victim=b&format=csv"))
    assert (row["slowdown"], row["low"], row["high"]) == ("", "", "")


def test_filters_narrow_and_add_up(client: httpx.Client) -> None:
    answer = client.get("/v1/interference?victim=a&cluster=c2").json()
    assert (answer["total"], [row["aggressor"] for row in answer["items"]]) == (1, ["c"])
    assert client.get("/v1/interference?status=shared_cause").json()["items"] == []


@pytest.mark.parametrize(
    ("query", "aggressors"),
    [
        ("min_slowdown=0.25", ["b", "c"]),
        ("min_slowdown=0.26", ["c"]),
        ("min_slowdown=-1", ["b", "c"]),  # one that is not known is not at least anything
        ("min_probability=0.99", ["b", "c"]),
        ("min_probability=1", ["c"]),
        ("min_probability=.9&min_slowdown=.2&cluster=c1", ["b"]),
    ],
)
def test_pairs_of_at_least_a_slowdown_and_a_probability(
    client: httpx.Client, query: str, aggressors: list[str]
) -> None:
    rows = client.get(f"/v1/interference?{query}").json()["items"]
    assert [row["aggressor"] for row in rows] == aggressors


def test_functions_are_over_all_node_types_unless_one_is_asked_for(client: httpx.Client) -> None:
    answer = client.get("/v1/functions?format=csv")
    assert answer.text.splitlines()[0] == (
        "function,dominant,cpu,memory,network,disk,source,activations,p50_ms,p95_ms,cluster"
    )
    assert [row["activations"] for row in _rows(answer)] == ["10"]
    assert [row["p50_ms"] for row in client.get("/v1/functions?node_type=t1").json()["items"]] == [11.0]


def test_nodes_come_in_order_and_in_pages(client: httpx.Client) -> None:
    whole = client.get("/v1/nodes").json()
    assert [row["node"] for row in whole["items"]] == ["n1", "n2", "n3"]
    assert whole["snapshot"] == "v1"
    page = client.get("/v1/nodes?limit=1&offset=1").json()
    assert (page["total"], [row["node"] for row in page["items"]]) == (3, ["n2"])
    assert [row["schedulable"] for row in _rows(client.get("/v1/nodes?format=csv"))] == ["true", "false", "true"]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("colour=red", "colour"),
        ("format=xml", "format"),
        ("limit=-1", "limit"),
        ("limit=many", "limit"),
        ("limit=100001", "limit"),
        ("offset=1.5", "offset"),
        ("limit=²", "limit"),
        ("offset=-3", "offset"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/functions", "/v1/decisions"])
def test_a_wrong_parameter_is_a_problem_that_names_it(
    client: httpx.Client, path: str, query: str, named: str
) -> None:
    answer = client.get(f"{path}?{query}")
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"].startswith(f"{named}: ")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("interference?status=seen", "status: 'seen' is not one of observed, predicted, unknown, shared_cause"),
        ("functions?dominant=gpu", "dominant: 'gpu' is not one of cpu, memory, network, disk, mixed"),
        ("decisions?mode=shout", "mode: 'shout' is not one of observe, prefer, require"),
        ("decisions?outcome=", "outcome: '' is not one of patched, unchanged, left_alone"),
        ("regions?state=ASLEEP", "state: 'ASLEEP' is not one of STARTED, PROCESSING, UNHEALTHY, DRAINING, RESETTING, "
         "MAXIMUM_RESET_ATTEMPTS_REACHED, CHECKPOINT_PENDING"),
        ("interference?min_slowdown=much", "min_slowdown: 'much' is not a number of at least -1"),
        ("interference?min_slowdown=nan", "min_slowdown: 'nan' is not a number of at least -1"),
        ("interference?min_slowdown=inf", "min_slowdown: 'inf' is not a number of at least -1"),
        ("interference?min_probability=90", "min_probability: '90' is not a number from 0 to 1"),
        ("nodes?min_slowdown=1", "min_slowdown: no such parameter; there are cluster, node, node_type, format, "
         "limit, offset"),
        ("nodes?offset=-3", "offset: '-3' is not a whole number of at least 0 and at most 18 digits"),
        ("nodes?limit=-3", "limit: '-3' is not a whole number from 0 to 100000"),
        *(
            (f"{name}?cluster=c9", "cluster 'c9': neither configured nor imported; there are c0, c1, c2")
            for name in ("functions", "interference", "nodes", "regions", "decisions")
        ),
    ],
)  # fmt: skip
def test_a_word_that_can_match_nothing_is_a_problem_with_those_that_can(
    client: httpx.Client, path: str, said: str
) -> None:
    answer = client.get(f"/v1/{path}")
    assert (answer.status_code, answer.json().get("detail")) == (400, said)


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("v1/functions?limit=1&limit=2", "limit"),
        ("v1/interference?status=observed&status=unknown", "status"),
        ("v1/interference?limit=1&offset=0&limit=1", "limit"),
        ("v1/nodes?format=csv&format=csv", "format"),
        ("v1/regions?offset=1&offset=2", "offset"),
        ("v1/decisions?mode=prefer&mode=observe", "mode"),
        ("v1/loads?search=a&search=b", "search"),
        ("v1/heat-map?size=1&size=2", "size"),
        ("v1/evidence?victim=a&aggressor=b&victim=c", "victim"),
        ("v2/projects/p/composite-apps/a/1/deployment-intent-groups/g/hpa-intents?intent=a&intent=b", "intent"),
    ],
)
def test_a_parameter_that_stands_twice_is_a_problem_that_names_it(
    client: httpx.Client, path: str, named: str
) -> None:
    answer = client.get(f"/{path}")
    assert (answer.status_code, answer.json().get("detail")) == (400, f"{named}: stands twice")


def test_a_parameter_beside_a_pod_stands_once(client: httpx.Client) -> None:
    answer = client.post("/v1/recommendations?mode=prefer&mode=require", json={"kind": "Pod", "spec": {}})
    assert (answer.status_code, answer.json().get("detail")) == (400, "mode: stands twice")


def test_a_cluster_that_is_configured_and_not_learned_yet_has_no_rows(client: httpx.Client) -> None:
    for name in ("functions", "interference", "nodes", "regions", "decisions"):
        assert client.get(f"/v1/{name}?cluster=c0").json()["total"] == 0


def test_decisions_of_a_cluster_that_is_gone_are_listed() -> None:
    fakes = Fakes(snapshot(AT, {}, clusters=("c2",)))
    with running(fakes.parts()) as url, httpx.Client(base_url=url) as client:
        client.post("/mutate", content=encoded(review(uid="u")))  # decided for c1
        assert client.get("/v1/decisions?cluster=c1").json()["total"] == 1
        assert client.get("/v1/decisions?cluster=c3").json()["detail"].endswith("there are c2")


def test_an_unknown_path_and_method_are_problems(client: httpx.Client) -> None:
    missing = client.get("/v1/nothing")
    assert (missing.status_code, missing.headers["content-type"]) == (404, "application/problem+json")
    assert missing.json()["title"] == "Not Found"
    assert missing.json()["detail"] == "/v1/nothing: no such path; GET /openapi.json lists those there are"
    wrong = client.delete("/v1/nodes")
    assert (wrong.status_code, wrong.headers["content-type"]) == (405, "application/problem+json")
    assert wrong.json()["detail"] == "DELETE /v1/nodes: no such method of this path; there are GET, HEAD"
    several = client.patch("/v2/projects/p1")  # a route each
    assert (several.status_code, several.headers["allow"]) == (405, "DELETE, GET, HEAD, PUT")


def test_decisions_just_made_are_listed_the_newest_first_and_filtered() -> None:
    fakes = Fakes()
    with running(fakes.parts()) as url, httpx.Client(base_url=url) as client:
        for number, mode in enumerate(["observe", "prefer", "prefer"]):
            moment = datetime(2026, 3, 1, 12, number, tzinfo=UTC)
            fakes.deciding = lambda request, m=mode, at=moment: decided(request, mode=m, at=at)  # type: ignore[misc]
            client.post("/mutate", content=encoded(review(uid=f"u-{number}")))
        items = client.get("/v1/decisions").json()["items"]
        assert [row["decision"] for row in items] == ["u-2", "u-1", "u-0"]
        assert list(items[0])[-1] == "cluster"
        filtered = client.get("/v1/decisions?mode=observe").json()["items"]
        assert [row["decision"] for row in filtered] == ["u-0"]


def test_an_internal_error_is_a_problem_without_its_text() -> None:
    fakes = Fakes()

    def broken(filters: object, limit: int) -> list[dict[str, object]]:
        raise RuntimeError("password=hunter2")

    fakes.history = broken  # type: ignore[assignment,method-assign]
    with running(fakes.parts()) as url:
        answer = httpx.get(url + "/v1/decisions")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert "hunter2" not in answer.text
