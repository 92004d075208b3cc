"""A view kept current: what pods and reservations came and went since it was made, in time by their number."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import numpy as np

from pipeline.records import Pod
from rules.functions import with_unlearned
from rules.memo import Memo
from rules.nodes import with_held
from rules.running import Entries, Floats, Held, Reservation, Running, entries, units
from rules.standing import Scopes, changed, scoped
from rules.view import Services, View, company_now, counts

#: Beyond so many functions with entries of their own all entries are laid out anew.
_CHANGED: Final = 2000


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened to a cluster's pods and to one's own reservations, each in any order.

    *services* and *scopes* are all that there are now, None where nothing happened to them.

    A pod that changed is gone as it was and came as it is.
    """

    came: tuple[Pod, ...] = ()
    gone: tuple[Pod, ...] = ()
    reserved: tuple[Reservation, ...] = ()
    released: tuple[Reservation, ...] = ()
    services: Services | None = None
    scopes: Scopes | None = None


@dataclass(frozen=True, slots=True)
class _Step:
    """One pod more (*sign* 1) or less (-1) of *function* on *node*; *fresh* as in `rules.running.Entries`."""

    sign: int
    node: str
    function: str
    requests: Mapping[str, float]
    fresh: bool


def updated(view: View, at: datetime, changes: Changes) -> View:
    """Return *view* as it is after *changes*; it equals one that is made anew from all that is there now."""
    steps = [step for step in _steps(view, changes) if step.node in view.nodes.index]
    services = view.services if changes.services is None else changes.services
    names = dict.fromkeys(step.function for step in _steps(view, changes))
    functions = with_unlearned(view.functions, names, view.workflows.values())
    pairs = view.pairs
    if not np.array_equal(functions.importance[: len(view.functions)], view.functions.importance):
        pairs = replace(pairs, memo=Memo())  # it rests on them
    held = _held(view, steps)
    running = _running(replace(view, functions=functions), steps)
    return replace(
        view,
        at=at,
        nodes=with_held(view.nodes, held),
        functions=functions,
        held=held,
        running=running,
        company=company_now(running, functions, view.medians, len(view.nodes)),
        pairs=pairs,
        services=services,
        standing=changed(
            view.standing if changes.scopes is None else scoped(view.standing, changes.scopes),
            ((sign, pod) for sign, pods in ((-1, changes.gone), (1, changes.came)) for pod in filter(counts, pods)),
            view.nodes.index,
        ),
        memo=Memo(),
    )


def _steps(view: View, changes: Changes) -> Iterator[_Step]:
    owner = view.learned.owners.function_of
    for sign, pods in ((-1, changes.gone), (1, changes.came)):
        for pod in filter(counts, pods):
            yield _Step(sign, pod.node, owner(pod), pod.requests, fresh=pod.created > view.created)
    for sign, reservations in ((-1, changes.released), (1, changes.reserved)):
        for each in reservations:
            yield _Step(sign, each.node, each.function, each.requests, fresh=True)


def _held(view: View, steps: Iterable[_Step]) -> Held:
    size = len(view.nodes)
    pods, requests = view.held.pods.copy(), dict(view.held.requests)
    copied: dict[str, Floats] = {}
    for step in steps:
        node = view.nodes.index[step.node]
        pods[node] += step.sign
        for name, amount in step.requests.items():
            column = copied.get(name)
            if column is None:
                column = copied[name] = requests[name].copy() if name in requests else np.zeros(size)
            column[node] += step.sign * units(name, amount)
    return Held({**requests, **copied}, pods)


def _running(view: View, steps: Iterable[_Step]) -> Running:
    moves: dict[int, list[tuple[int, int, bool]]] = {}
    for step in steps:
        if step.function:
            move = (view.nodes.index[step.node], step.sign, step.fresh)
            moves.setdefault(view.functions.index[step.function], []).append(move)
    if not moves:
        return view.running
    changed = dict(view.running.changed)
    for function, moved in moves.items():
        changed[function] = _entries(view, function, moved)
    running = Running(view.running.start, view.running.entries, changed)
    return running if len(changed) <= _CHANGED else _anew(running, len(view.functions))


def _entries(view: View, function: int, moved: Iterable[tuple[int, int, bool]]) -> Entries:
    now = view.running.of(function)
    pods = dict(zip(now.node.tolist(), zip(now.pods.tolist(), now.fresh.tolist(), strict=True), strict=True))
    for node, sign, new in moved:
        there, fresh = pods.get(node, (0, 0))
        pods[node] = (there + sign, fresh + sign * new)
    kept = sorted((node, *counted) for node, counted in pods.items() if counted[0] > 0)
    columns = [np.array([row[column] for row in kept], dtype=np.int32) for column in range(3)]
    measured = None if view.busyness is None else view.busyness.of(function)
    return entries(columns[0], columns[1], columns[2], measured)


def _anew(running: Running, functions: int) -> Running:
    function, every = running.all()
    return Running(np.searchsorted(function, np.arange(functions + 1)), every)
