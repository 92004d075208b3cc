"""Learned values as the tables of the snapshot: latencies, functions, pairs, busyness (without the cluster)."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from featurestore import profiles
from featurestore.columnar import TEXT, TIME, codes, combinations, micros, named, numbered
from featurestore.company import SHARE, Numbers, numbers
from featurestore.compiled import compiled
from featurestore.exposure.kernels import Codes, Counts, Floats, Ints
from featurestore.exposure.sweep import Exposure
from featurestore.interference.decision import UNKNOWN, PairTable
from featurestore.profiles import AMOUNTS, RESOURCES, Profiles
from featurestore.quantiles import quantiles
from featurestore.runs import Runs
from featurestore.snapshot import TABLES

#: Over which it is said how busy nodes are (microseconds).
HOUR = 3_600_000_000
_LEVELS = (0.5, 0.95)
#: A median of fewer runs than this says little.
MET = 10
#: Spreads numbers over all of their 64 bits.
_ODD = np.uint64(0x9E3779B97F4A7C15)
#: So many companies of a cluster are kept at most.
_COMPANIES = 200_000

#: What is known of one run of a measured function, and the working set that it seldom exceeds.
_MORE = ("cpu_seconds_per_run", "memory_bytes_p95", "network_bytes_per_run", "disk_bytes_per_run")


def schema(table: str) -> pa.Schema:
    """Return the columns of a table of the snapshot without the cluster."""
    return pa.schema([field for field in TABLES[table] if field.name != "cluster"])


def empty() -> dict[str, pa.Table]:
    """Return the learned tables of one who knows nothing."""
    return {name: schema(name).empty_table() for name in ("pairs", "functions", "latencies", "busyness", "company")}


def latencies(runs: Runs) -> pa.Table:
    """Return p50 and p95 of the execution of successes (ms, initialisation excluded), by node and by node type.

    Node "" is the whole type.
    """
    mine = np.flatnonzero(runs.evidence & np.isfinite(runs.execution))
    function, kind = runs.function[mine].astype(np.int64), runs.node_type[mine].astype(np.int64)
    milliseconds = runs.execution[mine] * 1000
    tables = []
    for node in (np.full(len(mine), -1), runs.node[mine].astype(np.int64)):
        present, group = combinations(function, kind, node)
        found = quantiles(group, milliseconds, len(present), _LEVELS)
        tables.append(
            pa.table(
                {
                    "function": named(present[:, 0], runs.functions),
                    "node_type": _or_empty(present[:, 1], runs.node_types),
                    "node": _or_empty(present[:, 2], runs.nodes),
                    "activations": np.bincount(group, minlength=len(present)),
                    "p50_ms": found[:, 0],
                    "p95_ms": found[:, 1],
                }
            ).cast(schema("latencies"))
        )
    return pa.concat_tables(tables).unify_dictionaries()


def company(runs: Runs, exposure: Exposure) -> pa.Table:
    """Return the median execution of successes (ms) by the company that they had, by node and by node type.

    Node "" is the whole type. Companies met fewer than `MET` times say nothing; of all others the most met are kept.
    """
    names = numbers(runs.functions.to_pylist())
    who = of_runs(exposure.indptr, exposure.indices, exposure.values, names, SHARE)
    mine = np.flatnonzero((runs.evidence & np.isfinite(runs.execution))[exposure.rows])
    mine = mine[_often(runs.function[exposure.rows[mine]], who[mine])]
    companies, who = numbered(who[mine])
    rows = exposure.rows[mine]
    function, kind = runs.function[rows].astype(np.int64), runs.node_type[rows].astype(np.int64)
    parts = []
    for node in (np.full(len(rows), -1), runs.node[rows].astype(np.int64)):
        present, group = combinations(function, kind, node, who)
        count = np.bincount(group, minlength=len(present))
        median = quantiles(group, runs.execution[rows] * 1000, len(present), (0.5,))[:, 0]
        met = count >= MET
        parts.append((present[met], count[met], median[met]))
    present, count, median = (np.concatenate(each) for each in zip(*parts, strict=True))
    found = pa.table(
        {
            "function": named(present[:, 0], runs.functions),
            "node_type": _or_empty(present[:, 1], runs.node_types),
            "node": _or_empty(present[:, 2], runs.nodes),
            "company": companies[present[:, 3]],
            "activations": count,
            "p50_ms": median,
        }
    ).cast(schema("company"))
    return most_met(found)


@compiled
def of_runs(indptr: Ints, indices: Codes | Counts, values: Floats, functions: Numbers, share: float) -> Ints:
    """Return the company of each sparse row of exposures to the functions with these numbers: of which at least a
    *share* of one activation ran at once."""
    found = np.zeros(len(indptr) - 1, np.uint64)
    for row in range(len(found)):
        for k in range(indptr[row], indptr[row + 1]):
            if values[k] >= share:
                found[row] += functions[indices[k]]
    return found.view(np.int64)


def _often(function: Codes, who: Ints) -> npt.NDArray[np.bool_]:
    """Return which runs [n] may be of a company *who* that their function met `MET` times: all that are, few others.

    Most companies are rare. Counted is how many fall into one of some millions of places, without sorting.
    """
    places = max(8, int(np.ceil(np.log2(len(who) + 1))) + 1)
    key = who.view(np.uint64) * _ODD + function.astype(np.uint64)
    place = ((key ^ (key >> np.uint64(32))) * _ODD >> np.uint64(64 - places)).astype(np.int64)
    found: npt.NDArray[np.bool_] = (np.bincount(place, minlength=1 << places) >= MET)[place]
    return found


def most_met(company: pa.Table) -> pa.Table:
    """Return the rows of so many companies as are kept at most, in their order."""
    count = company["activations"].to_numpy()
    return company.take(np.sort(np.argsort(-count, kind="stable")[:_COMPANIES]))


def busyness(runs: Runs, until: int, placements: pa.Table) -> pa.Table:
    """Return how many activations of each function ran at once on each node, on average over the last hour.

    *until* (microseconds) is where the hour ends. Beside it stands the mean number of the function's pods there, of
    *placements*, null where none is known: what ran in pods that were there for ten minutes ran in a sixth of a pod.
    """
    first = until - HOUR
    overlap = np.minimum(runs.end, until) - np.maximum(runs.start, first)
    mine = np.flatnonzero((runs.node >= 0) & (overlap > 0))
    present, group = combinations(runs.node[mine], runs.function[mine])
    running = np.bincount(group, weights=overlap[mine], minlength=len(present)) / HOUR
    return pa.table(
        {
            "node": named(present[:, 0], runs.nodes),
            "function": named(present[:, 1], runs.functions),
            "running": running,
            "pods": _known_pods(runs, placements, first, until, present),
        }
    ).cast(schema("busyness"))


def _known_pods(runs: Runs, placements: pa.Table, first: int, until: int, present: Ints) -> pa.Array:
    """Return the mean number of pods between *first* and *until* of each node and function of *present* (n, 2)."""
    began = micros(pc.coalesce(placements["function_from"], placements["started"]))
    there = np.minimum(micros(placements["ended"]), until) - np.maximum(began, first)
    node, function = codes(placements["node"], runs.nodes), codes(placements["function"], runs.functions)
    mine = np.flatnonzero((node >= 0) & (function >= 0) & (there > 0))
    cell = present[:, 0].astype(np.int64) * len(runs.functions) + present[:, 1]  # ascending, as combinations are
    wanted = node[mine].astype(np.int64) * len(runs.functions) + function[mine]
    found = np.minimum(np.searchsorted(cell, wanted), max(len(cell) - 1, 0))
    mine, found = (each[cell[found] == wanted] if len(cell) else each[:0] for each in (mine, found))
    pods = np.bincount(found, weights=there[mine], minlength=len(cell)) / HOUR
    return pa.array(pods, mask=pods <= 0)


def pairs(names: pa.Array, table: PairTable, first: int | None, last: int | None) -> pa.Table:
    """Return the pairs that met or of which something is predicted; what is not known is null.

    *names* are the functions', *first* and *last* the span of the evidence (microseconds).
    """
    status = np.array(table.status, dtype=object)
    kept = np.flatnonzero((status != UNKNOWN) | (table.effective_overlaps > 0))
    columns = {
        "victim": named(table.victim[kept], names),
        "aggressor": named(table.aggressor[kept], names),
        "node_type": pa.array([""] * len(kept), TEXT),
        "status": pa.array(status[kept].tolist(), TEXT),
        **{name: _known(getattr(table, name)[kept]) for name in ("slowdown", "low", "high", "probability")},
        "effective_overlaps": table.effective_overlaps[kept],
        "activations": table.activations[kept],
        "window_start": pa.array([first] * len(kept), TIME),
        "window_end": pa.array([last] * len(kept), TIME),
    }
    return pa.table(columns).cast(schema("pairs"))


#: What was answered, by function and node type ("": all): runs, and p50 and p95 (ms) of those that are evidence.
Answered = Mapping[tuple[str, str], tuple[int, float | None, float | None]]


def functions(
    names: Sequence[str],
    node_types: Sequence[str],
    counted: Answered,
    measured: Profiles,
    declared: pa.Table,
    levels: Mapping[str, Mapping[str, str]],
    predicted: Mapping[str, Sequence[str]] | None = None,
) -> tuple[pa.Table, Floats]:
    """Return one row a function and node type ("": all), and the classes' limits (4, 2) as shares of a node.

    *names* and *node_types* are what codes speak of, *counted* the `answered`. *declared* are amounts from
    files, *levels* classes by function and resource from workflows; both only where nothing is measured. *predicted*
    are classes by "dominant" and resource for each function in order of its code, where neither is known. A function
    of which nothing is known has empty classes.
    """
    everywhere = measured.node_type < 0
    limits = profiles.thresholds(measured.share[everywhere])
    rows: dict[tuple[str, str], dict[str, object]] = {}
    for (function, kind), (number, p50, p95) in counted.items():
        rows[function, kind] = _row(function, kind, "", number, p50, p95)
    for row in range(len(measured.function)):
        function = names[int(measured.function[row])]
        code = int(measured.node_type[row])
        kind = node_types[code] if code >= 0 else ""
        own = rows.setdefault((function, kind), _row(function, kind, "", 0, None, None))
        classes = profiles.levels(measured.share[row], limits)
        own |= dict(zip(RESOURCES, classes, strict=True)) | {
            name: _number(value) for name, value in zip(AMOUNTS, measured.p50[row], strict=True)
        }
        cpu, _, network, disk = measured.invocation[row]
        own |= dict(zip(_MORE, map(_number, (cpu, measured.p95[row, 1], network, disk)), strict=True))
        own |= {"source": "measured", "dominant": profiles.dominant(measured.share[row])}
    for given in declared.to_pylist():
        own = rows.setdefault(
            (given["function"], given["node_type"]), _row(given["function"], given["node_type"], "", 0, None, None)
        )
        if own["source"] != "measured":
            own |= {name: given[name] for name in AMOUNTS} | {"source": "declared"}
    for function, named_levels in levels.items():
        own = rows.setdefault((function, ""), _row(function, "", "", 0, None, None))
        if own["source"] != "measured":
            high = [name for name in RESOURCES if named_levels.get(name) == "high"]
            own |= {name: named_levels.get(name, "") for name in RESOURCES} | {"source": "declared"}
            own["dominant"] = high[0] if len(high) == 1 else "mixed"
    guessed = predicted or {}
    for code, function in enumerate(names):
        own = rows.get((function, ""), {"source": "unknown"})
        if own["source"] == "" and any(names[code] for names in guessed.values()):
            own |= {name: names[code] for name, names in guessed.items()} | {"source": "predicted"}
    ordered = [rows[key] for key in sorted(rows)]
    return pa.Table.from_pylist(ordered, schema=schema("functions")), limits


def answered(runs: Runs) -> dict[tuple[str, str], tuple[int, float | None, float | None]]:
    """Return what `functions` tells of the answers."""
    number = np.bincount(runs.function, minlength=len(runs.functions))
    names = runs.functions.to_pylist()
    found: dict[tuple[str, str], tuple[int, float | None, float | None]] = {
        (names[code], ""): (int(number[code]), None, None) for code in np.flatnonzero(number).tolist()
    }
    success = runs.evidence & np.isfinite(runs.execution)
    function, milliseconds = runs.function[success].astype(np.int64), runs.execution[success] * 1000
    for kind in (np.zeros(len(function), np.int64), runs.node_type[success] + 1):
        present, group = combinations(function, kind)
        levels = quantiles(group, milliseconds, len(present), _LEVELS)
        count = np.bincount(group, minlength=len(present))
        for row, (code, of) in enumerate(present.tolist()):
            name = names[code]
            kind_name = runs.node_types[of - 1].as_py() if of else ""
            total = int(count[row]) if of else int(number[code])
            found[name, kind_name] = (total, float(levels[row, 0]), float(levels[row, 1]))
    return found


def _row(
    function: str, kind: str, source: str, activations: int, p50: float | None, p95: float | None
) -> dict[str, object]:
    return {
        "function": function,
        "node_type": kind,
        "source": source,
        "dominant": "",
        **dict.fromkeys(RESOURCES, ""),
        **dict.fromkeys(AMOUNTS),
        **dict.fromkeys(_MORE),
        "activations": activations,
        "p50_ms": p50,
        "p95_ms": p95,
    }


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _known(values: Floats) -> pa.Array:
    return pa.array(values, mask=~np.isfinite(values))


def _or_empty(code: Ints, names: pa.Array) -> pa.Array:
    return named(code, names).cast(pa.string()).fill_null("")
