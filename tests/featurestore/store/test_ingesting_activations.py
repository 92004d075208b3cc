"""OpenWhisk records become rows: what they hold, what is refused, what is noise, and what was known before."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from featurestore.store import openwhisk, queries
from featurestore.store.duck import Store, staging
from featurestore.store.ingest import Written, ingest
from pipeline.columns import ACTIVATIONS
from pipeline.errors import BadInput
from pipeline.records import Batch
from tests.support.stores import NOON, NOON_MS, OVERLAP, activations, minutes, page, put, put_pages, record, select

LONG_AGO, NEVER = datetime(1970, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "s.duckdb")


def known(store: Store) -> pa.Table:
    return activations(store, "east", LONG_AGO, NEVER)


def one(store: Store, tmp_path: Path, given: object) -> dict[str, Any]:
    """The only row that a page of one record gives."""
    assert put_pages(store, page(tmp_path / "one.json", [given])).rows == 1
    [row] = known(store).to_pylist()
    assert isinstance(row, dict)
    return row


def at_ms(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def notes(**values: object) -> list[dict[str, object]]:
    return [{"key": key, "value": value} for key, value in values.items()]


REAL = {
    "ow_activation_error_with_statuscode_0.json": {
        "activation_id": "be97c2fed5dc43d097c2fed5dc73d085",
        "function": "ns2/a",
        "kind": "testkind",
        "start": at_ms(1570013740005),
        "end": at_ms(1570013740007),
        "duration_ms": 123.0,
        "init_ms": 10.0,
        "wait_ms": 5.0,
        "status_code": 1,  # recorded as 0, but the result holds an error
        "memory_mb": 128,
        "timeout_ms": 1000,
        "concurrency": 1,
        "composite": False,
        "caused_by": "sequence",
    },
    "ow_activation_stored_caused_by_sequence.json": {
        "function": "ns2/a",
        "duration_ms": 123.0,
        "init_ms": 10.0,
        "status_code": 0,
        "composite": False,
        "caused_by": "sequence",
    },
    "ow_activation_sequence_primary.json": {
        "activation_id": "4f91f9ed0d874aaa91f9ed0d87baaa07",
        "function": "guest/tripleAndIncrement",
        "kind": "sequence",
        "start": at_ms(1516379705819),
        "end": at_ms(1516379707803),
        "duration_ms": 457.0,
        "init_ms": None,
        "wait_ms": None,
        "status_code": 0,
        "memory_mb": 256,
        "concurrency": None,
        "composite": True,
        "caused_by": "",
    },
    "ow_activation_trigger_end_zero.json": {
        "function": "guest/everyMinute",
        "start": datetime(2018, 12, 25, 8, tzinfo=UTC),
        "end": None,
        "duration_ms": None,
        "status_code": 0,
        "composite": True,
    },
}


def test_every_real_record_has_an_expectation(real: Path) -> None:
    assert sorted(path.name for path in real.glob("ow_activation_*.json")) == sorted(REAL)


@pytest.mark.parametrize("name", REAL)
def test_real_records_have_the_right_columns(store: Store, real: Path, name: str) -> None:
    assert put_pages(store, real / name) == Written(rows=1)
    [row] = known(store).to_pylist()
    assert {column: row[column] for column in REAL[name]} == REAL[name]


def test_columns_are_those_agreed(store: Store, tmp_path: Path) -> None:
    put_pages(store, page(tmp_path / "p.json", [record(1)]))
    assert known(store).schema.equals(ACTIVATIONS)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"annotations": []}, {"function": "guest/hello", "kind": "", "memory_mb": None}),
        ({"annotations": None}, {"function": "guest/hello", "composite": False}),
        ({"annotations": notes(path="other/pkg/hello")}, {"function": "other/pkg/hello"}),
        ({"annotations": notes(path="a@b.c/my pkg/h.i")}, {"function": "a@b.c/my pkg/h.i"}),
        ({"annotations": notes(waitTime=-3)}, {"wait_ms": -3.0, "init_ms": None}),
        ({"annotations": notes(initTime=0)}, {"init_ms": 0.0}),
        ({"annotations": notes(initTime="soon", waitTime=None)}, {"init_ms": None, "wait_ms": None}),
        ({"annotations": notes(conductor=True)}, {"composite": True}),
        ({"annotations": notes(conductor=False)}, {"composite": False}),
        ({"annotations": notes(kind="sequence")}, {"composite": True}),
        (
            {"annotations": notes(limits={"memory": 512, "timeout": 60000, "concurrency": 3})},
            {"memory_mb": 512, "timeout_ms": 60000, "concurrency": 3},
        ),
        ({"annotations": notes(limits="none")}, {"memory_mb": None, "timeout_ms": None}),
        ({"annotations": notes(limits={"memory": "lots"})}, {"memory_mb": None}),
        ({"annotations": {"path": "x"}}, {"function": "guest/hello"}),
        ({"annotations": [7, None, {"value": 1}]}, {"function": "guest/hello"}),
        ({"end": 0, "annotations": notes(kind="python:3")}, {"end": None, "composite": False, "duration_ms": 5.0}),
        ({"end": None, "duration": None, "annotations": []}, {"end": None, "composite": True, "duration_ms": None}),
        ({"start": 0, "end": 0, "duration": 0}, {"end": LONG_AGO, "duration_ms": 0.0}),
        ({"node": "", "pod": " "}, {"node": None, "pod": None}),
        ({"version": None}, {"version": ""}),
        ({"node": "n1", "pod": "p1"}, {"node": "n1", "pod": "p1"}),
        ({"name": "h\u00e9llo \u4e16", "annotations": []}, {"function": "guest/h\u00e9llo \u4e16"}),
    ],
)
def test_fields_of_a_record(store: Store, tmp_path: Path, changed: dict[str, Any], expected: dict[str, Any]) -> None:
    row = one(store, tmp_path, record(1, **changed))
    assert {column: row[column] for column in expected} == expected


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"response": {"statusCode": 2}}, 2),
        ({"response": {"statusCode": 3, "result": {"error": "x"}}}, 3),
        ({"response": {"statusCode": 0, "result": {"error": "x"}}}, 1),
        ({"response": {"statusCode": 0, "result": {"error": None}}}, 0),
        ({"response": {"statusCode": 0, "result": {"body": {"error": "inside"}}}}, 0),
        ({"response": {"statusCode": 0, "result": ["error"]}}, 0),
        ({"response": {"statusCode": 0, "result": '{"error": "text"}'}}, 0),
        ({"response": None, "statusCode": 2}, 2),
        ({"response": {"status": "success"}}, 0),
        ({"response": {"status": "application error"}}, 1),
        ({"response": {"status": "action developer error"}}, 2),
        ({"response": {"status": "whisk internal error"}}, 3),
        ({"response": {"success": True}}, 0),
        ({"response": {"status": "something else"}}, -1),
        ({"response": None}, -1),
        ({"response": "ok"}, -1),
    ],
)
def test_status_of_a_record(store: Store, tmp_path: Path, changed: dict[str, Any], status: int) -> None:
    assert one(store, tmp_path, record(1, **changed))["status_code"] == status


BROKEN = [
    {"activationId": None},
    {"activationId": ""},
    {"name": None, "annotations": []},
    {"start": None},
    {"start": "yesterday"},
    {"start": 1e30},
    {"start": 10**18},
    {"end": NOON_MS - 1_000_000},
    {"end": 10**18},
    {"duration": -1},
]


@pytest.mark.parametrize("changed", BROKEN)
def test_a_broken_record_costs_only_itself(store: Store, tmp_path: Path, changed: dict[str, Any]) -> None:
    whole = [record(1), record(2, **changed), record(3)]
    with capture_logs() as logs:
        written = put_pages(store, page(tmp_path / "p.json", whole))
    assert written == Written(rows=2, refused=1)
    assert known(store)["activation_id"].to_pylist() == [record(1)["activationId"], record(3)["activationId"]]
    [entry] = [entry for entry in logs if entry["event"] == "activation records refused"]
    assert list(entry["reasons"].values()) == [1]


def test_the_first_records_that_are_refused_are_named(tmp_path: Path) -> None:
    one, two = (
        page(tmp_path / "a.json", [record(1), record(2, start=None)]),
        page(tmp_path / "b.json", [record(3), record(4, activationId=""), record(5, end=1)]),
    )
    with staging() as con:
        found = openwhisk.refusals(con, [one, two])
    assert [(each.what, each.why) for each in found] == [
        (f"{one}, activation {2:032x}", "start is no time"),
        (f"{two}, record 2", "no activation id"),
        (f"{two}, activation {5:032x}", "end is no time after start"),
    ]


@pytest.mark.parametrize("odd", [5, None, "text", [record(2)], {}])
def test_what_is_no_record_costs_only_itself(store: Store, tmp_path: Path, odd: object) -> None:
    assert put_pages(store, page(tmp_path / "p.json", [record(1), odd, record(3)])) == Written(rows=2, refused=1)


@pytest.mark.parametrize(
    "text",
    [b'"\\ud800"', b'"\xff"', b'"\xed\xa0\x80"'],
    ids=["half a surrogate, escaped", "no UTF-8", "half a surrogate"],
)
def test_text_that_cannot_be_read_costs_only_its_record(store: Store, tmp_path: Path, text: bytes) -> None:
    whole = json.dumps([record(1), record(2, subject="HERE"), record(3)]).encode().replace(b'"HERE"', text)
    odd = tmp_path / "odd.json"
    odd.write_bytes(whole)
    good = page(tmp_path / "good.json", [record(4)])
    assert put_pages(store, odd, good) == Written(rows=3, refused=1)


@pytest.mark.parametrize(
    "content",
    [b"<html>busy</html>", b'[{"activationId": "1"}, {"activ', b'{"error": "no"} trailing', b"\x00\x01"],
    ids=["html", "half a page", "trailing text", "binary"],
)
def test_a_file_of_no_records_is_refused_whole_and_named(store: Store, tmp_path: Path, content: bytes) -> None:
    bad = tmp_path / "bad.json"
    bad.write_bytes(content)
    good = page(tmp_path / "good.json", [record(1)])
    if content.startswith(b"{"):  # one record a line: then the line is what is refused
        assert put_pages(store, good, bad, watermark=NOON) == Written(rows=1, refused=1)
        return
    with pytest.raises(BadInput) as caught:
        put_pages(store, good, bad, watermark=NOON)
    assert str(caught.value).startswith(f"{bad}: ")
    assert "\n" not in str(caught.value)
    assert select(store, "SELECT count(*) FROM activations") == [(0,)]
    assert select(store, "SELECT count(*) FROM watermarks") == [(0,)]


def test_a_record_a_line_is_read_too(store: Store, tmp_path: Path) -> None:
    lines = tmp_path / "lines.ndjson"
    whole = [json.dumps(record(number, name="h\u00e9llo"), ensure_ascii=False) for number in range(3)]
    lines.write_text("\n".join([*whole, '{"torn": ', ""]), encoding="utf-8")
    assert put_pages(store, lines) == Written(rows=3, refused=1)


def test_empty_pages_are_no_error(store: Store, tmp_path: Path) -> None:
    blank = tmp_path / "blank.json"
    blank.touch()
    assert put_pages(store, page(tmp_path / "none.json", []), blank, watermark=NOON) == Written()
    assert store.read(lambda con: queries.watermark(con, "east", "activations")) == NOON


def test_a_record_larger_than_the_readers_own_limit(store: Store, tmp_path: Path) -> None:
    large = record(1, logs=["x" * (17 << 20)])
    assert put_pages(store, page(tmp_path / "large.json", [large])) == Written(rows=1)


@pytest.mark.parametrize(("seconds", "believed"), [(60, True), (180, True), (181, False), (4e9, False)])
def test_an_end_far_past_the_time_limit_is_not_believed(
    store: Store, tmp_path: Path, seconds: float, believed: bool
) -> None:
    """With a limit of one minute: twice that and a minute more is the most."""
    limited = notes(limits={"timeout": 60_000, "memory": 256}, kind="nodejs:20", path="guest/hello")
    row = one(store, tmp_path, record(0, end=NOON_MS + int(seconds * 1000), annotations=limited))
    assert (row["end"] is not None) == believed


def test_health_actions_are_noise_and_counted(store: Store, tmp_path: Path) -> None:
    health = record(1, namespace="whisk.system", name="invokerHealthTestAction0", annotations=[])
    other = record(2, namespace="whisk.system", name="invokerHealthTestAction0", annotations=notes(path="guest/mine"))
    assert put_pages(store, page(tmp_path / "p.json", [health, other])) == Written(rows=1, noise=1)
    assert known(store)["function"].to_pylist() == ["guest/mine"]


def test_of_a_record_that_comes_twice_the_last_is_kept(store: Store, tmp_path: Path) -> None:
    first = page(tmp_path / "a.json", [record(1, version="1"), record(2), record(1, version="2")])
    second = page(tmp_path / "b.json", [record(1, version="3"), record(3)])
    assert put_pages(store, first, second) == Written(rows=3, duplicates=2)
    assert dict(select(store, "SELECT activation_id, version FROM activations"))[f"{1:032x}"] == "3"


def test_what_is_stored_stays_when_it_comes_again(store: Store, tmp_path: Path) -> None:
    put_pages(store, page(tmp_path / "a.json", [record(1, version="1"), record(2)]))
    again = page(tmp_path / "b.json", [record(1, version="9"), record(3)])
    assert put_pages(store, again) == Written(rows=1, duplicates=1)
    assert sorted(known(store)["version"].to_pylist()) == ["0.0.1", "0.0.1", "1"]


def test_an_id_of_another_cluster_is_another_activation(store: Store, tmp_path: Path) -> None:
    batch = Batch("activations", files=(page(tmp_path / "a.json", [record(1)]),))
    for cluster in ("east", "west"):
        assert ingest(store, cluster, batch, collected=NOON, overlap=OVERLAP) == Written(rows=1)


def test_a_record_later_than_the_overlap_is_kept_and_counted(store: Store, tmp_path: Path) -> None:
    put_pages(store, page(tmp_path / "a.json", [record(7200)]), watermark=NOON + minutes(120), scope="guest")
    late = page(tmp_path / "b.json", [record(60), record(6600), record(6599)])
    edge = NOON + minutes(110)  # the watermark less the overlap: second 6600 is just not late
    assert at_ms(NOON_MS + 6_600_000) == edge
    assert put_pages(store, late, watermark=NOON, scope="guest") == Written(rows=3, late=2)
    assert put_pages(store, late, watermark=NOON, scope="guest") == Written(duplicates=3)
    assert store.read(lambda con: queries.watermark(con, "east", "activations", "guest")) == NOON + minutes(120)


def test_rows_of_an_import_are_judged_as_records_are(store: Store) -> None:
    good = {"activation_id": "1", "function": "f", "start": NOON, "end": NOON + minutes(1), "node": "n1"}
    backwards = good | {"activation_id": "2", "end": NOON - minutes(1)}
    nameless = good | {"activation_id": "3", "function": None}
    assert put(store, "activations", good, good, backwards, nameless) == Written(rows=1, duplicates=1, refused=2)
    [row] = known(store).to_pylist()
    assert (row["node"], row["status_code"], row["composite"], row["kind"]) == ("n1", -1, False, "")


def test_the_run_is_recorded_with_the_rows(store: Store, tmp_path: Path) -> None:
    batch = Batch("activations", files=(page(tmp_path / "a.json", [record(1), 5]),), watermark=NOON)
    ingest(store, "east", batch, collected=NOON, overlap=OVERLAP, source="history", started=NOON - minutes(1))
    run = select(store, "SELECT source, started, finished, rows, refused, outcome FROM runs")
    assert run == [("history", NOON - minutes(1), NOON, 1, 1, "ok")]
    assert store.read(lambda con: queries.watermark(con, "east", "history")) == NOON


def test_times_are_utc_in_a_process_of_another_zone(tmp_path: Path, repository: Path) -> None:
    script = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from featurestore.store import queries
from tests.support.stores import *
store = Store(Path(sys.argv[1]) / "s.duckdb")
put_pages(store, page(Path(sys.argv[1]) / "p.json", [record(1)]), watermark=NOON)
put(store, "usage", {"scope": "node", "name": "n", "metric": "cpu_cores", "at": NOON, "value": 1.0, "namespace": ""})
found = activations(store, "east", NOON, NOON + minutes(1))
assert found["start"].to_pylist() == [NOON + minutes(1 / 60)], found
assert str(found.schema.field("start").type) == "timestamp[us, tz=UTC]"
mark = store.read(lambda con: queries.watermark(con, "east", "activations"))
[[sampled]] = select(store, 'SELECT epoch_ms("at") FROM usage')
print(mark.isoformat(), sampled, datetime.now().astimezone().utcoffset())
"""
    environment = os.environ | {"TZ": "Asia/Kathmandu", "PYTHONPATH": str(repository)}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == f"2025-06-01T12:00:00+00:00 {NOON_MS} 5:45:00\n", done.stderr


