"""The pods of a recorded window, and which of them served each run."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from featurestore.columnar import codes, distinct, floats, micros
from featurestore.exposure.sweep import OPEN
from featurestore.replay.kernel import Floats, Ints
from featurestore.replay.serving import serving

#: A pod that no list has seen is taken to be stopped when it served nothing for so long: OpenWhisk's idle timeout.
IDLE_US = 600_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Runs (n,) on certain nodes, by start; *function* and *node* are codes, times in microseconds.

    *execution* in seconds, initialisation excluded; *name* is the code of the pod's name, -1 where it is not known.
    """

    function: Ints
    node: Ints
    name: Ints
    start: Ints
    end: Ints
    execution: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Lives:
    """Pods (P,): codes of *function* (-1: none) and *node*, times in microseconds (*ended* `OPEN`: not known), and
    *requests* (P, 2) of CPU and memory; *served* (n,) says which of them each run was of."""

    names: tuple[str, ...]
    function: Ints
    node: Ints
    started: Ints
    ended: Ints
    requests: Floats
    served: Ints


def runs(used: pa.Table, functions: pa.Array, nodes: pa.Array, names: pa.Array) -> Runs:
    """Return the runs of *used* (`used.USE`) whose node and end are known and that took some time."""
    used = used.sort_by([("start", "ascending"), ("activation_id", "ascending")])
    function, node = codes(used["function"], functions).astype(np.int64), codes(used["node"], nodes).astype(np.int64)
    start, end, latency = micros(used["start"]), micros(used["end"]), floats(used["latency_ms"])
    kept = (node >= 0) & (function >= 0) & (end != OPEN) & (end > start) & (latency > 0)
    name = codes(used["pod"], names).astype(np.int64)
    return Runs(function[kept], node[kept], name[kept], start[kept], end[kept], latency[kept] / 1000.0)


def pod_names(*tables: pa.Table) -> pa.Array:
    """Return all names of pods in the column ``pod`` of *tables*."""
    return distinct(*(table["pod"] for table in tables))


def lives(placements: pa.Table, run: Runs, functions: pa.Array, nodes: pa.Array, names: pa.Array) -> Lives:
    """Return the pods of *placements*, and others that *run* needs: of runs whose pod no list has seen.

    Of such runs one pod a name, or a function and node, is made, from the first to `IDLE_US` after the last; a longer
    pause between two ends it.
    """
    function = codes(placements["function"], functions).astype(np.int64)
    node, name = codes(placements["node"], nodes).astype(np.int64), codes(placements["pod"], names).astype(np.int64)
    started, ended = micros(placements["started"]), micros(placements["ended"])
    width = max(len(names), len(nodes), 1)
    served = np.full(len(run.start), -1, np.int64)
    for key, own in ((run.name, name), (run.node, node)):
        group = np.where((served < 0) & (key >= 0), run.function * width + key, -1)
        ours = np.where((function >= 0) & (own >= 0), function * width + own, -1)
        _, number = np.unique(np.concatenate((group, ours)), return_inverse=True)
        number = number.astype(np.int64) - int((group.min(initial=0) < 0) or (ours.min(initial=0) < 0))
        found = serving(number[: len(group)], run.start, number[len(group) :], started, ended)
        served = np.where(served < 0, found, served)
    made = _made(run, np.flatnonzero(served < 0), width)
    served[made.row] = len(function) + made.pod
    asked = np.stack(
        [np.nan_to_num(floats(placements[column])) for column in ("cpu_request_cores", "memory_request_bytes")],
        axis=1,
    )
    return Lives(
        names=(*placements["uid"].to_pylist(), *(f"unlisted-{number}" for number in range(len(made.function)))),
        function=np.concatenate((function, made.function)),
        node=np.concatenate((node, made.node)),
        started=np.concatenate((started, made.started)),
        ended=np.concatenate((ended, made.ended)),
        requests=np.concatenate((asked, np.zeros((len(made.function), 2)))),
        served=served,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Made:
    row: Ints
    pod: Ints
    function: Ints
    node: Ints
    started: Ints
    ended: Ints


def _made(run: Runs, rows: Ints, width: int) -> _Made:
    """Make the pods of the runs *rows*: one a name, else one a node, of each function."""
    place = np.where(run.name[rows] >= 0, run.name[rows], width + run.node[rows])
    order = np.lexsort((run.start[rows], place, run.function[rows]))
    rows, place = rows[order], place[order]
    key = run.function[rows] * 2 * width + place
    ended = np.zeros(len(rows), np.int64)
    new = np.ones(len(rows), np.bool_)
    if len(rows):
        # The latest end so far within a group: groups are lifted above each other by more than all time there is.
        _, group = np.unique(key, return_inverse=True)
        origin = int(run.start[rows].min())
        lift = group.astype(np.int64) * (int(run.end[rows].max()) - origin + 1)
        ended = np.maximum.accumulate(run.end[rows] - origin + lift) - lift + origin
        new[1:] = (np.diff(group) != 0) | (run.start[rows][1:] > ended[:-1] + IDLE_US)
    first = np.flatnonzero(new)
    last = np.append(first[1:], len(rows))[: len(first)] - 1
    return _Made(
        rows,
        np.cumsum(new) - 1,
        run.function[rows][first],
        run.node[rows][first],
        run.start[rows][first],
        ended[last] + IDLE_US,
    )
