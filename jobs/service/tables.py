"""Arrow tables as HTTP answers: JSON without a bare NaN, or CSV."""

import csv
import io
import math
from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa
from starlette.responses import Response

from pipeline.errors import BadInput

#: Rows of one answer where the caller names no limit, and at most.
DEFAULT_LIMIT, MOST = 1000, 100_000

FORMATS = ("json", "csv")

#: Query parameters of every table.
PAGING = ("format", "limit", "offset")


class Page(msgspec.Struct, frozen=True):
    """One page of rows; *total* counts all that match."""

    snapshot: str
    total: int
    items: list[dict[str, Any]]


def paging(query: Mapping[str, str]) -> tuple[str, int, int]:
    """Read format, limit and offset; raises `BadInput` naming the parameter."""
    form = query.get("format", "json")
    if form not in FORMATS:
        raise BadInput(f"format: {form!r} is neither json nor csv")
    return form, count(query, "limit", DEFAULT_LIMIT, MOST), count(query, "offset", 0, None)


def count(query: Mapping[str, str], name: str, default: int, most: int | None) -> int:
    """Read a whole number from 0 to *most*; raises `BadInput` naming the parameter."""
    text = query.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 18 or (most is not None and int(text) > most):
        limits = f"from 0 to {most}" if most is not None else "of at least 0 and at most 18 digits"
        raise BadInput(f"{name}: {text!r:.60} is not a whole number {limits}")
    return int(text)


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of *table*; a number that is not finite is None, since JSON knows none."""
    found: list[dict[str, Any]] = table.to_pylist()
    for row in found:
        for name, value in row.items():
            if isinstance(value, float) and not math.isfinite(value):
                row[name] = None
    return found


def answer(table: pa.Table, snapshot: str, query: Mapping[str, str]) -> Response:
    """Return one page of *table* in the form that *query* asks for."""
    form, limit, offset = paging(query)
    found = rows(table.slice(offset, limit))
    if form == "csv":
        return Response(_csv(table.column_names, found), media_type="text/csv")
    return Response(msgspec.json.encode(Page(snapshot, table.num_rows, found)), media_type="application/json")


def _csv(columns: list[str], rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row[column]) for column in columns])
    return text.getvalue()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat().replace("+00:00", "Z") if hasattr(value, "isoformat") else value
