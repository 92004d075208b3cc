"""The snapshot made from the store: everything that answers need, copied out in one read."""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from duckdb import DuckDBPyConnection

from featurestore.snapshot import TABLES, Snapshot
from featurestore.store import queries, regions
from featurestore.store.models import LEARNED

#: Usage older than this says nothing about how busy a node is now.
FRESH = timedelta(hours=1)

_NODES = """
WITH latest AS (
    SELECT cluster, name AS node,
        arg_max(value, "at") FILTER (metric = 'cpu_cores') AS cpu_used_cores,
        arg_max(value, "at") FILTER (metric = 'memory_bytes') AS memory_used_bytes,
        arg_max(value, "at") FILTER (metric = 'network_speed_bytes_per_s') AS speed,
        max("at") FILTER (metric IN ('cpu_cores', 'memory_bytes')) AS used_at
    FROM usage WHERE scope = 'node' AND "at" > $since AND "at" <= $at GROUP BY cluster, name
)
SELECT s.cluster, s.node, node_type, ready, schedulable, cpu_cores, memory_bytes, pods, gpu_count, gpu_model,
    disk_type, coalesce(network_bytes_per_s, speed) AS network_bytes_per_s, labels, taints, allocatable,
    cpu_used_cores, memory_used_bytes, used_at
FROM node_specs AS s LEFT JOIN latest ON latest.cluster = s.cluster AND latest.node = s.node
WHERE valid_to IS NULL ORDER BY s.cluster, s.node
"""

_PLACEMENTS = """
SELECT cluster, uid, namespace, pod, node, function, phase, started, cpu_request_cores, memory_request_bytes,
    other_requests, labels
FROM placements WHERE ended IS NULL AND phase NOT IN ('Succeeded', 'Failed') ORDER BY cluster, node, namespace, pod
"""

_WORKFLOWS = "SELECT cluster, namespace, workflow, document FROM workflows ORDER BY cluster, namespace, workflow"

_DISKS = "SELECT cluster, kind, namespace, name, document FROM disks ORDER BY ALL"

_DRIVES = """
SELECT cluster, namespace AS node, name AS device, arg_max(value, "at") AS busy_ratio
FROM usage WHERE scope = 'drive' AND metric = 'busy_ratio' AND "at" > $since AND "at" <= $at
GROUP BY ALL ORDER BY cluster, node, device
"""

_CLUSTERS = """
SELECT cluster FROM node_specs UNION SELECT cluster FROM placements UNION SELECT cluster FROM workflows
UNION SELECT cluster FROM runs UNION SELECT cluster FROM models UNION SELECT cluster FROM declared_profiles
UNION SELECT cluster FROM disks ORDER BY 1
"""


def snapshot(con: DuckDBPyConnection, at: datetime) -> Snapshot:
    """Copy what is known at *at* out of the store.

    Nodes as last listed with their use of the last hour, pods that are alive, workflows, the promoted models of
    every cluster, and the sources' health. The version names the time and the content.
    """
    models = con.execute("SELECT cluster, model, metrics FROM models WHERE promoted ORDER BY cluster").fetchall()
    found = {
        "nodes": queries.arrow(con, _NODES, {"since": at - FRESH, "at": at}),
        "placements": queries.arrow(con, _PLACEMENTS),
        "workflows": queries.arrow(con, _WORKFLOWS),
        "disks": queries.arrow(con, _DISKS),
        "drives": queries.arrow(con, _DRIVES, {"since": at - FRESH, "at": at}),
        "regions": regions.current(con),
        "health": queries.health(con),
        **{name: _learned(con, name, place) for name, place in LEARNED.items()},
    }
    tables = {name: found[name].select(schema.names).cast(schema) for name, schema in TABLES.items()}
    return Snapshot(
        version=f"{at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{_digest(tables)}",
        created=at,
        clusters=tuple(cluster for (cluster,) in con.execute(_CLUSTERS).fetchall()),
        models={cluster: model for cluster, model, _ in models},
        attribution={cluster: json.loads(metrics).get("attribution", {}) for cluster, _, metrics in models},
        tables=tables,
        learning={cluster: _said(told) for cluster, _, metrics in models if (told := json.loads(metrics))},
    )


def of_model(con: DuckDBPyConnection, cluster: str, model: str) -> Snapshot:
    """Copy what the saved *model* of *cluster* says, and nothing else; it need not be promoted."""
    chosen = "m.cluster = $cluster AND m.model = $model"
    given = {"cluster": cluster, "model": model}
    [[created, text]] = con.execute(f"SELECT created, metrics FROM models AS m WHERE {chosen}", given).fetchall()
    metrics = json.loads(text)
    found = {name: _learned(con, name, place, chosen, given) for name, place in LEARNED.items()}
    return Snapshot(
        version=model,
        created=created,
        clusters=(cluster,),
        models={cluster: model},
        attribution={cluster: metrics.get("attribution", {})},
        tables={
            name: found[name].select(schema.names).cast(schema) if name in found else schema.empty_table()
            for name, schema in TABLES.items()
        },
        learning={cluster: _said(metrics)},
    )


def _learned(
    con: DuckDBPyConnection,
    name: str,
    place: str,
    chosen: str = "promoted",
    given: Mapping[str, object] | None = None,
) -> pa.Table:
    """A learned table of the promoted models, or of those *chosen*; regions stand in it as victims alone."""
    function = "aggressor" if name == "pairs" else "function"
    columns = ", ".join(f'p."{column}"' for column in TABLES[name].names)
    return queries.arrow(
        con,
        f"""
        SELECT {columns} FROM {place} AS p
        JOIN (SELECT cluster, model FROM models AS m WHERE {chosen}) AS m
            ON m.cluster = p.cluster AND m.model = p.model
        WHERE NOT starts_with(p.{function}, '{regions.PREFIX}') ORDER BY ALL
        """,
        given or {},
    )


def _said(metrics: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """What a model says of itself, flat: bins of its calibration are keyed ``status/number``."""
    found = {name: dict(metrics[name]) for name in ("drift", "distance") if metrics.get(name)}
    for status, told in metrics.get("calibration", {}).items():
        if told.get("error") is not None:
            found.setdefault("calibration_error", {})[status] = told["error"]
        for number, each in enumerate(told.get("bins", ())):
            for name in ("stated", "found"):
                found.setdefault(name, {})[f"{status}/{number}"] = each[name]
    return found


def _digest(tables: Mapping[str, pa.Table]) -> str:
    digest = hashlib.blake2b(digest_size=4)
    for name in sorted(tables):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, tables[name].schema) as writer:
            writer.write_table(tables[name])
        digest.update(sink.getvalue())
    return digest.hexdigest()
