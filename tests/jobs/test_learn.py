"""A learning run from the store to the published snapshot, and the complete offline use: import, learn, read."""

import datetime as dt
import json
import shutil
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pytest

from featurestore.snapshot import empty
from featurestore.store import models, published, queries, regions, windows
from featurestore.store.duck import Store
from featurestore.store.ingest import ingest
from jobs import choosing, doctor, importing, learn, saving
from jobs.cli import main
from jobs.config import Settings, StoreSettings
from jobs.explaining import explain
from pipeline.collectors import regions as collected
from pipeline.columns import TABLES
from pipeline.errors import BadInput
from pipeline.records import Batch, Window
from rules.affinity.unknown import has_record
from rules.view import prepare
from tests.pipeline.test_regions_collector import STATUS, listing, resource
from tests.support.history import BEGIN, TIME, fill, history

NOW = BEGIN + dt.timedelta(hours=36)


@pytest.fixture
def settings(tmp_path):
    return Settings(store=StoreSettings(path=tmp_path / "history.duckdb", snapshot=tmp_path / "snapshot"))


@pytest.fixture
def store(settings):
    return Store(settings.store.path, dt.timedelta(seconds=30))


def pair(snapshot, victim="guest/f0", aggressor="guest/f1"):
    [row] = [
        row
        for row in snapshot["pairs"].to_pylist()
        if (row["victim"], row["aggressor"], row["cluster"]) == (victim, aggressor, "c1")
    ]
    return row


def test_from_the_store_to_the_published_snapshot(settings, store):
    given = history(slowdown=0.6)
    fill(store, given)
    outcome = learn.run(settings, "c1", now=lambda: NOW, store=store)
    assert outcome.message == ""
    assert outcome.attribution["exact"] == given.activations.num_rows == outcome.activations
    snapshot = published.load(settings.store.snapshot)
    assert snapshot.models == {"c1": outcome.model}
    assert snapshot.version == outcome.snapshot
    assert snapshot.attribution["c1"]["exact"] == given.activations.num_rows
    found = pair(snapshot)
    assert found["status"] == "observed"
    assert found["low"] <= 0.6 <= found["high"]
    assert found["window_start"] >= BEGIN
    [health] = [row for row in snapshot["health"].to_pylist() if row["source"] == "learn"]
    assert health["outcome"] == "ok"


def test_from_its_first_runs_on_a_new_function_is_monitored(settings, store):
    """A sentence of the published description: the function that nothing was known of has records now."""
    before = prepare(empty(NOW), "c1", NOW)
    assert "guest/f0" not in before.functions.index
    fill(store, history(slowdown=0.6))
    learn.run(settings, "c1", now=lambda: NOW, store=store)
    after = prepare(published.load(settings.store.snapshot), "c1", NOW)
    function = after.functions.index["guest/f0"]
    assert has_record(function, after)
    assert after.functions.runs[function] > 0
    assert after.latencies.of(function).stop > after.latencies.of(function).start


def test_the_model_records_what_it_was_made_of(settings, store):
    fill(store, history(slowdown=0.6))
    first = learn.run(settings, "c1", now=lambda: NOW, store=store)
    later = NOW + dt.timedelta(minutes=15)
    second = learn.run(settings, "c1", now=lambda: later, full=True, store=store)
    newest, older = store.read(lambda con: models.saved(con, "c1"))
    assert (newest.model, older.model) == (second.model, first.model)
    assert (newest.promoted, older.promoted) == (True, False)
    assert (newest.reason, older.reason) == ("asked for in full", "first model")
    assert newest.window_end == later
    assert newest.window_end - newest.window_start == settings.learn.window
    assert newest.code_version
    assert newest.metrics["evidence"] == second.evidence


def test_a_run_without_news_says_so_and_tells_of_the_model_that_stays(settings, store):
    fill(store, history(slowdown=0.6))
    at = NOW + dt.timedelta(days=2)  # all that ran is settled by then
    first = learn.run(settings, "c1", now=lambda: at, store=store)
    again = learn.run(settings, "c1", now=lambda: at + dt.timedelta(minutes=1), store=store)
    news = "nothing new since model 1 was learned, 2024-05-04 12:00 UTC"
    assert (first.changed, again.changed) == (True, False)
    assert news not in first.message
    assert again.message.startswith(news)
    [kept] = choosing.listed(store, ["c1"])
    for each in (first, again):
        assert (each.model, each.window_start, each.window_end) == (kept["model"], kept["window_start"], at)
    assert kept["window_end"] == at


