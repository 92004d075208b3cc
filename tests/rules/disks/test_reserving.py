"""Reservations: the extender's states, the rules as they are written, what a plan settles, and the life of taints."""

import json

import pytest

from pipeline.disk_records import CapacityRequest, Reservation
from rules.disks import dedication
from rules.disks.annotations import parse
from rules.disks.dedication import Change, changes, patch, undoing
from rules.disks.plan import Plan
from rules.disks.reserving import Step, requested, settled, step, written
from rules.disks.taints import TAINT, encoded
from tests.support.disks import ANNOTATIONS, capacity, lay_out_of, pod, reservation, using

KNOWN_AS = {"w1": "u1", "w2": "u2"}


def held(status, reserved=()):
    return Reservation("default-web-0", "default", status, ("u1", "u2"), tuple(reserved))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, Step("create")),
        (held("REQUESTED"), Step()),
        (held("REJECTED"), Step("resend")),
        (
            held("RESERVED", ["u2"]),
            Step("", ("w2",), {"w1": "No available capacity found on the node w1"}),
        ),
        (held("RESERVED", ["u9"]), Step("resend")),
        (held("CANCELLED"), Step(error="unsupported reservation status: CANCELLED")),
    ],
)
def test_the_states_of_the_extender(given, expected):
    assert step(given, ["w1", "w2"], KNOWN_AS) == expected


def test_the_rules_are_written_as_the_proposal_writes_them(csi_baremetal):
    """The sample of the proposed form is what the first example's annotations come to."""
    sample = json.loads((csi_baremetal / "acr_proposed.json").read_text())["spec"]
    asked = parse(
        {
            ANNOTATIONS["TYPES"]: "pod-bound-required",
            ANNOTATIONS["ATYPES"]: "pod-label-preferred",
            ANNOTATIONS["ALABELS"]: "app=ecs-cluster-ss:default,app=ecs-cluster-pvg:default",
        },
        "default",
    )
    assert written(asked) == sample["AffinityRules"]
    requests = [CapacityRequest(f"www-{i}-web-0", "HDDLVG", 2**30) for i in (1, 2)]
    spec = requested("default", requests, sample["NodeRequests"]["Requested"], asked)
    assert spec["Status"] == "REQUESTED" and spec["AffinityRules"] == sample["AffinityRules"]
    node, ac = sample["NodeRequests"]["Reserved"][0], sample["ReservationRequests"][0]["Reservations"][0]
    plan = Plan("RESERVED", plan={"w1": {"www-1-web-0": ac, "www-2-web-0": ac}})
    assert settled(spec, plan, {"w1": node}) == sample


def test_rules_that_nobody_asks_for_are_not_written():
    assert written(parse({}, "default")) == {}


def test_dedication_is_written_with_its_tolerations():
    asked = parse({ANNOTATIONS["TYPES"]: "dedicated-required", ANNOTATIONS["TOL"]: "pool"}, "default")
    request = {"Type": "DEDICATED_REQUIRED", "AffinityDedicatedRequest": {"Tolerations": ["pool"]}}
    assert written(asked) == {"AffinityRequests": [{"AffinityRequest": [request]}]}


def test_a_request_that_the_pod_no_longer_has_holds_nothing():
    """The claim b was bound meanwhile: the plan has a alone."""
    requests = [{"CapacityRequest": {"Name": name}} for name in "ab"]
    spec = {"NodeRequests": {"Requested": ["u1"]}, "ReservationRequests": [*requests, {}]}
    reserved = settled(spec, Plan("RESERVED", plan={"w1": {"a": "ac-1"}}), KNOWN_AS)
    assert reserved["Status"] == "RESERVED"
    assert [each.get("Reservations") for each in reserved["ReservationRequests"]] == [["ac-1"], None, None]


def test_a_rejection_holds_nothing_and_a_wait_settles_nothing():
    request = {"Name": "a", "StorageClass": "HDD", "Size": 1}
    spec = {"NodeRequests": {"Requested": ["u2", "u1"]}, "ReservationRequests": [{"CapacityRequest": request}]}
    rejected = settled(spec, Plan("REJECTED"), KNOWN_AS)
    assert rejected["Status"] == "REJECTED" and rejected["NodeRequests"] == {"Requested": ["u2", "u1"]}
    assert rejected["ReservationRequests"] == [{"CapacityRequest": request}]
    assert settled(spec, Plan("REQUEUE"), KNOWN_AS) is None
    both = Plan("RESERVED", plan={"w1": {"a": "ac-1"}, "w2": {"a": "ac-2"}})
    reserved = settled(spec, both, KNOWN_AS)
    assert reserved["NodeRequests"]["Reserved"] == ["u2", "u1"], "in the order in which they were asked for"
    assert reserved["ReservationRequests"][0]["Reservations"] == ["ac-2", "ac-1"]


NGINX = "app=nginx:default"


def tainted(name, by=""):
    """A capacity as `dedication.patch` leaves it."""
    thing = capacity(name, "SSDLVG", 100)
    change = patch(NGINX, by)["metadata"]
    thing["metadata"]["labels"] |= change["labels"]
    thing["metadata"]["annotations"] |= {key: value for key, value in change["annotations"].items() if value}
    return thing


def test_a_patch_has_a_legal_label_and_the_full_text_beside_it():
    metadata = patch(NGINX, "default-web-0")["metadata"]
    assert metadata["labels"] == {TAINT: encoded(NGINX)}
    assert metadata["annotations"] == {TAINT: NGINX, dedication.PROVISIONAL: "default-web-0"}


def owner():
    return using(pod("web-0", labels={"app": "nginx"}), "s1")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ([tainted("ac-s1", "default-web-0"), reservation("default-web-0", "SSDLVG", 1, ["ac-s1"])], []),
        ([tainted("ac-s1", "default-web-0")], [Change("ac-s1", "drop")]),
        (
            [tainted("ac-s1", "default-web-0"), reservation("default-web-0", "SSDLVG", 1, [], status="REJECTED")],
            [Change("ac-s1", "drop")],
        ),
        ([tainted("ac-s1", "default-web-0"), *owner()], [Change("ac-s1", "keep")]),
        ([tainted("ac-s1"), *owner()], []),
        ([tainted("ac-s1")], [Change("ac-s1", "drop")]),
        ([tainted("ac-s1"), *using(pod("x-0", labels={"app": "x"}), "s1")], [Change("ac-s1", "drop")]),
        ([tainted("ac-s1"), owner()[2]], []),
        ([capacity("ac-s1", "SSD", 1, manual="db-pool")], []),
        ([capacity("ac-s1", "SSD", 1, manual="db-pool", taint=NGINX)], []),
    ],
    ids=[
        "held by its reservation",
        "reservation gone, nothing there",
        "reservation rejected",
        "reservation gone, volume there",
        "volume there",
        "last volume gone",
        "others alone on it",
        "a volume whose pod is being replaced",
        "set by hand",
        "a label set by hand beside a text",
    ],
)
def test_the_life_of_an_automatic_taint(state, expected):
    assert list(changes(lay_out_of(state))) == expected


def test_what_is_undone():
    gone = {TAINT: None}
    assert undoing(Change("x", "drop")) == {
        "metadata": {"labels": gone, "annotations": gone | {dedication.PROVISIONAL: None}}
    }
    assert undoing(Change("x", "keep")) == {"metadata": {"annotations": {dedication.PROVISIONAL: None}}}
