"""Our client and collectors against a real API server."""

import json
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
import yaml

from pipeline.clients.kubernetes import KubernetesClient
from pipeline.clients.watch import Watcher
from pipeline.collectors import nodes, placements, workflows
from pipeline.errors import Permanent, Temporary
from tests.support.cluster import Cluster, many, wait_for

pytestmark = pytest.mark.cluster
AT = datetime(2026, 3, 1, tzinfo=UTC)


def name(raw: msgspec.Raw) -> str:
    return str(json.loads(bytes(raw))["metadata"]["name"])


def test_all_pages_of_real_nodes(client: KubernetesClient, cluster: Cluster) -> None:
    made = many(lambda i: cluster.node_with(f"n{i}", {"disktype": "ssd"}), 23)
    listing = client.list("/api/v1/nodes", label_selector="disktype=ssd")
    assert sorted(name(item) for item in listing.items) == sorted(made)
    batch = nodes.collect(client.list, AT)
    assert batch.rows is not None
    assert batch.refused == ()
    rows = {row["node"]: row for row in batch.rows.to_pylist() if row["node"] in made}
    assert set(rows) == set(made)
    assert all(row["ready"] and row["schedulable"] and row["cpu_cores"] == 8.0 for row in rows.values())
    assert len({row["node_type"] for row in rows.values()}) == 1


def test_a_bound_pod_is_a_placement(client: KubernetesClient, cluster: Cluster) -> None:
    node = cluster.node("home")
    labels = {"openwhisk/namespace": "guest", "openwhisk/action": "Model_training"}
    pod = cluster.pod("p", {"nodeSelector": {"kubernetes.io/hostname": node}}, labels=labels)
    assert cluster.wait_bound(pod) == node
    cluster.run(pod)
    batch = placements.collect(client.list, AT)
    assert batch.rows is not None
    [row] = [row for row in batch.rows.to_pylist() if row["pod"] == pod]
    assert (row["node"], row["function"], row["phase"]) == (node, "guest/Model_training", "Running")
    assert (row["cpu_request_cores"], row["memory_request_bytes"]) == (0.1, 64 * 2.0**20)


def test_a_cluster_without_the_workflow_kind_has_no_workflows(client: KubernetesClient) -> None:
    batch = workflows.collect(client.list, AT)
    assert batch.rows is not None
    assert batch.refused == ()


def test_a_watch_sees_changes_and_closing_ends_it(client: KubernetesClient, cluster: Cluster) -> None:
    version = client.list("/api/v1/nodes").resource_version
    stream = client.watch("/api/v1/nodes", version, seconds=60)
    seen: list[tuple[str, str]] = []
    reader = threading.Thread(target=lambda: seen.extend((event.type, name(event.object)) for event in stream))
    reader.start()
    made = cluster.node("seen")
    wait_for(lambda: ("ADDED", made) in seen)
    cluster.ready(made, False)
    wait_for(lambda: ("MODIFIED", made) in seen)
    stream.close()
    reader.join(10)
    assert not reader.is_alive()


#: Events are the one kind whose watches the server answers from its store alone, without a cache of recent changes.
EVENTS = "/api/v1/namespaces/default/events"


def happening(cluster: Cluster, label: str) -> str:
    """Create an event object; returns its name."""
    full = f"{cluster.prefix}-{label}"
    about = {"kind": "Node", "name": "n", "namespace": "default"}
    cluster.create(EVENTS, {"metadata": {"name": full}, "involvedObject": about, "reason": "Test", "type": "Normal"})
    return full


def test_a_version_that_is_too_old_is_gone(
    client: KubernetesClient, cluster: Cluster, forget: Callable[[], None]
) -> None:
    happening(cluster, "any")
    forget()
    with pytest.raises(Temporary) as caught:
        list(client.watch(EVENTS, "1", seconds=5))
    assert caught.value.reason == "gone"


def test_the_loop_survives_a_forgotten_version(
    client: KubernetesClient, cluster: Cluster, forget: Callable[[], None]
) -> None:
    first = happening(cluster, "first")
    held: set[str] = set()
    lists: list[int] = []
    errors: list[Exception] = []

    def replace(items: Sequence[msgspec.Raw]) -> None:
        held.clear()
        held.update(name(item) for item in items)
        lists.append(len(held))

    def event(kind: str, item: msgspec.Raw) -> None:
        (held.discard if kind == "DELETED" else held.add)(name(item))

    watcher = Watcher(
        client, EVENTS, on_replace=replace, on_event=event, on_error=errors.append, seconds=2, pauses=(0.05, 0.5)
    )
    thread = watcher.start()
    try:
        wait_for(lambda: first in held)
        second = happening(cluster, "second")
        wait_for(lambda: second in held)
        assert watcher.staleness() < 60
        forget()
        watcher._version = "1"  # as after a long silence; met at the next quiet end
        wait_for(lambda: len(lists) > 1)
        third = happening(cluster, "third")
        wait_for(lambda: third in held)
    finally:
        watcher.stop()
        thread.join(20)
    assert not thread.is_alive()
    assert [getattr(error, "reason", "") for error in errors] == ["gone"]


def test_wrong_credentials_are_one_line(kubeconfig: Path, tmp_path: Path) -> None:
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "s3cret-wrong"}
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    with pytest.raises(Permanent) as caught:
        KubernetesClient(kubeconfig=path).list("/api/v1/nodes")
    assert caught.value.reason == "status_401"
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)
