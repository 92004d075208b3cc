"""Collectors of Kubernetes objects, handed recorded lists."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pipeline import columns
from pipeline.collectors import nodes, placements, workflows
from pipeline.errors import Permanent, SourceError
from pipeline.mangling import Index
from pipeline.records import Batch, Listing
from tests.support.kube_objects import node, pod

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Lists:
    """Lists by path, and what was asked for."""

    def __init__(self, items: Mapping[str, Sequence[Any]]) -> None:
        self.items, self.asked = items, []  # type: ignore[var-annotated]

    def __call__(self, path: str, *, label_selector: str = "", field_selector: str = "") -> Listing:
        self.asked.append((path, label_selector, field_selector))
        if path not in self.items:
            raise Permanent("kubernetes", "status_404", f"{path}: status 404")
        raw = (each if isinstance(each, bytes) else json.dumps(each).encode() for each in self.items[path])
        return Listing(tuple(msgspec.Raw(each) for each in raw), "1")


def rows(batch: Batch) -> list[dict[str, Any]]:
    assert batch.rows is not None
    assert batch.rows.schema == columns.TABLES[batch.table]
    found: list[dict[str, Any]] = batch.rows.to_pylist()
    return found


class TestNodes:
    def test_columns(self) -> None:
        [row] = rows(
            nodes.collect(Lists({nodes.PATH: [node("n1", disktype="ssd", net="8M")]}), AT, bandwidth_label="net")
        )
        assert (row["node"], row["uid"], row["at"]) == ("n1", "uid-n1", AT)
        assert (row["cpu_cores"], row["memory_bytes"], row["pods"]) == (7.8, 31808432 * 1024.0, 110.0)
        assert (row["ready"], row["schedulable"], row["gpu_count"]) == (True, True, 0)
        assert (row["disk_type"], row["network_bytes_per_s"], row["kernel"]) == ("ssd", 1e6, "6.1.0")
        assert json.loads(row["capacity"])["cpu"] == 8.0
        assert json.loads(row["addresses"])["InternalIP"] == "10.0.0.1"
        assert json.loads(row["conditions"])["Ready"] == "True"

    def test_one_odd_node_costs_only_itself(self) -> None:
        odd = node("odd")
        odd["status"]["capacity"] = {"memory": "16g"}
        batch = nodes.collect(Lists({nodes.PATH: [node("a"), odd, b'{"metadata": 7}', node("b")]}), AT)
        assert [row["node"] for row in rows(batch)] == ["a", "b"]
        assert [each.what for each in batch.refused] == ["nodes/odd", "nodes/without a name"]
        assert "status.capacity.memory" in batch.refused[0].why

    @pytest.mark.parametrize("info", [None, {}, {"kernelVersion": None}, {"kernelVersion": ""}])
    def test_a_node_that_does_not_name_its_kernel_has_none(self, info: object) -> None:
        given = node("n")
        given["status"]["nodeInfo"] = info
        [row] = rows(nodes.collect(Lists({nodes.PATH: [given]}), AT))
        assert row["kernel"] is None

    def test_a_kernel_that_is_no_text_is_refused_by_its_name(self) -> None:
        given = node("n")
        given["status"]["nodeInfo"]["kernelVersion"] = 6.1
        batch = nodes.collect(Lists({nodes.PATH: [given]}), AT)
        assert rows(batch) == []
        assert "status.nodeInfo.kernelVersion" in batch.refused[0].why

    def test_equal_nodes_are_equal_text_whatever_the_order(self) -> None:
        one = node("n")
        two = json.loads(json.dumps(one))
        for place in (two["metadata"]["labels"], two["status"]["capacity"]):
            for key in reversed(list(place)):
                place[key] = place.pop(key)
        [first], [second] = (rows(nodes.collect(Lists({nodes.PATH: [each]}), AT)) for each in (one, two))
        assert first == second

    def test_no_node_is_an_empty_table(self) -> None:
        assert rows(nodes.collect(Lists({nodes.PATH: []}), AT)) == []

    def test_a_list_that_fails_is_the_sources_error(self) -> None:
        with pytest.raises(SourceError):
            nodes.collect(Lists({}), AT)


class TestPlacements:
    KNOWN = Index(["guest/video-processing", "guest/hello"])

    def collect(self, *pods: Any, **more: Any) -> list[dict[str, Any]]:
        return rows(placements.collect(Lists({placements.PATH: pods}), AT, **more))

    def labelled(self, name: str, action: str) -> dict[str, Any]:
        return pod(name, "n1", **{"openwhisk/namespace": "guest", "openwhisk/action": action})

    def test_columns(self) -> None:
        [row] = self.collect(self.labelled("w-invoker-00-7-prewarm-nodejs14", "Model_training"))
        assert row["function"] == "guest/Model_training"
        assert row["named"] is False
        assert (row["node"], row["namespace"], row["phase"]) == ("n1", "openwhisk", "Running")
        assert row["started"] == datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)
        assert row["ended"] is None
        assert (row["cpu_limit_cores"], row["memory_request_bytes"]) == (0.1, 256 * 2.0**20)
        assert row["other_requests"] is None

    def test_requests_beside_cpu_and_memory(self) -> None:
        given = self.labelled("w", "a")
        amounts = {"cpu": "1", "nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi", "intel.com/qat": "0"}
        given["spec"]["containers"][0]["resources"] = {"requests": amounts}
        [row] = self.collect(given)
        assert json.loads(row["other_requests"]) == {"nvidia.com/gpu": 2.0, "hugepages-2Mi": 4 * 2.0**20}

    def test_the_name_says_it_before_the_labels_do(self) -> None:
        name = "wskowdev-invoker-00-20-guest-videoprocessing"
        [row] = self.collect(pod(name, "n1"), known=self.KNOWN)
        assert (row["function"], row["named"]) == ("guest/video-processing", True)
        [row] = self.collect(self.labelled(name, "video-processing"), known=self.KNOWN)
        assert (row["function"], row["named"]) == ("guest/video-processing", True)

    def test_the_labels_win_over_the_name(self) -> None:
        [row] = self.collect(self.labelled("w-invoker-00-20-guest-videoprocessing", "hello"), known=self.KNOWN)
        assert (row["function"], row["named"]) == ("guest/hello", False)

    def test_other_workloads_are_placements_without_a_function(self) -> None:
        [row] = self.collect(pod("web-5d9c7b6f4-x2x2x", "n1", namespace="shop"), known=self.KNOWN)
        assert (row["function"], row["named"], row["namespace"]) == (None, False, "shop")

    def test_a_half_labelled_pod_is_no_function(self) -> None:
        [row] = self.collect(pod("x", "n1", **{"openwhisk/action": "hello"}))
        assert row["function"] is None

    def test_other_labels_may_name_the_function(self) -> None:
        [row] = self.collect(pod("x", "n1", team="shop", app="cart"), function_labels=("team", "app"))
        assert row["function"] == "shop/cart"

    def test_pods_without_a_node_are_no_placements(self) -> None:
        lists = Lists({placements.PATH: [pod("waits"), pod("runs", "n1")]})
        assert [row["pod"] for row in rows(placements.collect(lists, AT))] == ["runs"]
        assert lists.asked == [("/api/v1/pods", "", "spec.nodeName!=")]

    def test_a_pod_that_the_kubelet_has_not_taken_up_counts_from_its_creation(self) -> None:
        given = pod("p", "n1")
        del given["status"]["startTime"]
        [row] = self.collect(given)
        assert row["started"] == datetime(2026, 1, 1, tzinfo=UTC)

    def test_terminal_pods_have_an_end_that_does_not_move(self) -> None:
        done, evicted = pod("done", "n1"), pod("evicted", "n1")
        done["status"] |= {
            "phase": "Succeeded",
            "containerStatuses": [{"state": {"terminated": {"finishedAt": "2026-01-01T01:00:00Z"}}}],
        }
        evicted["status"] = {"phase": "Failed", "reason": "Evicted", "startTime": "2026-01-01T00:00:09Z"}
        first, second = self.collect(done, evicted)
        assert first["ended"] == datetime(2026, 1, 1, 1, tzinfo=UTC)
        assert second["ended"] == second["started"] == datetime(2026, 1, 1, 0, 0, 9, tzinfo=UTC)

    def test_one_odd_pod_costs_only_itself(self) -> None:
        odd = pod("odd", "n1")
        odd["spec"]["containers"][0]["resources"]["limits"]["memory"] = "256MB"
        batch = placements.collect(Lists({placements.PATH: [odd, pod("p", "n1")]}), AT)
        assert [row["pod"] for row in rows(batch)] == ["p"]
        assert [each.what for each in batch.refused] == ["pods/openwhisk/odd"]


class TestWorkflows:
    def test_a_cluster_without_the_kind_has_none(self) -> None:
        assert rows(workflows.collect(Lists({}), AT)) == []

    def test_another_failure_is_not_taken_for_none(self) -> None:
        def forbidden(path: str, **_: str) -> Listing:
            raise Permanent("kubernetes", "status_403", "status 403")

        with pytest.raises(SourceError):
            workflows.collect(forbidden, AT)

    def test_documents(self) -> None:
        given = {"metadata": {"name": "w", "namespace": "ns"}, "spec": {"actions": [{"name": "a"}]}}
        batch = workflows.collect(Lists({workflows.PATH: [given, {"metadata": {}}]}), AT)
        [row] = rows(batch)
        assert (row["namespace"], row["workflow"]) == ("ns", "w")
        assert json.loads(row["document"]) == {"namespace": "ns", "name": "w", "actions": [{"name": "a"}]}
        assert len(batch.refused) == 1


def test_real_nodes_come_through(real: Path) -> None:
    items = json.loads((real / "node_openshift_aws_nodelist.json").read_text())["items"]
    batch = nodes.collect(Lists({nodes.PATH: items}), AT)
    assert len(rows(batch)) == 6
    assert batch.refused == ()
