"""The exact solver behind `rules.hosts.problem`: CP-SAT of OR-tools, with a deadline.

It lives here and not with the rules because it looks at a clock. One worker and a fixed seed: the same question gets
the same answer, unless time runs out.
"""

import time
from collections.abc import Callable
from datetime import timedelta

from rules.hosts.cluster import bits
from rules.hosts.problem import Answer, Problem, Solve


def within(limit: timedelta, clock: Callable[[], float] = time.monotonic) -> Solve:
    """Return a solver of which all calls together take no longer than about *limit*."""
    end: list[float] = []

    def solve(problem: Problem) -> Answer:
        if not end:
            end.append(clock() + limit.total_seconds())
        left = end[0] - clock()
        return _solved(problem, left) if left > 0 else "undecided"

    return solve


def _solved(problem: Problem, seconds: float) -> Answer:
    from ortools.sat.python import cp_model  # half a second, which only hard jobs are to pay

    if not all(problem.domains):
        return "impossible"
    model = cp_model.CpModel()
    variables = [
        model.new_int_var_from_domain(cp_model.Domain.from_values(list(bits(nodes))), f"v{number}")
        for number, nodes in enumerate(problem.domains)
    ]
    for different in problem.different:
        model.add_all_different([variables[each] for each in different])
    for one, other in problem.equal:
        model.add(variables[one] == variables[other])
    for one, others in problem.one_of:
        choices = []
        for other in others:
            chosen = model.new_bool_var("")
            model.add(variables[one] == variables[other]).only_enforce_if(chosen)
            choices.append(chosen)
        model.add_bool_or(choices)
    met = []
    for number, node in problem.wanted:
        if problem.domains[number] >> node & 1:
            model.add_hint(variables[number], node)
            as_wanted = model.new_bool_var("")
            model.add(variables[number] == node).only_enforce_if(as_wanted)
            met.append(as_wanted)
    if met:
        model.maximize(sum(met))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_time_in_seconds = seconds
    status = solver.solve(model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return tuple(int(solver.value(variable)) for variable in variables)
    return "impossible" if status == cp_model.INFEASIBLE else "undecided"
