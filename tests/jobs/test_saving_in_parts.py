"""A large model is saved in parts, each a short transaction: killed between any two the former one stays."""

import contextlib
import datetime as dt
import shutil
import subprocess
import sys
import threading
from itertools import pairwise
from unittest import mock

import pytest

from featurestore.engines import candidate
from featurestore.states import pack_blocks
from featurestore.store import bodies, claims, models, pieces, published, states
from featurestore.store.duck import Store
from jobs import beside, learn, saving
from jobs.config import LearnSettings, Settings, StoreSettings
from pipeline.errors import Temporary
from tests.support.history import BEGIN, fill, history
from tests.support.service import wait_until
from tests.support.stores import select

UNTIL = BEGIN + dt.timedelta(hours=30)
LATER = UNTIL + dt.timedelta(hours=1)

#: Learns in full, in parts as small as below, and dies once so many of its transactions are done.
KILLED = """
import os, sys
from featurestore.store.duck import Store
from tests.jobs.test_saving_in_parts import again, in_small_parts
whole, left = Store.write, int(sys.argv[2])
def write(self, work, prepared=None):
    global left
    found = whole(self, work, prepared)
    left -= 1
    if not left:
        os.kill(os.getpid(), 9)
    return found
Store.write = write
with in_small_parts(sys.argv[3] == "ahead"):
    again(sys.argv[1])
"""

#: Learns in full, in parts as small as below and bodies ahead, once its standard input is closed.
AT_ONCE = """
import sys
from tests.jobs.test_saving_in_parts import again, in_small_parts
print("ready", flush=True)
sys.stdin.read()
with in_small_parts(ahead=True):
    again(sys.argv[1])
"""

#: Whether bodies are written ahead, beside what follows the state, or with the model's rows.
WHEN = ("ahead", "with the rows")


@contextlib.contextmanager
def in_small_parts(ahead=False):
    """Everything is long, and a part holds little; bodies may be written *ahead*."""
    with contextlib.ExitStack() as stack:
        for module, name, value in (
            (saving, "_AT_ONCE", 0),
            (bodies, "LONG", 200),
            (pieces, "PART", 20),
            (claims, "PART", 20),
            *([(beside, "BYTES_AT_ONCE", 0)] if ahead else []),
        ):
            stack.enter_context(mock.patch.object(module, name, value))
        yield


def made(directory):
    place = StoreSettings(path=f"{directory}/history.duckdb", snapshot=f"{directory}/snapshot")
    return Settings(store=place, learn=LearnSettings(min_overlaps=10))


def again(directory):
    return learn.run(made(directory), "c1", now=lambda: LATER, full=True)


def told(directory):
    """What answers: the published pairs, without the time of their model, and the model's number."""
    store = Store(made(directory).store.path)
    [answering] = [model for model in store.read(lambda con: models.saved(con, "c1")) if model.promoted]
    snapshot = published.load(made(directory).store.snapshot)
    return answering.number, snapshot.models["c1"] == answering.model, snapshot["pairs"].to_pylist()


def state(directory):
    """The stored state as bytes, and its serial."""
    found = Store(made(directory).store.path).read(lambda con: states.whole(con, "c1"))
    steps = [
        (step.since, step.until, step.rows, step.running, pack_blocks(dict(step.blocks))) for step in found.steps
    ]
    return found.head.serial, found.head.model, pack_blocks(found.current), steps


