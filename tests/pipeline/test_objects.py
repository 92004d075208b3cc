"""Pods and nodes from the wire: tolerant reading, scheduler arithmetic, hardware types."""

import copy
import hashlib
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pipeline import objects
from pipeline.errors import BadInput
from pipeline.records import Taint
from tests.support.kube_objects import node as a_node
from tests.support.kube_objects import pod as a_pod

GI = 2.0**30


def container(requests: Any = None, limits: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests, "limits": limits}, **more}


def pod_with(**spec: Any) -> Any:
    return objects.pod_of({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec})


class TestRequests:
    def test_containers_add_up(self) -> None:
        pod = pod_with(containers=[container({"cpu": "500m", "memory": "1Gi"}), container({"cpu": "1"})])
        assert pod.requests == {"cpu": 1.5, "memory": GI}

    def test_a_limit_stands_for_a_missing_request(self) -> None:
        pod = pod_with(containers=[container({"cpu": "1"}, {"cpu": "2", "memory": "1Gi"})])
        assert pod.requests == {"cpu": 1.0, "memory": GI}
        assert pod.limits == {"cpu": 2.0, "memory": GI}

    def test_the_largest_init_container_counts_where_it_is_more(self) -> None:
        # Kubernetes documentation, "Resource sharing within containers": the higher of both, for each resource.
        pod = pod_with(
            containers=[container({"cpu": "1", "memory": "1Gi"})],
            initContainers=[container({"cpu": "3"}), container({"cpu": "2", "memory": "512Mi"})],
        )
        assert pod.requests == {"cpu": 3.0, "memory": GI}

    def test_sidecars_run_on_beside_the_containers(self) -> None:
        # Enhancement 753's example: sidecars before an init container run beside it, later ones do not.
        pod = pod_with(
            containers=[container({"cpu": "1"})],
            initContainers=[
                container({"cpu": "2"}, restartPolicy="Always"),
                container({"cpu": "4"}),
                container({"cpu": "1"}, restartPolicy="Always"),
            ],
        )
        assert pod.requests == {"cpu": 6.0}  # max(1 + 2 + 1, 4 + 2)
        pod = pod_with(
            containers=[container({"cpu": "5"})],
            initContainers=[container({"cpu": "2"}, restartPolicy="Always"), container({"cpu": "4"})],
        )
        assert pod.requests == {"cpu": 7.0}  # max(5 + 2, 4 + 2)

    def test_overhead_is_added(self) -> None:
        pod = pod_with(
            containers=[container({"cpu": "1"}, {"cpu": "1"})], overhead={"cpu": "250m", "memory": "120Mi"}
        )
        assert pod.requests == {"cpu": 1.25, "memory": 120 * 2.0**20}
        assert pod.limits == {"cpu": 1.25}

    def test_requests_of_the_whole_pod_win(self) -> None:
        pod = pod_with(containers=[container({"cpu": "1", "memory": "1Gi"})], resources={"requests": {"cpu": "4"}})
        assert pod.requests == {"cpu": 4.0, "memory": GI}

    def test_one_unlimited_container_unlimits_the_pod(self) -> None:
        pod = pod_with(containers=[container(limits={"cpu": "1", "memory": "1Gi"}), container(limits={"cpu": "1"})])
        assert pod.limits == {"cpu": 2.0}

    def test_extended_resources_count(self) -> None:
        assert pod_with(containers=[container(limits={"nvidia.com/gpu": 2})]).requests == {"nvidia.com/gpu": 2.0}

    def test_an_odd_quantity_names_pod_and_field(self) -> None:
        with pytest.raises(BadInput, match=r"ns/p: spec\.containers\[c\]\.resources\.requests\.memory: '16g'"):
            pod_with(containers=[container({"memory": "16g"})])


