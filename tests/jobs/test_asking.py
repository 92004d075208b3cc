"""Rules held to a deadline: who misses it is left out, counted and named, and costs nobody else."""

from collections import Counter
from dataclasses import replace
from threading import Event

import pytest

from jobs.asking import Beside, InTurn
from pipeline.errors import BadInput
from pipeline.objects import pod_of
from rules.advice import Advice
from rules.asking import Asked, Calls
from rules.policy import Policy
from rules.recommend import recommend
from rules.request import from_pod
from tests.support.worlds import World, node, pod, running


def said(name: str) -> Advice:
    return Advice(name)


class Clock:
    """Stands still until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_rules_run_side_by_side():
    """Each waits for the other: in turn neither would ever answer."""
    first, second = Event(), Event()

    def one() -> Advice:
        first.set()
        assert second.wait(20)
        return said("one")

    def other() -> Advice:
        second.set()
        assert first.wait(20)
        return said("other")

    asked = Beside()({"one": one, "other": other})
    assert list(asked.advices) == ["one", "other"]
    assert asked.left_out == {}


def test_a_rule_that_misses_its_deadline_is_left_out_and_told():
    told: Counter[tuple[str, str]] = Counter()
    never = Event()
    try:
        asked = Beside(lambda *what: told.update([what]), seconds=0.05)(
            {"slow": lambda: said(str(never.wait(20))), "quick": lambda: said("quick")}
        )
    finally:
        never.set()
    assert list(asked.advices) == ["quick"]
    assert asked.left_out == {"slow": "deadline"}
    assert told == {("slow", "deadline"): 1}


def test_rules_that_never_end_leave_room_for_no_more_than_so_many():
    never = Event()
    beside = Beside(seconds=0.05)

    def hangs() -> Advice:
        never.wait(20)
        return said("")

    try:
        for _ in range(3):
            assert len(beside({f"r{number}": hangs for number in range(30)}).left_out) == 30
        assert beside({"quick": lambda: said("quick")}).left_out == {"quick": "deadline"}
    finally:
        never.set()


def test_an_error_costs_only_the_rule_that_made_it():
    told: Counter[tuple[str, str]] = Counter()
    calls: Calls = {"fastest": lambda: said("x" * (1 // 0)), "unknown": lambda: said("unknown")}
    for ask in (Beside(lambda *what: told.update([what])), InTurn(lambda *what: told.update([what]))):
        asked = ask(calls)
        assert list(asked.advices) == ["unknown"]
        assert asked.left_out == {"fastest": "error"}
    assert told == {("fastest", "error"): 2}


def test_a_bad_input_is_told_to_whoever_asked():
    def refuses() -> Advice:
        raise BadInput("spec: odd")

    with pytest.raises(BadInput, match="spec: odd"):
        Beside()({"own": refuses})


def test_in_turn_what_a_pod_needs_is_asked_even_when_time_is_up():
    clock, told = Clock(), []

    def hardware() -> Advice:
        clock.now = 1.0
        return said("hardware")

    calls = {"hardware": hardware, "workflow": lambda: said("workflow"), "fastest": lambda: said("fastest")}
    asked = InTurn(lambda *what: told.append(what), seconds=0.5, clock=clock)(calls)
    assert list(asked.advices) == ["hardware", "workflow"]
    assert asked.left_out == {"fastest": "deadline"}
    assert told == [("fastest", "deadline")]


def test_in_turn_an_error_in_what_a_pod_needs_is_one_of_the_whole_answer():
    with pytest.raises(ZeroDivisionError):
        InTurn(lambda *_: None)({"hardware": lambda: said("x" * (1 // 0))})


def test_an_answer_names_the_rules_that_it_does_without():
    """Without interference B, the least loaded, is best; the answer says what it does not know."""
    world = World(
        [node("A"), node("B")],
        pods=[running("batch", "B")],
        slowdowns={("hello", "batch"): 0.8},
        load={"A": 0.6, "B": 0.2},
    )
    view = world.view()

    def late(calls: Calls) -> Asked:
        return Asked(
            {name: call() for name, call in calls.items() if name != "interference"}, {"interference": "deadline"}
        )

    manifest = pod("hello")
    request = from_pod(manifest, pod_of(manifest), view, namespace="ow", cluster="c1", policy=Policy())
    request = replace(request, mode="prefer")
    whole = recommend(request, view, Policy(), decision="d")
    assert [each.name for each in whole.nodes] == ["A", "B"]
    assert whole.left_out == ()
    lacking = recommend(request, view, Policy(), decision="d", ask=late)
    assert [each.name for each in lacking.nodes] == ["B", "A"]
    assert lacking.left_out == ("interference",)
    assert any("interference missed its deadline" in reason.sentence for reason in lacking.reasons)
