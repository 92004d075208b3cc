"""Watches write to the history what lists would miss or learn late, and outlive servers and stores that fail."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from featurestore.store import queries
from featurestore.store.duck import Store
from jobs.config import ClusterSettings, KubernetesSettings, Settings, StoreSettings
from jobs.supervisor import status, watching
from jobs.supervisor.board import Board
from jobs.supervisor.watching import Watches
from tests.support import kube_objects, kube_server
from tests.support.kube_server import KubeServer, serving
from tests.support.service import wait_until

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
LABELS = {"openwhisk/namespace": "guest", "openwhisk/action": "hello"}
BORN = datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)


def pod(name: str, **labels: str) -> dict[str, Any]:
    return kube_objects.pod(name, "n1", **labels)


@pytest.fixture
def server() -> Iterator[KubeServer]:
    with serving({NODES: [kube_objects.node("n1")], PODS: [pod("old")]}) as server:
        yield server


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "s.duckdb")


@pytest.fixture
def watched(server: KubeServer, store: Store, tmp_path: Path) -> Callable[[], Any]:
    kubernetes = KubernetesSettings(kubeconfig=server.kubeconfig(tmp_path))
    settings = Settings(
        store=StoreSettings(path=store.path), clusters=[ClusterSettings(name="c1", kubernetes=kubernetes)]
    )

    @contextmanager
    def run() -> Iterator[Watches]:
        watches = Watches(settings, Board(tmp_path / "status.json", ()), every=0.05)
        watches.start()
        try:
            yield watches
        finally:
            watches.close()

    return run


def lives(store: Store) -> dict[str, dict[str, Any]]:
    ever = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
    return {row["pod"]: row for row in store.read(lambda con: queries.placements(con, "c1", *ever)).to_pylist()}


def specs(store: Store) -> list[tuple[Any, ...]]:
    return store.read(
        lambda con: con.execute(
            "SELECT node, labels, valid_to IS NULL FROM node_specs ORDER BY node, valid_from"
        ).fetchall()
    )


def now() -> datetime:
    return datetime.now(UTC)


def test_a_pod_between_two_lists_is_in_the_history(server: KubeServer, store: Store, watched: Any) -> None:
    with watched():
        wait_until(lambda: "old" in lives(store))
        server.event(PODS, "ADDED", pod("brief"))
        wait_until(lambda: "brief" in lives(store))
        seen = lives(store)["brief"]
        assert (seen["node"], seen["started"], seen["ended"], seen["function"]) == ("n1", BORN, None, None)
        before = now()
        server.event(PODS, "MODIFIED", pod("brief", **LABELS))
        wait_until(lambda: lives(store)["brief"]["function"] == "guest/hello")
        between = now()
        assert before <= lives(store)["brief"]["function_from"] <= between
        server.event(PODS, "DELETED", pod("brief", **LABELS))
        wait_until(lambda: lives(store)["brief"]["ended"] is not None)
        assert between <= lives(store)["brief"]["ended"] <= now()
    assert lives(store)["old"]["ended"] is None


def test_a_node_is_written_when_it_changes_and_not_when_its_heart_beats(
    server: KubeServer, store: Store, watched: Any
) -> None:
    with watched():
        wait_until(lambda: bool(specs(store)))
        beating = kube_objects.node("n1")
        beating["status"]["conditions"][3]["lastHeartbeatTime"] = "2026-01-01T01:00:00Z"
        server.event(NODES, "MODIFIED", beating)
        server.event(NODES, "MODIFIED", kube_objects.node("n1", disk="ssd"))
        server.event(NODES, "ADDED", kube_objects.node("n2"))
        wait_until(lambda: len(specs(store)) == 3)
        server.event(NODES, "DELETED", kube_objects.node("n2"))
        wait_until(lambda: not specs(store)[2][2])
    found = [(node, json.loads(labels).get("disk"), current) for node, labels, current in specs(store)]
    assert found == [("n1", None, False), ("n1", "ssd", True), ("n2", None, False)]


def test_a_forgotten_version_ends_what_vanished_meanwhile(server: KubeServer, store: Store, watched: Any) -> None:
    with watched():
        wait_until(lambda: "old" in lives(store))
        server.put(PODS, [pod("new")])
        server.version += 10
        server.oldest = server.version
        before = now()
        server.end_watches()
        wait_until(lambda: "new" in lives(store) and lives(store)["old"]["ended"] is not None)
        assert before <= lives(store)["old"]["ended"] <= now()
        assert lives(store)["new"]["ended"] is None


def test_a_second_supervisor_goes_on_where_the_first_was(server: KubeServer, store: Store, watched: Any) -> None:
    with watched():
        wait_until(lambda: "old" in lives(store))
        server.event(PODS, "ADDED", pod("stays", **LABELS))
        wait_until(lambda: "stays" in lives(store))
    first = lives(store)
    server.put(PODS, [pod("stays", **LABELS), pod("late")])
    with watched():
        wait_until(lambda: "late" in lives(store) and lives(store)["old"]["ended"] is not None)
    second = lives(store)
    kept = ("uid", "node", "function", "function_from", "started", "ended")
    assert [second["stays"][name] for name in kept] == [first["stays"][name] for name in kept]
    assert len(specs(store)) == 1


def test_what_ends_with_the_supervisor_is_written(server: KubeServer, store: Store, watched: Any) -> None:
    with watched() as watches:
        wait_until(lambda: "old" in lives(store))
        held = threading.Event()
        done = threading.Event()
        holder = threading.Thread(target=lambda: store.write(lambda con: (held.set(), done.wait(30))))
        holder.start()
        assert held.wait(30)
        server.event(PODS, "ADDED", pod("last"))
        wait_until(lambda: any(watch.feed.waiting() or watch._unsent for watch in watches._watches))
        done.set()
        holder.join()
    assert "last" in lives(store)


def test_while_others_hold_the_store_what_is_seen_waits(
    server: KubeServer, store: Store, watched: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(watching, "_PATIENCE", timedelta(milliseconds=50))
    with watched():
        wait_until(lambda: "old" in lives(store))
        done = threading.Event()
        held = threading.Event()
        holder = threading.Thread(target=lambda: store.write(lambda con: (held.set(), done.wait(30))))
        holder.start()
        assert held.wait(30)
        server.event(PODS, "ADDED", pod("a"))
        server.event(PODS, "DELETED", pod("a"))
        server.event(PODS, "ADDED", pod("b"))
        wait_until(lambda: _watch(tmp_path, "pods").waiting == 2)
        done.set()
        holder.join()
        wait_until(lambda: {"a", "b"} <= set(lives(store)))
        wait_until(lambda: _watch(tmp_path, "pods").waiting == 0)
    assert lives(store)["a"]["ended"] is not None
    assert lives(store)["b"]["ended"] is None


def _watch(directory: Path, resource: str) -> status.WatchStatus:
    told = status.read(directory / "status.json")
    assert told is not None
    [found] = [watch for watch in told.watches if watch.resource == resource] or [
        status.WatchStatus("", "", None, 0, -1)
    ]
    return found


def test_a_server_that_fails_is_a_failed_run_and_is_come_back_to(
    server: KubeServer, store: Store, watched: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(watching, "RECORD", timedelta(seconds=0.1))
    monkeypatch.setattr(watching, "_FAILING", 1)
    server.script = [kube_server.status(500, "overloaded")] * 4

    def outcomes(source: str) -> list[tuple[str, str, int]]:
        return store.read(
            lambda con: con.execute(
                "SELECT outcome, reason, rows FROM runs WHERE source = ? ORDER BY finished", [source]
            ).fetchall()
        )

    with watched():
        wait_until(lambda: ("ok", "", 1) in outcomes("placements") and ("ok", "", 1) in outcomes("nodes"), 30)
        wait_until(lambda: _watch(tmp_path, "nodes").alive is not None)
        assert (_watch(tmp_path, "pods").lists, _watch(tmp_path, "nodes").lists) == (1, 1)
    assert outcomes("placements")[0] == outcomes("nodes")[0] == ("failed", "status_500", 0)
    assert sum(rows for _, _, rows in outcomes("placements")) == 1
    marks = [store.read(lambda con, s=source: queries.watermark(con, "c1", s)) for source in ("nodes", "placements")]
    assert all(mark is not None and now() - mark < timedelta(minutes=5) for mark in marks)


def test_a_cluster_that_cannot_be_logged_in_to_is_told_and_tried_again(
    server: KubeServer, store: Store, watched: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(watching, "_FAILING", 1)
    config = tmp_path / "kubeconfig"
    good = config.read_text()
    config.write_text("{}")
    with watched():
        runs = "SELECT DISTINCT source, outcome, reason FROM runs ORDER BY source"
        wait_until(
            lambda: (
                store.read(lambda con: con.execute(runs).fetchall())
                == [("nodes", "failed", "credentials"), ("placements", "failed", "credentials")]
            )
        )
        config.write_text(good)
        wait_until(lambda: "old" in lives(store) and bool(specs(store)), 30)


def test_an_odd_object_costs_only_itself(server: KubeServer, store: Store, watched: Any) -> None:
    odd = pod("odd")
    odd["spec"]["containers"][0]["resources"] = {"requests": {"memory": "16g"}}
    server.put(PODS, [odd, pod("old")])
    with watched():
        wait_until(lambda: "old" in lives(store))
        server.event(PODS, "ADDED", odd)
        server.event(PODS, "ADDED", pod("fine"))
        wait_until(lambda: "fine" in lives(store))
    assert set(lives(store)) == {"old", "fine"}


def test_a_server_that_never_answers_does_not_keep_it_from_ending(
    server: KubeServer, store: Store, watched: Any
) -> None:
    server.script = ["hang", "hang"]
    with watched() as watches:
        wait_until(lambda: {path for path, _ in server.requests} == {NODES, PODS})
    assert not watches._writer._thread.is_alive()