def left(directory):
    """What nothing refers to: pieces, rows of no model, claims."""
    store = Store(made(directory).store.path)
    of_nothing = "SELECT count(*) FROM folded_pieces WHERE entry NOT IN (SELECT entry FROM folded)"
    of_no_model = "SELECT count(*) FROM pairs WHERE model NOT IN (SELECT model FROM models)"
    return [select(store, query)[0][0] for query in (of_nothing, of_no_model, "SELECT count(*) FROM saving")]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A history that was learned once, at once."""
    directory = tmp_path_factory.mktemp("first")
    fill(Store(made(directory).store.path), history(slowdown=0.6, hours=30, an_hour=12))
    learn.run(made(directory), "c1", now=lambda: UNTIL)
    return directory


@pytest.fixture(scope="module")
def second(first, tmp_path_factory):
    """The same, learned once more, at once."""
    directory = tmp_path_factory.mktemp("second") / "copy"
    shutil.copytree(first, directory)
    again(directory)
    return directory


@pytest.mark.parametrize("when", WHEN)
def test_in_parts_the_same_is_saved_as_at_once(first, second, tmp_path, when):
    directory = shutil.copytree(first, tmp_path / "copy")
    whole, written = Store.write, []

    def write(self, work, prepared=None):
        written.append(select(self, "SELECT count(*) FROM folded_pieces")[0][0])
        return whole(self, work, prepared)

    with in_small_parts(when == "ahead"), mock.patch.object(Store, "write", write):
        again(directory)
    assert len(written) > 5
    assert max(after - before for before, after in pairwise(written)) <= 20, "pieces that one transaction wrote"
    assert told(directory) == told(second)
    assert state(directory) == state(second)
    assert left(directory) == [0, 0, 0]


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("done", [2, 5])
def test_killed_between_two_parts_the_former_model_answers_and_the_next_run_clears(
    first, second, tmp_path, done, when
):
    directory = shutil.copytree(first, tmp_path / "copy")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(directory), str(done), when], check=False)
    assert killed.returncode == -9
    assert told(directory) == told(first)
    assert state(directory) == state(first)
    assert left(directory)[2] == 1, "somebody was writing"
    assert left(directory)[0] > 0 or done == 2
    again(directory)
    assert told(directory) == told(second)
    assert state(directory) == state(second)
    assert left(directory) == [0, 0, 0]


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("when", WHEN)
def test_who_has_lost_the_claim_learns_anew(first, second, tmp_path, when, alike):
    """Another run begins to write while this one does, of another model or of one of the very same name and size."""
    directory = shutil.copytree(first, tmp_path / "copy")
    whole, others = claims.check, []

    def check(con, own):
        if not others:
            others.append(own)
            claims.claim(con, "c1", *((own.model, own.last - own.first + 1) if alike else ("another", 1)))
        whole(con, own)

    with in_small_parts(when == "ahead"), mock.patch.object(claims, "check", check):
        outcome = again(directory)
    assert len(others) == 1
    assert told(directory) == told(second)
    assert outcome.model == told_model(directory)
    assert left(directory) == [0, 0, 0]


def test_bodies_are_written_before_pairs_are_decided(first, tmp_path):
    """As many as there are of them in the end, and nobody reads them before."""
    directory, whole, begun = shutil.copytree(first, tmp_path / "copy"), candidate.decide, []
    store, former = Store(made(directory).store.path), state(directory)

    def decide(*given):
        count = "SELECT count(DISTINCT entry) FROM folded_pieces WHERE entry NOT IN (SELECT entry FROM folded)"
        wait_until(lambda: select(store, count)[0][0] > 1)
        begun.append(state(directory) == former)
        return whole(*given)

    with in_small_parts(ahead=True), mock.patch.object(candidate, "decide", decide):
        again(directory)
    assert begun == [True]
    assert left(directory) == [0, 0, 0]
    assert state(directory) != former


def test_where_others_have_the_file_for_too_long_bodies_are_written_with_the_rows(first, second, tmp_path):
    directory, whole, tried = shutil.copytree(first, tmp_path / "copy"), claims.begun, []

    def begun(*given):
        tried.append(len(given))
        if len(tried) == 1:
            raise Temporary("store", "locked", "held by another process for longer than 30 s")
        return whole(*given)

    with in_small_parts(ahead=True), mock.patch.object(claims, "begun", begun):
        again(directory)
    assert len(tried) == 2
    assert told(directory) == told(second)
    assert state(directory) == state(second)
    assert left(directory) == [0, 0, 0]


@pytest.mark.parametrize("done", [1, 2])
def test_where_the_decision_fails_no_further_part_is_written(first, tmp_path, done):
    """The part that is being written when it does goes on once the failure is known."""

    class Known(threading.Event):
        def set(self):
            super().set()
            failed.set()

    directory, written, failed = shutil.copytree(first, tmp_path / "copy"), [], threading.Event()
    whole = pieces.write

    def write(con, part):
        written.append(part.num_rows)
        whole(con, part)
        if len(written) == done:
            failed.wait(20)

    def decide(*_):
        wait_until(lambda: len(written) == done)
        raise KeyError("decision")

    with (
        in_small_parts(ahead=True),
        mock.patch.object(pieces, "write", lambda con, pieces: write(con, pieces)),
        mock.patch.object(candidate, "decide", decide),
        mock.patch.object(beside, "Event", Known),
        pytest.raises(KeyError, match="decision"),
    ):
        again(directory)
    assert failed.is_set()
    assert len(written) == done
    assert told(directory) == told(first)
    assert state(directory) == state(first)


@pytest.mark.parametrize("kind", ["current", "step", "point", "aged"])
def test_a_state_of_which_parts_are_gone_is_begun_anew(first, second, tmp_path, kind):
    directory = shutil.copytree(first, tmp_path / "copy")
    with in_small_parts():
        again(directory)
    store = Store(made(directory).store.path)
    entries = "SELECT entry FROM folded WHERE entry > 0 AND kind = ?"
    store.write(lambda con: con.execute(f"DELETE FROM folded_pieces WHERE entry IN ({entries})", [kind]))
    outcome = learn.run(made(directory), "c1", now=lambda: LATER + dt.timedelta(hours=1), full=True)
    reason = store.read(lambda con: models.find(con, "c1", outcome.model).reason)
    if kind == "aged":  # of which there is nothing here
        assert reason == "asked for in full"
    else:
        assert "of it are gone; what it knew from before the window is lost" in reason
    assert told(directory)[2] == told(second)[2]
    assert left(directory) == [0, 0, 0]
    following = learn.run(made(directory), "c1", now=lambda: LATER + dt.timedelta(hours=2))
    assert "lost" not in store.read(lambda con: models.find(con, "c1", following.model).reason)


def test_two_processes_that_learn_the_same_at_once_both_end(first, second, tmp_path):
    """With the same name for their models even; whoever loses the claim learns anew, and nothing is lost or left."""
    directory = shutil.copytree(first, tmp_path / "copy")
    command = [sys.executable, "-c", AT_ONCE, str(directory)]
    with contextlib.ExitStack() as stack:
        both = [
            stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            for _ in range(2)
        ]
        assert [each.stdout.readline() for each in both] == [b"ready\n"] * 2
        for each in both:
            each.stdin.close()
        assert [each.wait(120) for each in both] == [0, 0]
    assert told(directory)[1:] == told(second)[1:]
    assert left(directory) == [0, 0, 0]
    assert "lost" not in " ".join(
        model.reason for model in Store(made(directory).store.path).read(lambda con: models.saved(con, "c1"))
    )
    again(directory)
    assert told(directory)[1:] == told(second)[1:]


def told_model(directory):
    return published.load(made(directory).store.snapshot).models["c1"]


def test_bodies_of_an_earlier_version_are_read(first, tmp_path):
    """They stand in their rows, however long."""
    directory = shutil.copytree(first, tmp_path / "copy")
    before = state(directory)
    Store(made(directory).store.path).write(lambda con: con.execute("UPDATE folded SET entry = NULL"))
    assert state(directory) == before


@pytest.mark.parametrize("long", [False, True])
def test_steps_are_read_one_at_a_time_where_they_are_long(second, tmp_path, long):
    directory = shutil.copytree(second, tmp_path / "copy")
    if long:
        with in_small_parts():
            again(directory)
    store, read = Store(made(directory).store.path), Store.read
    expected = store.read(lambda con: states.whole(con, "c1"))
    state, calls = store.read(lambda con: states.outlined(con, "c1")), []

    def counted(self, work):
        calls.append(work)
        return read(self, work)

    with mock.patch.object(Store, "read", counted):
        found = states.filled(store, "c1", state)
    assert len(calls) == 1 + (len(expected.steps) if long else 1)
    assert len(expected.steps) > 1
    for one, other in zip(found.steps, expected.steps, strict=True):
        assert (one.since, one.until, one.rows, one.running) == (other.since, other.until, other.rows, other.running)
        assert one.blocks.parts == other.blocks.parts
    store.write(lambda con: con.execute("DELETE FROM folded WHERE kind = 'head'"))
    with pytest.raises(claims.Outdated):
        states.filled(store, "c1", state)


def test_pieces_give_the_bodies_again(tmp_path):
    """Of any length, over the edges of parts, in whatever order they come."""
    given = [bytes([n]) * length for n, length in enumerate((1, 255, 256, 257, 10_000, 512))]
    store = Store(tmp_path / "s.duckdb")
    with mock.patch.object(pieces, "PART", 7):
        cut = list(pieces.cut(given, 5))
    assert {part.num_rows for part in cut[:-1]} == {7}
    assert sum(part.num_rows for part in cut) == 1 + 1 + 1 + 2 + 40 + 2
    for part in reversed(cut):
        store.write(lambda con, part=part: pieces.write(con, part))
    found = store.read(lambda con: pieces.read(con, [5, 6, 7, 8, 9, 10, 99]))
    assert found == dict(enumerate(given, start=5))
    assert store.read(lambda con: pieces.read(con, [9])) == {9: given[4]}
    store.write(pieces.clear)
    assert select(store, "SELECT count(*) FROM folded_pieces") == [(0,)]
