"""What is worked out ahead is what the first pod needs, and a new snapshot begins anew."""

from jobs.service.warming import Warming
from rules.policy import Policy
from rules.recommend import answer
from rules.view import View
from rules.warm import busiest, warm
from tests.support.worlds import World, node, running

WORLD = World(
    [node("A"), node("B")],
    pods=[running("batch", "A", 0), running("batch", "A", 1), running("hello", "B"), running("stranger", "B")],
    slowdowns={("hello", "batch"): 0.8},
    known=("hello", "batch", "idle"),
)


def test_the_busiest_learned_functions_come_first() -> None:
    view = WORLD.view()
    assert [view.functions.names[each] for each in busiest(view, 10)][:2] == ["batch", "hello"]
    assert [view.functions.names[each] for each in busiest(view, 1)] == ["batch"]
    assert "idle" in {view.functions.names[each] for each in busiest(view, 10)}


def test_what_is_kept_is_what_an_answer_asks_for() -> None:
    view = WORLD.view()
    list(warm(view, Policy(mode="prefer"), 10))
    kept = set(view.pairs.memo._kept)
    asking = WORLD.request({"metadata": {"name": "x", "labels": {"openwhisk/action": "hello"}}, "spec": {}},
                           Policy(mode="prefer"), view)  # fmt: skip
    answer(asking, view, Policy(mode="prefer"), decision="d")
    assert kept == set(view.pairs.memo._kept)


def test_each_snapshot_is_worked_out_once_and_given_up_for_a_newer_one() -> None:
    views: list[View] = [WORLD.view()]
    warming = Warming(lambda: views[-1], Policy(mode="prefer"), pause=lambda _: None)
    warming.work()
    kept = dict(views[0].pairs.memo._kept)
    assert kept
    views[0].pairs.memo._kept.clear()
    warming.work()
    assert not views[0].pairs.memo._kept
    views.append(WORLD.view())
    warming.work()
    assert set(views[1].pairs.memo._kept) == set(kept)
