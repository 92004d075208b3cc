"""What travels between workers: parcels of bytes, which Spark moves by their keys and never looks into.

A row of Spark is a parcel of many runs or records. Rows of one run each, with their exposures as lists, cost the
virtual machine more than the kernels do.
"""

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from featurestore.designs import _taken
from featurestore.exposure.kernels import Codes, Counts, Floats, Ints
from featurestore.exposure.sweep import Exposure, group
from featurestore.runs import Bools, Runs

#: A parcel: the group that it goes to, what it is of, and its bytes.
PARCEL: Mapping[str, str] = {"key": "int", "part": "string", "body": "binary"}
SCHEMA = pa.schema([("key", pa.int32()), ("part", pa.string()), ("body", pa.binary())])
DDL = ", ".join(f"`{name}` {kind}" for name, kind in PARCEL.items())

#: Runs in one parcel at most, so that no row is too large for a virtual machine.
MOST = 100_000

#: The columns of `Runs` that travel.
_COLUMNS = ("function", "node", "node_type", "start", "end", "execution", "cold", "evidence")
_SERIES = ("throttled", "pressure")


@dataclass(frozen=True, slots=True)
class Sent:
    """Runs on their way: *row* [n] counts a function's runs in order; *fitted* [n] marks evidence that is not set
    aside. *widths* [n], *indices*, *values* and *ending* are the exposure of each run, where they are known."""

    columns: Mapping[str, np.ndarray[Any, Any]]
    versions: tuple[str, ...]
    row: Codes
    fitted: Bools
    widths: Codes | None = None
    indices: Codes | None = None
    values: Floats | None = None
    ending: Counts | None = None


def parcels(key: Ints, runs: Runs, row: Codes, fitted: Bools, exposure: Exposure | None = None) -> Iterator[Any]:
    """Yield the key and the bytes of each parcel of *runs* [n] that go to the groups *key* [n]; -1 stays behind.

    *exposure* speaks of all runs that go anywhere.
    """
    series = {name: values for name in _SERIES if (values := getattr(runs, name)) is not None}
    columns = {**{name: getattr(runs, name) for name in _COLUMNS}, **series, "version": runs.version.astype(np.int32)}
    rows, offsets = group((key + 1).astype(np.int32))
    line = np.zeros(len(runs), np.int32)
    if exposure is not None:
        line[exposure.rows] = np.arange(len(exposure.rows))
    for to in np.flatnonzero(np.diff(offsets[1:])).tolist():
        for first in range(int(offsets[to + 1]), int(offsets[to + 2]), MOST):
            own = rows[first : min(first + MOST, int(offsets[to + 2]))]
            met: tuple[Any, ...] = ()
            if exposure is not None:
                starts, *entries = _taken(
                    line[own], exposure.indptr, exposure.indices, exposure.values, exposure.ending
                )
                met = (np.diff(starts).astype(np.int32), *entries)
            sent = Sent(
                {name: each[own] for name, each in columns.items()}, runs.versions, row[own], fitted[own], *met
            )
            yield to, pickle.dumps(sent)


def joined(
    bodies: Iterable[Any], functions: pa.Array, nodes: pa.Array, node_types: pa.Array
) -> tuple[Runs, Codes, Bools, Exposure | None]:
    """Return the runs of all parcels in order of start, those of a function in order of their rows; these rows, which
    are fitted, and the exposure of those whose node is known, where the parcels have one."""
    sent = [pickle.loads(body) for body in bodies]
    sent.sort(key=lambda each: (each.columns["function"][0], each.row[0]))
    columns = {name: _together([each.columns[name] for each in sent]) for name in (*_COLUMNS, "version")}
    row, fitted = _together([each.row for each in sent]), _together([each.fitted for each in sent])
    order = np.lexsort((row, columns["start"]))
    versions, columns["version"] = _renamed(sent, columns["version"])
    for name in _SERIES:
        columns[name] = _together([each.columns.get(name, np.full(len(each.row), np.nan)) for each in sent])
    exposure = None
    if sent[0].widths is not None:
        indptr = np.concatenate([[0], np.cumsum(_together([each.widths for each in sent]))]).astype(np.int64)
        placed = np.flatnonzero(columns["node"][order] >= 0).astype(np.int32)
        entries = (_together([getattr(each, name) for each in sent]) for name in ("indices", "values", "ending"))
        exposure = Exposure(placed, *_taken(order[placed].astype(np.int32), indptr, *entries))
    ordered = {name: each[order] for name, each in columns.items()}
    runs = Runs(
        functions=functions,
        nodes=nodes,
        node_types=node_types,
        pods=pa.array([], pa.string()),
        versions=versions,
        pod=np.full(len(order), -1, np.int32),
        **ordered,
    )
    return runs, row[order], fitted[order], exposure


def table(rows: Iterable[tuple[int, str, Any]]) -> pa.Table:
    """Return parcels (key, part, body) as Spark takes them."""
    keys, parts, bodies = zip(*rows, strict=True) if (rows := list(rows)) else ((), (), ())
    return pa.table({"key": pa.array(keys, pa.int32()), "part": list(parts), "body": list(bodies)}, schema=SCHEMA)


def bodies(parcels: pa.Table | pa.RecordBatch, part: str) -> Iterator[memoryview]:
    """Yield the bytes of the parcels of one part, not copied."""
    for name, body in zip(parcels["part"].to_pylist(), parcels["body"], strict=True):
        if name == part:
            yield memoryview(body.as_buffer())


def records(found: Iterable[Any], schema: pa.Schema) -> pa.Table:
    """Return the records whose Arrow streams are *found*."""
    parts = [pa.ipc.open_stream(body).read_all() for body in found]
    return pa.concat_tables(
        [schema.empty_table(), *(part.select(schema.names).cast(schema) for part in parts)]
    ).combine_chunks()


def _renamed(sent: list[Sent], version: Codes) -> tuple[tuple[str, ...], Ints]:
    """Return the names of the versions that came, and the codes [n] of each run's."""
    names = sorted({name for each in sent for name in each.versions})
    place = {name: code for code, name in enumerate(names)}
    tables = [np.array([place[name] for name in each.versions], np.int64) for each in sent]
    shift = np.repeat(np.cumsum([0, *map(len, tables)])[:-1], [len(each.row) for each in sent])
    return tuple(names), np.concatenate(tables)[version + shift]


def _together(parts: list[Any]) -> Any:
    return np.concatenate(parts)
