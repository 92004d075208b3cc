"""CSV and Parquet files to the columns of `pipeline.columns`, checked value by value, column by column.

An error is one line that names the file, the line (CSV) or row (Parquet) and the column.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from featurestore.exported import partitioned
from jobs.given import Bools, Given, read, textual
from pipeline.columns import ACTIVATIONS, PROFILES
from pipeline.errors import BadInput

#: A table with the columns of a schema, and the names of columns of a file that are not understood.
Read = tuple[pa.Table, tuple[str, ...]]

_TIME = pa.timestamp("us", tz="UTC")
_RFC3339 = r"^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:?\d{2})$"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
#: Years 1 to 9999, in milliseconds since the epoch.
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999
_COUNTED = "a number counts milliseconds since 1970"
_A_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000}


def activations(file: Path) -> Read:
    """Read activations; return them (`pipeline.columns.ACTIVATIONS`) and the names of columns not understood.

    Needed: activation_id, function, start; end where it is known. Times are epoch milliseconds or RFC 3339.
    A missing status is a success; kind ``sequence`` is a composite. Where no column names the node a
    directory of the file does, as in an export. Raises `BadInput` for the first row that is wrong.
    """
    given = read(file, needed=("activation_id", "function", "start", "end"))
    if "node" not in given.table.column_names and (node := partitioned(file, "node")) is not None:
        given = replace(given, table=given.table.append_column("node", pa.repeat(node, given.table.num_rows)))
    return given.judged(_activations), _unknown(given, ACTIVATIONS)


def _activations(given: Given) -> pa.Table:
    columns = {field.name: _CONVERT[str(field.type)](given, field.name) for field in ACTIVATIONS}
    for name in ("activation_id", "function", "start"):
        given.fail(name, _nulls(columns[name]), "missing")
    given.fail("end", _array(pc.less(columns["end"], columns["start"]), False), "is before the start")
    for name in ("duration_ms", "init_ms"):
        given.fail(name, _array(pc.less(columns[name], 0.0), False), "is negative")
    columns["status_code"] = pc.fill_null(columns["status_code"], 0)
    columns["kind"] = pc.fill_null(columns["kind"], "")
    sequence = pc.equal(columns["kind"], "sequence")
    columns["composite"] = pc.or_(pc.fill_null(columns["composite"], False), sequence)
    for name in ("version", "caused_by"):
        columns[name] = pc.fill_null(columns[name], "")
    return pa.table(columns).cast(ACTIVATIONS)


def profiles(file: Path) -> Read:
    """Read declared profiles; return them (`pipeline.columns.PROFILES`) and the names of columns not understood.

    Raises `BadInput` for the first row that is wrong, and where no column is an amount.
    """
    given = read(file, needed=("function",))
    amounts = [field.name for field in PROFILES if pa.types.is_floating(field.type)]
    if not set(amounts) & set(given.table.column_names):
        raise BadInput(f"{file}: no column says what functions use: one of {', '.join(amounts)} is needed")
    return given.judged(_profiles), _unknown(given, PROFILES)


def _profiles(given: Given) -> pa.Table:
    columns = {field.name: _CONVERT[str(field.type)](given, field.name) for field in PROFILES}
    given.fail("function", _nulls(columns["function"]), "missing")
    for field in PROFILES:
        if pa.types.is_floating(field.type):
            given.fail(field.name, _array(pc.less(columns[field.name], 0.0), False), "is negative")
    columns["node_type"] = pc.fill_null(columns["node_type"], "")
    return pa.table(columns).cast(PROFILES)


#: True slowdowns: .25 = 25 % longer beside one always-running aggressor.
SLOWDOWNS = pa.schema([("victim", pa.string()), ("aggressor", pa.string()), ("slowdown", pa.float64())])


def slowdowns(file: Path) -> pa.Table:
    """Read true slowdowns (`SLOWDOWNS`); a missing one is none, other columns are not looked at."""
    return read(file, needed=tuple(SLOWDOWNS.names)).judged(_slowdowns)


def _slowdowns(given: Given) -> pa.Table:
    columns = {field.name: _CONVERT[str(field.type)](given, field.name) for field in SLOWDOWNS}
    for name in ("victim", "aggressor"):
        given.fail(name, _nulls(columns[name]), "missing")
    return pa.table(columns).cast(SLOWDOWNS)


def _unknown(given: Given, schema: pa.Schema) -> tuple[str, ...]:
    return tuple(name for name in given.table.column_names if name not in schema.names)


def _text(given: Given, name: str) -> pa.ChunkedArray | pa.Array:
    column = given.column(name)
    return pa.nulls(given.table.num_rows, pa.string()) if column is None else _cast(given, name, column, pa.string())


def _cast(given: Given, name: str, column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return *column* as *kind*, a number as the nearest there is; refuse lists, bytes that are no text and such."""
    text = pa.types.is_string(kind)
    try:
        return column.cast(kind, safe=text)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise BadInput(f"{given.file}: column {name}: {column.type} is no {'text' if text else 'number'}") from None


