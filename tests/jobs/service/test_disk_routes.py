"""POST /v1/disk-plans and the scheduler's extender, over a real server."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import msgspec
import pytest

from featurestore.snapshot import TABLES, Snapshot, empty
from jobs.config import DiskSettings
from jobs.disks import layout
from jobs.disks.layout import lay_out_of, of_snapshot
from jobs.service.disks.desk import DiskDesk
from pipeline.collectors.disks import PATHS
from pipeline.objects import disks as wire
from tests.support.disks import capacity, claim, pod, storage_classes, using
from tests.support.service import AT, Fakes, running

NODES = [{"kind": "Node", "metadata": {"name": f"worker-{i}", "uid": f"n{i}"}} for i in (1, 2, 3)]
STATE = [
    *NODES,
    *storage_classes(),
    capacity("ac-d1", "HDDLVG", 50),
    capacity("ac-d2", "HDDLVG", 60, node="n2"),
    capacity("ac-d3", "HDDLVG", 5, node="n3"),
    *using(pod("ss-0", labels={"app": "ss"}), "d1"),
    claim("www-1", "hddlvg", 10),
]


def snapshot(objects) -> Snapshot:
    rows = []
    for each in objects:
        record = wire.read(each)
        if record is not None and each["kind"] in PATHS:
            place = {"namespace": getattr(record, "namespace", ""), "name": wire.name_of(record)}
            document = msgspec.json.encode(record).decode()
            rows.append({"cluster": "c1", "kind": each["kind"], **place, "document": document})
    made = empty(AT)
    table = made["disks"].from_pylist(rows, schema=TABLES["disks"])
    return Snapshot("v1", AT, ("c1",), {}, {}, {**made.tables, "disks": table})


@pytest.fixture(scope="module")
def client(tmp_path_factory) -> Iterator[httpx.Client]:
    with running(Fakes(snapshot(STATE)).parts()) as url, httpx.Client(base_url=url) as client:
        yield client


def test_a_plan_for_a_pod(client):
    found = client.post("/v1/disk-plans", json=pod(claims=["www-1"])).json()
    assert found["status"] == "RESERVED"
    assert found["plan"] == {"worker-1": {"www-1": "ac-d1"}, "worker-2": {"www-1": "ac-d2"}}
    assert set(found["failed"]) == {"worker-3"}


def test_claims_that_do_not_exist_yet_and_some_nodes_alone(client):
    given = {"pod": pod(claims=["new"]), "objects": [claim("new", "hddlvg", 4)], "nodes": ["worker-3"]}
    assert client.post("/v1/disk-plans", json=given).json()["plan"] == {"worker-3": {"new": "ac-d3"}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pod": pod(claims=["www-1"], TYPES="nonsense")}, "unsupported affinity type"),
        ({"pod": {"kind": "Service", "metadata": {"name": "x"}}}, "not a Pod"),
        ({"pod": {"metadata": {}}}, "metadata.name is missing"),
        ({"pod": pod(), "more": 1}, "more"),
    ],
)
def test_what_cannot_be_planned_is_a_problem(client, given, said):
    answer = client.post("/v1/disk-plans", json=given)
    assert answer.status_code == 400 and said in answer.json()["detail"]


AWAY = {"ATYPES": "pod-label-required", "ALABELS": "app=ss"}


def test_the_extender_filters_names(client):
    asked = {"pod": pod(claims=["www-1"], **AWAY), "nodenames": ["worker-3", "worker-1", "worker-2"]}
    found = client.post("/extender/filter", json=asked).json()
    assert found == {
        "nodenames": ["worker-2"],
        "failedNodes": {
            "worker-1": "No available capacity found on the node worker-1: anti-affinity: drive d1 used by"
            " default/ss-0",
            "worker-3": "No available capacity found on the node worker-3: capacity: www-1 needs 10 GiB of HDDLVG,"
            " largest usable 5 GiB",
        },
    }


def test_the_extender_filters_whole_nodes(client):
    asked = {"pod": pod(claims=["www-1"]), "nodes": {"kind": "NodeList", "items": NODES}}
    found = client.post("/extender/filter", json=asked).json()
    assert [node["metadata"]["name"] for node in found["nodes"]["items"]] == ["worker-1", "worker-2"]
    assert "nodenames" not in found and set(found["failedNodes"]) == {"worker-3"}


def test_pods_without_volumes_pass_everywhere(client):
    names = ["worker-1", "unheard-of"]
    found = client.post("/extender/filter", json={"pod": pod(), "nodenames": names}).json()
    assert found == {"nodenames": names}


def test_a_claim_that_is_not_there_yet_lets_the_scheduler_try_again(client):
    found = client.post("/extender/filter", json={"pod": pod(claims=["later"]), "nodenames": ["worker-1"]}).json()
    assert found == {"nodenames": []}


def test_an_annotation_error_is_the_error_of_the_filter(client):
    asked = {"pod": pod(claims=["www-1"], TYPES="pod-bond"), "nodenames": ["worker-1"]}
    found = client.post("/extender/filter", json=asked).json()
    assert set(found) == {"error"} and "pod-bond" in found["error"]


def test_priorities_rise_where_less_is_consumed(client):
    """worker-1 has 10 of 60 GiB in volumes, worker-2 none."""
    asked = {"pod": pod(claims=["www-1"]), "nodenames": ["worker-1", "worker-2", "worker-3"]}
    found = {each["host"]: each["score"] for each in client.post("/extender/prioritize", json=asked).json()}
    assert found["worker-2"] == 10 and 0 < found["worker-1"] < 10 and found["worker-3"] == 0


def test_field_names_of_any_case_are_read_as_schedulers_write_them(client):
    asked = {"Pod": pod(claims=["www-1"]), "Nodes": None, "NodeNames": ["worker-2", "worker-3"]}
    assert client.post("/extender/filter", json=asked).json()["nodenames"] == ["worker-2"]


def test_what_is_no_question_is_a_problem(client):
    for verb in ("filter", "prioritize"):
        assert client.post(f"/extender/{verb}", content=b"[]").status_code == 400


def test_the_layout_of_the_snapshot_is_that_of_the_objects(client):
    """What the collector keeps says as much as the objects themselves."""
    one, other = of_snapshot(snapshot(STATE), "c1"), lay_out_of(STATE)
    assert one.columns.capacities == other.columns.capacities and one.users.keys() == other.users.keys()
    assert one.node_names == other.node_names and one.consumed == other.consumed


def test_a_snapshot_is_laid_out_once_and_before_anybody_asks(monkeypatch):
    """Twenty questions at once, and one layout, which the swap made."""
    made = []

    def counted(*given):
        made.append(given)
        return of_snapshot(*given)

    monkeypatch.setattr(layout, "of_snapshot", counted)
    known = snapshot(STATE)
    desk = DiskDesk(DiskSettings(), "c1", lambda: known, None)
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: desk.plan(pod(claims=["www-1"])).status, range(20)))
    assert (answers, len(made)) == (["RESERVED"] * 20, 1)
    ahead = DiskDesk(DiskSettings(), "c1", lambda: known, None)
    ahead.seen(known)
    assert len(made) == 2 and ahead.plan(pod(claims=["www-1"])).status == "RESERVED" and len(made) == 2
    ahead.seen(empty(AT))
    assert len(made) == 2, "where nothing is known of disks there is nothing to lay out"