class TestPod:
    def test_everything_may_be_null_or_missing(self) -> None:
        for spec in (
            None,
            {},
            dict.fromkeys(("containers", "initContainers", "tolerations", "overhead", "nodeName")),
        ):
            pod = objects.pod_of({"metadata": {"name": "p", "labels": None, "annotations": None}, "spec": spec})
            assert (pod.requests, pod.labels, pod.node, pod.tolerations) == ({}, {}, "", ())
            assert (pod.phase, pod.created) == ("Pending", objects.EPOCH)

    def test_a_generated_name_stands_for_a_missing_one(self) -> None:
        assert objects.pod_of({"metadata": {"generateName": "web-"}}).name == "web-"

    def test_terminal_pods_end_with_their_last_container(self) -> None:
        finished = ["2026-01-01T00:00:10Z", "2026-01-01T00:00:30Z", "2026-01-01T00:00:20Z"]
        states = [{"state": {"terminated": {"finishedAt": each}}} for each in finished]
        given = {"metadata": {"name": "p"}, "status": {"phase": "Succeeded", "containerStatuses": states}}
        pod = objects.pod_of(given)
        assert pod.ended == datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)
        assert pod.terminal
        given["status"] = {**given["status"], "phase": "Running"}
        assert objects.pod_of(given).ended is None

    def test_an_evicted_pod_ends_with_its_last_condition(self) -> None:
        conditions = [{"type": "Ready", "lastTransitionTime": "2026-01-01T00:00:05Z"}]
        pod = objects.pod_of({"metadata": {"name": "p"}, "status": {"phase": "Failed", "conditions": conditions}})
        assert pod.ended == datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)

    def test_the_controller_is_the_owner(self) -> None:
        owners = [{"kind": "Other", "name": "o"}, {"kind": "DaemonSet", "name": "d", "controller": True}]
        pod = objects.pod_of({"metadata": {"name": "p", "ownerReferences": owners}})
        assert (pod.owner_kind, pod.owner_name) == ("DaemonSet", "d")

    def test_times_of_yaml_and_json_agree_and_are_utc(self) -> None:
        text = (
            "metadata: {name: p, creationTimestamp: 2026-01-01T00:00:00Z}\n"
            "status: {startTime: '2026-01-01T02:00:00+02:00'}\n"
        )
        pod = objects.pod_of(yaml.safe_load(text))
        assert pod.created == pod.started == datetime(2026, 1, 1, tzinfo=UTC)
        assert pod.created.tzinfo is UTC
        assert pod.started is not None
        assert pod.started.tzinfo is UTC

    def test_a_time_that_its_zone_takes_out_of_the_calendar_is_one_all_the_same(self) -> None:
        pod = objects.pod_of({"metadata": {"name": "p", "creationTimestamp": "0001-01-01T00:00:00+01:00"}})
        assert pod.created == datetime(1, 1, 1, tzinfo=UTC)

    def test_raw_and_mapping_give_the_same(self) -> None:
        given = a_pod("p", "n1")
        assert objects.pod(msgspec.json.encode(given)) == objects.pod_of(given)

    @pytest.mark.parametrize(
        ("given", "field"),
        [
            ({"metadata": {"name": "p", "labels": {"a": 1}}}, "metadata.labels"),
            ({"metadata": {"name": "p"}, "spec": {"containers": {}}}, "spec.containers"),
            ({"metadata": {"name": "p", "creationTimestamp": "yesterday"}}, "metadata.creationTimestamp"),
        ],
    )
    def test_what_is_no_pod_is_refused_with_name_and_field(self, given: dict[str, Any], field: str) -> None:
        for read in (lambda: objects.pod_of(given), lambda: objects.pod(json.dumps(given).encode())):
            with pytest.raises(BadInput, match=f"pod p: .*{field}") as caught:
                read()
            assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("raw", [b"", b"null", b"[]", b"{", b"\xff\xfe", b'{"metadata": 3}'])
    def test_other_bytes_are_refused_in_one_line(self, raw: bytes) -> None:
        for read in (objects.pod, objects.node, objects.workflow):
            with pytest.raises(BadInput) as caught:
                read(raw)
            assert "\n" not in str(caught.value)


class TestNode:
    def test_the_facts(self) -> None:
        given = a_node("n1", **{"disktype": "ssd", "colocation.internal/network-bandwidth": "10G"})
        given["spec"]["unschedulable"] = True
        given["spec"]["taints"] = [
            {"key": "dedicated", "effect": "NoSchedule", "value": "db"},
            {"key": "x", "effect": "NoExecute"},
        ]
        node = objects.node(msgspec.json.encode(given))
        assert (node.name, node.uid, node.disk_type) == ("n1", "uid-n1", "ssd")
        assert node.network_bytes_per_s == 1.25e9
        assert node.taints == (Taint("dedicated", "NoSchedule", "db"), Taint("x", "NoExecute"))
        assert (node.ready, node.schedulable) == (True, False)
        assert (node.capacity["cpu"], node.allocatable["cpu"]) == (8.0, 7.8)
        assert node.addresses == {"InternalIP": "10.0.0.1", "Hostname": "n1"}
        assert node.conditions["Ready"] == "True"
        assert objects.node_of(given) == node

    def test_labels_to_read_are_a_choice(self) -> None:
        node = objects.node_of(a_node("n", disk="nvme", speed="8k"), bandwidth_label="speed", disk_label="disk")
        assert (node.disk_type, node.network_bytes_per_s) == ("nvme", 1000.0)

    def test_without_allocatable_all_of_the_capacity_is(self) -> None:
        given = a_node("n")
        del given["status"]["allocatable"]
        assert objects.node_of(given).allocatable["memory"] == 32886640 * 1024.0

    def test_gpus_of_every_vendor(self) -> None:
        given = a_node("n", **{"amd.com/gpu.product-name": "MI250"})
        given["status"]["allocatable"] |= {"nvidia.com/gpu": "2", "amd.com/gpu": "1", "example.com/gpus": "7"}
        node = objects.node_of(given)
        assert (node.gpu_count, node.gpu_model) == (3, "MI250")

    @pytest.mark.parametrize(
        ("path", "value", "field"),
        [
            (("status", "capacity", "memory"), "16g", "status.capacity.memory"),
            (("status", "allocatable", "cpu"), "", "status.allocatable.cpu"),
            (("metadata", "labels", "colocation.internal/network-bandwidth"), "fast", "network-bandwidth"),
            (("metadata", "name"), None, "metadata.name"),
            (("spec", "taints"), [{"key": "a"}], "taints"),
        ],
    )
    def test_an_odd_node_is_refused_with_its_field(self, path: tuple[str, ...], value: object, field: str) -> None:
        given = a_node("n1")
        place = given
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = value
        with pytest.raises(BadInput, match=field) as caught:
            objects.node_of(given)
        assert "\n" not in str(caught.value)


