"""Learned models in the store: saved whole, one of a cluster promoted, the last few kept.

Each function takes the connection that `Store.read` or `Store.write` hands to its work.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from duckdb import DuckDBPyConnection

from featurestore.snapshot import TABLES
from featurestore.store.queries import arrow
from pipeline.errors import BadInput

#: Where each learned table of `featurestore.snapshot.TABLES` lies in the store.
LEARNED: Mapping[str, str] = {
    "pairs": "pairs",
    "functions": "function_profiles",
    "latencies": "latencies",
    "busyness": "busyness",
    "company": "company",
}


@dataclass(frozen=True, slots=True)
class Model:
    """One learning run; *metrics* is JSON-like: counts, ``attribution``, errors, drift."""

    model: str
    cluster: str
    created: datetime
    window_start: datetime | None = None
    window_end: datetime | None = None
    code_version: str = ""
    reason: str = ""
    promoted: bool = True
    metrics: Mapping[str, Any] = field(default_factory=dict)


def save(con: DuckDBPyConnection, model: Model, tables: Mapping[str, pa.Table], *, keep: int = 5) -> None:
    """Save *model* with its learned *tables*, replacing one of the same name; keep the cluster's last *keep*.

    *tables* are named as in `LEARNED` and have the columns of `featurestore.snapshot.TABLES`, with or without the
    cluster; one that is missing is empty. A promoted model takes the place of the one before; the promoted one is
    never dropped.
    """
    _drop(con, model.cluster, [model.model])
    if model.promoted:
        con.execute("UPDATE models SET promoted = false WHERE cluster = ? AND promoted", [model.cluster])
    con.execute(
        "INSERT INTO models VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            model.model,
            model.cluster,
            model.created,
            model.window_start,
            model.window_end,
            model.code_version,
            model.reason,
            model.promoted,
            json.dumps(dict(model.metrics), sort_keys=True, allow_nan=False),
        ],
    )
    for name, rows in tables.items():
        columns = [column for column in TABLES[name].names if column != "cluster"]
        listed = ", ".join(f'"{column}"' for column in columns)
        con.register("learned", rows.select(columns))
        con.execute(
            f"INSERT INTO {LEARNED[name]} (model, cluster, {listed}) SELECT ?, ?, {listed} FROM learned",
            [model.model, model.cluster],
        )
        con.unregister("learned")
    old = con.execute(
        "SELECT model FROM models WHERE cluster = ? AND NOT promoted ORDER BY created DESC, model DESC OFFSET ?",
        [model.cluster, max(0, keep - 1)],
    ).fetchall()
    _drop(con, model.cluster, [name for (name,) in old])


def saved(con: DuckDBPyConnection, cluster: str) -> list[Model]:
    """Return the models of *cluster* that are kept, newest first."""
    rows = con.execute(
        """
        SELECT model, cluster, created, window_start, window_end, code_version, reason, promoted, metrics
        FROM models WHERE cluster = ? ORDER BY created DESC, model DESC
        """,
        [cluster],
    ).fetchall()
    return [
        Model(model, of, _utc(created), _utc(since), _utc(until), code, reason, promoted, json.loads(metrics))
        for model, of, created, since, until, code, reason, promoted, metrics in rows
    ]


def promoted(con: DuckDBPyConnection, cluster: str) -> Model | None:
    """Return the model that answers for *cluster*, or None before the first."""
    return next((model for model in saved(con, cluster) if model.promoted), None)


def use(con: DuckDBPyConnection, cluster: str, model: str) -> None:
    """Promote the saved *model* of *cluster*; raises `BadInput` where there is none of that name."""
    if model not in {known.model for known in saved(con, cluster)}:
        raise BadInput(f"model {model!r}: no such model of cluster {cluster}")
    con.execute("UPDATE models SET promoted = (model = ?) WHERE cluster = ?", [model, cluster])


def table(con: DuckDBPyConnection, model: Model, name: str) -> pa.Table:
    """Copy one learned table of *model*: the columns of `featurestore.snapshot.TABLES` without the cluster."""
    columns = ", ".join(f'"{column}"' for column in TABLES[name].names if column != "cluster")
    query = f"SELECT {columns} FROM {LEARNED[name]} WHERE model = ? AND cluster = ? ORDER BY ALL"
    return arrow(con, query, [model.model, model.cluster])


def _drop(con: DuckDBPyConnection, cluster: str, models: list[str]) -> None:
    if models:
        for place in ("models", *LEARNED.values()):
            con.execute(f"DELETE FROM {place} WHERE cluster = ? AND model IN ?", [cluster, models])


def _utc(time: datetime | None) -> Any:
    return None if time is None else time.astimezone(UTC)
