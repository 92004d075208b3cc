"""What is worked on side by side comes in order, and not more of it exists at once than is asked for."""

import threading

import pytest

from featurestore.engines.folding import in_turn


@pytest.mark.parametrize("ahead", [1, 5])
def test_those_after_a_long_one_are_worked_on_while_it_is_waited_for(ahead):
    given, done, last = list(range(20)), [], threading.Event()

    def work(number):
        if number == 0:
            assert last.wait(10), "as many as there may be ahead are done first"
        done.append(number)
        if number == ahead + 1:
            last.set()
        return -number

    drawn = []
    found = in_turn(work, (drawn.append(number) or number for number in given), 2, ahead)
    assert next(found) == 0
    assert sorted(done) == list(range(ahead + 2))
    assert len(drawn) == ahead + 2
    assert [0, *found] == [-number for number in given]


def test_one_thread_works_when_it_is_asked():
    drawn = []
    found = in_turn(drawn.append, iter(range(3)), 1, 9)
    next(found)
    assert drawn == [0]