def test_a_large_model_is_judged_while_the_file_is_free_and_is_the_same(settings, store, tmp_path, monkeypatch):
    fill(store, history(slowdown=0.6))
    large = Settings(store=StoreSettings(path=tmp_path / "large", snapshot=tmp_path / "shown"))
    shutil.copy(settings.store.path, large.store.path)
    learn.run(settings, "c1", now=lambda: NOW, store=store)
    monkeypatch.setattr(saving, "_AT_ONCE", 0)
    learn.run(large, "c1", now=lambda: NOW)
    one, other = (published.load(each.store.snapshot) for each in (settings, large))
    assert one.models == other.models
    assert one["pairs"].equals(other["pairs"])
    assert used(Store(large.store.path)).equals(used(store))


def test_import_and_learn_are_a_complete_offline_use(settings, store, tmp_path):
    """Files alone, whose history ended long before now and which name the node."""
    given = history(slowdown=0.6)
    where = dict(given.placements.select(["uid", "node"]).to_pandas().itertuples(index=False))
    hour = ((given.activations["start"].to_pandas() - BEGIN).dt.total_seconds() // 3600).astype(int)
    function = given.activations["function"].to_pandas().str.removeprefix("guest/f")
    node = [where[f"uid-{h}-{f}"] for h, f in zip(hour, function, strict=True)]
    table = given.activations.select(["activation_id", "function", "start", "end", "init_ms"])
    for name in ("start", "end"):
        text = table[name].to_pandas().dt.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(text))
    file = tmp_path / "history.csv"
    pa.csv.write_csv(table.append_column("node", pa.array(node)), file)
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    importing.run(settings, "activations", [file], cluster="c1", now=lambda: now, store=store)
    assert learn.clusters(settings, store) == ["c1"]
    outcome = learn.run(settings, "c1", now=lambda: now, store=store)
    assert outcome.attribution["given"] == given.activations.num_rows
    found = pair(published.load(settings.store.snapshot))
    assert found["status"] == "observed"
    assert found["low"] <= 0.6 <= found["high"]


def used(store):
    return store.read(lambda con: queries.arrow(con, 'SELECT * FROM activation_use ORDER BY "start", activation_id'))


def watermark(store, at):
    store.write(lambda con: queries.advance(con, "c1", "usage", "pod", at))


def test_what_activations_used_is_kept_and_learning_again_adds_nothing(settings, store):
    given = history(hours=4)
    fill(store, given)
    learn.run(settings, "c1", now=lambda: NOW, store=store)
    kept = used(store)
    assert kept.num_rows == given.activations.num_rows
    own = kept.to_pandas()
    # f0's pod uses 0.8 cores while f0 runs in it, f2's sends 50 MB/s; every pod has 100 MB.
    first = own[own.function == "guest/f0"]
    assert first.cpu_seconds.to_numpy() == pytest.approx(
        0.8 * (first.end - first.start).dt.total_seconds().to_numpy()
    )
    sender = own[own.function == "guest/f2"]
    assert sender.network_bytes.to_numpy() == pytest.approx(
        50e6 * (sender.end - sender.start).dt.total_seconds().to_numpy()
    )
    assert own.memory_bytes.to_numpy() == pytest.approx(1e8)
    assert set(own.method) == {"exact"}
    assert own.disk_bytes.isna().all()
    learn.run(settings, "c1", now=lambda: NOW + dt.timedelta(minutes=15), store=store)
    assert used(store).equals(kept)
    learn.run(settings, "c1", now=lambda: NOW + dt.timedelta(minutes=30), store=store, full=True)
    assert used(store).equals(kept)


def test_usage_that_comes_late_is_filled_in_and_only_then_final(settings, store):
    given = history(hours=4)
    late = BEGIN + dt.timedelta(hours=3)
    early = pa.compute.less_equal(given.usage["at"], pa.scalar(late, TIME))
    fill(store, replace(given, usage=given.usage.filter(early)))
    watermark(store, late)
    learn.run(settings, "c1", now=lambda: NOW, store=store)
    before = used(store).to_pandas()
    missing = before.cpu_seconds.isna()
    assert (missing == (before.end > late)).all()
    assert missing.any()
    fill(store, given)
    watermark(store, NOW)
    learn.run(settings, "c1", now=lambda: NOW + dt.timedelta(minutes=15), store=store)
    after = used(store).to_pandas()
    assert not after.cpu_seconds.isna().any()
    assert after[~missing].equals(before[~missing])


def test_activations_that_come_late_share_with_those_that_are_known(settings, store):
    given = history(hours=4)
    whole = learn_alone(settings, given)
    even = pa.array([i % 2 == 0 for i in range(given.activations.num_rows)])
    fill(store, replace(given, activations=given.activations.filter(even)))
    watermark(store, NOW)
    learn.run(settings, "c1", now=lambda: NOW, store=store)
    fill(store, given)
    learn.run(settings, "c1", now=lambda: NOW + dt.timedelta(minutes=5), store=store)
    found = used(store)
    assert found["activation_id"].equals(whole["activation_id"])
    assert found["cpu_seconds"].to_numpy() == pytest.approx(whole["cpu_seconds"].to_numpy())


