"""The collector of consistent regions."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec

from pipeline.collectors import regions
from pipeline.errors import Permanent
from pipeline.records import Listing

AT = datetime(2026, 3, 1, tzinfo=UTC)

STATUS: dict[str, Any] = {
    "state": "DRAINING",
    "regionHealthy": True,
    "currentSeqID": 8,
    "lastCompletedSeqID": 7,
    "currentResetAttempt": 1,
    "currentMaxResetAttempts": 5,
    "avgDrainTimeMetric": 1200,
    "avgResetTimeMetric": 300,
    "lastConsistentStateTime": 1772323200000,
    "lastResetTime": 0,
    "lastCompletedDrain": 7,
    "lastCompletedReset": -1,
    "recentDrains": [{"seqId": 7, "startedAt": 1772323199000, "milliseconds": 1000}],
}


def resource(index: int = 0, status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": f"j-cr{index}", "namespace": "streams", "labels": {"streams.ibm.com/job": "j"}},
        "spec": {"regionIndex": index, "trigger": "periodic", "period": 5, "pesInRegion": [4, 1], **spec},
        **({} if status is None else {"status": status}),
    }


def listing(*things: Any) -> Any:
    items = tuple(msgspec.Raw(json.dumps(thing).encode()) for thing in things)
    return lambda path, **_: Listing(items, "1")


def test_a_region_becomes_a_row_with_its_last_drains() -> None:
    batch = regions.collect(listing(resource(status=STATUS)), AT)
    assert batch.rows is not None
    [row] = batch.rows.to_pylist()
    assert (row["namespace"], row["name"], row["stream_job"], row["region"]) == ("streams", "j-cr0", "j", 0)
    assert (row["state"], row["healthy"], row["current_seq_id"], row["last_completed_seq_id"]) == (
        "DRAINING",
        True,
        8,
        7,
    )
    assert (row["average_drain_ms"], row["average_reset_ms"]) == (1200, 300)
    assert row["last_consistent_at"] == datetime(2026, 3, 1, tzinfo=UTC)
    assert row["last_reset_at"] is None
    assert (row["pes"], json.loads(row["members"])) == (2, [1, 4])
    assert json.loads(row["spans"]) == [{"kind": "drain", "seq": 7, "started": 1772323199000, "milliseconds": 1000}]


def test_a_region_without_a_status_has_just_been_made() -> None:
    rows = regions.collect(listing(resource()), AT).rows
    assert rows is not None
    [row] = rows.to_pylist()
    assert (row["state"], row["current_seq_id"], row["last_completed_drain"]) == ("STARTED", 1, -1)


def test_an_odd_region_costs_only_itself() -> None:
    odd = resource(1)
    odd["spec"]["regionIndex"] = "one"
    batch = regions.collect(listing(resource(), odd), AT)
    assert batch.rows is not None and batch.rows.num_rows == 1
    assert [refusal.what for refusal in batch.refused] == ["streamscrs/streams/j-cr1"]


def test_a_cluster_without_the_kind_has_none() -> None:
    def missing(path: str, **_: Any) -> Listing:
        raise Permanent("kubernetes", "status_404", "not found")

    batch = regions.collect(missing, AT)
    assert batch.rows is not None and batch.rows.num_rows == 0
