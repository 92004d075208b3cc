"""``colocate interference``, one pair explained, and ``functions --wide``, of a history that was learned from."""

import csv
import datetime as dt
import io
import itertools
import json
import math
import re
import sys
from bisect import bisect
from collections import Counter

import numpy as np
import pytest
import yaml

from featurestore.interference.spared import aside, keys
from featurestore.store import heldout
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
    return learned(given, tmp_path_factory.mktemp("known"))


def learned(given, home, nodes="", kind=None):
    """Return the settings' file of a store whose history names the nodes, as an imported one does, and its runs.

    The names of the nodes, which say what is set aside, begin with *nodes*; all are of one *kind*, if it is known.
    """
    settings = Settings(store=StoreSettings(path=home / "history.duckdb", snapshot=home / "snapshot"))
    where = {row["function"] + str(row["started"]): row["node"] for row in given.placements.to_pylist()}
    rows = given.activations.to_pylist()
    for row in rows:
        row["node_type"] = kind
        row["node"] = nodes + where[row["function"] + str(row["start"].replace(minute=0, second=0, microsecond=0))]
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


def execution(row):
    return row["duration_ms"] - (row["init_ms"] or 0.0)


def meets(row, others):
    """Whether a run met one of *others*, in order of start, on its node; none takes longer than two minutes."""
    first = bisect(others, row["start"] - dt.timedelta(minutes=2), key=lambda other: other["start"])
    return any(
        other["node"] == row["node"]
        and other["end"] > row["start"]
        and other["activation_id"] != row["activation_id"]
        for other in itertools.takewhile(lambda other: other["start"] < row["end"], others[first:])
    )


def test_an_explanation_holds_the_evidence_that_every_run_gives_one_by_one(config, capsys):
    file, rows = config
    [told] = json.loads(said(capsys, file, "interference", "guest/f0", "guest/f1", "-o", "json"))
    own = [row for row in rows if row["function"] == "guest/f0"]
    aggressor = [row for row in rows if row["function"] == "guest/f1"]
    beside = [row for row in own if meets(row, aggressor)]
    without = [row for row in own if not meets(row, aggressor)]
    evidence, naive = told["evidence"], told["naive"]
    assert evidence["runs"] == len(own)
    assert evidence["activations"] == len(beside) == sum(evidence["node_types"].values())
    assert evidence["alone"] == sum(not meets(row, rows) for row in own)
    typical = [np.log([execution(row) for row in part]).mean() for part in (beside, without)]
    assert naive["slowdown"] == pytest.approx(np.expm1(typical[0] - typical[1]))
    assert math.prod(1 + part for part in naive["parts"].values()) == pytest.approx(1 + naive["slowdown"])
    assert naive["cold_beside"] == pytest.approx(np.mean([row["init_ms"] is not None for row in beside]))
    assert told["base_ms"] == {"": pytest.approx(1000, rel=0.05)}  # no node was imported: of no known type


def test_runs_that_are_set_aside_are_counted_nowhere(given, tmp_path, capsys, monkeypatch):
    """A part of the history is kept for judging models: what was seen and where are of the same runs."""
    monkeypatch.setattr(heldout, "LEAST_BLOCKS", 1)
    monkeypatch.setattr(heldout, "LEAST_ACTIVATIONS", 1)
    file, rows = learned(given, tmp_path, nodes="a-")
    [told] = json.loads(said(capsys, file, "interference", "guest/f0", "guest/f1", "-o", "json"))
    aggressor = [row for row in rows if row["function"] == "guest/f1"]
    beside = [row for row in rows if row["function"] == "guest/f0" and meets(row, aggressor)]
    spared = [
        row
        for row in beside
        if not aside(keys([row["node"]]), np.array([int(row["end"].timestamp()) * 1_000_000]))[0]
    ]
    assert 0 < len(spared) < len(beside)
    assert told["model"]["set_aside"]
    assert told["evidence"]["activations"] == len(spared)
    by_node = {place["node"]: place["runs"] for place in told["evidence"]["nodes"]}
    assert by_node == Counter(row["node"] for row in spared)


