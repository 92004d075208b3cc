"""Lists of nodes, pods and workflows, usage and profiles meet what is stored."""

from pathlib import Path
from typing import Any

import pytest

from featurestore.store import queries
from featurestore.store.duck import Store
from featurestore.store.ingest import Written, ingest
from pipeline.records import Batch, Refusal
from tests.support.stores import NOON, OVERLAP, minutes, put, select

NODE: dict[str, Any] = {
    "node": "n1",
    "uid": "u1",
    "at": NOON,
    "node_type": "big",
    "ready": True,
    "schedulable": True,
    "cpu_cores": 8.0,
    "gpu_count": 0,
    "gpu_model": "",
    "disk_type": "ssd",
    "labels": "{}",
    "taints": "[]",
    "addresses": '{"InternalIP":"10.0.0.1"}',
    "conditions": '{"Ready":"True"}',
    "capacity": "{}",
    "allocatable": "{}",
}
POD: dict[str, Any] = {
    "uid": "p1",
    "namespace": "apps",
    "pod": "web-1",
    "node": "n1",
    "at": NOON,
    "named": False,
    "started": NOON - minutes(5),
    "phase": "Running",
    "labels": "{}",
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "s.duckdb")


def node_history(store: Store) -> list[tuple[Any, ...]]:
    return select(store, "SELECT node, valid_from, valid_to, ready FROM node_specs ORDER BY node, valid_from")


def life(store: Store, uid: str = "p1") -> dict[str, Any]:
    found = store.read(lambda con: queries.placements(con, "east", NOON - minutes(600), NOON + minutes(600)))
    [row] = [row for row in found.to_pylist() if row["uid"] == uid]
    assert isinstance(row, dict)
    return row


def test_a_node_that_stays_the_same_keeps_its_row(store: Store) -> None:
    assert put(store, "nodes", NODE) == Written(rows=1)
    assert put(store, "nodes", NODE | {"at": NOON + minutes(1)}) == Written(duplicates=1)
    assert node_history(store) == [("n1", NOON, None, True)]


@pytest.mark.parametrize(
    "changed",
    [
        {"ready": False},
        {"schedulable": False},
        {"labels": '{"a":"b"}'},
        {"conditions": '{"Ready":"Unknown"}'},
        {"cpu_cores": None},
        {"network_bytes_per_s": 1.25e9},
        {"uid": "u2"},
        {"kernel": "6.8.0"},
    ],
)
def test_a_node_whose_facts_change_gets_a_new_row(store: Store, changed: dict[str, Any]) -> None:
    put(store, "nodes", NODE)
    later = NODE | {"at": NOON + minutes(1)} | changed
    assert put(store, "nodes", later) == Written(rows=1)
    assert put(store, "nodes", later) == Written(duplicates=1)
    history = [row[1:3] for row in node_history(store)]
    assert history == [(NOON, NOON + minutes(1)), (NOON + minutes(1), None)]


def test_each_kernel_of_a_node_has_its_own_validity(store: Store) -> None:
    """As after the migration: what was listed before has no kernel."""
    kernels = (None, "6.1.0", "6.1.0", "6.8.0", "6.1.0")
    for number, kernel in enumerate(kernels):
        put(store, "nodes", NODE | {"at": NOON + minutes(number), "kernel": kernel})
    found = store.read(lambda con: queries.nodes(con, "east", NOON)).to_pylist()
    known = [(row["kernel"], row["valid_from"], row["valid_to"]) for row in found]
    times = [NOON + minutes(number) for number in (0, 1, 3, 4)]
    assert known == list(zip([None, "6.1.0", "6.8.0", "6.1.0"], times, [*times[1:], None], strict=True))


def test_a_node_that_is_gone_is_closed_and_may_come_back(store: Store) -> None:
    put(store, "nodes", NODE, NODE | {"node": "n2"})
    put(store, "nodes", NODE | {"at": NOON + minutes(1)})
    put(store, "nodes", NODE | {"at": NOON + minutes(2)}, NODE | {"node": "n2", "at": NOON + minutes(2)})
    assert node_history(store) == [
        ("n1", NOON, None, True),
        ("n2", NOON, NOON + minutes(1), True),
        ("n2", NOON + minutes(2), None, True),
    ]


def test_an_empty_list_closes_every_node(store: Store) -> None:
    put(store, "nodes", NODE)
    assert put(store, "nodes", at=NOON + minutes(1)) == Written(rows=1)
    assert node_history(store) == [("n1", NOON, NOON + minutes(1), True)]


