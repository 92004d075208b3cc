"""Importing what files should not hold, and files with odd names: one line that says which, or no difference."""

import datetime as dt
import json

import pyarrow as pa
import pyarrow.parquet
import pytest

from featurestore.store.duck import Store
from jobs import importing
from jobs.config import Settings
from pipeline.errors import BadInput
from tests.support.stores import activations

NOW = dt.datetime(2024, 6, 1, tzinfo=dt.UTC)
SINCE, UNTIL = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
RECORD = {
    "activationId": "a1",
    "namespace": "guest",
    "name": "f",
    "start": 1714521600000,
    "end": 1714521601000,
    "node": "n1",
}
#: Parquet does not look whether its texts are ones.
NO_UTF8 = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "history.duckdb")


def brought(store, path):
    return importing.run(Settings(), "activations", [path], cluster="c1", now=lambda: NOW, store=store)


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def stored(store):
    return activations(store, "c1", SINCE, UNTIL).to_pylist()


@pytest.mark.parametrize("text", [False, True], ids=["array", "lines"])
@pytest.mark.parametrize("name", ["h[1].json", "h*.json", "h?.json", "node=n9/start=5/h.json", "h.json.gz"])
def test_what_a_file_of_records_is_called_changes_nothing(tmp_path, store, name, text):
    """Another file is not read for it, and its directories are no columns, as the record says all of them."""
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [RECORD | {"activationId": "asked"}]
    path.write_text("\n".join(map(json.dumps, records)) if text else json.dumps(records))
    (tmp_path / "h1.json").write_text(json.dumps(RECORD | {"activationId": "other"}))
    assert brought(store, path).rows == 1
    [row] = stored(store)
    assert (row["activation_id"], row["node"], row["start"]) == (
        "asked",
        "n1",
        dt.datetime(2024, 5, 1, tzinfo=dt.UTC),
    )


def test_a_table_called_like_a_compressed_one_is_read_as_it_is(tmp_path, store):
    assert brought(store, written(tmp_path / "a.csv.gz", "activation_id,function,start,end\na,f,0,5\n")).rows == 1


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("function", pa.array([b"\xff"]), "column function: binary is no text"),
        ("node", pa.array([["n1"]]), "column node: list<element: string> is no text"),
        ("composite", pa.array([{"a": 1}]), "column composite: struct<a: int64> is no text"),
        ("function", pa.array([0], pa.timestamp("us", "Mars/Phobos")), "tz=Mars/Phobos] is no text"),
        ("kind", NO_UTF8, "column kind: holds bytes that are no UTF-8"),
        ("start", pa.array([2**62], pa.timestamp("ms")), f"row 1: start '{2**62}': is outside the years"),
        ("end", pa.array([253402300800000000], pa.timestamp("us", "UTC")), "row 1: end '253402300800000000': is out"),
        ("start", pa.array(["0000-01-01T00:00:00Z"]), "row 1: start '0000-01-01T00:00:00Z': is outside the years"),
        ("start", pa.array(["9999-12-31T23:59:59-01:00"]), "row 1: start '9999-12-31T23:59:59-01:00': is outside"),
        ("end", pa.array([1], pa.timestamp("us", "Mars/Phobos")), "end '1970-01-01 00:00:00.000001+00:00': is "),
        ("start", pa.array([2**63], pa.uint64()), f"row 1: start '{2**63}': is outside the years"),
        ("timeout_ms", pa.array([str(2**63 - 1)]), f"row 1: timeout_ms '{2**63 - 1}': is no whole number in range"),
    ],
)
def test_a_column_that_cannot_be_what_it_should_is_named(tmp_path, store, column, values, said):
    row = {"activation_id": ["a"], "function": ["f"], "start": [1714521600000], "end": [1714521601000]}
    path = tmp_path / "odd.parquet"
    pa.parquet.write_table(pa.table(row | {column: values}), path)
    with pytest.raises(BadInput) as caught:
        brought(store, path)
    assert str(caught.value).startswith(f"{path}")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert stored(store) == []


@pytest.mark.parametrize("form", ["json", "csv"])
@pytest.mark.parametrize("limit", [2**62, 2**53, -(2**62), -1, 0])
def test_a_time_limit_that_is_no_length_of_time_is_not_known(tmp_path, store, form, limit):
    limits = {"key": "limits", "value": {"timeout": limit}}
    text = (
        json.dumps([RECORD | {"end": RECORD["start"] + 90_000, "annotations": [limits]}])
        if form == "json"
        else f"activation_id,function,start,end,timeout_ms\na,f,1714521600000,1714521690000,{limit}\n"
    )
    assert brought(store, written(tmp_path / f"a.{form}", text)).rows == 1
    [row] = stored(store)
    assert (row["timeout_ms"], row["end"]) == (None, dt.datetime(2024, 5, 1, 0, 1, 30, tzinfo=dt.UTC))


def test_an_end_that_no_clock_shows_costs_only_its_record(tmp_path, store):
    records = [RECORD | {"end": -(2**63)}, RECORD | {"activationId": "a2"}]
    outcome = brought(store, written(tmp_path / "a.json", json.dumps(records)))
    assert (outcome.rows, outcome.refused) == (1, 1)