def test_an_explanation_names_what_was_held_constant_and_what_is_missing(config, capsys):
    file, _ = config
    [told] = json.loads(said(capsys, file, "interference", "guest/f0", "guest/f1", "-o", "json"))
    assert {"cold start", "load of the node", "node"} <= set(told["controls"])
    assert abs(told["placebo"]["effect"]) < 3 * told["placebo"]["error"]
    assert told["estimate"]["beyond_chance"] is True
    assert told["model"]["number"] == 1
    assert any("would halve the interval" in each for each in told["missing"])
    assert any("within one day" in each for each in told["missing"])


def test_of_a_node_type_that_is_not_told_apart_what_holds_for_all_is_explained(given, tmp_path, capsys):
    file, _ = learned(given, tmp_path, kind="m5.large")
    pair = ("interference", "guest/f0", "guest/f1")
    [whole] = json.loads(said(capsys, file, *pair, "-o", "json"))
    assert whole["evidence"]["activations"] > 0
    [own] = json.loads(said(capsys, file, *pair, "--node-type", "m5.large", "-o", "json"))
    assert own == whole
    assert main(["--config", str(file), *pair, "--node-type", "m5"]) == 2
    told = "node type 'm5': no node of cluster c1 is of it; there are m5.large"
    assert capsys.readouterr().err == f"colocate: {told}\n"


def test_both_directions_are_told_alike(config, capsys):
    file, _ = config
    [one] = yaml.safe_load(said(capsys, file, "interference", "guest/f0", "guest/f1", "-o", "yaml"))
    [two] = json.loads(said(capsys, file, "interference", "guest/f1", "guest/f0", "-o", "json"))
    columns = ("victim", "aggressor", "status", "slowdown", "low", "high", "effective_overlaps")
    assert {name: one["other_direction"][name] for name in columns} == {name: two[name] for name in columns}


def test_a_pair_without_evidence_is_unknown_and_says_what_it_takes(config, capsys):
    file, _ = config
    pairs = json.loads(said(capsys, file, "interference", "-o", "json"))
    little = next(row for row in pairs if row["status"] == "unknown")
    text = said(capsys, file, "interference", little["victim"], little["aggressor"])
    assert f"it is not known whether {little['aggressor']} slows {little['victim']} down" in text
    assert f"about {math.ceil(30 - little['effective_overlaps'])} more effective overlaps" in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["interference", "guest/f0", "guest/f99"],
        ["interference", "guest/f99"],
        ["interference", "guest/f0", "guest/f99", "-o", "csv"],
        ["functions", "guest/f99"],
    ],
)
def test_a_function_that_nobody_knows_is_named(config, capsys, arguments):
    file, _ = config
    told = "function 'guest/f99': no such function"
    assert main(["--config", str(file), *arguments]) == 2
    assert capsys.readouterr() == ("", f"colocate: {told} (colocate functions lists them)\n")
    assert main(["--config", str(file), *arguments, "--cluster", "c1"]) == 2
    assert capsys.readouterr().err == f"colocate: {told} of cluster c1 (colocate functions lists them)\n"


def test_a_function_that_is_known_may_have_no_rows(config, capsys):
    file, _ = config
    assert said(capsys, file, "interference", "guest/f0", "--status", "shared_cause", "-o", "json") == "[]\n"


COLUMNS = [
    "victim", "aggressor", "node_type", "status", "slowdown", "low", "high", "probability", "effective_overlaps",
    "activations", "window_start", "window_end", "cluster",
]  # fmt: skip


def test_pairs_as_csv_have_the_agreed_columns_the_strongest_first(config, capsys):
    file, _ = config
    text = said(capsys, file, "interference", "-o", "csv")
    assert next(csv.reader(io.StringIO(text))) == COLUMNS
    rows = list(csv.DictReader(io.StringIO(text)))
    known = [float(row["slowdown"]) for row in rows if row["slowdown"]]
    assert known == sorted(known, reverse=True)
    assert rows[0]["victim"] == "guest/f0"
    one = said(capsys, file, "interference", "guest/f0", "guest/f1", "-o", "csv")
    assert list(csv.DictReader(io.StringIO(one))) == [
        row for row in rows if (row["victim"], row["aggressor"]) == ("guest/f0", "guest/f1")
    ]