def test_what_is_not_the_whole_list_closes_nothing(store: Store) -> None:
    put(store, "nodes", NODE)
    put(store, "nodes", NODE | {"node": "n2", "at": NOON + minutes(1)}, whole=False)
    assert [row[2] for row in node_history(store)] == [None, None]
    failed = Batch("nodes", refused=(Refusal("nodes", "no answer"),))
    assert ingest(store, "east", failed, collected=NOON + minutes(2), overlap=OVERLAP) == Written()
    assert [row[2] for row in node_history(store)] == [None, None]


def test_a_node_that_could_not_be_read_is_not_gone(store: Store) -> None:
    put(store, "nodes", NODE, NODE | {"node": "n2"}, NODE | {"node": "n3"})
    put(store, "nodes", NODE | {"at": NOON + minutes(1)}, refused=(Refusal("nodes/n2", "odd"),))
    assert [(row[0], row[2]) for row in node_history(store)] == [
        ("n1", None),
        ("n2", None),
        ("n3", NOON + minutes(1)),
    ]


def test_an_older_list_changes_nothing(store: Store) -> None:
    put(store, "nodes", NODE, NODE | {"node": "n2"})
    put(store, "nodes", NODE | {"at": NOON + minutes(2), "ready": False})
    before = node_history(store)
    older = NOON + minutes(1)
    assert put(store, "nodes", NODE | {"at": older}, NODE | {"node": "n2", "at": older}).rows == 0
    assert node_history(store) == before


def test_the_life_of_a_pod(store: Store) -> None:
    put(store, "placements", POD)
    assert put(store, "placements", POD) == Written(duplicates=1)
    alive = life(store)
    assert (alive["started"], alive["ended"], alive["last_seen"]) == (NOON - minutes(5), None, NOON)
    put(store, "placements", POD | {"at": NOON + minutes(1)})
    put(store, "placements", at=NOON + minutes(2))
    gone = life(store)
    assert (gone["ended"], gone["last_seen"]) == (NOON + minutes(2), NOON + minutes(1))
    put(store, "placements", POD | {"at": NOON + minutes(3)})
    again = life(store)
    assert (again["ended"], again["last_seen"]) == (None, NOON + minutes(3))


def test_a_terminal_pod_ends_when_it_says(store: Store) -> None:
    put(store, "placements", POD)
    done = POD | {"at": NOON + minutes(9), "phase": "Succeeded", "ended": NOON + minutes(4)}
    assert put(store, "placements", done) == Written(rows=1)
    put(store, "placements", at=NOON + minutes(10))
    assert (life(store)["ended"], life(store)["phase"]) == (NOON + minutes(4), "Succeeded")


def test_a_pod_that_could_not_be_read_is_not_gone(store: Store) -> None:
    put(store, "placements", POD, POD | {"uid": "p2", "pod": "web-2"})
    put(store, "placements", at=NOON + minutes(1), refused=(Refusal("pods/apps/web-1", "odd"),))
    assert (life(store)["ended"], life(store, "p2")["ended"]) == (None, NOON + minutes(1))


def test_a_pod_seen_after_the_list_was_made_is_not_gone(store: Store) -> None:
    put(store, "placements", POD | {"at": NOON + minutes(1)}, whole=False)
    put(store, "placements", POD | {"uid": "p2"}, at=NOON)
    assert life(store)["ended"] is None


@pytest.mark.parametrize(
    ("seen", "since"),
    [
        ([{"function": "f", "named": False}], -5),  # first seen with the label: for as long as it is known
        ([{"function": "f", "named": True}], -5),
        ([{}, {}, {"function": "f", "named": False}], 1),  # last seen without the label in minute 1
        ([{}, {}, {"function": "f", "named": True}], -5),  # its name said so from its start
        ([{}, {"function": "f", "named": False}, {"function": "f", "named": True}], -5),  # found out later
        ([{}, {"function": "f", "named": False}, {"function": "g", "named": True}], 0),
        ([{"function": "f", "named": False}, {}, {"function": "g", "named": False}], -5),  # for life
    ],
)
def test_from_when_a_pod_is_its_functions(store: Store, seen: list[dict[str, Any]], since: int) -> None:
    for minute, look in enumerate(seen):
        put(store, "placements", POD | look | {"at": NOON + minutes(minute)})
    assert (life(store)["function"], life(store)["function_from"]) == ("f", NOON + minutes(since))


