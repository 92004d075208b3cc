"""From runs and their exposures to the evidence of one victim after another, as the estimator takes it."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from featurestore.columnar import codes, floats, micros
from featurestore.compiled import compiled
from featurestore.exposure.kernels import Codes, Counts, Floats, Ints
from featurestore.exposure.sweep import Exposure, group, sweep
from featurestore.interference.concurrency import Events, Met, events, swept
from featurestore.interference.evidence import NO_ENDING, Around, VictimDesign
from featurestore.runs import Runs


def expose(runs: Runs, threads: int = 1) -> Exposure:
    """Sweep the nodes by so many *threads*: exposures of all runs on known nodes; *rows* are positions in *runs*."""
    placed = np.flatnonzero(runs.node >= 0).astype(np.int32)
    found = sweep(
        runs.node[placed],
        runs.start[placed],
        runs.end[placed],
        runs.function[placed],
        functions=len(runs.functions),
        threads=threads,
    )
    return Exposure(placed[found.rows], found.indptr, found.indices, found.values, found.ending)


def pressed(runs: Runs, usage: pa.Table, step: int) -> Runs:
    """Return *runs* with CPU throttling and memory pressure as *usage* has them: the pods' samples, of *step*
    microseconds each. Of a run they are those of the first sample after its start, where the pod is certain."""
    throttled, pressure = (sampled(runs, usage, metric, step) for metric in ("cpu_throttled", "memory_pressure"))
    return replace(runs, throttled=throttled, pressure=pressure)


#: So many concurrencies are worked out in one sweep at most (4 bytes each), or so many for each run, so that passing
#: over all runs takes no more than the values; unless one victim has more. What comes next is made ready meanwhile.
_VALUES, _VALUES_OF_RUN = 8_000_000, 6

#: A victim's evidence, the runs that it is of, and the functions that they met.
_Waiting = tuple[VictimDesign, Ints, Ints]


def designs(
    runs: Runs, exposure: Exposure, least: float, every: bool = True, among: tuple[Events, Ints] | None = None
) -> Iterator[tuple[VictimDesign, Ints]]:
    """Yield the evidence of each function in order of its code, and which of *runs* it is of; with *every* also of
    those that have none.

    Version 0 is that of a victim's last run. Some victims' rows are copied at a time, and their concurrencies with
    the functions that they met for *least* in all: in a thread of their own, while those before are worked on.
    *among*: the events of the whole cluster, and which activation of theirs each of *runs* is; None: there are no
    other runs.
    """
    parts = _parts(_alone(runs, exposure, every), least, max(_VALUES, _VALUES_OF_RUN * len(runs)))
    places = None if among is None else among[1]

    def following(known: Events) -> deque[tuple[VictimDesign, Ints]]:
        return deque(_around(known, next(parts, []), places))

    with ThreadPoolExecutor(1) as ahead:
        known = events(runs.function, runs.start, runs.end, len(runs.functions)) if among is None else among[0]
        waiting = ahead.submit(following, known)
        while found := waiting.result():
            waiting = ahead.submit(following, known)
            while found:
                yield found.popleft()


def _parts(given: Iterable[tuple[VictimDesign, Ints]], least: float, most: int) -> Iterator[list[_Waiting]]:
    """Yield the victims that are swept together, of *most* values."""
    waiting, values = list[_Waiting](), 0
    for found, rows in given:
        met = np.bincount(found.indices, weights=found.values, minlength=found.functions)
        columns = np.flatnonzero((met >= least) & (met > 0))
        values += len(rows) * len(columns)
        if waiting and values > most:
            yield waiting
            waiting, values = [], len(rows) * len(columns)
        waiting.append((found, rows, columns))
    if waiting:
        yield waiting


def _around(known: Events, some: Sequence[_Waiting], places: Ints | None) -> Iterator[tuple[VictimDesign, Ints]]:
    """Yield designs and their runs, given with the functions that they met, with the concurrencies of these;
    *places*, if any, are which activations the runs are."""
    if not some:
        return
    rows = np.concatenate([rows for _, rows, _ in some])
    met = Met(
        rows if places is None else places[rows],
        np.repeat(np.arange(len(some)), [len(rows) for _, rows, _ in some]),
        np.concatenate([[0], np.cumsum([len(columns) for *_, columns in some])]),
        np.concatenate([columns for *_, columns in some]),
    )
    everywhere, beside = swept(known, met)
    row = at = 0
    for found, rows, columns in some:
        n, c = len(rows), len(columns)
        around = Around(everywhere[row : row + n], columns, beside[at : at + n * c].reshape(n, c))
        yield replace(found, around=around), rows
        row, at = row + n, at + n * c


def _alone(runs: Runs, exposure: Exposure, every: bool) -> Iterator[tuple[VictimDesign, Ints]]:
    """Yield designs without concurrencies, and which runs they are of."""
    in_turn = in_order(exposure, len(runs))
    own = exposure.rows[in_turn]
    victim = np.where(runs.evidence[own], runs.function[own], -1).astype(np.int32)
    by_victim, offsets = group(victim + 1)
    for code in range(len(runs.functions)) if every else np.flatnonzero(np.diff(offsets[1:])).tolist():
        some = by_victim[offsets[code + 1] : offsets[code + 2]] if code + 2 < len(offsets) else by_victim[:0]
        yield design(code, runs, exposure, in_turn[some]), own[some].astype(np.int64)


def in_order(exposure: Exposure, runs: int) -> Codes:
    """Return the rows of an exposure in order of their runs, of which there are so many."""
    place = np.full(runs, -1, np.int32)
    place[exposure.rows] = np.arange(len(exposure.rows), dtype=np.int32)
    found: Codes = place[place >= 0]
    return found


def design(victim: int, runs: Runs, exposure: Exposure, rows: Codes) -> VictimDesign:
    """Return what the *rows* of an exposure (k,), in order of its runs (`in_order`), say of one *victim*."""
    indptr, indices, values, ending = _taken(
        rows, exposure.indptr, exposure.indices, exposure.values, exposure.ending
    )
    own = exposure.rows[rows]
    return VictimDesign(
        victim=victim,
        functions=len(runs.functions),
        execution=runs.execution[own],
        start=runs.start[own] / 1e6,
        end=runs.end[own] / 1e6,
        cold=runs.cold[own],
        node=runs.node[own].astype(np.int64),
        node_type=runs.node_type[own].astype(np.int64),
        indptr=indptr,
        indices=indices.astype(np.int64),
        values=values,
        ending=ending,
        throttled=None if runs.throttled is None else runs.throttled[own],
        pressure=None if runs.pressure is None else runs.pressure[own],
        version=_versions(runs.version[own]),
    )


def taken(design: VictimDesign, rows: Ints) -> VictimDesign:
    """Return the evidence of some *rows* (k,) of a design, ascending; what follows each other is not copied."""
    first, last = (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)
    low, high = design.indptr[first], design.indptr[last]
    indptr, indices, values = design.indptr[first : last + 1] - low, design.indices[low:high], design.values[low:high]
    ending = NO_ENDING if design.ending is None else design.ending[low:high]
    chosen: slice | Ints = slice(first, last)
    if last - first > len(rows):
        own = (rows - first).astype(np.int32)
        indptr, columns, values, ending = _taken(own, indptr, indices.astype(np.int32), values, ending)
        indices, chosen = columns.astype(np.int64), rows
    names = ("execution", "start", "end", "cold", "node", "node_type", "throttled", "pressure", "version")
    told: dict[str, Any] = {name: column[chosen] for name in names if (column := getattr(design, name)) is not None}
    if (around := design.around) is not None:
        told["around"] = Around(around.everywhere[chosen], around.columns, around.beside[chosen])
    if design.ending is not None:
        told["ending"] = ending
    return replace(design, indptr=indptr, indices=indices, values=values, **told)


def sampled(runs: Runs, usage: pa.Table, metric: str, step: int) -> Floats | None:
    """Return the pod's first sample of *metric* after the start of each run (n,), NaN where none came within two
    steps."""
    own = usage.filter(pc.equal(usage["metric"], metric))
    if own.num_rows == 0 or len(runs) == 0:
        return None
    pod = codes(own["name"], runs.pods)
    order = np.lexsort((micros(own["at"]), pod))
    pod, at, value = pod[order], micros(own["at"])[order], floats(own["value"])[order]
    found = np.full(len(runs), np.nan)
    first = np.searchsorted(pod, np.arange(len(runs.pods) + 1))
    by_pod, offsets = group(runs.pod + 1)
    for k in range(len(runs.pods)):
        if first[k] < first[k + 1] and k + 2 < len(offsets):
            mine = by_pod[offsets[k + 1] : offsets[k + 2]]
            row = first[k] + np.searchsorted(at[first[k] : first[k + 1]], runs.start[mine], side="right")
            row = np.minimum(row, first[k + 1] - 1)
            inside = (at[row] > runs.start[mine]) & (at[row] <= runs.start[mine] + 2 * step)
            found[mine[inside]] = value[row[inside]]
    return found


def _versions(version: Ints) -> Ints | None:
    """Return codes of the versions of one function, 0 that of the last run, or None where there is one."""
    if not len(version) or (version == version[0]).all():
        return None
    present, code = np.unique(version, return_inverse=True)
    code = code.reshape(-1).astype(np.int64)
    newest: Ints = (code - code[-1]) % len(present)
    return newest


@compiled
def _taken(
    rows: Codes, indptr: Ints, indices: Codes | Counts, values: Floats, ending: Counts
) -> tuple[Ints, Codes, Floats, Counts]:
    """Copy *rows* of a sparse matrix, each in order of columns: that of a sweep depends on what ran long before.
    *ending* is [0] where it is not known."""
    starts = np.zeros(len(rows) + 1, np.int64)
    for r in range(len(rows)):
        starts[r + 1] = starts[r] + indptr[rows[r] + 1] - indptr[rows[r]]
    columns = np.empty(starts[-1], np.int32)
    taken = np.empty(starts[-1], np.float64)
    known = len(ending) > 0
    last = np.empty(starts[-1] if known else 0, np.uint16)
    for r in range(len(rows)):
        for k in range(indptr[rows[r]], indptr[rows[r] + 1]):
            to = starts[r] + k - indptr[rows[r]]
            while to > starts[r] and columns[to - 1] > indices[k]:
                columns[to], taken[to] = columns[to - 1], taken[to - 1]
                if known:
                    last[to] = last[to - 1]
                to -= 1
            columns[to], taken[to] = indices[k], values[k]
            if known:
                last[to] = ending[k]
    return starts, columns, taken, last
