"""What tests of the store share: a time, activation records, batches of rows."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from featurestore.store.duck import Store
from featurestore.store.ingest import Written, ingest
from pipeline.columns import TABLES
from pipeline.records import Batch, Refusal
from tests.support.activations import activation

#: The time that tests count from.
NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)
NOON_MS = 1_748_779_200_000
OVERLAP = timedelta(minutes=10)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def record(number: int, **changed: Any) -> dict[str, Any]:
    """One run of guest/hello, started *number* seconds after noon, with *changed* fields; None leaves a field out."""
    whole = activation(number, NOON_MS + number * 1000) | changed
    return {name: value for name, value in whole.items() if value is not None}


def page(path: Path, records: Iterable[object]) -> Path:
    """Write *records* as one page."""
    path.write_text(json.dumps(list(records)), encoding="utf-8")
    return path


def rows(table: str, *given: Mapping[str, object]) -> pa.Table:
    """Rows of a batch's table; columns that are not given are null."""
    return pa.Table.from_pylist([dict(row) for row in given], schema=TABLES[table])


def put(
    store: Store,
    table: str,
    *given: Mapping[str, object],
    at: datetime = NOON,
    whole: bool = True,
    refused: tuple[Refusal, ...] = (),
    watermark: datetime | None = None,
) -> Written:
    """Ingest rows of *table* for cluster ``east``."""
    batch = Batch(table, rows=rows(table, *given), whole=whole, refused=refused, watermark=watermark)
    return ingest(store, "east", batch, collected=at, overlap=OVERLAP)


def put_pages(store: Store, *files: Path, watermark: datetime | None = None, scope: str = "") -> Written:
    """Ingest pages of activation records for cluster ``east``."""
    batch = Batch("activations", files=files, watermark=watermark, scope=scope)
    return ingest(store, "east", batch, collected=NOON, overlap=OVERLAP)


def activations(store: Store, cluster: str, since: datetime, until: datetime) -> pa.Table:
    """Return all that is stored of the activations of *cluster* that started in [since, until), in order."""
    query = 'FROM activations WHERE cluster = ? AND "start" >= ? AND "start" < ? ORDER BY "start", activation_id'
    found = store.read(lambda con: con.sql(query, params=[cluster, since, until]).to_arrow_table())
    return found.drop_columns(["cluster", "collected"])


def select(store: Store, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of *query*."""
    return store.read(lambda con: con.execute(query).fetchall())
