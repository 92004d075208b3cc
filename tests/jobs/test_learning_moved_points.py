"""Victims that left the point of the full fit: few get points of their own, many ask for a full fit."""

import datetime as dt
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from featurestore.engines import increment
from featurestore.interference.fold import MEMORY
from featurestore.store import heldout, states
from jobs import passing, refold
from jobs.config import LearnSettings
from tests.jobs.test_learning_over_time import made, pairs, placed, reasons, step
from tests.support.history import BEGIN, TIME, history

#: In hours: the first full fit, of a day, and increments that close a day each.
STEPS = ((0, 23), (23, 26), (26, 50), (50, 74), (74, 98))


@pytest.fixture(scope="module")
def changed():
    """f1 slows f0 from the second day on only; f0 is an eighth of the evidence."""
    calm, slowed = (history(slowdown=slowdown, hours=99, an_hour=90, nodes=2) for slowdown in (0.0, 0.9))
    midnight = pa.scalar(BEGIN + dt.timedelta(days=1), TIME)
    rows = pa.concat_tables(
        [
            calm.activations.filter(pc.less(calm.activations["end"], midnight)),
            slowed.activations.filter(pc.greater_equal(slowed.activations["end"], midnight)),
        ]
    )
    ids = pa.array([f"{number:032x}" for number in range(rows.num_rows)])
    return replace(slowed, activations=rows.set_column(0, "activation_id", ids))


def learned(tmp_path, given, monkeypatch, share):
    """Learn step by step where so large a *share* of the evidence asks for a full fit, and nothing else does."""
    monkeypatch.setattr(increment, "_MOST_LEFT", share)
    monkeypatch.setattr(increment, "_MOST_GROWN", 9.0)
    monkeypatch.setattr(heldout, "enough", lambda con, cluster, span, *, aside: False)
    settings, store = made(tmp_path, full_every=dt.timedelta(days=9))
    placed(store, given)
    for since, until in STEPS:
        step(settings, store, given, since, until)
    return settings, store


def test_few_have_a_new_point_and_days_are_reduced_there(tmp_path, changed, monkeypatch):
    settings, store = learned(tmp_path, changed, monkeypatch, 0.2)
    assert [reason.split(":")[0] for reason in reasons(store)] == ["first model", *["newer history"] * 4]
    state = store.read(lambda con: states.whole(con, "c1"))
    f0, f1 = (state.head.names.index(f"guest/{name}") for name in ("f0", "f1"))
    [(until, former)] = state.former.items()
    assert list(former) == [f0]
    days = [each.until for each in state.steps if each.since < each.until]
    assert days[0] < until < days[-1], "days were reduced at the former point and at the new one"
    old, new = (
        dict(zip(point.columns.tolist(), point.slowdown.tolist(), strict=True))
        for point in (former[f0], state.points[f0])
    )
    assert old.get(f1, 0.0) < 0.1
    assert new[f1] > 0.25
    assert state.points_of(until)[f0] is state.points[f0]
    assert state.points_of(until - 1)[f0] is former[f0]
    assert refold.again(settings, store, "c1") <= 1e-9
    assert pairs(settings)["guest/f0", "guest/f1"]["slowdown"] > 0.25
    few = settings.model_copy(update={"learn": LearnSettings(activations=1000)})
    passing.age(store, "c1", few, MEMORY)
    aged = store.read(lambda con: states.whole(con, "c1"))
    assert [each.until for each in aged.steps] == [days[-1]]
    assert aged.former == {}, "no step is left that was reduced there"
    assert aged.points[f0].slowdown.tolist() == state.points[f0].slowdown.tolist()
    assert refold.again(few, store, "c1") <= 1e-9


def test_where_much_of_the_evidence_moved_the_window_is_fitted_anew(tmp_path, changed, monkeypatch):
    _, store = learned(tmp_path, changed, monkeypatch, 0.05)
    assert any(reason.startswith("guest/f0: a slowdown moved by ") for reason in reasons(store))
    assert store.read(lambda con: states.whole(con, "c1")).former == {}