def learn_alone(settings, given):
    """What activations used, of a store that had the whole history at once."""
    path = settings.store.path.with_name("other.duckdb")
    other = Store(path)
    fill(other, given)
    learn.run(settings, "c1", now=lambda: NOW, store=other)
    return used(other)


def test_a_window_that_is_copied_in_slices_is_the_same(settings, store):
    fill(store, history(hours=8))
    span = Window(BEGIN, NOW)
    whole = windows.copy(store, "c1", span)
    sliced = windows.copy(store, "c1", span, part=700)
    for name in ("activations", "usage"):
        assert whole[name].num_rows > 1000
        assert len(sliced[name]["function" if name == "activations" else "name"].chunks) > 2
        assert sliced[name].to_pylist() == whole[name].to_pylist()
        assert sliced[name].schema.equals(whole[name].schema)


def test_nothing_to_learn_from_is_said_and_no_error(settings, store):
    outcome = learn.run(settings, "nowhere", now=lambda: NOW, store=store)
    assert "no activations" in outcome.message
    assert published.load(settings.store.snapshot)["pairs"].num_rows == 0


def test_activations_without_placements_are_said_to_be_no_evidence(settings, store):
    given = history(hours=2)
    batch = Batch("activations", rows=given.activations.cast(TABLES["activations"]))
    ingest(store, "c1", batch, collected=NOW, overlap=dt.timedelta(minutes=10))
    outcome = learn.run(settings, "c1", now=lambda: NOW, store=store)
    assert "have no certain node: placements of their pods" in outcome.message
    assert outcome.attribution["none"] == outcome.activations
    later = NOW + dt.timedelta(minutes=15)
    again = learn.run(settings, "c1", now=lambda: later, store=store)
    assert (again.changed, again.model) == (False, outcome.model)
    [told] = [each for each in doctor.examine(settings, later) if each.check == "attribution"]
    assert (told.verdict, told.cluster) == ("warning", "c1")
    assert told.said == f"{outcome.activations:,} of {outcome.activations:,} activations have no certain node"
    known = published.load(settings.store.snapshot)
    [one] = explain(settings, known, "guest/f0", "guest/f1", "c1", None)
    assert f"{told.said}: {told.fix}" in one["missing"]


def test_a_snapshot_that_cannot_be_written_is_named(settings, store, tmp_path):
    nowhere = tmp_path / "missing" / "snapshot"
    held = settings.model_copy(update={"store": settings.store.model_copy(update={"snapshot": nowhere})})
    with pytest.raises(BadInput, match="missing"):
        learn.run(held, "c1", now=lambda: NOW, store=store)


def test_a_model_that_a_person_chose_answers_whatever_is_learned_later(settings, store):
    given = history(hours=4)
    fill(store, given)
    first = learn.run(settings, "c1", now=lambda: NOW, store=store)
    second = learn.run(settings, "c1", now=lambda: NOW + dt.timedelta(minutes=15), full=True, store=store)
    choosing.choose(settings, store, "c1", "1", lambda: NOW)
    third = learn.run(settings, "c1", now=lambda: NOW + dt.timedelta(minutes=30), full=True, store=store)
    assert "model 1 was chosen by hand and goes on answering" in third.message
    assert published.load(settings.store.snapshot).models == {"c1": first.model}
    [health] = [r for r in published.load(settings.store.snapshot)["health"].to_pylist() if r["source"] == "learn"]
    assert (health["outcome"], health["reason"]) == ("ok", "chosen")
    saved = store.read(lambda con: models.saved(con, "c1"))
    assert [(model.model, model.promoted) for model in saved] == [
        (third.model, False), (second.model, False), (first.model, True),
    ]  # fmt: skip
    choosing.choose(settings, store, "c1", choosing.NEWEST, lambda: NOW)
    fourth = learn.run(settings, "c1", now=lambda: NOW + dt.timedelta(minutes=45), full=True, store=store)
    assert fourth.message == ""
    assert published.load(settings.store.snapshot).models == {"c1": fourth.model}


#: Drains of one list of regions here; an operator's resource holds the last ten, which takes longer to bring.
A_LIST = 250


