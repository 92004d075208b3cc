"""Reservations on a real API server: asked for by the extender, settled by the controller, with taints that end."""

import signal
from typing import Any

import pytest

from rules.disks.dedication import PROVISIONAL
from rules.disks.taints import TAINT, encoded
from tests.cluster.test_disks_cluster import Disks, disks
from tests.support.cluster import MERGE, NODES, PODS, wait_for
from tests.support.disk_cluster import CAPACITIES, CLAIMS, GROUP, RESERVATIONS
from tests.support.disks import API

__all__ = ["disks"]
pytestmark = pytest.mark.cluster
RESERVING = pytest.mark.parametrize("disks", [{"settings": "reserve = true"}], indirect=True)
SEQUENTIAL = pytest.mark.parametrize("disks", [{"settings": "reserve = true\nsequential = true"}], indirect=True)


def spec(here: Disks, pod: str) -> dict[str, Any]:
    """The reservation of a pod, empty where there is none."""
    status, answer = here.cluster.call("GET", f"{RESERVATIONS}/default-{pod}")
    return dict(answer["spec"]) if status == 200 else {}


def settled(here: Disks, pod: str, status: str) -> dict[str, Any]:
    """Wait for a state of the reservation of *pod*."""
    wait_for(lambda: nudged(here) and spec(here, pod).get("Status") == status, 120)
    return spec(here, pod)


def bound(here: Disks, pod: str) -> str:
    """Wait until *pod* has a node."""
    wait_for(lambda: nudged(here) and bool(here.cluster.node_of(pod)), 120)
    return here.cluster.node_of(pod)


_TICKS = iter(range(10**9))


def nudged(here: Disks) -> bool:
    """Change a node, as kubelets do all the time: the scheduler then tries again what it could not place."""
    change = {"metadata": {"labels": {"nudged": str(next(_TICKS))}}}
    return here.cluster.call("PATCH", f"{NODES}/{here.nodes[0]}", change, MERGE)[0] == 200


def marks(here: Disks, node: str) -> tuple[str, str, str]:
    """The label and the text of the taint of a node's capacity, and whom it is provisional for."""
    meta = here.cluster.call("GET", f"{CAPACITIES}/ac-d-{node}")[1]["metadata"]
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    return labels.get(TAINT, ""), notes.get(TAINT, ""), notes.get(PROVISIONAL, "")


def until_marked(here: Disks, expected: dict[str, tuple[str, str, str]]) -> None:
    """Wait until the capacities of nodes carry what is *expected*."""
    found: dict[str, tuple[str, str, str]] = {}

    def as_expected() -> bool:
        found.update({node: marks(here, node) for node in expected})
        return found == expected

    try:
        wait_for(as_expected, 90)
    except AssertionError:
        raise AssertionError(f"taints are {found}") from None


FREE = ("", "", "")


