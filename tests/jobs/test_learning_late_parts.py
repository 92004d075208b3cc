"""What comes for days that are closed, where a model was there before a long history was learned in parts."""

import datetime as dt

import pyarrow as pa
import pytest

from featurestore.store import models
from featurestore.store.duck import Store
from jobs import learn
from jobs.config import LearnSettings, Settings, StoreSettings
from tests.support.history import BEGIN, ended, history, placed, put

HOUR = dt.timedelta(hours=1)
DAYS = 4
FIRST, UNTIL = BEGIN + 36 * HOUR, BEGIN + DAYS * 24 * HOUR
#: A day has 24 x 8 x 20 = 3,840 activations.
MOST = 6_000


@pytest.fixture(scope="module")
def given():
    return history(slowdown=0.6, hours=DAYS * 24, an_hour=20)


@pytest.fixture
def learned(tmp_path, given):
    """A day and a half are learned."""
    place = StoreSettings(path=tmp_path / "history.duckdb", snapshot=tmp_path / "snapshot")
    learning = LearnSettings(min_overlaps=10, activations=MOST, full_every=dt.timedelta(days=99))
    settings, store = Settings(store=place, learn=learning), Store(place.path)
    placed(store, given)
    put(store, "activations", ended(given, 0, 36), FIRST)
    learn.run(settings, "c1", now=lambda: FIRST, store=store)
    return settings, store


@pytest.fixture
def followed(learned, given):
    """The others come at once, as after a source was away, and are learned in parts."""
    settings, store = learned
    put(store, "activations", ended(given, 36, DAYS * 24), UNTIL)
    learn.run(settings, "c1", now=lambda: UNTIL, store=store)
    return learned


def late(given, since, until):
    """Two hundred records of a span of hours under names of their own."""
    rows = ended(given, since, until).slice(0, 200)
    place = rows.schema.get_field_index("activation_id")
    return rows.set_column(place, "activation_id", pa.array([f"late{number}" for number in range(200)]))


def reasons(store):
    return [model.reason for model in reversed(store.read(lambda con: models.saved(con, "c1")))]


def test_what_parts_have_learned_did_not_come_late(followed):
    """The parts close days of activations that all were collected after the newest model."""
    _, store = followed
    assert [reason for reason in reasons(store) if "came late" in reason] == []


def test_what_comes_after_the_parts_for_their_days_is_late(followed, given):
    """Two hundred, of 15,360 activations: more than 50, and than one in a hundred."""
    settings, store = followed
    put(store, "activations", late(given, 40, 60), UNTIL + HOUR)
    learn.run(settings, "c1", now=lambda: UNTIL + HOUR, store=store)
    assert reasons(store)[-1] == "200 activations came late, for days that were closed"


def test_what_comes_with_a_long_history_for_days_before_it_is_late(learned, given):
    """Two hundred of the first day, which the first model closed, in the same batch as two days and a half."""
    settings, store = learned
    put(store, "activations", pa.concat_tables([ended(given, 36, DAYS * 24), late(given, 4, 20)]), UNTIL)
    learn.run(settings, "c1", now=lambda: UNTIL, store=store)
    assert "200 activations came late, for days that were closed" in reasons(store)