class TestNodeType:
    BASE: dict[str, Any] = a_node("n1", **{"node.kubernetes.io/instance-type": "m5.2xlarge", "disktype": "ssd"})

    def changed(self, *path: str, to: object) -> str:
        given = copy.deepcopy(self.BASE)
        place = given
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = to
        return objects.node_of(given).node_type

    def test_it_is_short_hex_and_says_the_same_in_every_run(self) -> None:
        found = objects.node_of(self.BASE).node_type
        assert len(found) == 10
        assert int(found, 16) >= 0
        # An independent calculation: sha256 over the facts in the documented order.
        facts = (
            '{"architecture":"amd64","cpu":"8","disk":"ssd","gpu":"0 ","instance":"m5.2xlarge",'
            f'"memory":"{32 * 2.0**30:g}"' + "}"
        )
        assert found == hashlib.sha256(facts.encode()).hexdigest()[:10]

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (("metadata", "name"), "n2"),
            (("metadata", "uid"), "other"),
            (("metadata", "labels", "kubernetes.io/hostname"), "n2"),
            (("status", "addresses"), []),
            (("status", "nodeInfo", "kernelVersion"), "6.8.0"),
            (("status", "nodeInfo", "kubeletVersion"), "v1.31.2"),
            (("status", "allocatable", "cpu"), "7"),
            (("status", "capacity", "memory"), "32700000Ki"),  # firmware kept a little more
            (("status", "capacity", "memory"), "32Gi"),
            (("status", "capacity", "cpu"), "8000m"),
            (("status", "conditions"), None),
        ],
    )
    def test_equal_hardware_is_one_type(self, path: tuple[str, ...], value: object) -> None:
        assert self.changed(*path, to=value) == objects.node_of(self.BASE).node_type

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (("status", "capacity", "cpu"), "16"),
            (("status", "capacity", "memory"), "64Gi"),
            (("status", "capacity", "memory"), "24Gi"),
            (("status", "capacity", "nvidia.com/gpu"), "1"),
            (("metadata", "labels", "kubernetes.io/arch"), "arm64"),
            (("metadata", "labels", "node.kubernetes.io/instance-type"), "m6.2xlarge"),
            (("metadata", "labels", "disktype"), "hdd"),
            (("metadata", "labels", "nvidia.com/gpu.product"), "Tesla-T4"),
            (("metadata", "labels", "feature.node.kubernetes.io/cpu-model.id"), "85"),
        ],
    )
    def test_other_hardware_is_another_type(self, path: tuple[str, ...], value: object) -> None:
        assert self.changed(*path, to=value) != objects.node_of(self.BASE).node_type

    @given(st.permutations(range(8)))
    def test_the_order_of_labels_does_not_matter(self, order: list[int]) -> None:
        labels = {f"feature.node.kubernetes.io/cpu-model.{name}": name for name in ("vendor_id", "family", "id")}
        labels |= self.BASE["metadata"]["labels"]
        pairs = list(labels.items())
        given = copy.deepcopy(self.BASE)
        given["metadata"]["labels"] = dict([pairs[i] for i in order] + pairs[8:])
        first = copy.deepcopy(self.BASE)
        first["metadata"]["labels"] = labels
        assert objects.node_of(given).node_type == objects.node_of(first).node_type


