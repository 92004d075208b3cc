"""What is new is folded into the state, and all pairs are decided again; nothing is fitted from the beginning.

Days that can no longer change are folded for good; what came since is reduced at each run anew and folded on top for
this run alone. Profiles, latencies, and the predictions of pairs seen little are those of the last full fit, with
functions added that are new since; an increment that finds that the full fit no longer holds says why. Where that is
so of few victims, days to come are reduced at the points to which these moved: of a thousand there is always one.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from threadpoolctl import threadpool_limits

from featurestore import answers, profiles
from featurestore.columnar import codes
from featurestore.engines.candidate import (
    Inputs,
    Known,
    Learned,
    Options,
    Prepared,
    candidate,
    counted,
    outside,
    prepare,
)
from featurestore.engines.folding import HOUR, MOST, Reduced, blocks, edges, in_turn, members
from featurestore.exposure.kernels import Codes, Ints
from featurestore.exposure.sweep import OPEN
from featurestore.interference import solution
from featurestore.interference.evidence import Told
from featurestore.runs import Runs
from featurestore.states import Blocks, Packed, State, Step, folded

#: A victim has left its point when the log of some stretched time moved so far from it, beyond chance.
_MOST_MOVED = 0.25
#: Or when so many standard deviations of a usual day's level lie between now and then.
_MOST_DRIFT = 4.0
#: A full fit is made when victims of so large a share of all evidence have.
_MOST_LEFT = 0.05
#: And when there is so many times the evidence that it had.
_MOST_GROWN = 1.5
#: And when so large a share of the new runs cannot take part, of at least so many.
_MOST_LEFT_OUT, _LEAST_LEFT_OUT = 0.05, 50
#: What a model's metrics say of profiles and of the full fit, which increments take over.
_SAME = ("class_limits", "classes", "disagreements", "distance")
#: But for such reasons not within so long (microseconds) of the last one.
_PAUSE = HOUR


@dataclass(frozen=True, slots=True)
class Carried:
    """What the newest model says: its *tables*, and its *metrics*."""

    tables: Mapping[str, pa.Table]
    metrics: Mapping[str, Any]


def advance(
    inputs: Inputs, options: Options, state: State, carried: Carried, *, passing: bool = False
) -> Learned | str:
    """Fold what ended at ``state.head.closed`` (``inputs.since``) or later into *state*; or return, in words, why a
    full fit is needed.

    *inputs* hold all runs that ended then or later, those that ran beside them, and at least the last hour. The state
    of the answer is None where no further day could be folded for good. *passing* folds what is settled alone and
    decides nothing, also not whether the full fit holds, unless runs cannot take part: more is to come.
    """
    if outside(inputs) != state.head.outside:
        return "declared profiles or workflows changed"
    whole = prepare(inputs, options, state.head.names, state.head.node_types)
    ready = whole.fitted
    runs = ready.runs
    own = members(runs, inputs.since, OPEN)
    most = options.most if passing else MOST
    cuts = list(pairwise(edges(runs.end[own], inputs.since, inputs.until, most)))
    closing = [cut for cut in cuts if cut[1] <= inputs.settled]
    seen = [round(state.head.rows) + int(own.sum()), int(runs.end[own].max(initial=carried.metrics["seen"][1]))]
    news = seen != carried.metrics["seen"]
    with threadpool_limits(1, "blas"):
        days, current = list[Reduced](), state.current
        for day in _days(ready, closing, inputs, options, state):
            current = folded(current, [day.step], options.memory)
            days.append(day)
        done = [day.step for day in days]
        if news and not passing:
            days += _days(ready, cuts[len(closing) :], inputs, options, state)
        if passing:
            if reason := _left_out(days):
                return reason
            metrics = {**carried.metrics, **counted(ready, carried.tables["pairs"])}
            passed = _advanced(state, done, current, runs, options) if done else None
            return Learned(carried.tables, ready.used, ready.attribution, metrics, passed, changed=False)
        tables = _tables(whole, inputs, carried)
        if news:
            final = folded(current, [day.step for day in days[len(closing) :]], options.memory)
            fits = _fits(range(len(runs.functions)), final, state, len(runs.functions), options)
            if inputs.until - state.head.made >= _PAUSE and (reason := _outgrown(days, seen[0], fits, runs, state)):
                return reason
            known = Known(
                fits,
                state.predictions,  # of functions that are new nothing is predicted
                state.head.since if seen[0] else None,
                seen[1],
                carried.metrics.get("calibration", {}),
            )
            same = {name: carried.metrics[name] for name in _SAME if name in carried.metrics}
            more = {**same, "seen": seen, "evidence": seen[0]}
            found = candidate(ready, known, options, tables, {**more, "functions": len(_names(tables))})
        else:
            pairs = carried.tables["pairs"]
            metrics = {**carried.metrics, **counted(ready, pairs)}
            found = Learned({"pairs": pairs, **tables}, ready.used, ready.attribution, metrics)
        advanced = _advanced(state, done, current, runs, options) if done else None
    changed = news or bool(done) or _rows(found.tables["busyness"]) != _rows(carried.tables["busyness"])
    return replace(found, changed=changed, state=advanced)


def _days(
    ready: Prepared, cuts: Sequence[tuple[int, int]], inputs: Inputs, options: Options, state: State
) -> Iterator[Reduced]:
    open_ended = [(since, until if until < inputs.until else OPEN) for since, until in cuts]
    return blocks(ready.runs, open_ended, state.points, options)


def _fits(victims: Iterable[int], states: Blocks, state: State, functions: int, options: Options) -> list[Told]:
    """Return what *states* say of *victims*, in order."""

    def told(victim: int) -> Told:
        if victim in states and victim in state.points:
            return solution.solve(states[victim], state.points[victim], functions, options.estimation)
        return solution.unknown(victim, functions)

    return list(in_turn(told, iter(victims), options.threads))


def _advanced(state: State, done: Sequence[Step], current: Blocks, runs: Runs, options: Options) -> State:
    """Return the state *current* after the steps *done*. Victims that left their points have new ones from there on,
    and a level that they drifted to is the one from which they may drift."""
    fits = _fits(current, current, state, len(runs.functions), options)
    left = _left(fits, runs, state)
    known = {fit.victim: fit for fit in fits if fit.victim in left}
    points = {each: solution.moved_to(known[each], state.points[each]) for each in left}
    drift = {runs.functions[each].as_py(): known[each].drift for each in left if np.isfinite(known[each].drift)}
    head = replace(
        state.head,
        drift={**state.head.drift, **drift},
        closed=done[-1].until,
        rows=state.head.rows + sum(step.rows for step in done),
        names=tuple(runs.functions.to_pylist()),
        node_types=tuple(runs.node_types.to_pylist()),
    )
    former = {head.closed: {each: state.points[each] for each in left}} if left else {}
    points = {**state.points, **points}
    return replace(state, head=head, points=points, current=Packed.of(current), steps=done, former=former)


def _outgrown(days: Sequence[Reduced], rows: int, fits: Sequence[Told], runs: Runs, state: State) -> str:
    """Return why a full fit is needed, "" where none is."""
    if reason := _left_out(days):
        return reason
    fitted, known = state.head.fitted + state.head.past, rows + state.head.past
    if known >= _MOST_GROWN * max(fitted, 1):
        return f"evidence grew from {fitted:.0f} to {known:.0f} activations"
    left = _left(fits, runs, state)
    if left and sum(fit.rows for fit in fits if fit.victim in left) >= _MOST_LEFT * sum(fit.rows for fit in fits):
        return next(iter(left.values()))
    return ""


def _left_out(days: Sequence[Reduced]) -> str:
    """Return why too many runs of *days* cannot take part, "" where they can."""
    recent = sum(day.step.rows for day in days)
    least = max(_LEAST_LEFT_OUT, _MOST_LEFT_OUT * recent)
    if sum(day.strange for day in days) >= least:
        return "a node type that the last full fit did not know"
    if sum(day.pointless for day in days) >= least:
        return "functions that the last full fit did not know run often"
    return ""


def _left(fits: Sequence[Told], runs: Runs, state: State) -> dict[int, str]:
    """Return the victims that have left their points, each with how far in words."""
    found = {}
    for fit in fits:
        if fit.victim not in state.points:
            continue
        name, by = runs.functions[fit.victim].as_py(), solution.moved(fit, state.points[fit.victim])
        if by > _MOST_MOVED:
            found[fit.victim] = f"{name}: a slowdown moved by {math.expm1(by):.0%} from where it was linearised"
        elif abs(drift := fit.drift - state.head.drift.get(name, 0.0)) > _MOST_DRIFT:
            found[fit.victim] = f"{name}: drifted by {drift:.1f} standard deviations of a usual day's level"
    return found


def _tables(ready: Prepared, inputs: Inputs, carried: Carried) -> dict[str, pa.Table]:
    """Return the tables beside the pairs: as they were, with what is new by function, node type and node."""
    runs = ready.runs
    untold = fresh(runs, carried.tables["latencies"])
    latencies = answers.latencies(untold)
    functions, _ = answers.functions(
        runs.functions.to_pylist(),
        runs.node_types.to_pylist(),
        answers.answered(untold),
        profiles.nothing(),
        inputs.declared.slice(0, 0),
        {},
    )
    return {
        "functions": _joined(carried.tables["functions"], functions, ("function", "node_type")),
        "latencies": _joined(carried.tables["latencies"], latencies, ("function", "node_type", "node")),
        "company": carried.tables["company"],
        "busyness": answers.busyness(runs, inputs.until, inputs.placements),
    }


def fresh(runs: Runs, known: pa.Table) -> Runs:
    """Return the runs of those functions, by node type and node, that the *known* latencies do not tell of: all that
    rows which are new are made of."""

    def key(function: Codes, kind: Codes, node: Codes) -> Ints:
        type_of = function.astype(np.int64) * (len(runs.node_types) + 1) + kind + 1
        found: Ints = type_of * (len(runs.nodes) + 1) + node + 1
        return found

    function, node = codes(known["function"], runs.functions), codes(known["node"], runs.nodes)
    kind = codes(known["node_type"], runs.node_types)
    unnamed = pc.equal(known["node_type"].cast(pa.string()), "").to_numpy(zero_copy_only=False)
    told = key(function, kind, node)[(function >= 0) & ((kind >= 0) | unnamed)]
    return runs.take(np.flatnonzero(~np.isin(key(runs.function, runs.node_type, runs.node), told)))


def _joined(known: pa.Table, found: pa.Table, by: Sequence[str]) -> pa.Table:
    """Return the rows *known*, and those *found* whose key is not among them."""
    plain = [pa.field(name, pa.string()) for name in by]
    keys = known.select(list(by)).cast(pa.schema(plain))
    fresh = found.append_column("row", pa.array(np.arange(found.num_rows)))
    for field in plain:
        fresh = fresh.set_column(fresh.schema.get_field_index(field.name), field, fresh[field.name].cast(pa.string()))
    new = fresh.join(keys, list(by), join_type="left anti")["row"]
    if len(new) == 0:
        return known.cast(found.schema)
    return pa.concat_tables([known.cast(found.schema), found.take(new.sort())]).unify_dictionaries()


def _rows(busyness: pa.Table) -> set[tuple[str, str, float]]:
    columns = (busyness[name].to_pylist() for name in ("node", "function", "running"))
    return set(zip(*columns, strict=True))


def _names(tables: Mapping[str, pa.Table]) -> list[str]:
    names: list[str] = pc.unique(tables["functions"]["function"].cast(pa.string())).to_pylist()
    return names
