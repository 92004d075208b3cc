"""What the operator makes of processing elements and pods, and which regions a change concerns."""

import json
from typing import Any

import msgspec

from jobs.regions import paths
from jobs.regions.surroundings import Surroundings
from rules.regions.health import Health


def element(
    pe: int, regions: tuple[int, ...] = (0,), launch: int = 1, connectivity: str | None = "Full"
) -> msgspec.Raw:
    body = {
        "metadata": {"name": f"j-{pe}", "uid": f"uid-{pe}"},
        "spec": {"jobName": "j", "peId": pe, "consistentRegionIndices": list(regions), "launchCount": launch},
        "status": {"connectivity": connectivity},
    }
    return msgspec.Raw(json.dumps(body).encode())


def pod(pe: int, phase: str = "Running", launch: int = 1, job: str = "j", **labels: str) -> msgspec.Raw:
    body: dict[str, Any] = {
        "metadata": {
            "name": f"{job}-{pe}-{launch}",
            "labels": {paths.JOB: job, paths.ELEMENT: f"{job}-{pe}", paths.LAUNCH: str(launch), **labels},
            "ownerReferences": [{"uid": f"uid-{pe}"}],
        },
        "status": {"phase": phase},
    }
    return msgspec.Raw(json.dumps(body).encode())


class Seen:
    def __init__(self) -> None:
        self.changed: list[int] = []
        self.of = Surroundings("j", self.changed.append)

    def take(self) -> list[int]:
        taken = list(self.changed)
        self.changed.clear()
        return taken


def well() -> Seen:
    seen = Seen()
    seen.of.replace_elements([element(0), element(1, (0, 1))])
    seen.of.replace_pods([pod(0), pod(1)])
    seen.take()
    return seen


def test_lists_give_the_health_and_tell_the_regions() -> None:
    seen = Seen()
    seen.of.replace_elements([element(0), element(1, (0, 1))])
    assert seen.take() == [0, 1]
    assert seen.of.health((0, 1)) is None
    seen.of.replace_pods([pod(0), pod(1)])
    assert seen.take() == [0, 1]
    assert seen.of.health((0, 1)) == Health(True, True)
    seen.of.replace_pods([pod(0), pod(1)])
    seen.of.replace_elements([element(0), element(1, (0, 1))])
    assert seen.take() == []


def test_only_what_can_change_the_health_is_told() -> None:
    seen = well()
    seen.of.element("MODIFIED", element(1, (0, 1)))
    seen.of.pod("MODIFIED", pod(1))
    assert seen.take() == []
    seen.of.element("MODIFIED", element(1, (0, 1), connectivity="Partial"))
    assert seen.take() == [0, 1]
    seen.of.pod("MODIFIED", pod(0, phase="Failed"))
    assert seen.take() == [0]
    assert seen.of.health((0, 1)) == Health(False, True)


def test_a_pod_of_another_launch_concerns_nobody() -> None:
    seen = well()
    seen.of.element("MODIFIED", element(0, launch=2))
    assert seen.take() == [0]
    assert seen.of.health((0, 1)) is None
    seen.of.pod("DELETED", pod(0))
    assert seen.take() == []
    seen.of.pod("ADDED", pod(0, phase="Pending", launch=2))
    assert seen.take() == [0]
    assert seen.of.health((0, 1)) == Health(False, False)
    seen.of.pod("MODIFIED", pod(0, launch=2))
    assert seen.of.health((0, 1)) == Health(True, False)


def test_a_deleted_pod_makes_the_health_unknown_and_not_bad() -> None:
    seen = well()
    seen.of.pod("DELETED", pod(1))
    assert seen.take() == [0, 1]
    assert seen.of.health((0, 1)) is None
    seen.of.element("DELETED", element(1, (0, 1)))
    assert seen.take() == [0, 1]


def test_odd_objects_cost_only_themselves() -> None:
    seen = Seen()
    odd = [msgspec.Raw(b"{}"), msgspec.Raw(b"[]"), msgspec.Raw(b'{"metadata":{"name":"x"},"spec":{"peId":"a"}}')]
    seen.of.replace_elements([*odd, element(0)])
    seen.of.replace_pods([*odd, pod(0), pod(1, job="other"), pod(2, **{paths.LAUNCH: "first"})])
    for each in odd:
        seen.of.element("ADDED", each)
        seen.of.pod("ADDED", each)
    assert seen.of.health((0,)) == Health(True, True)


def test_a_missing_status_is_no_connection() -> None:
    seen = well()
    seen.of.element("MODIFIED", element(0, connectivity=None))
    assert seen.of.health((0, 1)) == Health(False, True)


def test_a_pod_that_others_own_as_well_is_its_elements_still() -> None:
    seen = Seen()
    seen.of.replace_elements([element(0)])
    body = msgspec.json.decode(pod(0))
    owners = [("Job", "uid-job"), ("ProcessingElement", "uid-0"), ("Other", "uid-other")]
    body["metadata"]["ownerReferences"] = [{"kind": kind, "uid": uid} for kind, uid in owners]
    seen.of.replace_pods([msgspec.Raw(msgspec.json.encode(body))])
    assert seen.of.health((0,)) == Health(True, True)
