"""What became of a decision, joined in the store, as ``GET /v1/decisions`` tells it."""

from pathlib import Path

import httpx

from featurestore.store import decisions, followed
from featurestore.store.decision import Decision
from featurestore.store.decisions import Spool
from featurestore.store.duck import Store
from jobs.config import Settings, StoreSettings
from jobs.service.history import History
from tests.support.service import Fakes, running
from tests.support.stores import NOON, minutes


def test_the_node_the_runs_and_the_median_of_a_decision(tmp_path: Path) -> None:
    settings = Settings(store=StoreSettings(path=tmp_path / "s.duckdb", spool=tmp_path / "spool"))
    store, spool = Store(settings.store.path), Spool(settings.store.spool)
    ranked = {"nodes": [{"name": "n1", "score": 90.0}, {"name": "n2", "score": 80.0}]}
    spool.append(
        Decision(name, NOON, "east", "apps", pod, "guest/hello", "prefer", "v1", True, "patched", ranked)
        for name, pod in (("d1", "hello-1"), ("d2", "hello-2"))
    )
    spool.close()
    decisions.flush(store, settings.store.spool)
    # d1's pod ran on the node ranked first, three times; d2's was never created.
    placement = ["east", "u1", "apps", "hello-1", "n1", "guest/hello", NOON + minutes(1), NOON + minutes(60)]
    runs = [["east", f"a{at}", NOON + minutes(at), "guest/hello", "n1", "hello-1", 10.0 * at] for at in (2, 3, 7)]
    store.write(
        lambda con: (
            con.execute(
                "INSERT INTO placements (cluster, uid, namespace, pod, node, function, started, last_seen, phase,"
                " labels) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'Running', '{}')",
                placement,
            ),
            con.executemany(
                'INSERT INTO activation_use (cluster, activation_id, "start", function, node, pod, latency_ms)'
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                runs,
            ),
        )
    )
    assert store.write(lambda con: followed.follow(con, NOON + minutes(60))) == 1
    fakes = Fakes()
    fakes.history = History(settings).read  # type: ignore[method-assign,assignment]
    with running(fakes.parts()) as url, httpx.Client(base_url=url) as client:
        items = {row["decision"]: row for row in client.get("/v1/decisions").json()["items"]}
        one = client.get("/v1/decisions", params={"function": "guest/hello", "limit": 1}).json()["items"]
    told = {name: [row[key] for key in ("node", "followed", "activations", "p50_ms")] for name, row in items.items()}
    assert told == {"d1": ["n1", True, 3, 30.0], "d2": [None, None, None, None]}
    assert len(one) == 1
