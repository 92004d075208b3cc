"""``colocate learn --list`` and ``--use``: which models there are, and which of them answers."""

import csv
import datetime as dt
import io
import json
import sys
from functools import partial

import pyarrow as pa
import pytest

from featurestore.answers import schema
from featurestore.store import models, published
from featurestore.store.duck import Store
from featurestore.store.ingest import ingest
from featurestore.store.models import Model
from jobs.cli import main
from pipeline.columns import TABLES
from pipeline.records import Batch

NOW = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)

#: A cluster is known by what happened there.
ACTIVATION = pa.Table.from_pylist(
    [
        {
            "activation_id": "1", "function": "a", "version": "", "kind": "", "start": NOW, "end": NOW,
            "status_code": 0, "composite": False, "caused_by": "",
        }
    ],
    schema=TABLES["activations"],
)  # fmt: skip


@pytest.fixture
def home(tmp_path):
    (tmp_path / "colocate.toml").write_text(
        f'[store]\npath = "{tmp_path}/history.duckdb"\nsnapshot = "{tmp_path}/snapshot"\n', encoding="utf-8"
    )
    return tmp_path


@pytest.fixture
def store(home):
    return Store(home / "history.duckdb")


def saved(store, number, *, cluster="c1", slowdown=0.5):
    """Save the model that was learned in hour *number*, of one pair."""
    pair = {
        "victim": "a", "aggressor": "b", "node_type": "", "status": "observed", "slowdown": slowdown, "low": 0.1,
        "high": 0.9, "probability": 1.0, "effective_overlaps": 50.0, "activations": 90, "window_start": NOW,
        "window_end": NOW,
    }  # fmt: skip
    created = NOW + dt.timedelta(hours=number)
    metrics = {"activations": 100 * number, "evidence": 90 * number, "functions": 2, "pairs": {"observed": 1}}
    if number > 1:  # the first found no pair to compare
        metrics["distance"] = {"typical": 0.3, "largest": 1.25, "before": 2.0}
    model = Model(f"m{number}", cluster, created, NOW, created, "1.2", "newer history", True, metrics)
    tables = {"pairs": pa.Table.from_pylist([pair], schema=schema("pairs"))}
    store.write(lambda con: models.save(con, model, tables))
    ingest(store, cluster, Batch("activations", rows=ACTIVATION), collected=NOW, overlap=dt.timedelta(0))


def run(home, *arguments):
    return main(["--config", str(home / "colocate.toml"), "learn", *arguments])


def answering(home):
    snapshot = published.load(home / "snapshot")
    return snapshot.models, [row["slowdown"] for row in snapshot["pairs"].to_pylist()]


def test_a_list_tells_what_each_model_was_made_of_the_newest_first(home, store, capsys):
    saved(store, 1)
    saved(store, 2)
    assert run(home, "--list", "-o", "csv") == 0
    newest, older = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (newest["number"], newest["model"], newest["answers"]) == ("2", "m2", "yes")
    assert (older["number"], older["model"], older["answers"]) == ("1", "m1", "")
    assert (newest["window_end"], newest["code_version"]) == ("2024-05-01T02:00:00Z", "1.2")
    assert (newest["reason"], newest["evidence"], newest["observed"], newest["unknown"]) == (
        "newer history", "180", "1", "0",
    )  # fmt: skip
    assert (newest["distance_typical"], newest["distance_largest"]) == ("0.3", "1.25")
    assert (older["distance_typical"], older["distance_largest"]) == ("", "")
    assert list(newest)[-1] == "cluster"
    assert run(home, "--list") == 0
    table = capsys.readouterr().out
    [heads] = [line for line in table.splitlines() if "number" in line]
    wanted = ["number", "answers", "created", "activations", "observed", "reason", "cluster"]  # no holdout here
    assert [each.strip() for each in heads.strip("┃ ").split("┃")] == wanted
    assert "newer history" in table
    assert max(map(len, table.splitlines())) <= 110


@pytest.mark.parametrize("which", ["1", "m1"])
def test_a_chosen_model_answers_by_number_and_by_name(home, store, capsys, which):
    saved(store, 1, slowdown=0.25)
    saved(store, 2, slowdown=0.75)
    assert run(home, "--use", which) == 0
    assert "model 1 (m1) of cluster c1 answers from now on" in capsys.readouterr().out
    assert answering(home) == ({"c1": "m1"}, [0.25])
    assert run(home, "--list", "-o", "json") == 0
    assert [row["answers"] for row in json.loads(capsys.readouterr().out)] == ["", "chosen"]


def test_newest_ends_the_choice(home, store, capsys):
    for number in (1, 2, 3):
        saved(store, number, slowdown=number / 10)
    assert run(home, "--use", "1") == 0
    assert run(home, "--use", "newest", "-o", "json") == 0
    told = capsys.readouterr().out
    assert json.loads(told[told.index("{") :])["model"] == "m3"
    assert answering(home) == ({"c1": "m3"}, [0.3])
    assert not any(model.chosen for model in store.read(lambda con: models.saved(con, "c1")))


def test_numbers_are_never_used_again(store):
    for number in range(1, 9):
        saved(store, number)
    assert [model.number for model in store.read(lambda con: models.saved(con, "c1"))] == [8, 7, 6, 5, 4]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--use", "9"], "model '9': no such model of cluster c1; there are 2, 1"),
        (["--use", "m9"], "model 'm9': no such model of cluster c1"),
        (["--use", "1", "--list"], "--use: not together with"),
        (["--full", "--list"], "--list: not together with"),
        (["--engine", "spark"], "--engine spark: name the tables with --from"),
        (["--from", "tables"], "--from: only with --engine spark"),
        (["--master", "local[*]"], "--master: only with --engine spark"),
        (["--engine", "spark", "--from", "tables", "--list"], "--list: not with --engine spark"),
        (["--engine", "spark", "--from", "s3a://key:secret@b/t"], "--from: a URL with a password in it"),
        (["--list", "--cluster", "c9"], "cluster 'c9': neither configured nor imported"),
    ],
)
def test_wrong_words_are_one_line(home, store, capsys, arguments, said):
    saved(store, 1)
    saved(store, 2)
    assert run(home, *arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (home / "snapshot").exists()


def test_without_pyspark_the_extra_is_named(home, store, capsys, monkeypatch):
    saved(store, 1)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.delitem(sys.modules, "pyspark.errors", raising=False)
    assert run(home, "--engine", "spark", "--from", "tables") == 2
    said = "--engine spark: pyspark is not installed; see docs/spark.md\n"
    assert capsys.readouterr().err.endswith(said)


def test_a_choice_among_several_clusters_asks_which(home, store, capsys):
    saved(store, 1)
    saved(store, 1, cluster="c2")
    assert run(home, "--use", "1") == 2
    assert "--use: of which cluster? name it with --cluster; there are c1, c2" in capsys.readouterr().err
    assert run(home, "--use", "1", "--cluster", "c2") == 0
    one, two = (store.read(partial(models.saved, cluster=name))[0] for name in ("c1", "c2"))
    assert (one.chosen, two.chosen) == (False, True)


def test_nothing_learned_yet_is_said(home, store, capsys):
    saved(store, 1)
    store.write(lambda con: con.execute("DELETE FROM models"))
    assert run(home, "--use", "newest") == 2
    assert "nothing has been learned of cluster c1 yet" in capsys.readouterr().err
    assert run(home, "--list") == 0
    assert "models: none" in capsys.readouterr().out