@pytest.mark.parametrize(
    ("seen", "since"),
    [
        ([{}, {"function": "f", "named": False}], 0),  # a list alone: since it was seen without
        ([{}, {"function": "f", "named": False, "function_from": NOON + minutes(0.5)}], 0.5),
        ([{"function": "f", "named": False, "function_from": NOON - minutes(1)}], -1),  # first seen a batch later
        ([{}, {"function": "f", "named": False}, {"function": "f", "function_from": NOON + minutes(0.5)}], 0.5),
        ([{}, {"function": "f", "named": False}, {"function": "g", "function_from": NOON + minutes(0.5)}], 0),
        ([{"function": "f", "named": False, "function_from": NOON - minutes(9)}], -5),  # never before its start
        ([{"function": "f", "function_from": NOON}, {}, {"function": "f", "named": False}], 0),  # for life
    ],
)
def test_a_label_that_a_watch_saw_come_gives_the_moment(
    store: Store, seen: list[dict[str, Any]], since: float
) -> None:
    for minute, look in enumerate(seen):
        put(store, "placements", POD | look | {"at": NOON + minutes(minute)}, whole=False)
    assert (life(store)["function"], life(store)["function_from"]) == ("f", NOON + minutes(since))


def test_the_earliest_start_stands(store: Store) -> None:
    for minute, started in enumerate((-2, -5, -1)):
        put(store, "placements", POD | {"at": NOON + minutes(minute), "started": NOON + minutes(started)})
    assert life(store)["started"] == NOON - minutes(5)


def test_an_older_look_at_a_pod_does_not_undo_a_newer_one(store: Store) -> None:
    put(store, "placements", POD | {"at": NOON + minutes(5), "phase": "Failed", "ended": NOON + minutes(4)})
    put(store, "placements", POD | {"at": NOON + minutes(1)})
    row = life(store)
    assert (row["phase"], row["ended"], row["last_seen"]) == ("Failed", NOON + minutes(4), NOON + minutes(5))


def test_usage_is_kept_once_and_the_last_value_wins(store: Store) -> None:
    sample = {"scope": "node", "namespace": "", "name": "n1", "metric": "cpu_cores", "at": NOON, "value": 1.0}
    assert put(store, "usage", sample, sample | {"value": 2.0}) == Written(rows=1, duplicates=1)
    assert put(store, "usage", sample | {"value": 2.0}) == Written(duplicates=1)
    others = [{"at": NOON + minutes(5)}, {"metric": "memory_bytes"}, {"name": "n2"}, {"scope": "pod"}]
    assert put(store, "usage", sample | {"value": 3.0}, *(sample | other for other in others)) == Written(rows=5)
    found = store.read(lambda con: queries.usage(con, "east", "node", NOON, NOON + minutes(5), ["cpu_cores"]))
    assert [(row["name"], row["value"]) for row in found.to_pylist()] == [("n1", 3.0), ("n2", 1.0)]


def test_usage_that_is_no_number_is_refused(store: Store) -> None:
    sample = {"scope": "node", "namespace": "", "name": "n1", "metric": "cpu_cores", "at": NOON, "value": 1.0}
    odd = [sample | {"name": f"x{n}", "value": value} for n, value in enumerate((float("nan"), float("inf"), None))]
    assert put(store, "usage", sample, *odd) == Written(rows=1, refused=3)


def test_workflows_are_the_last_list(store: Store) -> None:
    one, two = ({"namespace": "a", "workflow": name, "document": "{}"} for name in ("one", "two"))
    assert put(store, "workflows", one, two) == Written(rows=2)
    assert put(store, "workflows", one, two, at=NOON + minutes(1)) == Written(duplicates=2)
    assert put(store, "workflows", one | {"document": '{"x":1}'}, at=NOON + minutes(2)) == Written(
        rows=2  # one changed, one gone
    )
    assert put(store, "workflows", one, two, at=NOON + minutes(1)).rows == 0  # older
    assert select(store, "SELECT workflow, document FROM workflows") == [("one", '{"x":1}')]


def test_a_workflow_that_could_not_be_read_stays(store: Store) -> None:
    one = {"namespace": "a", "workflow": "one", "document": "{}"}
    put(store, "workflows", one, one | {"namespace": "b"})
    put(store, "workflows", at=NOON + minutes(1), refused=(Refusal("workflows/a/one", "odd"),))
    assert select(store, "SELECT namespace FROM workflows") == [("a",)]


def test_the_last_declared_profile_stands(store: Store) -> None:
    profile = {"function": "f", "node_type": "", "cpu_cores": 1.0}
    assert put(store, "profiles", profile) == Written(rows=1)
    assert put(store, "profiles", profile) == Written(duplicates=1)
    assert put(store, "profiles", profile | {"cpu_cores": 2.0}, profile | {"node_type": "t"}) == Written(rows=2)
    found = select(store, "SELECT node_type, cpu_cores FROM declared_profiles ORDER BY ALL")
    assert found == [("", 2.0), ("t", 1.0)]