@RESERVING
def test_a_disk_is_dedicated_reserved_used_and_released(disks: Disks) -> None:
    text = "app=shop:default"
    by_hand = {"apiVersion": API, "kind": "AvailableCapacity",
               "metadata": {"name": f"{disks.cluster.prefix}-manual", "labels": {TAINT: "db-pool"}},
               "spec": {"NodeId": "elsewhere", "Location": "m", "storageClass": "HDDLVG", "Size": 1}}  # fmt: skip
    disks.cluster.create(CAPACITIES, by_hand)
    disks.provisioner.held = True
    pod = disks.pod("shop", app="shop", DED="true", ATYPES="pod-label-preferred", ALABELS="app=rival:default")
    found = settled(disks, pod, "RESERVED")
    uids = {node: disks.cluster.call("GET", f"{NODES}/{node}")[1]["metadata"]["uid"] for node in disks.nodes}
    assert set(found["NodeRequests"]["Reserved"]) == set(uids.values())
    dedicated = {"Type": "DEDICATED_REQUIRED", "AffinityDedicatedRequest": {"Automatic": True}}
    apart = {"Type": "POD_LABEL_PREFERRED", "PodLabelRequest": {"Labels": ["app=rival:default"]}}
    assert found["AffinityRules"] == {
        "AffinityRequests": [{"AffinityRequest": [dedicated]}],
        "AntiaffinityRequests": [{"AntiaffinityRequest": [apart]}],
    }, "the patched schema keeps the rules"
    provisional = (encoded(text), text, f"default-{pod}")
    until_marked(disks, dict.fromkeys(disks.nodes, provisional))

    disks.provisioner.held = False
    where = bound(disks, pod)
    [other] = set(disks.nodes) - {where}
    until_marked(disks, {where: (encoded(text), text, ""), other: FREE})
    stranger = disks.pod("stranger", app="stranger", gib=1)
    assert bound(disks, stranger) == other, "nobody else uses the dedicated disk"

    claim = f"{disks.cluster.prefix}-shop"
    volume = disks.cluster.call("GET", f"{CLAIMS}/{claim}")[1]["spec"]["volumeName"]
    for path in (f"{PODS}/{pod}", f"{CLAIMS}/{claim}", f"{GROUP}/namespaces/default/volumes/{volume}"):
        disks.cluster.call("DELETE", f"{path}?gracePeriodSeconds=0")
        disks.cluster.call("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
    until_marked(disks, {where: FREE, other: FREE})
    manual = disks.cluster.call("GET", f"{CAPACITIES}/{disks.cluster.prefix}-manual")[1]["metadata"]["labels"]
    assert manual == {TAINT: "db-pool"}, "what was set by hand stays"


@RESERVING
def test_what_no_disk_holds_is_rejected_and_held_once_one_does(disks: Disks) -> None:
    _, large = disks.nodes
    pod = disks.pod("huge", gib=500)
    seen: set[str] = set()

    def rejected() -> bool:
        seen.add(spec(disks, pod).get("Status", ""))
        return "REJECTED" in seen

    wait_for(rejected, 120)
    assert disks.cluster.node_of(pod) == ""
    grown = {"spec": {"Size": 600 * 2**30}}
    assert disks.cluster.call("PATCH", f"{CAPACITIES}/ac-d-{large}", grown, MERGE)[0] == 200
    assert bound(disks, pod) == large


@SEQUENTIAL
def test_groups_are_reserved_one_pod_after_the_other(disks: Disks) -> None:
    disks.provisioner.held = True
    first, second = disks.pod("first"), disks.pod("second")
    statuses: dict[str, str] = {}

    def one_holds() -> bool:
        nudged(disks)
        statuses.update({pod: spec(disks, pod).get("Status", "") for pod in (first, second)})
        return sorted(statuses.values()) == ["REQUESTED", "RESERVED"]

    wait_for(one_holds, 120)
    for _ in range(20):
        assert one_holds(), "the other waits as long as the first holds its class"
    disks.provisioner.held = False
    assert {bound(disks, first), bound(disks, second)} <= set(disks.nodes)


@RESERVING
def test_a_service_that_is_killed_in_the_midst_of_reservations_goes_on_where_it_was(disks: Disks) -> None:
    text = "app=shop:default"
    disks.provisioner.held = True
    pod = disks.pod("shop", app="shop", DED="true")
    wait_for(lambda: nudged(disks) and bool(spec(disks, pod)), 120)
    disks.kill(signal.SIGKILL)
    assert spec(disks, pod)["Status"] in ("REQUESTED", "RESERVED")
    disks.process = disks.start()
    settled(disks, pod, "RESERVED")
    provisional = (encoded(text), text, f"default-{pod}")
    until_marked(disks, dict.fromkeys(disks.nodes, provisional))
    disks.kill(signal.SIGKILL)
    disks.provisioner.held = False
    disks.process = disks.start()
    where = bound(disks, pod)
    [other] = set(disks.nodes) - {where}
    until_marked(disks, {where: (encoded(text), text, ""), other: FREE})
