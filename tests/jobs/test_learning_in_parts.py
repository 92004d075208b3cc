"""A history of more activations than are learned from together, learned in parts: nothing twice, nothing left out."""

import datetime as dt

import pytest

from featurestore.store import models, published, states, windows
from featurestore.store.duck import Store
from jobs import learn, passing, refold
from jobs.config import LearnSettings, Settings, StoreSettings
from pipeline.records import Window
from tests.support.history import BEGIN, fill, history

HOUR = dt.timedelta(hours=1)
DAYS = 5
UNTIL = BEGIN + DAYS * 24 * HOUR
#: A day has 24 x 8 x 10 = 1,920 activations.
DAY = 1_920
MOST = 3_000


def made(tmp_path, **learning):
    place = StoreSettings(path=tmp_path / "history.duckdb", snapshot=tmp_path / "snapshot")
    return Settings(store=place, learn=LearnSettings(min_overlaps=10, **learning))


@pytest.fixture(scope="module")
def given():
    return history(slowdown=0.6, hours=DAYS * 24, an_hour=10)


def learned(settings, given):
    store = Store(settings.store.path)
    fill(store, given)
    return store, learn.run(settings, "c1", now=lambda: UNTIL, store=store)


@pytest.fixture(scope="module")
def in_parts(tmp_path_factory, given):
    settings = made(tmp_path_factory.mktemp("parts"), activations=MOST, full_every=dt.timedelta(days=99))
    return settings, *learned(settings, given)


@pytest.fixture(scope="module")
def at_once(tmp_path_factory, given):
    settings = made(tmp_path_factory.mktemp("once"))
    return settings, *learned(settings, given)


def pairs(settings):
    table = published.load(settings.store.snapshot)["pairs"]
    return {(row["victim"], row["aggressor"]): row for row in table.to_pylist()}


def head(store):
    return store.read(lambda con: states.head(con, "c1"))


def reasons(store):
    return [model.reason for model in reversed(store.read(lambda con: models.saved(con, "c1")))]


def test_a_long_history_is_read_a_part_at_a_time(in_parts, given):
    """Four days end with a part each; what is left after them is learned as always."""
    _, store, outcome = in_parts
    counts = store.read(lambda con: con.execute("SELECT rows FROM runs WHERE source = 'learn'").fetchall())
    assert len(counts) == 5
    # What ran beside the first runs of a part, and its last hour, were read before.
    assert all(DAY <= count <= MOST + DAY for (count,) in counts)
    assert reasons(store)[0] == "first model"
    assert outcome.evidence + head(store).past == given.activations.num_rows


def test_parts_say_what_the_fit_of_all_says(in_parts, at_once):
    """Within two of its standard errors, of the same overlaps."""
    some, whole = pairs(in_parts[0]), pairs(at_once[0])
    assert some.keys() == whole.keys()
    assert whole["guest/f0", "guest/f1"]["status"] == some["guest/f0", "guest/f1"]["status"] == "observed"
    for pair, row in whole.items():
        assert some[pair]["effective_overlaps"] == pytest.approx(row["effective_overlaps"], rel=0.02)
        if row["status"] == "observed":
            wide = (row["high"] - row["low"]) / 3.29
            assert abs(row["slowdown"] - some[pair]["slowdown"]) < 2 * wide + 0.01


def test_no_more_is_kept_to_be_fitted_again_than_is_fitted_together(in_parts, at_once):
    settings, store, _ = in_parts
    state = store.read(lambda con: states.whole(con, "c1"))
    assert DAY <= sum(step.rows for step in state.steps) <= MOST + DAY
    first = next(step for step in state.steps if step.rows)
    assert state.head.aged == first.since == int((UNTIL - 48 * HOUR).timestamp()) * 1_000_000
    assert state.aged
    assert refold.again(settings, store, "c1") <= 1e-9
    everything = at_once[1].read(lambda con: states.whole(con, "c1"))
    assert everything.head.aged == 0
    assert not everything.aged


def test_a_full_fit_afterwards_counts_nothing_twice(in_parts, given, tmp_path):
    """It fits the newest hours; what is older stays known as it was folded."""
    settings, store, _ = in_parts
    known = pairs(settings)
    outcome = learn.run(settings, "c1", now=lambda: UNTIL + HOUR, store=store, full=True)
    assert outcome.activations <= MOST + DAY
    assert outcome.evidence + head(store).past == given.activations.num_rows
    for pair, row in pairs(settings).items():
        assert row["effective_overlaps"] == pytest.approx(known[pair]["effective_overlaps"], rel=0.05)


def test_a_window_holds_as_many_as_are_learned_from_together(at_once):
    """80 an hour: of the last hours, as many whole ones as have 500 at most; always the last."""
    _, store, _ = at_once
    days = dt.timedelta(days=14)

    def window(most):
        return store.read(lambda con: windows.window(con, "c1", UNTIL, days, most))

    assert window(500) == Window(UNTIL - 6 * HOUR, UNTIL)
    assert window(3) == Window(UNTIL - HOUR, UNTIL)
    assert window(DAYS * DAY) == window(None) == Window(UNTIL - days, UNTIL)


def test_a_history_that_is_learned_together_has_no_parts(at_once):
    settings, store, _ = at_once
    assert store.read(lambda con: passing.part(con, "c1", UNTIL, settings)) is None
