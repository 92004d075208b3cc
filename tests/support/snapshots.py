"""Small snapshots made of rows."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from featurestore.snapshot import TABLES, Snapshot


def table(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Table *name* with *rows*; columns that a row does not give are null."""
    schema = TABLES[name]
    return pa.Table.from_pylist([{field: row.get(field) for field in schema.names} for row in rows], schema)


def snapshot(
    created: datetime,
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    version: str = "v1",
    clusters: Sequence[str] = ("c1",),
    attribution: Mapping[str, Mapping[str, float]] | None = None,
) -> Snapshot:
    """A snapshot of *rows* by table."""
    tables = {name: table(name, rows.get(name, ())) for name in TABLES}
    return Snapshot(version, created, tuple(clusters), {"c1": "m1"}, attribution or {}, tables)
