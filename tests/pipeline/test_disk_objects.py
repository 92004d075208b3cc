"""Objects of the storage driver, claims and pods to records; samples as the API server gives them."""

import json

import pytest

from pipeline.disk_records import Capacity, CsiNode, DiskPod, Drive, Group, Reservation, Volume
from pipeline.errors import BadInput
from pipeline.objects.disks import read
from rules.disks.sizes import EXTENT, usable


def sample(directory, name):
    return read(json.loads((directory / name).read_text()))


def test_capacities_of_a_group_a_raw_drive_and_one_that_is_used_up(csi_baremetal):
    lvg, raw, used = (sample(csi_baremetal, f"ac_{kind}.json") for kind in ("lvg", "raw", "used_up"))
    assert isinstance(lvg, Capacity)
    assert (lvg.storage_class, lvg.size) == ("HDDLVG", 3990045589504)
    assert (raw.storage_class, raw.size) == ("HDD", 4000787030016)
    assert (used.storage_class, used.size) == ("SSD", 0)


def test_the_group_made_of_a_drive_has_the_size_that_planning_expects(csi_baremetal):
    """A new group on the raw drive has the size of the sample's group, which has the drive's size less metadata."""
    group, drive = sample(csi_baremetal, "lvg.json"), sample(csi_baremetal, "drive.json")
    assert isinstance(group, Group) and isinstance(drive, Drive)
    assert usable(drive.size, "HDD", shares=True) == group.size == 4000783007744
    volume, left = sample(csi_baremetal, "volume.json"), sample(csi_baremetal, "ac_lvg.json")
    assert isinstance(volume, Volume)
    assert left.size == group.size - volume.size and volume.size % EXTENT == 0
    assert (volume.owners, volume.location) == (("ss-0",), group.name)


@pytest.mark.parametrize("name", ["acr_today.json", "acr_proposed.json"])
def test_reservations_today_and_as_proposed(csi_baremetal, name):
    found = sample(csi_baremetal, name)
    assert isinstance(found, Reservation)
    assert (found.name, found.namespace, found.status) == ("default-web-0", "default", "RESERVED")
    assert [(each.request.name, each.request.size) for each in found.requests] == [
        ("www-1-web-0", 2**30),
        ("www-2-web-0", 2**30),
    ]
    assert found.requests[0].capacities == ("0d1e2f30-4a5b-4c6d-8e7f-901a2b3c4d52",)


def test_a_node_is_known_to_the_driver_by_label_annotation_registration_or_uid():
    key = "nodes.csi-baremetal.dell.com/uuid"
    labelled = read({"kind": "Node", "metadata": {"name": "a", "uid": "u", "labels": {key: "x"}}})
    annotated = read({"kind": "Node", "metadata": {"name": "a", "uid": "u", "annotations": {key: "y"}}})
    drivers = [{"name": "other", "nodeID": "no"}, {"name": "csi-baremetal", "nodeID": "z"}]
    registered = read({"kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": drivers}})
    assert [labelled, annotated, registered] == [CsiNode("a", "x", "u"), CsiNode("a", "y", "u"), CsiNode("a", "z")]


def test_a_pod_mounts_claims_and_ephemeral_ones_by_its_own_name():
    template = {"spec": {"storageClassName": "s", "resources": {"requests": {"storage": "1.5Gi"}}}}
    volumes = [
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "b", "emptyDir": {}},
        {"name": "c", "ephemeral": {"volumeClaimTemplate": template}},
    ]
    found = read({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"volumes": volumes}})
    assert isinstance(found, DiskPod)
    assert found.claims == ("data", "p-c")
    assert [(each.name, each.storage_class, each.size) for each in found.templates] == [("p-c", "s", 1610612736)]


def test_kinds_that_say_nothing_of_disks_are_none():
    assert read({"kind": "ConfigMap", "metadata": {"name": "x"}}) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([1], "a list where a Kubernetes object should be"),
        ({"kind": "Drive", "metadata": {}}, "Drive without a name: metadata.name is missing"),
        ({"kind": "Drive", "metadata": {"name": "d"}, "spec": {"Size": "big"}}, "Drive d: Size is no whole number"),
        ({"kind": "Drive", "metadata": {"name": "d"}, "spec": 5}, "Drive d"),
        ({"kind": "Volume", "metadata": {"name": "v"}, "spec": {"Owners": "me"}}, "Volume v: Owners is no list"),
        (
            {"kind": "Pod", "metadata": {"name": "p", "annotations": {"a": True}}, "spec": {}},
            "Pod p: annotations: a is no text; put it in quotes",
        ),
        (
            {
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "c"},
                "spec": {"resources": {"requests": {"storage": "x"}}},
            },
            "PersistentVolumeClaim c: resources.requests.storage: 'x' is no quantity",
        ),
    ],
)
def test_what_cannot_be_read_names_the_object_and_the_field(given, said):
    with pytest.raises(BadInput) as raised:
        read(given)
    assert said in str(raised.value)