def drained(store, given, nodes_of_pe="guest/f0", few=3):
    """The history with the runs of f0 as drains of region 0, whose only PE is where f0's pod was; how many there are.

    They come as resources of the cluster, by the collector. Region 1 has the same PE and only the first *few* drains.
    """
    runs = given.activations.filter(pa.compute.equal(given.activations["function"], nodes_of_pe)).to_pylist()
    spans = [
        {
            "seqId": seq,
            "startedAt": int(run["start"].timestamp() * 1000),
            "milliseconds": round(run["duration_ms"] - (run["init_ms"] or 0.0)),
        }
        for seq, run in enumerate(runs, start=1)
    ]
    own = [name == nodes_of_pe for name in given.placements["function"].to_pylist()]
    labels = json.dumps({"streams.ibm.com/job": "j", "streams.ibm.com/pe": "j-0"})
    placements = given.placements.to_pylist()
    for row, is_pe in zip(placements, own, strict=True):
        if is_pe:
            row.update(function=None, namespace="streams", labels=labels)
    others = pa.compute.invert(pa.compute.equal(given.activations["function"], nodes_of_pe))
    fill(
        store,
        replace(
            given,
            activations=given.activations.filter(others),
            placements=pa.Table.from_pylist(placements, given.placements.schema),
        ),
    )
    for first in range(0, len(spans), A_LIST):
        at = NOW - dt.timedelta(seconds=len(spans) - first)
        statuses = (STATUS | {"recentDrains": spans[first : first + A_LIST]}, STATUS | {"recentDrains": spans[:few]})
        things = [resource(index, status, pesInRegion=[0]) for index, status in enumerate(statuses)]
        ingest(store, "c1", collected.collect(listing(*things), at), collected=at, overlap=dt.timedelta(0))
    return len(spans)


def test_a_region_that_drains_slower_beside_a_function_is_its_victim(settings, store, tmp_path, capsys):
    count = drained(store, history(slowdown=0.6, hours=24))
    learn.run(settings, "c1", now=lambda: NOW, store=store)
    snapshot = published.load(settings.store.snapshot)
    found = pair(snapshot, victim="regions:streams/j/0")
    assert found["status"] == "observed"
    assert found["low"] <= 0.6 <= found["high"]
    assert found["activations"] <= count
    for other in ("guest/f2", "guest/f3", "guest/f4"):
        row = pair(snapshot, victim="regions:streams/j/0", aggressor=other)
        assert row["status"] != "observed" or row["probability"] < 0.5
    regions = [name for name in snapshot["functions"]["function"].to_pylist() if name.startswith("regions:")]
    assert regions == []
    assert not any(name.startswith("regions:") for name in snapshot["pairs"]["aggressor"].to_pylist())

    file = tmp_path / "colocate.toml"
    file.write_text(f'[store]\npath = "{settings.store.path}"\nsnapshot = "{settings.store.snapshot}"\n')

    def said(*arguments):
        capsys.readouterr()  # a busy machine has the learning above say that it held the store for long
        assert main(["--config", str(file), "interference", *arguments]) == 0
        return capsys.readouterr().out

    beside = json.loads(said("regions:streams/j/0", "-o", "json"))
    assert (beside[0]["aggressor"], beside[0]["slowdown"]) == ("guest/f1", found["slowdown"])
    assert said("regions:streams/j/0", "guest/f1").startswith("regions:streams/j/0 beside guest/f1: observed\n")
    [explained] = json.loads(said("regions:streams/j/0", "guest/f1", "-o", "json"))
    assert sum(each["runs"] for each in explained["evidence"]["nodes"]) == explained["evidence"]["activations"] > 0
    assert explained["other_direction"] is None
    # Three drains do not suffice to say anything of the other region, though they were as slow.
    assert json.loads(said("regions:streams/j/1", "--status", "observed", "-o", "json")) == []
    assert json.loads(said("regions:streams/j/1", "guest/f1", "-o", "json"))[0]["status"] != "observed"
    for arguments, error in (
        (("regions:streams/j/9", "guest/f1"), "region 'regions:streams/j/9': no such region (colocate regions list"),
        (("guest/f1", "regions:streams/j/0"), "'regions:streams/j/0': a consistent region is a victim alone"),
    ):
        assert main(["--config", str(file), "interference", *arguments]) == 2
        assert error in capsys.readouterr().err


def test_a_drain_runs_where_most_of_its_pes_are(store):
    drained(store, history(hours=1, an_hour=3), few=0)
    [[node]] = store.read(
        lambda con: con.execute("SELECT node FROM placements WHERE namespace = 'streams'").fetchall()
    )
    found = store.read(lambda con: regions.drains(con, "c1", BEGIN, NOW))
    assert found["node"].to_pylist() == [node] * 3
    assert set(found["function"].to_pylist()) == {"regions:streams/j/0"}
    runs = store.read(lambda con: windows.activations(con, "c1", Window(BEGIN, NOW)))
    assert runs.slice(len(runs) - 3).to_pylist() == found.to_pylist()
