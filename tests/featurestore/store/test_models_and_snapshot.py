"""Models are saved whole and promoted; the snapshot is made of them and of what was last seen."""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from featurestore.snapshot import TABLES
from featurestore.store import assemble, models, published, queries
from featurestore.store.duck import Store
from featurestore.store.models import Model
from featurestore.store.queries import Run
from pipeline.errors import BadInput
from rules.view import View, prepare
from tests.support.snapshots import snapshot
from tests.support.stores import NOON, minutes, put, select

PAIR: dict[str, Any] = {
    "victim": "a",
    "aggressor": "b",
    "node_type": "",
    "status": "observed",
    "slowdown": 0.5,
    "low": 0.4,
    "high": 0.6,
    "probability": 0.99,
    "effective_overlaps": 120.5,
    "activations": 400,
    "window_start": NOON,
    "window_end": NOON + minutes(60),
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "s.duckdb")


def learned(name: str, *rows: dict[str, Any]) -> pa.Table:
    """A learned table as an engine gives it: without the cluster."""
    schema = pa.schema([field for field in TABLES[name] if field.name != "cluster"])
    return pa.Table.from_pylist(list(rows), schema=schema)


def save(store: Store, name: str, minute: int, *, slowdown: float = 0.5, **given: Any) -> None:
    keep = given.pop("keep", 5)
    tables = {
        "pairs": learned("pairs", PAIR | {"slowdown": slowdown}),
        "busyness": learned("busyness", {"node": "n1", "function": "a", "running": slowdown, "pods": 2 * slowdown}),
    }
    model = Model(name, given.pop("cluster", "east"), NOON + minutes(minute), **given)
    store.write(lambda con: models.save(con, model, tables, keep=keep))


def names(store: Store) -> list[tuple[str, bool]]:
    return [(model.model, model.promoted) for model in store.read(lambda con: models.saved(con, "east"))]


def test_a_promoted_model_takes_the_place_of_the_one_before(store: Store) -> None:
    save(store, "m1", 1)
    save(store, "m2", 2)
    save(store, "m3", 3, promoted=False)
    assert names(store) == [("m3", False), ("m2", True), ("m1", False)]
    store.write(lambda con: models.use(con, "east", "m1"))
    assert names(store) == [("m3", False), ("m2", False), ("m1", True)]
    with pytest.raises(BadInput, match="model 'm9': no such model of cluster east"):
        store.write(lambda con: models.use(con, "east", "m9"))


def test_the_last_few_and_the_promoted_one_are_kept_whole(store: Store) -> None:
    save(store, "m0", 0, keep=3)
    for number in range(1, 6):
        save(store, f"m{number}", number, keep=3, promoted=False)
    assert names(store) == [("m5", False), ("m4", False), ("m0", True)]
    for table in models.LEARNED.values():
        assert set(select(store, f"SELECT DISTINCT model FROM {table}")) <= {("m5",), ("m4",), ("m0",)}
    assert len(select(store, "FROM pairs")) == 3


def test_saving_again_replaces_and_other_clusters_are_left_alone(store: Store) -> None:
    save(store, "m1", 1, cluster="west")
    save(store, "m1", 1)
    save(store, "m1", 1, slowdown=0.75)
    assert sorted(select(store, "SELECT cluster, slowdown FROM pairs")) == [("east", 0.75), ("west", 0.5)]


def test_a_model_comes_back_as_it_was_saved(store: Store) -> None:
    metrics = {"attribution": {"exact": 3.0, "ambiguous": 1.0}, "pairs": 1}
    save(store, "m1", 1, window_start=NOON, window_end=NOON + minutes(60), reason="scheduled", metrics=metrics)
    model = store.read(lambda con: models.promoted(con, "east"))
    assert model == Model(
        "m1", "east", NOON + minutes(1), NOON, NOON + minutes(60), "", "scheduled", True, metrics, 1
    )
    assert store.read(lambda con: models.promoted(con, "west")) is None
    assert store.read(lambda con: models.table(con, model, "pairs")).to_pylist() == [PAIR]


def test_metrics_that_are_no_numbers_are_not_saved(store: Store) -> None:
    with pytest.raises(ValueError, match="JSON"):
        save(store, "m1", 1, metrics={"error": float("nan")})
    assert names(store) == []


def test_an_empty_store_gives_an_empty_snapshot(store: Store, tmp_path: Path) -> None:
    snapshot = store.read(lambda con: assemble.snapshot(con, NOON))
    assert snapshot.clusters == ()
    assert {name: table.num_rows for name, table in snapshot.tables.items()} == dict.fromkeys(TABLES, 0)
    published.write(snapshot, tmp_path / "snapshot")
    assert published.load(tmp_path / "snapshot").version == snapshot.version