@pytest.mark.parametrize("form", ["lines", "array"])
def test_a_long_file_of_short_records_takes_little_memory(tmp_path: Path, form: str) -> None:
    text = [json.dumps(record(number, response={"result": {"text": "x" * 300_000}})) for number in range(400)]
    file = tmp_path / "long.json"
    file.write_text("\n".join(text) if form == "lines" else f"[{','.join(text)}]")
    with staging() as con:
        con.execute("SET memory_limit = '200MB'")  # the file has 120 MB
        openwhisk.stage_files(con, [file])
        assert con.execute("SELECT count(*) FROM staged WHERE verdict IS NULL").fetchall() == [(400,)]


def test_line_ends_of_other_alphabets_do_not_part_a_record(tmp_path: Path) -> None:
    good = json.dumps(record(1, version="a\u2028b\x85c"), ensure_ascii=False)
    file = tmp_path / "lines.json"
    long = json.dumps(record(2, response={"result": {"text": "x" * 35_000_000}}))  # for which lines are looked at
    file.write_text(f"{good}\n{long}", encoding="utf-8")
    with staging() as con:
        openwhisk.stage_files(con, [file])
        found = con.execute("SELECT version FROM staged WHERE verdict IS NULL ORDER BY rowid").fetchall()
    assert found == [("a\u2028b\x85c",), ("0.0.1",)]


@pytest.mark.parametrize("form", ["lines", "array"])
def test_a_record_longer_than_the_reader_s_own_limit_is_read(tmp_path: Path, form: str) -> None:
    text = [json.dumps(record(n, response={"result": {"text": "x" * (n * 35_000_000)}})) for n in range(2)]
    file = tmp_path / "long.json"
    file.write_text("\n".join(text) if form == "lines" else f"[{','.join(text)}]")
    with staging() as con:
        openwhisk.stage_files(con, [file])
        assert con.execute("SELECT count(*) FROM staged WHERE verdict IS NULL").fetchall() == [(2,)]
