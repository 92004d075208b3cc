"""The tables of an export: what learning reads of a cluster's history, as Parquet that any engine reads.

``TABLE/cluster=C/day=D/node=N/*.parquet`` below one directory, a path or the URL of an object store; declared
profiles and workflows, which have no day, are in ``TABLE/cluster=C``. Values in paths are percent-encoded, as Hive
has them; a node that is not known has the name `UNKNOWN`, which every reader takes for null.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

import pyarrow as pa

_TIME = pa.timestamp("us", tz="UTC")
_TEXT, _NUMBER, _FLAG = pa.string(), pa.float64(), pa.bool_()

#: The node of what ran nobody knows where: Hive's name of a partition of nulls.
UNKNOWN: Final = "__HIVE_DEFAULT_PARTITION__"

#: The columns of every table, without the cluster and the day, which stand in the path alone. So does the node, the
#: first column of those that have a day: of activations where their record names it, of placements and specifications
#: their own, of samples that of the pod.
TABLES: Mapping[str, pa.Schema] = {
    "activations": pa.schema(
        [
            *(("node", _TEXT), ("activation_id", _TEXT), ("function", _TEXT), ("version", _TEXT)),
            *(("start", _TIME), ("end", _TIME), ("duration_ms", _NUMBER), ("init_ms", _NUMBER)),
            *(("status_code", pa.int32()), ("memory_mb", pa.int32()), ("timeout_ms", pa.int64())),
            *(("composite", _FLAG), ("pod", _TEXT), ("node_type", _TEXT)),
        ]
    ),
    "placements": pa.schema(
        [
            *(("node", _TEXT), ("uid", _TEXT), ("namespace", _TEXT), ("pod", _TEXT), ("function", _TEXT)),
            *(("function_from", _TIME), ("started", _TIME), ("ended", _TIME), ("last_seen", _TIME)),
            *(("phase", _TEXT), ("cpu_limit_cores", _NUMBER), ("memory_limit_bytes", _NUMBER)),
            *(("cpu_request_cores", _NUMBER), ("memory_request_bytes", _NUMBER)),
            *(("labels", _TEXT), ("other_requests", _TEXT)),
        ]
    ),
    "nodes": pa.schema(
        [
            *(("node", _TEXT), ("uid", _TEXT), ("valid_from", _TIME), ("valid_to", _TIME), ("node_type", _TEXT)),
            *(("ready", _FLAG), ("schedulable", _FLAG)),
            *((name, _NUMBER) for name in ("cpu_cores", "memory_bytes", "pods")),
            *(("gpu_count", pa.int32()), ("gpu_model", _TEXT), ("disk_type", _TEXT)),
            ("network_bytes_per_s", _NUMBER),
            *((name, _TEXT) for name in ("labels", "taints", "addresses", "conditions", "capacity")),
            *((name, _TEXT) for name in ("allocatable", "kernel")),
        ]
    ),
    "usage": pa.schema(
        [("node", _TEXT), ("namespace", _TEXT), ("name", _TEXT), ("metric", _TEXT), ("at", _TIME), ("value", _NUMBER)]
    ),
    "declared": pa.schema(
        [
            *(("function", _TEXT), ("node_type", _TEXT), ("cpu_cores", _NUMBER), ("memory_bytes", _NUMBER)),
            *(("network_bytes_per_s", _NUMBER), ("disk_bytes_per_s", _NUMBER), ("seen", _TIME)),
        ]
    ),
    "workflows": pa.schema([("namespace", _TEXT), ("workflow", _TEXT), ("seen", _TIME), ("document", _TEXT)]),
}


def partition(column: str, value: str) -> str:
    """Return the name of the directory of one value."""
    return f"{column}={quote(value, safe='')}"


def partitioned(path: Path, column: str) -> str | None:
    """Return the value of *column* that the directories of *path* tell; None where they tell none, or it is null."""
    for name in (each.name for each in path.parents):
        if name.startswith(f"{column}=") and name != f"{column}={UNKNOWN}":
            return unquote(name.removeprefix(f"{column}="))
    return None