def test_a_damaged_head_of_a_snapshot_is_refused_and_the_file_named(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "snapshot"
    published.write(store.read(lambda con: assemble.snapshot(con, NOON)), file)
    good = file.read_bytes()
    for byte in range(16, 60):
        file.write_bytes(good[:byte] + b"\xff" + good[byte + 1 :])  # is no part of any UTF-8 text
        with pytest.raises(BadInput, match=str(file)):
            published.load(file)


def test_damage_within_a_table_of_a_snapshot_is_refused_and_the_file_named(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "snapshot"
    save(store, "m1", 1)
    published.write(store.read(lambda con: assemble.snapshot(con, NOON)), file)
    good = file.read_bytes()
    length = int.from_bytes(good[8:16], "little")
    at, size = json.loads(good[16 : 16 + length])["tables"]["pairs"]
    first = -(-(16 + length) // 64) * 64 + at
    whole = pa.py_buffer(good)
    pairs = pa.ipc.open_file(whole.slice(first, size)).read_all()
    victim = pairs["victim"].chunk(0)
    _, starts, texts = victim.dictionary.buffers()
    far = (2**20).to_bytes(4, "little")
    for buffer, put_there in ((victim.indices.buffers()[1], far), (starts, far), (texts, b"\xff")):
        byte = buffer.address - whole.address
        file.write_bytes(good[:byte] + put_there + good[byte + len(put_there) :])
        with pytest.raises(BadInput, match=f"^{file}: cannot be read as a snapshot: [^\n]+$"):
            published.load(file)
    for number in (-size * 1000, 2**70):
        head = good[16 : 16 + length].replace(f'"pairs":[{at},'.encode(), f'"pairs":[{number},'.encode())
        file.write_bytes(good[:8] + len(head).to_bytes(8, "little") + head + bytes(64))
        with pytest.raises(BadInput, match=f"^{file}: cannot be read as a snapshot: [^\n]+$"):
            published.load(file)


def test_a_pipe_is_no_snapshot_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match=f"^{tmp_path}/pipe: is a pipe or a device, not a snapshot$"):
        published.load(tmp_path / "pipe")


def test_publishing_deletes_what_killed_publishers_left_aside(store: Store, tmp_path: Path) -> None:
    old, fresh, others = ".snapshot.4711", ".snapshot.4712", (".snapshot.turn", ".snapshot.1.fetched", ".other.4711")
    for name in (old, fresh, *others):
        (tmp_path / name).write_bytes(b"half")
    for name in (old, *others):
        os.utime(tmp_path / name, (time.time() - 7200,) * 2)
    published.write(store.read(lambda con: assemble.snapshot(con, NOON)), tmp_path / "snapshot")
    left = {each.name for each in tmp_path.iterdir() if each.name.startswith(".")}
    assert left == {fresh, *others}


def fill(store: Store) -> None:
    node: dict[str, Any] = {
        "uid": "u", "at": NOON, "node_type": "t", "ready": True, "schedulable": True, "cpu_cores": 4.0,
        "gpu_count": 0, "gpu_model": "", "disk_type": "", "labels": "{}", "taints": "[]", "addresses": "{}",
        "conditions": "{}", "capacity": "{}", "allocatable": '{"cpu":4}',
    }  # fmt: skip
    put(store, "nodes", node | {"node": "gone"}, node | {"node": "n1"}, node | {"node": "idle"})
    put(store, "nodes", *(node | {"node": name, "at": NOON + minutes(1)} for name in ("n1", "idle")))
    sample = {"scope": "node", "namespace": "", "name": "n1", "metric": "cpu_cores"}
    put(
        store,
        "usage",
        sample | {"at": NOON + minutes(5), "value": 1.0},
        sample | {"at": NOON + minutes(10), "value": 3.0},
        sample | {"at": NOON + minutes(10), "value": 7e9, "metric": "memory_bytes"},
        sample | {"at": NOON + minutes(10), "value": 1.25e9, "metric": "network_speed_bytes_per_s"},
        sample | {"at": NOON - minutes(90), "value": 2.0, "name": "idle"},
        sample | {"at": NOON + minutes(90), "value": 2.0, "name": "idle"},
    )
    pod: dict[str, Any] = {
        "namespace": "apps", "pod": "p", "node": "n1", "function": "f", "named": True, "labels": "{}",
        "at": NOON, "started": NOON, "phase": "Running", "cpu_request_cores": 0.5,
        "other_requests": '{"nvidia.com/gpu":1.0}',
    }  # fmt: skip
    put(
        store,
        "placements",
        pod | {"uid": "alive"},
        pod | {"uid": "done", "phase": "Succeeded", "ended": NOON},
        pod | {"uid": "pending", "phase": "Pending", "function": None},
    )
    put(store, "workflows", {"namespace": "a", "workflow": "w", "document": "{}"})
    run = Run("west", "nodes", NOON, NOON, outcome="failed", reason="timeout")
    store.write(lambda con: queries.record_run(con, run))
    save(store, "m1", 1, metrics={"attribution": {"exact": 2.0}})
    save(store, "m2", 2, slowdown=0.9, promoted=False)


def test_a_snapshot_holds_what_is_now(store: Store) -> None:
    fill(store)
    snapshot = store.read(lambda con: assemble.snapshot(con, NOON + minutes(30)))
    assert snapshot.clusters == ("east", "west")
    assert snapshot.models == {"east": "m1"}
    assert snapshot.attribution == {"east": {"exact": 2.0}}
    assert {name: table.schema for name, table in snapshot.tables.items()} == dict(TABLES)
    idle, busy = snapshot["nodes"].to_pylist()
    assert (busy["node"], busy["cpu_used_cores"], busy["memory_used_bytes"]) == ("n1", 3.0, 7e9)
    assert (busy["used_at"], busy["network_bytes_per_s"]) == (NOON + minutes(10), 1.25e9)
    assert (idle["node"], idle["cpu_used_cores"], idle["used_at"]) == ("idle", None, None)
    assert sorted(snapshot["placements"]["uid"].to_pylist()) == ["alive", "pending"]
    assert set(snapshot["placements"]["other_requests"].to_pylist()) == {'{"nvidia.com/gpu":1.0}'}
    assert snapshot["pairs"].to_pylist() == [PAIR | {"cluster": "east"}]
    assert snapshot["busyness"].to_pylist() == [
        {"cluster": "east", "node": "n1", "function": "a", "running": 0.5, "pods": 1.0}
    ]
    assert snapshot["workflows"].num_rows == 1
    assert [(row["cluster"], row["outcome"]) for row in snapshot["health"].to_pylist()] == [("west", "failed")]


def test_a_version_names_time_and_content(store: Store) -> None:
    fill(store)
    first, again = (store.read(lambda con: assemble.snapshot(con, NOON)).version for _ in range(2))
    assert first == again
    assert first.startswith("20250601T120000Z-")
    store.write(lambda con: models.use(con, "east", "m2"))
    assert store.read(lambda con: assemble.snapshot(con, NOON)).version != first


def mapped(tmp_path: Path, rows: Sequence[tuple[str, str, str]], *, others: bool = False) -> View:
    """The view of cluster a from a file of pairs (cluster, victim, aggressor) and one node."""
    given = snapshot(
        NOON,
        {
            "pairs": [
                PAIR | {"cluster": cluster, "victim": victim, "aggressor": aggressor}
                for cluster, victim, aggressor in rows
            ],
            "nodes": [{"cluster": "a", "node": "n1"}],
            "placements": [{"cluster": "a", "uid": "u", "node": "n1", "function": "" if others else "z"}],
        },
        clusters=("a", "b"),
    )
    published.write(given, tmp_path / "snapshot")
    return prepare(published.load(tmp_path / "snapshot"), "a", NOON)


PAIRS = [("a", "b/y", "b/x"), ("a", "b/z", "b/é"), ("a", "b/z", "b/y")]


def named_pairs(view: View) -> list[tuple[str, str]]:
    pairs, names = view.pairs, view.functions.names
    return [(names[row], names[column]) for row, column in zip(pairs.victim, pairs.aggressor, strict=True)]


@pytest.mark.parametrize("others", [False, True])
def test_the_functions_of_pairs_are_read_where_they_lie_in_the_file(tmp_path: Path, others: bool) -> None:
    view = mapped(tmp_path, PAIRS, others=others)
    assert named_pairs(view) == [("b/y", "b/x"), ("b/z", "b/y"), ("b/z", "b/é")]
    ordered = mapped(tmp_path, sorted(PAIRS), others=others).pairs
    for column in (ordered.victim, ordered.aggressor, ordered.slowdown, ordered.status_of):
        assert not column.flags.owndata


def test_beside_another_cluster_the_functions_of_pairs_have_their_own_numbers(tmp_path: Path) -> None:
    view = mapped(tmp_path, [("b", "b/a", "b/yy"), *PAIRS])
    assert tuple(view.functions.names) == ("b/x", "b/y", "b/z", "b/é", "z")
    assert named_pairs(view) == [("b/y", "b/x"), ("b/z", "b/y"), ("b/z", "b/é")]
