"""``colocate interference VICTIM AGGRESSOR`` and ``functions --wide``, from a history that was learned from."""

import csv
import datetime as dt
import io
import json

import pytest

from featurestore.store.duck import Store
from featurestore.store.ingest import ingest
from jobs import learn
from jobs.cli import main
from jobs.config import Settings, StoreSettings
from pipeline.columns import TABLES
from pipeline.records import Batch
from tests.support.history import BEGIN, history

NOW = BEGIN + dt.timedelta(hours=12)


@pytest.fixture(scope="module")
def given():
    return history(hours=12)


@pytest.fixture(scope="module")
def config(given, tmp_path_factory):
    """The settings' file of a store whose history names the nodes, as an imported one does."""
    home = tmp_path_factory.mktemp("known")
    settings = Settings(store=StoreSettings(path=home / "history.duckdb", snapshot=home / "snapshot"))
    where = {row["function"] + str(row["started"]): row["node"] for row in given.placements.to_pylist()}
    rows = given.activations.to_pylist()
    for row in rows:
        row["node"] = where[row["function"] + str(row["start"].replace(minute=0, second=0, microsecond=0))]
    table = TABLES["activations"].empty_table().from_pylist(rows, schema=TABLES["activations"])
    store = Store(settings.store.path)
    ingest(store, "c1", Batch("activations", rows=table), collected=NOW, overlap=dt.timedelta(minutes=10))
    learn.run(settings, "c1", now=lambda: NOW, store=store)
    file = home / "colocate.toml"
    file.write_text(f'[store]\npath = "{home}/history.duckdb"\nsnapshot = "{home}/snapshot"\n', encoding="utf-8")
    return file, rows


def said(capsys, config, *arguments):
    assert main(["--config", str(config), *arguments]) == 0
    return capsys.readouterr().out


def test_a_pair_says_where_and_when_it_was_seen_together(config, capsys):
    file, rows = config
    text = said(capsys, file, "interference", "guest/f0", "guest/f1")
    aggressors = [row for row in rows if row["function"] == "guest/f1"]
    met = {}
    for row in rows:
        if row["function"] == "guest/f0" and any(
            other["node"] == row["node"] and other["start"] < row["end"] and other["end"] > row["start"]
            for other in aggressors
        ):
            met[row["node"]] = met.get(row["node"], 0) + 1
    assert met
    below = text[text.index("runs of guest/f0 beside guest/f1") :]
    for node, number in met.items():
        assert any(node in line and str(number) in line.split("│")[4] for line in below.splitlines() if "│" in line)


def test_other_forms_and_single_names_have_the_rows_alone(config, capsys):
    file, _ = config
    [row] = json.loads(said(capsys, file, "interference", "guest/f0", "guest/f1", "-o", "json"))
    assert row["aggressor"] == "guest/f1"
    assert "beside" not in said(capsys, file, "interference", "guest/f0")


def test_wide_adds_columns_after_those_that_are_fixed(config, capsys):
    file, _ = config
    usual = next(csv.reader(io.StringIO(said(capsys, file, "functions", "-o", "csv"))))
    assert usual == [
        "function", "dominant", "cpu", "memory", "network", "disk", "source", "activations", "p50_ms", "p95_ms",
        "cluster",
    ]  # fmt: skip
    wide = next(csv.reader(io.StringIO(said(capsys, file, "functions", "--wide", "-o", "csv"))))
    assert wide[: len(usual)] == usual
    assert {"cpu_seconds_per_run", "memory_bytes_p95", "network_bytes_per_run", "disk_bytes_per_run"} < set(wide)
