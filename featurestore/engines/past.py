"""What a full fit takes over from the state before: evidence older than the window, or whose activations are gone.

It is carried as it was folded, a Gaussian over slowdowns that keeps its meaning at the new point; blocks of which the
activations are all there are fitted again instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from featurestore.columnar import distinct
from featurestore.exposure.kernels import Codes, Ints
from featurestore.interference.blocks import Linearisation, relabelled
from featurestore.runs import Runs
from featurestore.states import Packed, State, Step, folded

#: A block of which so large a share of the evidence is still stored is fitted again.
_STILL_THERE = 0.98


@dataclass(frozen=True, slots=True)
class Past:
    """*aged* states in order of victims, of so many *rows* of evidence, and the *points* that these had, by the codes
    of the new run; *since*: later ends of runs are evidence of the new fit."""

    since: int
    aged: Packed = field(default_factory=lambda: Packed([]))
    points: Mapping[int, Linearisation] = field(default_factory=dict)
    rows: float = 0.0


def recall(state: State | None, runs: Runs, since: int, memory: float) -> tuple[Past, Runs]:
    """Return what stays of *state* (with all its steps) when runs that ended from *since* on are fitted in full, and
    *runs* under codes that name the functions and node types of both."""
    if state is None:
        return Past(since), runs
    since = max(since, state.head.aged)
    kept: list[Step] = []
    for step in state.steps:
        there = int(np.sum(runs.evidence & (runs.end >= step.since) & (runs.end < step.until)))
        if step.since < step.until and step.until > since and there >= _STILL_THERE * step.rows:
            break
        if step.until <= since or step.since < step.until:
            kept.append(step)
            since = max(since, step.until)
    aged = {victim: block for victim, block in folded(state.aged, kept, memory).items() if block.information > 0}
    points = {victim: state.points[victim] for victim in aged if victim in state.points}
    used = {code for victim, block in aged.items() for code in (victim, *block.met.tolist(), *block.columns.tolist())}
    names = distinct(pa.chunked_array([runs.functions]), _chosen(state.head.names, sorted(used)))
    kinds = distinct(pa.chunked_array([runs.node_types]), _chosen(state.head.node_types, None))
    of = _places(state.head.names, names)
    types = _places(state.head.node_types, kinds)
    runs = replace(
        runs,
        functions=names,
        node_types=kinds,
        function=_recoded(runs.function, runs.functions, names),
        node_type=_recoded(runs.node_type, runs.node_types, kinds),
    )
    return (
        Past(
            since,
            Packed.of({int(of[victim]): relabelled(aged.pop(victim), of, types) for victim in list(aged)}),
            {int(of[victim]): _moved(point, of, types) for victim, point in points.items()},
            state.head.past
            + state.head.rows
            - sum(step.rows for step in state.steps)
            + sum(step.rows for step in kept),
        ),
        runs,
    )


def _chosen(names: Sequence[str], codes: Sequence[int] | None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(names if codes is None else [names[code] for code in codes], pa.string())])


def _places(names: Sequence[str], among: pa.Array) -> Ints:
    """Return where each of *names* stands *among* others, -1 where it does not."""
    place = {name: code for code, name in enumerate(among.to_pylist())}
    return np.array([place.get(name, -1) for name in names], np.int64)


def _recoded(code: Codes, names: pa.Array, among: pa.Array) -> Codes:
    place = np.append(_places(names.to_pylist(), among), -1)
    found: Codes = place[code].astype(np.int32)
    return found


def _moved(point: Linearisation, functions: Ints, types: Ints) -> Linearisation:
    """Return the point under other codes; functions that have no code any more are left out."""
    here = np.flatnonzero(functions[point.columns] >= 0)
    at = here[np.argsort(functions[point.columns[here]])]
    kinds = np.argsort(types[point.types])
    return replace(
        point,
        victim=int(functions[point.victim]),
        types=types[point.types][kinds],
        base=point.base[kinds],
        columns=functions[point.columns[at]],
        slowdown=point.slowdown[at],
        widening=point.widening[at],
    )
