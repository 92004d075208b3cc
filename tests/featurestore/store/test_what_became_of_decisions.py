"""Decisions meet their pods and runs in one join; what has no pod stays without."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from featurestore.store import decisions, followed, models, queries
from featurestore.store.decision import Decision
from featurestore.store.decisions import Spool
from featurestore.store.duck import Store
from tests.support.stores import NOON, minutes, select

NODES = [{"name": "n1", "score": 90.0}, {"name": "n2", "score": 90.0}, {"name": "n3", "score": 80.0}]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "s.duckdb")


def decide(store: Store, tmp_path: Path, *made: tuple[str, str, float], nodes: Any = NODES) -> None:
    """(decision, pod, minutes after noon) each."""
    spool = Spool(tmp_path / "spool")
    spool.append(
        Decision(name, NOON + minutes(at), "east", "apps", pod, "guest/hello", "prefer", "v1", True, "patched",
                 {"nodes": nodes})
        for name, pod, at in made
    )  # fmt: skip
    spool.close()
    decisions.flush(store, tmp_path / "spool")


def place(
    store: Store, uid: str, pod: str, node: str, at: float, ended: float | None = None, function: str = "guest/hello"
) -> None:
    end = None if ended is None else NOON + minutes(ended)
    row = ["east", uid, "apps", pod, node, function, NOON + minutes(at), end, NOON + minutes(60), "Running", "{}"]
    store.write(
        lambda con: con.execute(
            "INSERT INTO placements (cluster, uid, namespace, pod, node, function, started, ended, last_seen, phase,"
            " labels) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            row,
        )
    )


def ran(store: Store, number: int, node: str, pod: str | None, at: float, latency: float) -> None:
    row = ["east", f"a{number}", NOON + minutes(at), "guest/hello", node, pod, latency]
    store.write(
        lambda con: con.execute(
            'INSERT INTO activation_use (cluster, activation_id, "start", function, node, pod, latency_ms)'
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            row,
        )
    )


def follow(store: Store, at: float = 60) -> int:
    moment: datetime = NOON + minutes(at)
    return store.write(lambda con: followed.follow(con, moment))


def outcomes(store: Store, *columns: str) -> list[tuple[Any, ...]]:
    return select(store, f"SELECT {', '.join(columns)} FROM decision_outcomes ORDER BY decision")


def test_the_node_the_runs_and_the_usual_median(store: Store, tmp_path: Path) -> None:
    decide(store, tmp_path, ("d1", "hello-1", 0), ("d2", "hello-2", 1))
    place(store, "u1", "hello-1", "n2", 0.1)
    place(store, "u2", "hello-2", "n3", 1.1, ended=30)
    for number, (node, pod, at, latency) in enumerate(
        [("n2", "hello-1", 5, 10.0), ("n2", "hello-1", 6, 30.0), ("n2", "hello-1", 7, 20.0),
         ("n3", "hello-2", 8, 50.0), ("n3", "hello-2", 31, 999.0), ("n1", "hello-9", 9, 999.0)]
    ):  # fmt: skip
        ran(store, number, node, pod, at, latency)
    profile = {"function": "guest/hello", "node_type": "", "activations": 9, "p50_ms": 25.0}
    schema = models.TABLES["functions"]
    table = pa.Table.from_pylist(
        [{name: profile.get(name, "" if pa.types.is_dictionary(schema.field(name).type) else None)
          for name in schema.names if name != "cluster"}],
        pa.schema([field for field in schema if field.name != "cluster"]),
    )  # fmt: skip
    store.write(lambda con: models.save(con, models.Model("m", "east", NOON), {"functions": table}))
    assert follow(store) == 2
    # d2's pod had ended before its last run; n2 is ranked as high as n1, n3 is not.
    assert outcomes(store, "decision", "uid", "node", "followed", "activations", "p50_ms", "usual_ms") == [
        ("d1", "u1", "n2", True, 3, 20.0, 25.0),
        ("d2", "u2", "n3", False, 1, 50.0, 25.0),
    ]
    shown = store.read(lambda con: decisions.recent(con, limit=9).to_pylist())
    assert [(row["decision"], row["node"], row["followed"], row["p50_ms"]) for row in shown] == [
        ("d2", "n3", False, 50.0), ("d1", "n2", True, 20.0),
    ]  # fmt: skip


def test_what_has_no_pod_stays_without(store: Store, tmp_path: Path) -> None:
    # Never created; named after admission; started before; too long after; in another namespace.
    decide(
        store, tmp_path, ("d1", "gone", 0), ("d2", "", 0), ("d3", "early", 30), ("d4", "late", 0), ("d5", "far", 0)
    )
    place(store, "u3", "early", "n1", 20)
    place(store, "u4", "late", "n1", 25 * 60)
    place(store, "u5", "far", "n1", 1)
    store.write(lambda con: con.execute("UPDATE placements SET namespace = 'other' WHERE pod = 'far'"))
    assert follow(store) == 0
    assert outcomes(store, "decision") == []
    shown = store.read(lambda con: decisions.recent(con, limit=9).to_pylist())
    assert len(shown) == 5
    assert {row["node"] for row in shown} == {None}


def test_a_name_that_is_used_again_parts_its_pods_among_its_decisions(store: Store, tmp_path: Path) -> None:
    decide(store, tmp_path, ("d1", "hello-1", 0), ("d2", "hello-1", 10))
    place(store, "u1", "hello-1", "n1", 0.1, ended=9)
    place(store, "u2", "hello-1", "n3", 10.1)
    ran(store, 1, "n1", "hello-1", 5, 10.0)
    ran(store, 2, "n3", "hello-1", 15, 40.0)
    assert follow(store) == 2
    assert outcomes(store, "decision", "uid", "activations", "p50_ms") == [
        ("d1", "u1", 1, 10.0),
        ("d2", "u2", 1, 40.0),
    ]


def test_a_run_of_no_certain_pod_counts_once_for_the_pod_started_last(store: Store, tmp_path: Path) -> None:
    decide(store, tmp_path, ("d1", "hello-1", 0), ("d2", "hello-2", 1))
    place(store, "u1", "hello-1", "n1", 0.1)
    place(store, "u2", "hello-2", "n1", 1.1)
    ran(store, 1, "n1", None, 0.5, 10.0)
    ran(store, 2, "n1", None, 5, 40.0)
    assert follow(store) == 2
    assert outcomes(store, "decision", "activations", "p50_ms") == [("d1", 1, 10.0), ("d2", 1, 40.0)]


def test_more_becomes_known_later_and_then_no_more(store: Store, tmp_path: Path) -> None:
    decide(store, tmp_path, ("d1", "hello-1", 0))
    assert follow(store, at=1) == 0
    place(store, "u1", "hello-1", "n1", 0.1)
    ran(store, 1, "n1", "hello-1", 0.5, 10.0)
    assert follow(store, at=2) == 1
    ran(store, 2, "n1", "hello-1", 3, 30.0)
    assert follow(store, at=4) == 1
    assert outcomes(store, "activations", "p50_ms", "ended") == [(2, 20.0, None)]
    store.write(lambda con: con.execute("UPDATE placements SET ended = ?", [NOON + minutes(10)]))
    assert follow(store, at=75) == 1  # its end is news, and longer than an hour ago
    assert follow(store, at=76) == 0
    assert select(store, "SELECT count(*) FROM decision_outcomes") == [(1,)]


def test_a_list_cut_among_the_best_cannot_say_whether_it_was_followed(store: Store, tmp_path: Path) -> None:
    decide(store, tmp_path, ("d1", "hello-1", 0), nodes=NODES[:2])
    place(store, "u1", "hello-1", "n3", 0.1)
    decide(store, tmp_path, ("d2", "hello-2", 0), nodes=[])
    place(store, "u2", "hello-2", "n1", 0.1)
    assert follow(store) == 2
    assert outcomes(store, "decision", "followed") == [("d1", None), ("d2", None)]


def test_outcomes_are_kept_as_long_as_decisions(store: Store, tmp_path: Path) -> None:
    decide(store, tmp_path, ("d1", "hello-1", 0), ("d2", "hello-2", 60))
    place(store, "u1", "hello-1", "n1", 0.1)
    place(store, "u2", "hello-2", "n1", 60.1)
    assert follow(store, at=61) == 2
    spans = queries.Retention(decisions=timedelta(days=1))
    gone = store.write(lambda con: queries.retain(con, NOON + timedelta(days=1, minutes=30), spans))
    assert (gone["decisions"], gone["decision_outcomes"]) == (1, 1)
    assert outcomes(store, "decision") == [("d2",)]
