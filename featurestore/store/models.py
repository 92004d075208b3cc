"""Learned models in the store: saved whole, one of a cluster promoted, the last few kept.

Each function takes the connection that `Store.read` or `Store.write` hands to its work.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from duckdb import DuckDBPyConnection

from featurestore.detailed import DETAILS
from featurestore.snapshot import TABLES
from featurestore.store.queries import arrow
from pipeline.errors import BadInput

#: Where each learned table of `featurestore.snapshot.TABLES` lies in the store.
LEARNED: Mapping[str, str] = {
    "pairs": "pairs",
    "functions": "function_profiles",
    "latencies": "latencies",
    "base_times": "base_times",
    "busyness": "busyness",
    "company": "company",
}

#: Every table that belongs to a model.
_PLACES: Mapping[str, str] = {**LEARNED, **{name: name for name in DETAILS}}


@dataclass(frozen=True, slots=True)
class Model:
    """One learning run; *metrics* is JSON-like: counts, ``attribution``, errors, drift.

    *number* counts the models of a cluster from 1 (0: not saved yet). *chosen* marks the promoted model as chosen by
    a person: it stays promoted whatever is learned later.
    """

    model: str
    cluster: str
    created: datetime
    window_start: datetime | None = None
    window_end: datetime | None = None
    code_version: str = ""
    reason: str = ""
    promoted: bool = True
    metrics: Mapping[str, Any] = field(default_factory=dict)
    number: int = 0
    chosen: bool = False


def save(con: DuckDBPyConnection, model: Model, tables: Mapping[str, pa.Table], *, keep: int = 5) -> None:
    """Save *model* with its learned *tables*, replacing one of the same name; keep the cluster's last *keep*.

    *tables* are named as in `LEARNED` and `featurestore.detailed.DETAILS`, with or without the cluster; one that is
    missing is empty. The model gets the next number. A promoted model takes the place of the one before, unless a
    person chose that one; the promoted one is never dropped.
    """
    pinned = con.execute("SELECT 1 FROM models WHERE cluster = ? AND chosen", [model.cluster]).fetchone() is not None
    answers = model.promoted and (model.chosen or not pinned)
    [[number]] = con.execute(
        """
        SELECT coalesce(max(number) FILTER (model = $model), max(number) + 1, 1) FROM models WHERE cluster = $cluster
        """,
        {"model": model.model, "cluster": model.cluster},
    ).fetchall()
    same = con.execute("SELECT model FROM models WHERE cluster = ? AND model = ?", [model.cluster, model.model])
    _drop(con, model.cluster, [known for (known,) in same.fetchall()])
    if answers:
        con.execute("UPDATE models SET promoted = false, chosen = false WHERE cluster = ?", [model.cluster])
    con.execute(
        "INSERT INTO models VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            model.model,
            model.cluster,
            model.created,
            model.window_start,
            model.window_end,
            model.code_version,
            model.reason,
            answers,
            json.dumps(dict(model.metrics), sort_keys=True, allow_nan=False),
            number,
            model.chosen and answers,
        ],
    )
    fill(con, model.cluster, model.model, tables)
    old = con.execute(
        "SELECT model FROM models WHERE cluster = ? AND NOT promoted ORDER BY number DESC OFFSET ?",
        [model.cluster, max(0, keep - 1)],
    ).fetchall()
    _drop(con, model.cluster, [name for (name,) in old])


def fill(con: DuckDBPyConnection, cluster: str, model: str, tables: Mapping[str, pa.Table]) -> None:
    """Add rows of *model* to its *tables*; nobody reads them before the model itself is saved."""
    for name, rows in tables.items():
        columns = [column for column in rows.column_names if column != "cluster"]
        listed = ", ".join(f'"{column}"' for column in columns)
        con.register("learned", rows.select(columns))
        con.execute(
            f"INSERT INTO {_PLACES[name]} (model, cluster, {listed}) SELECT ?, ?, {listed} FROM learned",
            [model, cluster],
        )
        con.unregister("learned")


def sweep(con: DuckDBPyConnection, cluster: str) -> None:
    """Delete the rows of models of *cluster* that were never saved."""
    for place in _PLACES.values():
        con.execute(
            f"""
            DELETE FROM {place} WHERE cluster = $cluster
                AND model NOT IN (SELECT model FROM models WHERE cluster = $cluster)
            """,
            {"cluster": cluster},
        )


def saved(con: DuckDBPyConnection, cluster: str) -> list[Model]:
    """Return the models of *cluster* that are kept, newest first."""
    rows = con.execute(
        """
        SELECT model, cluster, created, window_start, window_end, code_version, reason, promoted, metrics, number,
            chosen
        FROM models WHERE cluster = ? ORDER BY number DESC
        """,
        [cluster],
    ).fetchall()
    return [
        Model(model, of, _utc(created), _utc(since), _utc(until), code, why, up, json.loads(metrics), number, chosen)
        for model, of, created, since, until, code, why, up, metrics, number, chosen in rows
    ]


def promoted(con: DuckDBPyConnection, cluster: str) -> Model | None:
    """Return the model that answers for *cluster*, or None before the first."""
    return next((model for model in saved(con, cluster) if model.promoted), None)


def find(con: DuckDBPyConnection, cluster: str, which: str) -> Model:
    """Return the saved model of *cluster* that *which* names or numbers; raises `BadInput` where there is none."""
    known = saved(con, cluster)
    for model in known:
        if which in (model.model, str(model.number)):
            return model
    there = ", ".join(str(model.number) for model in known) or "none"
    raise BadInput(f"model {which!r}: no such model of cluster {cluster}; there are {there}")


def use(con: DuckDBPyConnection, cluster: str, model: str, *, chosen: bool = True) -> None:
    """Promote the saved *model* of *cluster*; raises `BadInput` where there is none of that name or number.

    *chosen*: a person wants this one, and no later one takes its place by itself.
    """
    name = find(con, cluster, model).model
    con.execute(
        """
        UPDATE models SET promoted = (model = $model), chosen = ($chosen AND model = $model) WHERE cluster = $cluster
        """,
        {"model": name, "chosen": chosen, "cluster": cluster},
    )


def carry(con: DuckDBPyConnection, cluster: str, model: str, names: Sequence[str]) -> None:
    """Give *model* the rows that the newest model before it has in each of the tables *names*."""
    for name in names:
        columns = ", ".join(f'"{column}"' for column in DETAILS[name].names)
        con.execute(
            f"""
            INSERT INTO {name} (model, cluster, {columns})
            SELECT $model, cluster, {columns} FROM {name} WHERE cluster = $cluster AND model = (
                SELECT arg_max(model, number) FROM models WHERE cluster = $cluster AND model <> $model
            )
            """,
            {"model": model, "cluster": cluster},
        )


def table(con: DuckDBPyConnection, model: Model, name: str, given: Mapping[str, str] | None = None) -> pa.Table:
    """Copy one table of *model*: the columns of `featurestore.snapshot.TABLES` or `DETAILS`, without the cluster.

    *given* values of columns choose the rows.
    """
    names = DETAILS[name].names if name in DETAILS else TABLES[name].names
    columns = ", ".join(f'"{column}"' for column in names if column != "cluster")
    match = "".join(f' AND "{column}" = ?' for column in given or ())
    query = f"SELECT {columns} FROM {_PLACES[name]} WHERE model = ? AND cluster = ?{match} ORDER BY ALL"
    return arrow(con, query, [model.model, model.cluster, *(given or {}).values()])


def _drop(con: DuckDBPyConnection, cluster: str, models: list[str]) -> None:
    if models:
        for place in ("models", *_PLACES.values()):
            con.execute(f"DELETE FROM {place} WHERE cluster = ? AND model IN ?", [cluster, models])


def _utc(time: datetime | None) -> Any:
    return None if time is None else time.astimezone(UTC)
