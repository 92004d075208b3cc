"""Regions before the serving processes and in the history while serving."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from featurestore.store import regions as stored
from featurestore.store.duck import Store
from jobs.config import ClusterSettings, KubernetesSettings, Settings, StoreSettings
from jobs.regions import following, paths
from jobs.regions.following import Following
from jobs.service import counts
from jobs.service.metrics import Metrics
from tests.pipeline.test_regions_collector import STATUS, resource
from tests.support.kube_api import KubeApi, serving
from tests.support.region_world import wait_for
from tests.support.service import AT, Fakes, running
from tests.support.snapshots import snapshot, table

ROW = {
    "cluster": "c1", "namespace": "streams", "stream_job": "j", "region": 3, "trigger": "periodic",
    "state": "RESETTING", "healthy": True, "current_seq_id": 8, "last_completed_seq_id": 7, "reset_attempts": 2,
    "max_reset_attempts": 5, "average_drain_ms": 1200, "average_reset_ms": 300,
    "last_consistent_at": datetime(2026, 3, 1, tzinfo=UTC), "last_completed_drain": 7, "last_completed_reset": 6,
    "pes": 2, "seen": datetime(2026, 3, 1, tzinfo=UTC),
}  # fmt: skip


@pytest.fixture
def api() -> Iterator[KubeApi]:
    with serving() as api:
        yield api


def test_what_the_operators_write_comes_into_the_history_and_the_file(api: KubeApi, tmp_path: Path) -> None:
    settings = Settings(
        store=StoreSettings(path=tmp_path / "s.duckdb"),
        clusters=[ClusterSettings(name="c1", kubernetes=KubernetesSettings(kubeconfig=api.kubeconfig(tmp_path)))],
    )
    api.put(paths.regions("streams"), resource(0, STATUS))
    empty = table("regions", ())
    work = Following(settings, tmp_path, every=0.05)
    work.start()
    try:
        wait_for(lambda: following.latest(tmp_path, empty).num_rows == 1)
        api.put(paths.regions("streams"), resource(0, STATUS | {"state": "UNHEALTHY"}))
        wait_for(lambda: following.latest(tmp_path, empty).to_pylist()[0]["state"] == "UNHEALTHY")
        store = Store(settings.store.path)
        wait_for(lambda: store.read(stored.current).to_pylist()[0]["state"] == "UNHEALTHY")
    finally:
        work.close()
    [row] = following.latest(tmp_path, empty).to_pylist()
    assert (row["cluster"], row["namespace"], row["stream_job"], row["average_drain_ms"]) == (
        "c1",
        "streams",
        "j",
        1200,
    )


def test_without_a_file_the_snapshot_answers(tmp_path: Path) -> None:
    known = table("regions", [ROW])
    assert following.latest(None, known) is known
    assert following.latest(tmp_path, known) is known
    (tmp_path / following.FILE).write_bytes(b"no arrow")
    assert following.latest(tmp_path, known) is known


def test_the_page_republishes_the_nine(tmp_path: Path) -> None:
    metrics = Metrics(counts.Tally(), tmp_path, 0, 10)
    metrics.seen(snapshot(AT, {"regions": [ROW]}))
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(metrics.page().decode())
        for sample in family.samples
        if sample.labels == {"cluster": "c1", "namespace": "streams", "stream_job": "j", "region": "3"}
    }
    assert found == {
        "colocation_region_average_drain_time_milliseconds": 1200,
        "colocation_region_average_reset_time_milliseconds": 300,
        "colocation_region_last_consistent_state_time_milliseconds": 1772323200000,
        "colocation_region_last_reset_time_milliseconds": 0,
        "colocation_region_last_completed_drain_seq_id": 7,
        "colocation_region_last_completed_reset_seq_id": 6,
        "colocation_region_state": 4,
        "colocation_region_n_current_reset_attempts": 2,
        "colocation_region_last_completed_seq_id": 7,
    }


def test_they_are_answered_beside_what_else_is_known() -> None:
    known = snapshot(AT, {"regions": [ROW, ROW | {"region": 4, "state": "PROCESSING"}]})
    with running(Fakes(known).parts()) as url, httpx.Client(base_url=url) as client:
        items = client.get("/v1/regions").json()["items"]
        assert [(item["stream_job"], item["region"], item["state"]) for item in items] == [
            ("j", 3, "RESETTING"), ("j", 4, "PROCESSING"),
        ]  # fmt: skip
        assert [each["region"] for each in client.get("/v1/regions?state=PROCESSING").json()["items"]] == [4]
        assert client.get("/v1/regions?format=csv").text.splitlines()[0].startswith("stream_job,region,trigger,state")
