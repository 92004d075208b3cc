"""A new model that is worse on what was set aside is saved and does not answer, and everybody is told."""

import datetime as dt
import json

import numpy as np
import pyarrow as pa
import pytest

from featurestore.interference.spared import BLOCK, aside, keys
from featurestore.store import models, published, queries
from featurestore.store.duck import Store
from featurestore.store.ingest import ingest
from jobs import refold
from jobs.cli import main
from jobs.config import Settings, StoreSettings
from pipeline.columns import TABLES
from pipeline.records import Batch
from tests.support.history import BEGIN_US, history

HOURS = 48


def told(given, nodes, prefix, renamed=None):
    """The activations of a history, each with the node that it ran on, under the names *nodes*."""
    where = {(row["function"], row["started"]): row["node"] for row in given.placements.to_pylist()}
    rows = []
    for row in given.activations.to_pylist():
        at = row["start"].replace(minute=0, second=0, microsecond=0)
        node = nodes[int(where[row["function"], at].removeprefix("n"))]
        function = (renamed or {}).get(row["function"], row["function"])
        rows.append(row | {"activation_id": prefix + row["activation_id"], "node": node, "function": function})
    return pa.Table.from_pylist(rows, schema=TABLES["activations"])


def names(count, hours, many):
    """Names of nodes of which in the first *hours* nothing is set aside, or with *many* as much as can be found."""
    at = BEGIN_US + np.arange(hours + 1) * BLOCK
    known = [f"x{number}" for number in range(300)]
    apart = {name: aside(np.repeat(keys([name]), len(at)), at).sum() for name in known}
    return sorted(known, key=lambda name: apart[name], reverse=many)[:count]


@pytest.fixture(scope="module")
def good():
    return told(history(slowdown=0.8, functions=3, hours=HOURS, an_hour=60), names(3, HOURS, True), "a")


@pytest.fixture(scope="module")
def foreign():
    """Of another cluster, where f2 disturbs f0 and f1 does not, under this one's name; nothing of it is set aside."""
    other = history(slowdown=2.0, functions=3, hours=10, an_hour=350, nodes=2, seed=2)
    exchanged = {"guest/f1": "guest/f2", "guest/f2": "guest/f1"}
    return told(other, names(2, 10, False), "b", exchanged)


@pytest.fixture
def home(tmp_path):
    (tmp_path / "colocate.toml").write_text(
        f'[store]\npath = "{tmp_path}/history.duckdb"\nsnapshot = "{tmp_path}/snapshot"\n', encoding="utf-8"
    )
    return tmp_path


def put(home, rows):
    collected = dt.datetime.now(dt.UTC)  # an imported history is kept for a while, however old it is
    ingest(Store(home / "history.duckdb"), "c1", Batch("activations", rows=rows), collected=collected,
           overlap=dt.timedelta(0))  # fmt: skip


def learn(home, capsys, *more):
    code = main(["--config", str(home / "colocate.toml"), "learn", "--cluster", "c1", "-o", "json", *more])
    said = capsys.readouterr()
    return code, json.loads(said.out)[0], said.err


def read(home, work):
    return Store(home / "history.duckdb").read(work)


def test_a_worse_model_is_saved_and_does_not_answer(home, good, foreign, capsys):
    put(home, good)
    code, first, _ = learn(home, capsys)
    assert code == 0
    place = StoreSettings(path=home / "history.duckdb", snapshot=home / "snapshot")
    again = refold.again(Settings(store=place), Store(place.path), "c1")
    assert again <= 1e-9, "the stored days folded again are the state, without what was set aside"
    put(home, foreign)
    code, second, error = learn(home, capsys)
    assert code == 3
    [said] = [line for line in error.splitlines() if line.startswith("colocate:")]  # beside what a busy machine logs
    assert "the new model is saved but does not answer" in said
    assert second["held_back"] == "worse"
    snapshot = published.load(home / "snapshot")
    assert snapshot.models == {"c1": first["model"]}
    [health] = [row for row in snapshot["health"].to_pylist() if row["source"] == "learn"]
    assert (health["outcome"], health["reason"]) == ("partial", "worse")
    [message] = read(home, lambda con: queries.arrow(con, "SELECT message FROM runs WHERE outcome = 'partial'"))[0]
    assert "worse than model 1" in message.as_py()
    newest, before = read(home, lambda con: models.saved(con, "c1"))
    assert (newest.promoted, before.promoted) == (False, True)
    record = newest.metrics["holdout"]
    assert record["verdict"] == "worse"
    assert record["against"] == 1
    assert record["candidate"] < record["before"]
    assert record["constant"] < record["before"]

    # A person may overrule it, and what is learned without news goes on from there.
    assert main(["--config", str(home / "colocate.toml"), "learn", "--use", "newest", "--cluster", "c1"]) == 0
    capsys.readouterr()
    assert published.load(home / "snapshot").models == {"c1": second["model"]}
    assert learn(home, capsys)[0] == 0


def test_what_is_set_aside_is_seen_by_no_fit(home, good, capsys):
    """Runs of the blocks that are set aside could say anything: what is learned stays the same."""
    put(home, good)
    _, outcome, _ = learn(home, capsys)
    end = np.array([at.timestamp() for at in good["end"].to_pylist()]) * 1e6
    apart = aside(keys(good["node"].to_pylist()), end.astype(np.int64))
    assert outcome["evidence"] == good.num_rows - apart.sum()
    assert 0.05 < apart.mean() < 0.25
    learned = published.load(home / "snapshot")["pairs"]

    other = home / "other"
    other.mkdir()
    (other / "colocate.toml").write_text(
        f'[store]\npath = "{other}/history.duckdb"\nsnapshot = "{other}/snapshot"\n', encoding="utf-8"
    )
    duration = good["duration_ms"].to_numpy() * np.where(apart, 7.0, 1.0)
    place = good.schema.get_field_index("duration_ms")
    put(other, good.set_column(place, "duration_ms", pa.array(duration)))
    learn(other, capsys)
    columns = ["victim", "aggressor", "status", "slowdown", "low", "high"]
    assert published.load(other / "snapshot")["pairs"].select(columns).equals(learned.select(columns))


def test_a_short_history_is_seen_whole_and_says_so(home, capsys):
    put(home, told(history(hours=3, functions=3), ["n0", "n1", "n2"], "a"))
    learn(home, capsys)
    learn(home, capsys, "--full")
    newest, _ = read(home, lambda con: models.saved(con, "c1"))
    assert newest.metrics["evidence"] == newest.metrics["placed"]
    assert newest.metrics["holdout"]["verdict"] == "none"
    assert newest.metrics["holdout"]["why"] == "too little history to set a part of it aside"
    assert newest.promoted
