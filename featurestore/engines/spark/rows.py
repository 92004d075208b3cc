"""Runs on their way between workers: the columns of `featurestore.runs.Runs` as an Arrow table, and back."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from featurestore.columnar import codes, distinct, flags, floats, integers
from featurestore.exposure.kernels import Floats, Ints
from featurestore.exposure.sweep import Exposure
from featurestore.runs import Runs

#: A run of a function: *row* counts a function's runs in order of start; *fitted* is evidence that is not set aside.
#: *indices* and *values* are its exposure, null where its node is not known. A row with a *body* is no run: it holds
#: what a step found beside its runs.
ROWS: Mapping[str, str] = {
    "function": "int",
    "row": "long",
    "node": "int",
    "node_type": "int",
    "start": "long",
    "until": "long",
    "execution": "double",
    "cold": "boolean",
    "version": "string",
    "evidence": "boolean",
    "fitted": "boolean",
    "throttled": "double",
    "pressure": "double",
    "indices": "array<int>",
    "values": "array<double>",
    "body": "binary",
}

_ARROW: Mapping[str, pa.DataType] = {
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "array<int>": pa.list_(pa.int32()),
    "array<double>": pa.list_(pa.float64()),
}

#: Rows in one batch of what a step gives back.
_BATCH = 50_000


def schema(columns: Mapping[str, str]) -> pa.Schema:
    """Return the Arrow schema of *columns*, given by their Spark types."""
    return pa.schema([(name, _ARROW[kind]) for name, kind in columns.items()])


def ddl(columns: Mapping[str, str]) -> str:
    """Return *columns* as Spark wants them."""
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


def rows_of(runs: Runs, function: int, fitted: np.ndarray[tuple[int], np.dtype[np.bool_]], body: bytes) -> pa.Table:
    """Return the *runs* of one function, in order, under its code, and the *body* that goes with them."""
    n = len(runs)
    columns: dict[str, object] = {
        "function": np.full(n, function, np.int32),
        "row": np.arange(n),
        "until": runs.end,
        "version": pa.array(runs.versions, pa.string()).take(pa.array(runs.version)),
        "fitted": fitted,
        **{name: getattr(runs, name) for name in ("node", "node_type", "start", "execution", "cold", "evidence")},
        **{name: _or_nan(getattr(runs, name), n) for name in ("throttled", "pressure")},
    }
    target = schema(ROWS)
    table = pa.table(
        {name: columns[name] if name in columns else pa.nulls(n, target.field(name).type) for name in ROWS}
    )
    own = pa.Table.from_pylist([{"function": function, "body": body}], schema=target)
    return pa.concat_tables([own, *_batches(table.cast(target))])


def exposed(table: pa.Table, exposure: Exposure) -> pa.Table:
    """Return the rows of *table* with their exposures, in batches."""
    found = []
    table = table.take(pa.array(exposure.rows))
    for first in range(0, len(exposure.rows), _BATCH):
        part = table.slice(first, _BATCH)
        low, high = exposure.indptr[first], exposure.indptr[first + part.num_rows]
        offsets = pa.array((exposure.indptr[first : first + part.num_rows + 1] - low).astype(np.int32))
        for name in ("indices", "values"):
            lists = pa.ListArray.from_arrays(offsets, pa.array(getattr(exposure, name)[low:high]))
            part = part.set_column(part.schema.get_field_index(name), name, lists)
        found.append(part)
    return pa.concat_tables(found) if found else table


def runs_of(table: pa.Table, functions: pa.Array, nodes: pa.Array, node_types: pa.Array) -> tuple[Runs, pa.Table]:
    """Return the runs of *table* in order of start, evidence as *evidence* has it, and the table in that order."""
    table = table.sort_by([("start", "ascending"), ("function", "ascending"), ("row", "ascending")]).combine_chunks()
    versions = distinct(table["version"])
    return (
        Runs(
            functions=functions,
            nodes=nodes,
            node_types=node_types,
            pods=pa.array([], pa.string()),
            versions=tuple(versions.to_pylist()),
            function=integers(table["function"], -1).astype(np.int32),
            node=integers(table["node"], -1).astype(np.int32),
            node_type=integers(table["node_type"], -1).astype(np.int32),
            pod=np.full(table.num_rows, -1, np.int32),
            start=integers(table["start"], 0),
            end=integers(table["until"], 0),
            execution=floats(table["execution"]),
            cold=flags(table["cold"]),
            version=codes(table["version"], versions).astype(np.int64),
            evidence=flags(table["evidence"]),
            throttled=floats(table["throttled"]),
            pressure=floats(table["pressure"]),
        ),
        table,
    )


def exposure_of(table: pa.Table) -> Exposure:
    """Return the exposures of the rows of *table* that have one."""
    lists = {name: table[name].combine_chunks() for name in ("indices", "values")}
    rows = np.flatnonzero(lists["indices"].is_valid().to_numpy(zero_copy_only=False)).astype(np.int32)
    taken = {name: each.take(pa.array(rows)) for name, each in lists.items()}
    width: Ints = np.diff(taken["indices"].offsets.to_numpy())
    values: Floats = taken["values"].flatten().to_numpy().astype(np.float64)
    indices = taken["indices"].flatten().to_numpy().astype(np.int32)
    return Exposure(rows, np.concatenate([[0], np.cumsum(width)]).astype(np.int64), indices, values)


def _or_nan(values: Floats | None, n: int) -> Floats:
    return np.full(n, np.nan) if values is None else values


def _batches(table: pa.Table) -> list[pa.Table]:
    return [table.slice(first, _BATCH) for first in range(0, table.num_rows, _BATCH)]
