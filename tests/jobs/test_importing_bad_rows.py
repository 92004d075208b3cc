"""Rows that an import refuses: which one is named, and what is said of what is no file of rows."""

import datetime as dt
import json
import random

import pyarrow as pa
import pyarrow.parquet
import pytest

from featurestore.store.duck import Store
from jobs import importing
from jobs.cli import main
from jobs.config import Settings
from pipeline.errors import BadInput
from tests.support.stores import activations

NOW = dt.datetime(2024, 6, 1, tzinfo=dt.UTC)
START = 1714521600000  # 2024-05-01T00:00:00Z
HEAD = "activation_id,function,start,end,init_ms\n"
GOOD = f"g,ns/f,{START},{START + 5},\n"


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "history.duckdb")


@pytest.fixture
def refused(store, tmp_path):
    """Import a file of *content*, which must be refused in one line; return what is said behind the file's name."""

    def call(content, kind="activations", name="bad.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(BadInput) as caught:
            importing.run(Settings(), kind, [path], cluster="c1", now=lambda: NOW, store=store)
        said = str(caught.value)
        assert "\n" not in said
        assert said.startswith(str(path))
        assert not store.path.exists()
        return said.removeprefix(str(path))

    return call


def test_records_that_are_refused_are_named(store, tmp_path):
    """As everywhere an odd record costs only itself; which it was is told."""
    record = {"activationId": "a", "namespace": "ns", "name": "f", "start": START, "end": START + 5, "node": ""}
    odd = {
        "early": {"end": START - 1},
        "timeless": {"start": "now"},
        "nameless": {"name": None},
    }
    path = tmp_path / "a.json"
    path.write_text(json.dumps([record, *(record | more | {"activationId": name} for name, more in odd.items())]))
    outcome = importing.run(Settings(), "activations", [path], cluster="c1", now=lambda: NOW, store=store)
    assert (outcome.rows, outcome.refused) == (1, 3)
    assert [(each.what, each.why) for each in outcome.refusals] == [
        (f"{path}, activation early", "end is no time after start"),
        (f"{path}, activation timeless", "start is no time"),
        (f"{path}, activation nameless", "no name"),
    ]
    [row] = activations(store, "c1", NOW - dt.timedelta(days=99), NOW).to_pylist()
    assert row["node"] is None  # as an empty cell of a table


def test_records_that_are_refused_show_in_the_exit_code(tmp_path, capsys):
    record = {"activationId": "a", "namespace": "ns", "name": "f", "start": START, "end": START + 5}
    path, settings = tmp_path / "a.json", tmp_path / "colocate.toml"
    settings.write_text(f'[store]\npath = "{tmp_path}/s.duckdb"\n')
    command = ["--config", str(settings), "import", "activations", str(path), "--cluster", "c1", "-o", "json"]
    path.write_text(json.dumps([record, record | {"activationId": "b", "end": START - 1}]))
    assert main(command) == 3
    told = capsys.readouterr()
    assert told.err.splitlines()[-1] == f"colocate: {path}, activation b: end is no time after start"
    assert json.loads(told.out)["refused"] == 1
    path.write_text(json.dumps([record]))
    assert main(command) == 0


def test_a_table_of_runs_of_long_ago_is_taken_and_noted(store, tmp_path):
    """1714521600 s is the first of May 2024; as milliseconds it is 19 days, 20 h and a quarter into 1970."""
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    old.write_text(f"{HEAD}a,ns/f,1714521600,1714521605,\n")
    new.write_text(f"{HEAD}b,ns/f,0,5,\n{GOOD}")
    outcome = importing.run(Settings(), "activations", [old, new], cluster="c1", now=lambda: NOW, store=store)
    assert outcome.rows == 3
    assert outcome.notes == (
        f"{old}: its last run began at 1970-01-20T20:15:21Z; numbers count milliseconds since 1970",
    )


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        # The columns are looked at in the order activation_id, function, start, end, init_ms.
        (["a,ns/f,{t},{t},-1", "b,ns/f,soon,{t},", "c,f,{t},{t},"], ", line 2: init_ms '-1'"),
        (["a,ns/f,{t},{t},", "b,ns/f,{t},0,", "c,ns/f,soon,{t},"], ", line 3: end '0'"),
        (["a,ns/f,{t},{t},", "b,ns/f,{t},{t},x", ",ns/f,{t},{t},", "c,f,{t},{t},"], ", line 3: init_ms 'x'"),
        (["a,ns/f,{t},{t},", "b,ns/f,{t},{t},1,2", "c,f,{t},{t},"], ", line 3: 6 values where there are 5 columns"),
        (["a,ns/f,{t},{t},", "", "b,ns/f,{t},{t},x", "c,f"], ", line 4: init_ms 'x'"),
        (["a", "b,ns/f,{t},{t},x"], ", line 2: 1 value where there are 5 columns"),
    ],
)
def test_of_several_wrong_rows_the_first_is_named(refused, rows, said):
    assert refused(HEAD + "\n".join(rows).format(t=START)).startswith(said)


def test_the_first_wrong_row_of_parquet_is_named(refused):
    out = pa.BufferOutputStream()
    columns = {"activation_id": ["a", "b", "c"], "function": ["ns/f", "ns/f", None], "start": [START] * 3}
    pa.parquet.write_table(pa.table({**columns, "end": [START, START - 1, START]}), out)
    assert refused(out.getvalue().to_pybytes(), name="a.parquet").startswith(f", row 2: end '{START - 1}': is before")


@pytest.mark.parametrize("head", [b"", b"PAR1"], ids=["random", "random behind Parquet's mark"])
def test_random_bytes_are_refused_in_our_own_words(refused, head):
    bytes_ = head + random.Random(3).randbytes(5000)
    damaged = ": damaged: begins as Parquet, and cannot be read as such"
    text = ", line 1: neither Parquet nor CSV: holds bytes that are no UTF-8"
    assert refused(bytes_, name="a.parquet") == (damaged if head else text)


def test_a_line_that_is_no_text_is_named(refused):
    assert refused(HEAD.encode() + GOOD.encode() + b"a,ns/\xff,1,2,\n").startswith(
        ", line 3: neither Parquet nor CSV"
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[\n{"activationId": "a"},\n{"activationId": }\n]', 3),
        ('[\n{"activationId": "a"},\n{"activationId": "b"', 3),
        ('{"activationId": "a"\n,,}', 2),
        ('{"activationId": "a"}\n{"activationId": "b"}\n{"activ', 3),
    ],
)
def test_the_line_at_which_records_are_no_json_is_named(refused, text, line):
    assert refused(text, name="a.json").startswith(f", line {line}: not JSON: ")


def test_profiles_without_any_amount_are_refused(refused):
    said = refused("function,colour,node_type\nns/f,red,t1\n", "profiles")
    assert said == (
        ": no column says what functions use: one of cpu_cores, memory_bytes, network_bytes_per_s, "
        "disk_bytes_per_s is needed"
    )


def test_a_node_with_an_empty_name_is_refused(refused):
    assert refused('{"kind": "Node", "metadata": {"name": ""}}', "nodes", "n.json") == (
        ", object 1: node without a name: metadata.name is missing"
    )
