"""The exact solver against every assignment of small problems."""

from datetime import timedelta
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.hosts.solver import within
from rules.hosts.cluster import bits
from rules.hosts.problem import Problem

ANY = timedelta(seconds=30)


def meets(problem, values):
    return (
        all(problem.domains[at] >> value & 1 for at, value in enumerate(values))
        and all(len({values[each] for each in group}) == len(group) for group in problem.different)
        and all(values[one] == values[other] for one, other in problem.equal)
        and all(values[one] in [values[each] for each in others] for one, others in problem.one_of)
    )


numbers = st.integers(0, 3)
pairs = st.tuples(numbers, numbers).filter(lambda pair: pair[0] != pair[1])
groups = st.lists(numbers, min_size=2, max_size=4, unique=True).map(tuple)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 15), min_size=4, max_size=4),
    st.lists(groups, max_size=3),
    st.lists(pairs, max_size=1),
    st.lists(st.tuples(numbers, groups), max_size=1),
    st.lists(st.tuples(numbers, numbers), max_size=3),
)
def test_it_finds_a_solution_just_where_there_is_one_and_the_most_wanted(domains, different, equal, one_of, wanted):
    problem = Problem(tuple(domains), tuple(different), tuple(equal), tuple(one_of), tuple(dict(wanted).items()))
    solutions = [each for each in product(*(list(bits(nodes)) for nodes in domains)) if meets(problem, each)]
    answer = within(ANY)(problem)
    if not solutions:
        assert answer == "impossible"
        return
    assert answer in solutions
    score = {each: sum(each[at] == node for at, node in problem.wanted) for each in solutions}
    assert score[answer] == max(score.values())


def test_no_time_is_undecided():
    clock = iter([0.0, 5.0])
    assert within(timedelta(seconds=1), lambda: next(clock))(Problem((1,), (), (), (), ())) == "undecided"


def test_the_same_question_gets_the_same_answer():
    problem = Problem(tuple([2**30 - 1] * 20), (tuple(range(20)),), (), (), ())
    assert within(ANY)(problem) == within(ANY)(problem)
