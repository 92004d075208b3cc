"""The supervisor's watches against a real API server."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from featurestore.store import queries
from featurestore.store.duck import Store
from jobs.config import ClusterSettings, KubernetesSettings, Settings, StoreSettings
from jobs.supervisor.board import Board
from jobs.supervisor.watching import Watches
from tests.support.cluster import PODS, Cluster, wait_for

pytestmark = pytest.mark.cluster


def test_a_short_life_and_a_changed_node_are_in_the_history_of_a_supervisor(
    kubeconfig: Path, cluster: Cluster, tmp_path: Path
) -> None:
    settings = Settings(
        store=StoreSettings(path=tmp_path / "s.duckdb"),
        clusters=[ClusterSettings(name="c1", kubernetes=KubernetesSettings(kubeconfig=kubeconfig))],
    )
    store = Store(settings.store.path)
    ever = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)

    def life(pod: str) -> dict[str, Any]:
        rows = store.read(lambda con: queries.placements(con, "c1", *ever)).to_pylist()
        return next((row for row in rows if row["pod"] == pod), {})

    def specs(node: str) -> list[tuple[bool, bool]]:
        query = "SELECT ready, valid_to IS NULL FROM node_specs WHERE node = ? ORDER BY valid_from"
        return store.read(lambda con: con.execute(query, [node]).fetchall())

    watches = Watches(settings, Board(tmp_path / "status.json", ()), every=0.1)
    watches.start()
    try:
        node = cluster.node("watched")
        wait_for(lambda: bool(specs(node)))
        pod = cluster.pod("brief", {"nodeSelector": {"kubernetes.io/hostname": node}})
        assert cluster.wait_bound(pod) == node
        wait_for(lambda: life(pod).get("node") == node)
        path = f"{PODS}/{pod}"
        labels = {"openwhisk/namespace": "guest", "openwhisk/action": "hello"}
        cluster.call("PATCH", path, {"metadata": {"labels": labels}}, "application/merge-patch+json")
        wait_for(lambda: life(pod)["function"] == "guest/hello")
        cluster.call("DELETE", f"{path}?gracePeriodSeconds=0")
        wait_for(lambda: life(pod)["ended"] is not None)
        cluster.ready(node, False)
        wait_for(lambda: specs(node)[-1] == (False, True))
    finally:
        watches.close()
    seen = life(pod)
    assert seen["started"] <= seen["function_from"] <= seen["ended"]
