"""Pods at admission under stored intents: whose they are, what is written into them, and conflicts."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonpatch
import msgspec
import pytest

from featurestore.store.control import Control
from jobs.service.admission import Admission
from jobs.service.counts import Tally
from jobs.service.decide import Decided
from jobs.service.desk import Desk
from jobs.service.intents.stored import Intents
from jobs.service.intents.watched import Watched
from jobs.service.reservations import Reservations
from jobs.service.state import Current
from pipeline.records import Node
from rules.hpa.admission import tops
from rules.policy import Policy
from rules.view import View
from tests.support import manifests
from tests.support.intents import allocatable, label, meta
from tests.support.service import encoded
from tests.support.service import review as reviewed
from tests.support.worlds import NOW, World, node

GPU = "nvidia.com/gpu"
PARENTS = {
    "project": "p1",
    "composite_app": "ca1",
    "version": "v1",
    "group": "dig1",
    "intent": "i1",
    "consumer": "c1",
}
WISH = {"mandatory": False, "weight": 9}


class Fixed:
    """A state with one view."""

    cluster = "c1"

    def __init__(self, world: World) -> None:
        self.current: Current[View] = Current(world.snapshot(), world.view(), NOW, 0)

    def view_of(self, cluster: str) -> View:
        return self.current.view


class Served:
    """A desk over stored intents and a small cluster; `admit` gives the pod as it comes out of admission."""

    def __init__(self, path: Path, nodes: Sequence[Node], mode: str = "prefer") -> None:
        self.watched = Watched(path, "c1")
        self.intents = Intents(Control(path), self.watched.refresh)
        self.tally = Tally()
        self.kept: list[Decided] = []
        policy = replace(Policy(excluded_namespaces=("kube-system",)), mode=mode)  # type: ignore[arg-type]
        state: Any = Fixed(World(list(nodes)))
        self.desk = Desk(state, policy, Reservations(), intents=lambda: self.watched.current)
        self.admission = Admission(self.desk.decide, self._keep, self.tally, lambda: NOW)
        for name, body in (
            ("project", meta("p1")),
            ("composite_app", meta("ca1", compositeAppVersion="v1")),
            ("group", meta("dig1")),
            ("intent", meta("i1", appName="fwall")),
        ):
            self.intents.create(name, PARENTS, body)

    def _keep(self, decided: Decided) -> bool:
        self.kept.append(decided)
        return True

    def consume(self, *specs: Mapping[str, Any], **target: Any) -> None:
        body = {"kind": "Deployment", "name": "web", "container-name": "main", **target}
        self.intents.create("consumer", PARENTS, meta("c1", consumer=body))
        for number, spec in enumerate(specs):
            self.intents.create("requirement", PARENTS, meta(f"r{number}", **spec))

    def admit(self, pod: dict[str, Any], namespace: str = "default") -> dict[str, Any]:
        answer = json.loads(self.admission.answer(encoded(reviewed(pod, namespace=namespace))))["response"]
        assert answer["allowed"] is True
        if "patch" not in answer:
            return pod
        changed: dict[str, Any] = jsonpatch.apply_patch(pod, json.loads(base64.b64decode(answer["patch"])))
        manifests.check(changed)
        return changed

    def document(self) -> Any:
        return json.loads(msgspec.json.encode(self.kept[-1].record().document))


def a_pod(owner: str = "web-6d4cf56db6", kind: str = "ReplicaSet", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
                  {"name": "side", "image": "y"}]  # fmt: skip
    metadata: dict[str, Any] = {"generateName": f"{owner}-", "labels": {"app": "web"}}
    if kind:
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "u", "controller": True}
        metadata["ownerReferences"] = [reference]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


PLAIN = [node("n1", {"fast": "yes"}), node("n2")]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    yield Served(tmp_path / "control.sqlite", PLAIN)


def test_a_pod_gets_what_the_intents_of_its_deployment_ask_for(served: Served) -> None:
    served.consume(allocatable("cpu", 2, 2), allocatable(GPU, limits=1), label("fast", "yes"))
    before = a_pod()
    after = served.admit(before)
    main, side = after["spec"]["containers"]
    assert main["resources"] == {
        "requests": {"cpu": "2", "memory": "1Gi", GPU: "1"}, "limits": {"cpu": "2", GPU: "1"},
    }  # fmt: skip
    assert side == before["spec"]["containers"][1]
    assert after["spec"]["nodeSelector"] == {"fast": "yes"}
    assert served.tally.decisions["prefer", "patched", "unsatisfiable"] == 1  # no node has a GPU
    told = served.document()
    assert told["hpa"]["wanted"] == ["cpu 2", f"{GPU} 1", "fast=yes"]
    assert any("0 of 2 nodes have it" in each["sentence"] for each in told["reasons"])


def test_a_second_run_changes_no_resources(served: Served) -> None:
    served.consume(allocatable("cpu", 2, 2), label("fast", "yes"))
    once = served.admit(a_pod())
    assert served.admit(once)["spec"] == once["spec"]


def test_pods_that_are_alike_share_an_answer_only_under_the_same_intents(served: Served) -> None:
    assert "limits" not in served.admit(a_pod())["spec"]["containers"][0]["resources"]
    served.consume(allocatable("cpu", 2, 2))
    assert served.admit(a_pod())["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "2"}
    assert (
        served.admit(a_pod("other-6d4cf56db6"))["spec"]
        == a_pod()["spec"] | {"affinity": served.admit(a_pod("other-6d4cf56db6"))["spec"].get("affinity")}
        or "limits" not in served.admit(a_pod("other-6d4cf56db6"))["spec"]["containers"][0]["resources"]
    )
    served.intents.delete("requirement", {**PARENTS, "requirement": "r0"})
    assert "limits" not in served.admit(a_pod())["spec"]["containers"][0]["resources"]


@pytest.mark.parametrize(("gpus", "granted"), [(1, True), (0, False)])
def test_a_wish_is_granted_where_a_node_has_it_free(tmp_path: Path, gpus: int, granted: bool) -> None:
    more = {GPU: gpus} if gpus else {}
    served = Served(tmp_path / "control.sqlite", [node("n1", **more), node("n2")])
    served.consume(allocatable("cpu", 2), {**allocatable(GPU, limits=1), **WISH})
    resources = served.admit(a_pod())["spec"]["containers"][0]["resources"]
    assert (resources.get("limits") == {GPU: "1"}) is granted
    assert served.document()["hpa"].get("withheld", []) == ([] if granted else [f"{GPU} 1"])
    # The node that has it is forbidden by the pod itself.
    elsewhere = a_pod(nodeSelector={"kubernetes.io/hostname": "n2"})
    assert "limits" not in served.admit(elsewhere)["spec"]["containers"][0]["resources"]


def test_a_conflict_leaves_the_pod_unchanged_allowed_counted_and_recorded(served: Served) -> None:
    served.consume(allocatable("cpu", 2), label("fast", "yes"))
    pod = a_pod(nodeSelector={"fast": "no"})
    assert served.admit(pod) == pod
    assert served.tally.decisions == {("prefer", "unchanged", "hpa_conflict"): 1}
    kept, told = served.kept[0].kept, served.document()
    assert (kept.outcome, told["cause"]) == ("unchanged", "hpa_conflict")
    assert "nodeSelector fast is 'no' and has to be 'yes'" in told["hpa"]["conflict"]
    assert "nodeSelector fast" in told["reasons"][0]["sentence"]


def test_observing_changes_nothing_and_says_what_it_would(tmp_path: Path) -> None:
    served = Served(tmp_path / "control.sqlite", PLAIN, mode="observe")
    served.consume(allocatable("cpu", 2))
    assert served.admit(a_pod()) == a_pod()
    assert served.document()["hpa"]["wanted"] == ["cpu 2"]


@pytest.mark.parametrize(
    ("pod", "namespace", "target", "is_it"),
    [
        (a_pod(), "default", {}, True),
        (a_pod(), "other", {}, False),
        (a_pod(), "other", {"namespace": "other"}, True),
        (a_pod(), "default", {"kind": "StatefulSet"}, False),
        (a_pod("web", "StatefulSet"), "default", {"kind": "StatefulSet"}, True),
        (a_pod("web-28123456", "Job"), "default", {"kind": "CronJob"}, True),
        (a_pod("web", "Job"), "default", {"kind": "Job"}, True),
        (a_pod("web2-6d4cf56db6"), "default", {}, False),
        (a_pod(), "default", {"container-name": "absent"}, False),
        (a_pod("web", "DaemonSet"), "default", {"kind": "DaemonSet"}, False),  # has its node already: left alone
        (a_pod(), "kube-system", {"namespace": "kube-system"}, False),
    ],
)
def test_a_pod_is_a_consumer_by_its_top_owner_namespace_and_container(
    served: Served, pod: dict[str, Any], namespace: str, target: dict[str, Any], is_it: bool
) -> None:
    served.consume(allocatable("cpu", 2, 2), **target)
    resources = served.admit(pod, namespace)["spec"]["containers"][0]["resources"]
    assert ("limits" in resources) is is_it


def test_the_top_owner_is_found_by_the_template_hash_first() -> None:
    assert list(tops(("ReplicaSet", "web-abc"), "", {"pod-template-hash": "abc"})) == [
        ("Deployment", "web"), ("ReplicaSet", "web-abc"),
    ]  # fmt: skip
    assert list(tops(("", ""), "alone", {})) == [("Pod", "alone")]


def test_a_group_that_names_other_clusters_is_none_of_ours(served: Served) -> None:
    served.consume(allocatable("cpu", 2, 2))
    for cluster, ours in (("c2", False), ("c1", True)):
        served.intents.replace("group", PARENTS, meta("dig1", placement={"anyOf": [cluster]}))
        resources = served.admit(a_pod())["spec"]["containers"][0]["resources"]
        assert ("limits" in resources) is ours


def test_a_store_that_is_not_there_is_not_made_by_looking(tmp_path: Path) -> None:
    watched = Watched(tmp_path / "none.sqlite", "c1")
    watched.refresh()
    assert not watched.current.consumers
    assert not (tmp_path / "none.sqlite").exists()
