"""A cluster's nodes get another kernel: what was learned under the old one fades once, and folding again agrees."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from featurestore.interference.fold import MEMORY, RENEWED
from featurestore.states import Step, folded
from featurestore.store import states
from featurestore.store.duck import Store
from featurestore.store.ingest import ingest
from jobs import learn, refold
from jobs.config import LearnSettings, Settings, StoreSettings
from pipeline.columns import TABLES
from pipeline.records import Batch
from tests.support.history import BEGIN, history

HOUR = dt.timedelta(hours=1)


def put(store, name, rows, at):
    schema = TABLES[name]
    batch = Batch(name, rows=rows.select(schema.names).cast(schema), whole=False)
    ingest(store, "c1", batch, collected=at, overlap=dt.timedelta(minutes=10))


def listed(store, nodes, kernel, at):
    kept = nodes.drop_columns(["valid_from", "valid_to", "kernel"])
    kept = kept.append_column("at", pa.array([at] * len(kept))).append_column(
        "kernel", pa.array([kernel] * len(kept))
    )
    put(store, "nodes", kept, at)


def whole(store):
    return store.read(lambda con: states.whole(con, "c1"))


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory):
    """30 hours from a midnight on, of which the first 12 under kernel 6.1: learned in full at hour 26, and by an
    increment at hour 50, when the second day has ended."""
    directory = tmp_path_factory.mktemp("upgraded")
    place = StoreSettings(path=directory / "history.duckdb", snapshot=directory / "snapshot")
    settings = Settings(store=place, learn=LearnSettings(full_every=dt.timedelta(days=9)))
    store, given = Store(place.path), history(slowdown=0.6, hours=30, an_hour=40)
    placements = given.placements.drop_columns(["last_seen"]).append_column("at", given.placements["ended"])
    put(store, "placements", placements.append_column("named", pa.array([True] * len(placements))), BEGIN)
    listed(store, given.nodes, "6.1.0", BEGIN)
    listed(store, given.nodes, "6.8.0", BEGIN + 12 * HOUR)
    found = []
    for hour, end in ((26, 26), (50, 30)):
        now = BEGIN + hour * HOUR
        ended = np.array([each < BEGIN + end * HOUR for each in given.activations["end"].to_pylist()])
        put(store, "activations", given.activations.filter(pa.array(ended)), now - dt.timedelta(seconds=1))
        learn.run(settings, "c1", now=lambda now=now: now, store=store)
        found.append(whole(store))
    return settings, store, found


def test_what_came_under_the_old_kernel_fades_with_the_first_day_that_did_not_see_it(upgraded):
    _, _, (before, after) = upgraded
    # The second step is the correction of the full fit.
    assert [step.running for step in before.steps] == [("6.1.0", "6.8.0"), ()]
    assert [step.running for step in after.steps] == [("6.1.0", "6.8.0"), (), ("6.8.0",)]
    unfaded = folded({}, [Step(step.since, step.until, step.rows, step.blocks) for step in after.steps], MEMORY)
    assert all(block.kernels == ("6.1.0", "6.8.0") for block in before.current.values())
    assert any(0.3 < block.under[0] / block.information < 0.7 for block in before.current.values())
    for victim, block in after.current.items():
        was = unfaded[victim]
        old = was.under[0] / was.information
        kinds = len(block.types)
        # Independently: the marginal of all but the bases, by inverting the whole, over that without fading.
        now, then = (
            np.linalg.inv(np.linalg.inv(each.gram + 1e-9 * np.eye(len(each.gram)))[kinds:, kinds:])
            for each in (block, was)
        )
        assert block.kernels == ("6.8.0",)
        assert np.trace(now) / np.trace(then) == pytest.approx(1 - old + old * RENEWED, rel=1e-6)


def test_the_stored_days_folded_again_are_the_state_with_kernels(upgraded):
    settings, store, _ = upgraded
    assert refold.again(settings, store, "c1") <= 1e-9


def test_a_full_fit_over_the_change_leaves_it_to_the_fold(upgraded):
    """No fit that pools both kernels corrects the fold; the state is that of the days alone."""
    settings, store, (_, after) = upgraded
    learn.run(settings, "c1", now=lambda: BEGIN + 51 * HOUR, store=store, full=True)
    state = whole(store)
    assert state.head.model != after.head.model
    assert [step.running for step in state.steps] == [("6.1.0", "6.8.0"), ("6.8.0",)]
    assert all(block.kernels == ("6.8.0",) for block in state.current.values())
    assert refold.again(settings, store, "c1") <= 1e-9
