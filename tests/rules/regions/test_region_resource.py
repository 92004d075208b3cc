"""The resource: names on the wire, and one line about what is wrong with one."""

from typing import Any

import msgspec
import pytest

from pipeline.errors import BadInput
from rules.regions.events import Notification
from rules.regions.notifications import read
from rules.regions.region import State, initial, restarted
from rules.regions.resource import region_of, spec_of, wire
from tests.support.regions import BecameHealthy, CheckpointDone, Played, periodic

SPEC: dict[str, Any] = {
    "regionIndex": 3,
    "pesInRegion": [7, 2],
    "trigger": "operator driven",
    "operatorsToTriggerMap": {"Src": True},
}


def test_the_dynamic_part_has_the_names_of_the_resource() -> None:
    assert wire(initial(spec_of(SPEC, "x")).status) == {
        "state": "STARTED",
        "peToCompletion": {"2": "None", "7": "None"},
        "regionHealthy": False,
        "cleanStart": False,
        "healthyFirstTime": False,
        "mustReset": False,
        "currentResetAttempt": 0,
        "currentMaxResetAttempts": 5,
        "currentSeqID": 1,
        "lastCompletedSeqID": 0,
        "pendingSeqID": 0,
        "toRetireSeqID": 0,
        "currentTimerSeqId": 0,
        "drainStartTimestamp": 0,
        "resetStartTimestamp": 0,
        "avgDrainTime": {"samples": (), "maxSize": 10, "total": 0},
        "avgResetTime": {"samples": (), "maxSize": 10, "total": 0},
        "avgDrainTimeMetric": 0,
        "avgResetTimeMetric": 0,
        "lastConsistentStateTime": 0,
        "lastResetTime": 0,
        "lastCompletedDrain": -1,
        "lastCompletedReset": -1,
        "recentDrains": (),
        "recentResets": (),
    }


def test_a_region_survives_the_wire() -> None:
    play = Played(periodic())
    play(BecameHealthy(clean=True))
    play.over()
    play(CheckpointDone(0, 1))
    play(CheckpointDone(1, 1))
    body = msgspec.json.decode(
        msgspec.json.encode({"spec": wire(play.region.spec), "status": wire(play.region.status)})
    )
    assert region_of(body, "x") == (play.region, True)


def test_a_resource_without_a_status_is_new() -> None:
    region, run_before = region_of({"spec": SPEC}, "x")
    assert not run_before
    assert region.status.state is State.STARTED
    assert region.spec.pes_in_region == (2, 7)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pesInRegion": ["a"]}, "job.yaml: spec.pesInRegion[0]: "),
        ({"pesInRegion": []}, "job.yaml: spec.pesInRegion: empty"),
        ({"pesInRegion": [-1]}, "job.yaml: spec.pesInRegion: -1 is below 0"),
        ({"regionIndex": None}, "job.yaml: spec.regionIndex: "),
        ({"trigger": "now and then"}, "job.yaml: spec.trigger: "),
        ({"trigger": "periodic"}, "job.yaml: spec.period: missing"),
        ({"trigger": "periodic", "period": 0}, "job.yaml: spec.period: 0 is no time above 0"),
        ({"drainTimeout": float("inf")}, "job.yaml: spec.drainTimeout: inf is no time above 0"),
        ({"maxConsecutiveResetAttempts": 0}, "job.yaml: spec.maxConsecutiveResetAttempts: 0 is below 1"),
    ],
)
def test_what_is_wrong_is_one_line_that_names_the_field(change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as error:
        spec_of({**SPEC, **change}, "job.yaml: spec")
    assert str(error.value).startswith(said)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"currentSeqID": 2**63 - 1}, "x: status.currentSeqID: 9223372036854775807 is above 9007199254740992"),
        ({"pendingSeqID": -1}, "x: status.pendingSeqID: -1 is below 0"),
        ({"lastCompletedReset": -2}, "x: status.lastCompletedReset: -2 is below -1"),
        ({"lastCompletedSeqID": 9, "currentSeqID": 9}, "x: status.lastCompletedSeqID: 9 is not below currentSeqID"),
        ({"state": "ASLEEP"}, "x: status.state: "),
        ({"peToCompletion": {"x": "None"}}, "x: status.peToCompletion"),
    ],
)
def test_a_status_that_no_operator_wrote_is_one_line(change: dict[str, Any], said: str) -> None:
    status = wire(initial(spec_of(SPEC, "x")).status)
    assert region_of({"spec": SPEC, "status": status}, "x")[1]
    with pytest.raises(BadInput) as error:
        region_of({"spec": SPEC, "status": status | change}, "x")
    assert str(error.value).startswith(said)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(BadInput, match=r"job\.yaml: spec\.trigger: "):
        spec_of({key: value for key, value in SPEC.items() if key != "trigger"}, "job.yaml: spec")


def test_a_restart_that_changes_nothing_gives_the_same_region() -> None:
    region = periodic()
    assert restarted(region) is region


def test_a_message_is_read_by_its_keys() -> None:
    assert read(Notification("resumeSubmission", "seqId=7;retId=3;pendCkpt=0")) == {
        "seqId": 7,
        "retId": 3,
        "pendCkpt": 0,
    }
    for odd in ("", "seqId", "seqId=x", "seqId=1;"):
        with pytest.raises(ValueError, match="message"):
            read(Notification("drained", odd))