@pytest.mark.parametrize("options", [[], ["guest/f0"], ["--limit", "1"]])
def test_the_table_of_pairs_fits_a_terminal_and_wide_has_every_column(config, capsys, monkeypatch, options):
    file, _ = config
    assert heads(said(capsys, file, "interference", *options)) == [
        "victim", "aggressor", "status", "slowdown", "low", "high", "probability", "cluster",
    ]  # fmt: skip
    wide = heads(said(capsys, file, "interference", *options, "--wide"))
    assert wide == [name for name in COLUMNS if name != "node_type"]  # an empty column is left out
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", said(capsys, file, "interference", *options)).splitlines()
    assert max(map(len, shown)) <= 80
    assert any(re.match(r"│ guest/f\d+ +│ ", line) for line in shown)  # rows, and no block for each of them


def heads(table):
    return re.findall(r"\w+", next(line for line in table.splitlines() if "┃" in line))


@pytest.mark.parametrize(
    ("options", "column", "value"),
    [
        (["guest/f2"], "victim", "guest/f2"),
        (["--status", "unknown"], "status", "unknown"),
        (["--cluster", "c1"], "cluster", "c1"),
    ],
)
def test_filters_leave_the_rows_that_match(config, capsys, options, column, value):
    file, _ = config
    every = json.loads(said(capsys, file, "interference", "-o", "json"))
    found = json.loads(said(capsys, file, "interference", *options, "-o", "json"))
    assert found == [row for row in every if row[column] == value]
    assert list(found[0]) == COLUMNS


def test_a_limit_keeps_the_strongest(config, capsys):
    file, _ = config
    every = json.loads(said(capsys, file, "interference", "-o", "json"))
    assert main(["--config", str(file), "interference", "--limit", "2", "-o", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == every[:2]
    assert f"2 of {len(every)} rows are shown" in err, "what was left out is never left out in silence"
    assert main(["--config", str(file), "interference", "--limit", str(len(every)), "-o", "json"]) == 0
    assert "rows are shown" not in capsys.readouterr().err


def test_wide_adds_columns_after_those_that_are_fixed_and_the_cluster_is_the_last(config, capsys):
    file, _ = config
    usual = next(csv.reader(io.StringIO(said(capsys, file, "functions", "-o", "csv"))))
    assert usual == [
        "function", "dominant", "cpu", "memory", "network", "disk", "source", "activations", "p50_ms", "p95_ms",
        "declared_otherwise", "cluster",
    ]  # fmt: skip
    wide = next(csv.reader(io.StringIO(said(capsys, file, "functions", "--wide", "-o", "csv"))))
    assert wide[: len(usual) - 2] == usual[:-2]
    assert wide[-2:] == usual[-2:]
    assert {"cpu_seconds_per_run", "memory_bytes_p95", "network_bytes_per_run", "disk_bytes_per_run"} < set(wide)


def test_pairs_of_at_least_a_slowdown_and_a_probability(config, capsys):
    file, _ = config
    every = list(csv.DictReader(io.StringIO(said(capsys, file, "interference", "-o", "csv"))))
    wanted = [row for row in every if row["slowdown"] and float(row["slowdown"]) >= 0.01]
    sure = [row for row in wanted if float(row["probability"]) >= 0.9]
    assert len(every) > len(wanted) > len(sure) > 0
    for bounds, expected in ([], wanted), (["--min-probability", "0.9"], sure):
        text = said(capsys, file, "interference", "--min-slowdown", ".01", *bounds, "-o", "csv")
        assert list(csv.DictReader(io.StringIO(text))) == expected
    pair = ("interference", sure[0]["victim"], sure[0]["aggressor"], "--min-slowdown", "0", "-o", "json")
    assert [set(row) for row in json.loads(said(capsys, file, *pair))] == [set(every[0])]  # listed, not explained
    assert main(["--config", str(file), "interference", "--min-probability", "90"]) == 2
    assert capsys.readouterr().err == "colocate: min_probability: '90.0' is not a number from 0 to 1\n"


@pytest.mark.parametrize("command", ["interference", "nodes", "functions", "decisions"])
def test_a_cluster_of_which_nothing_is_known_is_refused(config, capsys, command):
    file, _ = config
    assert main(["--config", str(file), command, "--cluster", "nope"]) == 2
    assert capsys.readouterr().err == "colocate: cluster 'nope': neither configured nor imported; there are c1\n"
