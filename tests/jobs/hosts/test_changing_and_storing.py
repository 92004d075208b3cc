"""Changes are made whole or taken back; submitted jobs are stored once, by name."""

from datetime import UTC, datetime

import pytest

from featurestore.store import control
from featurestore.store.control import Control
from jobs.config import Settings
from jobs.hosts import stored
from jobs.hosts.changing import Change, Ledger
from jobs.supervisor.schedule import plan
from pipeline.errors import BadInput, Permanent, Temporary
from rules.hosts.podrules import of_pod
from tests.support.hosting import hosts, job, placed

AT = datetime(2026, 3, 1, tzinfo=UTC)


class World:
    """Remembers what was done to it; *fails* names what goes wrong: when asked dry, made or undone."""

    def __init__(self, **fails: str) -> None:
        self.done: list[str] = []
        self._fails = fails

    def change(self, name: str) -> Change:
        def act(what: str) -> None:
            if self._fails.get(what) == name:
                raise Permanent("kubernetes", "status_422", f"{name}: refused")
            self.done.append(f"{what} {name}")

        return Change(name, lambda dry: act("ask" if dry else "make"), lambda: act("undo"))


def test_everything_is_asked_about_before_anything_is_made():
    world = World()
    Ledger().carry_out([world.change("a"), world.change("b")])
    assert world.done == ["ask a", "ask b", "make a", "make b"]
    world = World(ask="b")
    with pytest.raises(Permanent):
        Ledger().carry_out([world.change("a"), world.change("b")])
    assert world.done == ["ask a"]


def test_what_was_made_before_a_failure_is_taken_back_newest_first():
    world = World(make="c")
    with pytest.raises(Permanent, match="c: refused"):
        Ledger().carry_out([world.change(name) for name in "abcd"])
    assert world.done[4:] == ["make a", "make b", "undo b", "undo a"]


def test_one_that_cannot_be_taken_back_keeps_no_other():
    world = World(make="c", undo="b")
    with pytest.raises(Permanent, match="c: refused"):
        Ledger().carry_out([world.change(name) for name in "abc"])
    assert world.done[-1] == "undo a"


@pytest.fixture
def store(tmp_path):
    return Control(tmp_path / "control.sqlite")


def _revisions(store):
    return [(each.name, each.revision) for each in store.read(lambda con: control.listed(con, stored.KIND))]


def test_a_job_is_stored_once_and_comes_back_as_it_was(store):
    found = placed(
        job('host("n1"), hostColocation("t")', "host(P)", hostPools={"P": ["n2", "n1"]}), hosts("n1", "n2")
    )
    stored.keep(store, "c1", found, {"job": "ex"}, AT)
    stored.keep(store, "c1", found, {"job": "ex"}, AT)
    assert _revisions(store) == [("c1/ex", 1)]
    rules = stored.rules(store, "c1")
    labels = {"streams.ibm.com/job": "ex", "streams.ibm.com/pe": "ex-1"}
    mine = of_pod(rules, "default", labels)
    assert mine is not None
    assert (mine.needs, mine.terms, mine.labels) == (
        found.rules[1].needs, found.rules[1].terms, found.rules[1].labels,
    )  # fmt: skip
    assert of_pod(rules, "default", {**labels, "streams.ibm.com/pe": "1"}) == mine
    assert of_pod(rules, "team", labels) is None
    assert stored.rules(store, "c2") == {}
    assert stored.forget(store, "c1", "ex")
    assert not stored.forget(store, "c1", "ex")


def test_two_namespaces_cannot_have_jobs_of_one_name(store):
    stored.keep(store, "c1", placed(job("", namespace="team"), hosts("n1")), {}, AT)
    with pytest.raises(BadInput, match="job ex: is in namespace team already"):
        stored.known(store, "c1", job(""))
    with pytest.raises(BadInput, match="job ex: is in namespace team already"):
        stored.keep(store, "c1", placed(job(""), hosts("n1")), {}, AT)


def test_a_stored_job_that_cannot_be_read_costs_only_itself(store):
    stored.keep(store, "c1", placed(job(""), hosts("n1")), {}, AT)
    store.write(lambda con: control.put(con, stored.KIND, "c1/old", {"job": "old", "was": "otherwise"}, AT))
    assert [each.job for each in stored.every(store, "c1")] == ["ex"]


def test_a_job_that_was_released_or_submitted_meanwhile_is_not_stored_over(store):
    old = placed(job('host("n1")'), hosts("n1", "n2"))
    stored.keep(store, "c1", old, {"was": 1}, AT)
    known = stored.get(store, "c1", "ex")
    stored.keep(store, "c1", old, {"was": 2}, AT)
    with pytest.raises(Temporary, match="job ex: submitted or released meanwhile"):
        stored.keep(store, "c1", old, {"was": 1}, AT, instead_of=known)
    assert stored.get(store, "c1", "ex").document == {"was": 2}
    stored.forget(store, "c1", "ex")
    with pytest.raises(Temporary, match="job ex: submitted or released meanwhile"):
        stored.keep(store, "c1", old, {"was": 1}, AT, instead_of=known)
    assert stored.get(store, "c1", "ex") is None


def test_a_job_that_could_not_be_submitted_anew_is_stored_as_before(store):
    def submit(host, document):
        plan = placed(job(f'host("{host}")'), hosts("n1", "n2"))
        fails = World(make="pod").change("pod")
        with pytest.raises(Permanent):
            Ledger().carry_out([stored.change(store, "c1", plan, document, AT, stored.get(store, "c1", "ex")), fails])

    submit("n1", {"was": 1})
    assert stored.get(store, "c1", "ex") is None
    stored.keep(store, "c1", placed(job('host("n1")'), hosts("n1", "n2")), {"was": 1}, AT)
    before = stored.get(store, "c1", "ex")
    submit("n2", {"was": 2})
    assert stored.get(store, "c1", "ex") == before


def test_a_store_that_is_not_there_is_not_made(store):
    assert stored.every(store, "c1") == []
    assert stored.get(store, "c1", "ex") is None
    assert not stored.forget(store, "c1", "ex")
    assert not store.path.exists()


@pytest.mark.parametrize("may", [False, True])
def test_nodes_are_brought_back_on_a_schedule_only_where_they_may_be_changed(may):
    settings = Settings.model_validate(
        {"clusters": [{"name": "c1", "kubernetes": {}}], "hosts": {"change_nodes": may}}
    )
    found = {each.name: each.arguments for each in plan(settings, None)}
    assert found.get("hosts") == (("hosts", "reconcile", "--change-nodes") if may else None)
