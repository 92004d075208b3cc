"""What the page is made of: health, loads, the heat map, evidence, one decision."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from featurestore.snapshot import Snapshot
from jobs.supervisor import status
from pipeline.errors import BadInput, Temporary
from tests.support.service import AT, Fakes, decided, encoded, review, running
from tests.support.snapshots import snapshot

NODES = [
    {"cluster": "c1", "node": "idle", "ready": True, "schedulable": True, "cpu_cores": 4.0, "memory_bytes": 100.0,
     "cpu_used_cores": 0.4, "memory_used_bytes": 20.0, "used_at": AT},
    {"cluster": "c1", "node": "full", "ready": True, "schedulable": False, "cpu_cores": 4.0, "memory_bytes": 100.0,
     "cpu_used_cores": 1.0, "memory_used_bytes": 90.0, "used_at": AT},
    {"cluster": "c1", "node": "dark", "ready": False, "schedulable": True, "cpu_cores": 4.0, "memory_bytes": 100.0},
    {"cluster": "c2", "node": "idle", "ready": True, "schedulable": True, "cpu_cores": 0.0, "memory_bytes": 100.0,
     "cpu_used_cores": 1.0, "memory_used_bytes": 50.0, "used_at": AT},
]  # fmt: skip
PODS = [
    {"cluster": cluster, "uid": f"u{number}", "namespace": "ns", "pod": f"p{number}", "node": node,
     "function": function, "phase": "Running"}
    for number, (cluster, node, function) in enumerate([
        ("c1", "idle", "g/a"), ("c1", "idle", "g/a"), ("c1", "idle", "g/b"), ("c1", "idle", ""), ("c1", "idle", None),
        ("c1", None, "g/a"), ("c2", "idle", "g/z"), ("c1", "full", "g/b"),
    ])
]  # fmt: skip
BUSY = [
    {"cluster": "c1", "node": "idle", "function": "g/b", "running": 1.5},
    {"cluster": "c1", "node": "idle", "function": "g/gone", "running": 4.0},
]


def _pair(victim: str, aggressor: str, slowdown: float | None, state: str = "observed", cluster: str = "c1") -> Any:
    return {"cluster": cluster, "victim": victim, "aggressor": aggressor, "node_type": "", "status": state,
            "slowdown": slowdown, "effective_overlaps": 40.0, "activations": 9}  # fmt: skip


PAIRS = [
    _pair("a", "b", 0.3), _pair("a", "c", 0.9, "predicted"), _pair("b", "a", 0.1), _pair("c", "b", 2.0, "unknown"),
    _pair("b", "c", float("nan"), "unknown"), _pair("d", "a", 0.2, "shared_cause"),
    _pair("z", "y", 5.0, cluster="c2"),
    {**_pair("a", "b", 7.0), "node_type": "t1"},
]  # fmt: skip
HEALTH = [
    {"cluster": "c1", "source": "usage", "last_success": AT, "last_attempt": AT, "outcome": "ok", "reason": None,
     "rows": 5, "refused": 1, "watermark": AT - timedelta(minutes=5), "rows_total": 50, "errors_total": 0},
    {"cluster": "c1", "source": "nodes", "last_success": AT - timedelta(hours=1), "last_attempt": AT,
     "outcome": "failed", "reason": "timeout", "rows": 0, "refused": 0, "watermark": None, "rows_total": 7,
     "errors_total": 2},
]  # fmt: skip
KNOWN = snapshot(
    AT,
    {"nodes": NODES, "placements": PODS, "busyness": BUSY, "pairs": PAIRS, "health": HEALTH},
    clusters=("c1", "c2"),
)


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with running(replace(Fakes(KNOWN).parts(), configured=("c0",))) as url, httpx.Client(base_url=url) as client:
        yield client


def _json(client: httpx.Client, path: str) -> dict[str, Any]:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_sources_tell_the_snapshot_and_each_source_with_the_age_of_what_is_known(client: httpx.Client) -> None:
    before = datetime.now(UTC)
    told = _json(client, "/v1/sources")
    assert (told["snapshot"], told["clusters"], told["models"]) == ("v1", ["c1", "c2"], {"c1": "m1"})
    assert told["created"] == "2026-03-01T12:00:00Z"
    assert told["age_s"] == pytest.approx((before - AT).total_seconds(), abs=60)
    assert (told["stale"], told["stale_after_s"]) == (True, 3600.0)
    nodes, usage = told["items"]
    assert (nodes["source"], nodes["outcome"], nodes["reason"], nodes["errors_total"]) == (
        "nodes", "failed", "timeout", 2
    )  # fmt: skip
    assert nodes["staleness_s"] == pytest.approx(told["age_s"] + 3600, abs=60)  # it keeps no watermark
    assert (usage["watermark"], usage["refused"]) == ("2026-03-01T11:55:00Z", 1)
    assert usage["staleness_s"] == pytest.approx(told["age_s"] + 300, abs=60)


def test_a_snapshot_is_stale_only_beyond_what_the_settings_allow() -> None:
    with running(replace(Fakes(KNOWN).parts(), stale_after=timedelta(days=36500))) as url:
        assert httpx.get(f"{url}/v1/sources").json()["stale"] is False


def test_a_source_is_told_as_the_supervisor_saw_it_last(tmp_path: Path) -> None:
    later = AT.timestamp() + 60
    seen = status.SourceHealth("c1", "nodes", later, later, "ok", "", 0, None, 8, 2)
    status.write(status.Status(written=later, health=[seen]), tmp_path / status.FILE)
    with running(Fakes(KNOWN, tmp_path).parts()) as url:
        nodes, usage = httpx.get(f"{url}/v1/sources").json()["items"]
    assert (nodes["outcome"], nodes["last_success"], nodes["rows_total"]) == ("ok", "2026-03-01T12:01:00Z", 8)
    assert usage["outcome"] == "ok"


def test_nodes_come_busiest_first_by_the_larger_share_and_unmeasured_ones_last(client: httpx.Client) -> None:
    told = _json(client, "/v1/loads")
    assert told["total"] == 4
    assert [(row["cluster"], row["node"]) for row in told["items"]] == [
        ("c1", "full"), ("c2", "idle"), ("c1", "idle"), ("c1", "dark"),
    ]  # fmt: skip
    full, other, idle, dark = told["items"]
    assert (full["cpu_ratio"], full["memory_ratio"], full["schedulable"]) == (0.25, 0.9, False)
    assert (other["cpu_ratio"], other["memory_ratio"]) == (None, 0.5)  # it has no cores to share
    assert (idle["cpu_ratio"], idle["memory_ratio"]) == (0.1, 0.2)
    assert (dark["cpu_ratio"], dark["memory_ratio"], dark["used_at"]) == (None, None, None)


def test_a_node_tells_its_pods_and_functions(client: httpx.Client) -> None:
    rows = {(row["cluster"], row["node"]): row for row in _json(client, "/v1/loads")["items"]}
    idle = rows["c1", "idle"]
    assert idle["pods_now"] == 5
    assert idle["functions"] == [
        {"function": "g/b", "pods": 1, "running": 1.5},
        {"function": "g/a", "pods": 2, "running": 0.0},
        {"function": "g/gone", "pods": 0, "running": 4.0},
    ]
    assert idle["functions_total"] == 3
    assert [each["function"] for each in rows["c2", "idle"]["functions"]] == ["g/z"]
    assert (rows["c1", "dark"]["pods_now"], rows["c1", "dark"]["functions"]) == (0, [])


@pytest.mark.parametrize(
    ("query", "nodes"),
    [
        ("search=G/B", ["full", "idle"]),
        ("search=gone", ["idle"]),
        ("search=IDL&cluster=c1", ["idle"]),
        ("search=g/z&cluster=c1", []),
        ("search=%25", []),
        ("limit=1&cluster=c1", ["full"]),
        ("limit=1&offset=2&cluster=c1", ["dark"]),
    ],
)
def test_nodes_are_found_by_their_name_and_by_functions(client: httpx.Client, query: str, nodes: list[str]) -> None:
    assert [row["node"] for row in _json(client, f"/v1/loads?{query}")["items"]] == nodes


def test_the_heat_map_orders_by_what_is_told_and_shows_pairs_over_all_node_types(client: httpx.Client) -> None:
    told = _json(client, "/v1/heat-map?cluster=c1")
    assert told["victims"] == ["a", "d", "b", "c"]  # of c nothing is told, whatever number stands there
    assert told["aggressors"] == ["c", "b", "a"]
    cells = {(cell["victim"], cell["aggressor"]): cell for cell in told["cells"]}
    assert len(cells) == len(told["cells"]) == 6
    assert cells["a", "b"]["slowdown"] == 0.3
    assert cells["b", "c"]["slowdown"] is None
    assert cells["d", "a"]["status"] == "shared_cause"


def test_a_small_heat_map_holds_the_strongest_and_counts_the_others(client: httpx.Client) -> None:
    told = _json(client, "/v1/heat-map?cluster=c1&size=1")
    assert (told["victims"], told["aggressors"]) == (["a"], ["c"])
    assert (told["victims_total"], told["aggressors_total"]) == (4, 3)
    assert [cell["slowdown"] for cell in told["cells"]] == [0.9]


def test_a_heat_map_is_that_of_the_snapshot_that_answers_now() -> None:
    fakes = Fakes(snapshot(AT, {"pairs": [_pair("a", "b", 0.3)]}))
    with running(fakes.parts()) as url, httpx.Client(base_url=url) as client:
        assert [cell["slowdown"] for cell in _json(client, "/v1/heat-map")["cells"]] == [0.3]
        fakes.snapshot = snapshot(AT, {"pairs": [_pair("a", "b", 0.4)]}, version="v2")
        told = _json(client, "/v1/heat-map")
    assert (told["snapshot"], [cell["slowdown"] for cell in told["cells"]]) == ("v2", [0.4])


def test_a_heat_map_of_what_is_searched_for_holds_its_pairs(client: httpx.Client) -> None:
    told = _json(client, "/v1/heat-map?cluster=c1&search=D")
    assert (told["victims"], told["aggressors"], len(told["cells"])) == (["d"], ["a"], 1)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/heat-map", "cluster: say which of c1, c2"),
        *(
            (path, "cluster 'c9': neither configured nor imported; there are c0, c1, c2")
            for path in (
                "/v1/heat-map?cluster=c9",
                "/v1/loads?cluster=c9",
                "/v1/evidence?victim=a&aggressor=b&cluster=c9",
            )
        ),
        ("/v1/heat-map?cluster=c1&size=101", "size: '101' is not a whole number from 0 to 100"),
        ("/v1/loads?colour=red", "colour: no such parameter"),
        ("/v1/loads?limit=x", "limit: "),
        ("/v1/loads?search=" + "x" * 257, "search: longer than 256 characters"),
        ("/v1/sources?cluster=c1", "cluster: no such parameter; there are none"),
        ("/v1/evidence?victim=a", "aggressor: needed"),
    ],
)
def test_a_wrong_parameter_is_a_problem_that_names_it(client: httpx.Client, path: str, said: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert answer.json()["detail"].startswith(said)


def test_without_anything_learned_there_is_an_empty_page_of_everything() -> None:
    with running(Fakes().parts()) as url, httpx.Client(base_url=url) as client:
        assert _json(client, "/v1/loads")["items"] == []
        assert _json(client, "/v1/heat-map")["cells"] == []
        assert _json(client, "/v1/sources")["items"] == []


def test_evidence_is_what_explains_the_pair_and_its_failures_are_problems() -> None:
    asked: list[tuple[Any, ...]] = []

    def explain(
        known: Snapshot, victim: str, aggressor: str, cluster: str | None, node_type: str | None
    ) -> Sequence[Mapping[str, Any]]:
        asked.append((known.version, victim, aggressor, cluster, node_type))
        if victim == "nobody":
            raise BadInput("function 'nobody': no such function")
        if victim == "busy":
            raise Temporary("store", "busy", "colocation.duckdb: in use by another process")
        return [{"victim": victim, "meaning": "told"}]

    with running(replace(Fakes(KNOWN).parts(), explain=explain)) as url, httpx.Client(base_url=url) as client:
        given = {"victim": "a/<b>", "aggressor": "c", "cluster": "c1", "node_type": "t"}
        told = client.get("/v1/evidence", params=given).json()
        assert told == {"snapshot": "v1", "total": 1, "items": [{"victim": "a/<b>", "meaning": "told"}]}
        unknown = client.get("/v1/evidence?victim=nobody&aggressor=c")
        assert (unknown.status_code, unknown.json()["detail"]) == (400, "function 'nobody': no such function")
        busy = client.get("/v1/evidence?victim=busy&aggressor=c")
        assert (busy.status_code, busy.headers["content-type"]) == (503, "application/problem+json")
        assert busy.json()["detail"] == "colocation.duckdb: in use by another process"
    assert asked[0] == ("v1", "a/<b>", "c", "c1", "t")


def test_a_decision_just_made_is_answered_whole_and_a_stored_one_from_the_store() -> None:
    fakes = Fakes()
    row = {"decision": "old", "at": AT, "document": msgspec.Raw(b'{"reasons":[]}')}
    fakes.deciding = lambda request: decided(request, mode="require")
    with (
        running(replace(fakes.parts(), stored=lambda name: row if name == "old" else None)) as url,
        httpx.Client(base_url=url) as client,
    ):
        client.post("/mutate", content=encoded(review(uid="new")))
        told = _json(client, "/v1/decisions/new")
        assert (told["decision"], told["mode"], told["namespace"]) == ("new", "require", "team")
        assert told["document"] == {"why": "a test"}
        assert client.get("/v1/decisions/old").text == json.dumps(
            {"decision": "old", "at": "2026-03-01T12:00:00Z", "document": {"reasons": []}}, separators=(",", ":")
        )
        missing = client.get("/v1/decisions/none")
        assert (missing.status_code, missing.json()["detail"]) == (404, "decision 'none': not known here")


def test_a_decision_just_made_tells_what_became_of_it_once_the_store_knows() -> None:
    fakes = Fakes()
    rows: dict[str, Any] = {}

    def stored(name: str) -> Any:
        if isinstance(rows.get(name), Exception):
            raise rows[name]
        return rows.get(name)

    with running(replace(fakes.parts(), stored=stored)) as url, httpx.Client(base_url=url) as client:
        client.post("/mutate", content=encoded(review(uid="new")))
        assert _json(client, "/v1/decisions/new")["node"] is None
        rows["new"] = {"decision": "new", "node": "n1", "followed": True, "document": msgspec.Raw(b"{}")}
        told = _json(client, "/v1/decisions/new")
        assert (told["node"], told["followed"]) == ("n1", True)
        rows["new"] = BadInput("store.duckdb: not a DuckDB database")
        assert _json(client, "/v1/decisions/new")["decision"] == "new", (
            "this process made it: the store is not needed"
        )
        rows["other"] = rows["new"] = Temporary("store", "busy", "in use by another process")
        assert _json(client, "/v1/decisions/new")["decision"] == "new"
        assert client.get("/v1/decisions/other").status_code == 503