class TestRealObjects:
    """Every node and pod among the real inputs."""

    @staticmethod
    def items(path: Path) -> list[dict[str, Any]]:
        text = path.read_text()
        found = json.loads(text) if path.suffix == ".json" else list(yaml.safe_load_all(text))
        documents = found if isinstance(found, list) else [found]
        return [item for each in documents for item in each.get("items", [each])]

    @pytest.mark.parametrize(
        ("name", "count", "types"),
        [
            ("node_openshift_aws_nodelist.json", 6, 1),
            ("node_gpu_t4_nfd_kurl.json", 1, 1),
            ("node_doks_nodelist.json", 3, 2),
            ("node_popeye_taint_notready_cordoned.yaml", 5, 3),
        ],
    )
    def test_every_node_file_is_read(self, real: Path, name: str, count: int, types: int) -> None:
        nodes = [objects.node_of(item) for item in self.items(real / name)]
        assert len(nodes) == count
        assert len({node.node_type for node in nodes}) == types

    def test_openshift(self, real: Path) -> None:
        nodes = [objects.node_of(item) for item in self.items(real / "node_openshift_aws_nodelist.json")]
        assert [node.allocatable["cpu"] for node in nodes] == [3.5] * 6
        assert sum(bool(node.taints) for node in nodes) == 3
        master = Taint("node-role.kubernetes.io/master", "NoSchedule")
        assert {taint for node in nodes for taint in node.taints} == {master}

    def test_gpu(self, real: Path) -> None:
        [node] = [objects.node_of(item) for item in self.items(real / "node_gpu_t4_nfd_kurl.json")]
        assert (node.gpu_count, node.gpu_model, node.allocatable["cpu"]) == (1, "Tesla-T4", 1.0)
        assert node.labels["nvidia.com/gpu.deploy.nvsm"] == ""

    def test_memory_in_mebibytes(self, real: Path) -> None:
        nodes = [objects.node_of(item) for item in self.items(real / "node_doks_nodelist.json")]
        assert {node.allocatable["memory"] for node in nodes} == {29222 * 2.0**20, 3110 * 2.0**20}

    def test_not_ready_cordoned_and_bare(self, real: Path) -> None:
        path = real / "node_popeye_taint_notready_cordoned.yaml"
        nodes = {node.name: node for node in map(objects.node_of, self.items(path))}
        assert nodes["n2"].taints == (Taint("t2", "NoSchedule"),)
        assert nodes["n3"].allocatable == {}
        assert {n for n, node in nodes.items() if not node.ready} == {"n4", "n5"}
        assert {n for n, node in nodes.items() if not node.schedulable} == {"n4"}
        assert (nodes["n5"].allocatable["cpu"], nodes["n5"].allocatable["memory"]) == (0.1, 10 * 2.0**20)

    @pytest.mark.parametrize(
        ("name", "requests", "owner"),
        [
            ("pod_static_mirror_etcd.json", {"cpu": 0.35, "memory": 860 * 2.0**20}, "Node"),
            ("pod_aks_coredns_required_and_preferred.json", {"cpu": 0.1, "memory": 70 * 2.0**20}, "ReplicaSet"),
            ("pod_aks_daemonset_matchfields.json", {"cpu": 0.1}, "DaemonSet"),
        ],
    )
    def test_pods(self, real: Path, name: str, requests: dict[str, float], owner: str) -> None:
        [item] = self.items(real / name)
        pod = objects.pod(json.dumps(item).encode())
        assert (pod.requests, pod.owner_kind) == (requests, owner)

    def test_action_pods(self, real: Path) -> None:
        pods = [objects.pod_of(item) for item in self.items(real / "ow_action_pod_reconstructed.yaml")]
        assert pods[0].limits == {"cpu": 0.1, "memory": 256 * 2.0**20}
        assert [pod.labels.get("openwhisk/action") for pod in pods] == [None, None, "video-processing"]

    def test_the_pod_of_an_admission(self, real: Path) -> None:
        review = json.loads((real / "admission_v1_pod_named.json").read_text())
        pod = objects.pod_of(review["request"]["object"])
        assert pod.name == review["request"]["name"]
        assert pod.created.tzinfo is UTC


def test_reading_a_pod_imports_nothing_any_more() -> None:
    """The official client takes a quarter of a second to import: at the start, never under an admission."""
    program = (
        "import json, sys\nfrom pipeline import objects\nbefore = set(sys.modules)\n"
        "pod = objects.pod(sys.stdin.buffer.read())\n"
        "print(json.dumps([sorted(set(sys.modules) - before), pod.requests]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=msgspec.json.encode(a_pod("p", "n")), capture_output=True, check=True
    )
    imported, requests = json.loads(done.stdout)
    assert imported == []
    assert requests == {"cpu": 0.1, "memory": 256 * 2.0**20}