def _number(given: Given, name: str) -> pa.ChunkedArray | pa.Array:
    column = given.column(name)
    if column is None:
        return pa.nulls(given.table.num_rows, pa.float64())
    if textual(column.type):
        given.fail(name, ~_array(pc.match_substring_regex(column, _NUMBER), True), "is no number")
    found = _cast(given, name, column, pa.float64())
    given.fail(name, ~_array(pc.is_finite(found), True), "is not finite")
    return found


def _whole(kind: pa.DataType) -> Callable[[Given, str], pa.ChunkedArray | pa.Array]:
    beyond = float(2 ** (kind.bit_width - 1))

    def convert(given: Given, name: str) -> pa.ChunkedArray | pa.Array:
        found = _number(given, name)
        outside = pc.or_(pc.not_equal(found, pc.round(found)), pc.greater_equal(pc.abs(found), beyond))
        given.fail(name, _array(outside, False), "is no whole number in range")
        return found.cast(kind)

    return convert


def _truth(given: Given, name: str) -> pa.ChunkedArray | pa.Array:
    column = given.column(name)
    if column is None:
        return pa.nulls(given.table.num_rows, pa.bool_())
    if pa.types.is_boolean(column.type):
        return column
    text = pc.utf8_lower(_cast(given, name, column, pa.string()))
    true, false = pa.array(["true", "1"]), pa.array(["false", "0"])
    given.fail(name, _array(pc.invert(pc.is_in(text, pc.unique(pa.concat_arrays([true, false])))), False)
               & ~_nulls(text), "is neither true nor false")  # fmt: skip
    return pc.if_else(pc.is_null(text), pa.scalar(None, pa.bool_()), pc.is_in(text, true))


def _time(given: Given, name: str) -> pa.ChunkedArray | pa.Array:
    """Read epoch milliseconds or RFC 3339; a Parquet timestamp without a zone is in UTC."""
    column = given.column(name)
    if column is None:
        return pa.nulls(given.table.num_rows, _TIME)
    if pa.types.is_timestamp(column.type):
        _within(given, name, column)
        local = column if column.type.tz else column.cast(pa.timestamp(column.type.unit, tz="UTC"))
        return local.cast(_TIME, safe=False)
    if not textual(column.type):
        return _from_epoch(given, name, _number(given, name))
    written = _array(pc.match_substring_regex(column, _RFC3339), False)
    counted = _array(pc.match_substring_regex(column, _NUMBER), False)
    given.fail(
        name, ~(written | counted | _nulls(column)), "is neither epoch milliseconds nor RFC 3339 with a time zone"
    )
    epoch = pc.if_else(pa.array(counted), column, pa.scalar(None, pa.string())).cast(pa.float64())
    found = _from_epoch(given, name, epoch)
    if written.any():
        texts = pc.utf8_upper(pc.if_else(pa.array(written), column, pa.scalar(None, pa.string()))).to_pandas()
        parsed = pd.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
        given.fail(name, written & parsed.isna().to_numpy(), "is no time")
        found = pc.coalesce(found, pa.array(parsed.dt.as_unit("us"), _TIME))
        _within(given, name, found)
    return found


def _within(given: Given, name: str, times: pa.ChunkedArray | pa.Array) -> None:
    """Refuse timestamps that a datetime does not hold; those in nanoseconds all are within its years."""
    if times.type.unit == "ns":
        return
    second, counted = _A_SECOND[times.type.unit], times.cast(pa.int64())
    outside = pc.or_(
        pc.less(counted, _FIRST * second // 1000), pc.greater_equal(counted, (_LAST + 1) * second // 1000)
    )
    given.fail(name, _array(outside, False), "is outside the years 1 to 9999")


def _from_epoch(given: Given, name: str, milliseconds: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    outside = pc.or_(pc.less(milliseconds, float(_FIRST)), pc.greater(milliseconds, float(_LAST)))
    given.fail(name, _array(outside, False), "is outside the years 1 to 9999 as epoch milliseconds")
    return pc.round(pc.multiply(milliseconds, 1000.0)).cast(pa.int64()).cast(_TIME)


#: How a column of each type is read.
_CONVERT: Mapping[str, Callable[[Given, str], pa.ChunkedArray | pa.Array]] = {
    "string": _text,
    "double": _number,
    "int32": _whole(pa.int32()),
    "int64": _whole(pa.int64()),
    "bool": _truth,
    str(_TIME): _time,
}


def _nulls(column: pa.ChunkedArray | pa.Array) -> Bools:
    return _array(pc.is_null(column), False)


def _array(column: pa.ChunkedArray | pa.Array, missing: bool) -> Bools:
    found: Bools = np.asarray(pc.fill_null(column, missing))
    return found
