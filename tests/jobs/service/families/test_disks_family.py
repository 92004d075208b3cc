"""The disks' family: sums by class over what was listed, and the busiest drives alone."""

import json
from datetime import UTC, datetime

from jobs.service.families.disks import disks
from pipeline.collectors.disks import decode
from pipeline.collectors.objects import text
from tests.support.metrics import key, samples
from tests.support.snapshots import snapshot

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
RECORDS = [
    ("Drive", {"uuid": "d1", "csi_node": "n1", "type": "HDD", "health": "GOOD", "size": 100}),
    ("Drive", {"uuid": "d2", "csi_node": "n1", "type": "HDD", "health": "BAD", "size": 100}),
    ("Drive", {"uuid": "d3", "csi_node": "n2", "type": "HDD", "health": "GOOD", "size": 100}),
    ("AvailableCapacity", {"name": "a1", "csi_node": "n1", "location": "d1", "storage_class": "HDD", "size": 40}),
    ("AvailableCapacity", {"name": "a2", "csi_node": "n2", "location": "d3", "storage_class": "HDD", "size": 2}),
    ("Volume", {"name": "v1", "namespace": "x", "csi_node": "n1", "location": "d2", "storage_class": "HDD",
                "size": 60}),
    ("AvailableCapacityReservation", {"name": "r1", "namespace": "x", "status": "REQUESTED"}),
    ("Pod", {"name": "p", "namespace": "x"}),
]  # fmt: skip
KNOWN = snapshot(
    AT,
    {
        "disks": [
            {"cluster": "c1", "kind": kind, "namespace": "", "name": str(number), "document": json.dumps(document)}
            for number, (kind, document) in enumerate(RECORDS)
        ],
        "drives": [
            {"cluster": "c1", "node": "n1", "device": f"sd{name}", "busy_ratio": ratio}
            for name, ratio in (("a", 0.2), ("b", 0.9), ("c", 0.5))
        ],
    },
)


def test_drives_volumes_capacity_and_reservations_are_summed() -> None:
    found = samples(disks(KNOWN, 100))
    assert found[key("drives", cluster="c1", type="HDD", health="GOOD")] == 2
    assert found[key("drives", cluster="c1", type="HDD", health="BAD")] == 1
    assert found[key("disk_volumes", cluster="c1", storage_class="HDD")] == 1
    assert found[key("disk_volumes_bytes", cluster="c1", storage_class="HDD")] == 60
    assert found[key("disk_free_bytes", cluster="c1", storage_class="HDD")] == 42
    assert found[key("disk_reservations", cluster="c1", status="REQUESTED")] == 1


def test_the_busiest_drives_alone_are_shown() -> None:
    found = samples(disks(KNOWN, 2))
    busy = {dict(labels)["device"]: value for (name, labels), value in found.items() if name.endswith("busy_ratio")}
    assert busy == {"sdb": 0.9, "sdc": 0.5}


def test_fields_are_those_that_the_collector_writes() -> None:
    raw = {"apiVersion": "csi-baremetal.dell.com/v1", "metadata": {"name": "d1"},
           "spec": {"UUID": "d1", "NodeId": "n1", "Type": "SSD", "Health": "GOOD", "Size": 7}}  # fmt: skip
    record = decode("Drive", json.dumps(raw).encode())
    assert record is not None
    known = snapshot(
        AT,
        {"disks": [{"cluster": "c1", "kind": "Drive", "namespace": "", "name": "d1", "document": text(record)}]},
    )
    assert samples(disks(known, 1))[key("drives", cluster="c1", type="SSD", health="GOOD")] == 1
