"""``colocate serve`` as a process: what it starts, what it replaces, and that it leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from featurestore.store import decisions, published
from featurestore.store.duck import Store
from jobs.service import counts
from tests.support import kube_objects
from tests.support.kube_server import serving
from tests.support.processes import alive
from tests.support.service import AT, encoded, review, wait_until
from tests.support.serving import PATIENCE, Serving, configured, supervisor
from tests.support.snapshots import snapshot

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("serve")


@pytest.fixture(scope="module")
def served(directory: Path) -> Iterator[Serving]:
    with supervisor(configured(directory, {"cluster": "c1"}), "--no-schedule") as served:
        yield served.wait()


def test_it_answers_reviews_stores_the_decisions_and_leaves_nothing_behind(tmp_path: Path) -> None:
    config = configured(tmp_path, {"workers": 2})
    with supervisor(config, "--no-schedule") as served:
        served.wait()
        answer = httpx.post(served.url + "/mutate", content=encoded(review(uid="decision-1")))
        assert answer.json()["response"]["allowed"] is True
        family = served.family()
        assert len(family) == 2
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(30) == 0
        assert not any(alive(pid) for pid in family)
    store = Store(config.parent / "store.duckdb")
    kept = store.read(lambda con: decisions.recent(con, limit=10)).to_pylist()
    assert [(row["decision"], row["namespace"], row["mode"]) for row in kept] == [("decision-1", "team", "observe")]
    assert not list((config.parent / "spool").glob("decisions-*"))


def test_a_second_one_on_the_same_port_says_so_in_one_line(served: Serving, tmp_path: Path) -> None:
    port = httpx.URL(served.url).port
    other = tmp_path / "other.toml"
    other.write_text(f"[serve]\nport = {port}\n")
    command = [sys.executable, "-m", "jobs.cli", "--config", str(other), "serve", "--no-schedule"]
    second = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
    assert second.returncode == 2
    assert second.stderr.decode().splitlines() == [
        f"colocate: serve.port: 127.0.0.1:{port} is in use by another program; set another port"
    ]
    assert served.ready()


def test_a_new_snapshot_is_taken_up_while_serving(served: Serving, directory: Path) -> None:
    assert httpx.get(served.url + "/v1/nodes").json()["total"] == 0
    node = {"cluster": "c1", "node": "n1", "ready": True, "schedulable": True, "labels": "{}", "taints": "[]",
            "allocatable": '{"cpu": 4}', "cpu_cores": 4.0, "gpu_count": 0}  # fmt: skip
    published.write(snapshot(AT, {"nodes": [node]}, version="fresh"), directory / "snapshot")
    wait_until(lambda: httpx.get(served.url + "/readyz").json()["snapshot"] == "fresh")
    assert httpx.get(served.url + "/v1/nodes").json()["total"] == 1


def test_a_serving_process_that_dies_is_replaced_and_its_counts_go_on(served: Serving, directory: Path) -> None:
    httpx.post(served.url + "/mutate", content=encoded(review()))
    [status] = Path(tempfile.gettempdir()).glob(f"colocate-serve-{served.process.pid}-*/serving-0.json")
    wait_until(lambda: sum(counts.read(status).decisions.values()) == 1)
    [pid] = served.family()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not alive(pid))
    answer = httpx.post(served.url + "/mutate", content=encoded(review()), timeout=PATIENCE)
    assert answer.json()["response"]["allowed"] is True
    assert served.metric("colocation_serving_restarts_total") == 1
    assert served.metric("colocation_decisions_total", mode="observe") == 2


def test_decisions_that_went_with_a_killed_process_are_counted_by_the_next(tmp_path: Path) -> None:
    config = configured(tmp_path, {"cluster": "c1"})
    answered, dropped = 0, 0.0
    with supervisor(config, "--no-schedule") as served:
        served.wait()
        for attempt in range(5):  # its thread may write just before it is killed
            [pid] = served.family()
            with httpx.Client(base_url=served.url, timeout=PATIENCE) as client:
                for number in range(20):
                    body = encoded(review(uid=f"decision-{attempt}-{number}"))
                    assert client.post("/mutate", content=body).json()["response"]["allowed"] is True
                    answered += 1
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda pid=pid: pid not in served.family() and len(served.family()) == 1, PATIENCE)
            wait_until(served.ready, PATIENCE)
            if dropped := served.metric("colocation_decisions_dropped_total") or 0.0:
                break
        assert 0 < dropped <= answered
        assert f'"at_most": {int(dropped)}' in served.log()
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(30) == 0
    rows = Store(config.parent / "store.duckdb").read(lambda con: decisions.recent(con, limit=1000)).num_rows
    assert rows <= answered <= rows + dropped


def test_when_the_supervisor_is_killed_its_children_die_too(tmp_path: Path) -> None:
    with supervisor(configured(tmp_path), "--no-schedule") as served:
        served.wait()
        family = served.family()
        assert family
        served.process.kill()
        served.process.wait()
        wait_until(lambda: not any(alive(pid) for pid in family))


def test_it_collects_and_learns_by_itself_and_shows_what_fails(tmp_path: Path) -> None:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    node = {
        "metadata": {"name": "n1", "uid": "u1"},
        "spec": {},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    api = {"/api/v1/nodes": [node], "/api/v1/pods": [], "/api/v1/services": []}
    with serving(api) as cluster:
        kubeconfig = cluster.kubeconfig(tmp_path)
        rest = (
            f"[[clusters]]\nname = 'c1'\n[clusters.kubernetes]\nkubeconfig = {str(kubeconfig)!r}\n"
            "[clusters.prometheus]\nurl = 'http://127.0.0.1:9'\ntimeout = '2s'\n"
        )
        with supervisor(configured(tmp_path, rest=rest)) as served:
            served.wait()
            for use in ("answers", "history"):
                by = {"cluster": "c1", "resource": "pods", "use": use}
                wait_until(
                    lambda by=by: served.metric("colocation_watch_staleness_seconds", **by) is not None, PATIENCE
                )
            brief = kube_objects.pod("brief", "n1")
            cluster.event("/api/v1/pods", "ADDED", brief)
            cluster.event("/api/v1/pods", "DELETED", brief)
            wait_until(lambda: served.metric("colocation_job_runs_total", task="nodes", outcome="ok") == 1, PATIENCE)
            wait_until(lambda: served.metric("colocation_job_runs_total", task="usage", outcome="partial"), PATIENCE)
            by = {"cluster": "c1", "source": "nodes"}
            wait_until(lambda: served.metric("colocation_source_rows_total", **by) == 1, PATIENCE)
            assert served.metric("colocation_source_failing", cluster="c1", source="usage") == 1
            wait_until(lambda: served.metric("colocation_job_runs_total", task="learn", outcome="ok") == 1, PATIENCE)
            wait_until(lambda: served.metric("colocation_snapshot_loads_total") == 1, PATIENCE)
            wait_until(lambda: served.metric("colocation_node_cpu_allocatable_cores", node="n1") == 4, PATIENCE)
            store = Store(tmp_path / "store.duckdb")
            ended = "SELECT pod FROM placements WHERE cluster = 'c1' AND node = 'n1' AND ended IS NOT NULL"
            wait_until(lambda: store.read(lambda con: con.execute(ended).fetchall()) == [("brief",)], PATIENCE)
            wait_until(lambda: httpx.get(served.url + "/readyz").json()["live"], PATIENCE)
            log = served.log()
    # All of it is a log, what its jobs say of their sources included.
    entries = [json.loads(line) for line in log[: log.rindex("\n")].splitlines()]
    told = {(each["source"], each["level"], bool(each["reason"])) for each in entries if "scope" in each}
    assert {("nodes", "info", False), ("usage", "warning", True)} <= told
