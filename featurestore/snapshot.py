"""The immutable snapshot that answers are given from: Arrow tables and what they were made of.

Pure values; reading and publishing the file is `featurestore.store.published`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeAlias

import numpy.typing as npt
import pyarrow as pa

from pipeline.columns import TIME, schema

#: So many rows become Python values at once: a millisecond or two.
_PART: Final = 250

#: Numbers in one piece, one dimension.
Column: TypeAlias = npt.NDArray[Any]
_TEXT = pa.dictionary(pa.int32(), pa.string())

#: Every table of a snapshot; amounts in base units, fractions in 0..1 unless overloaded.
TABLES: Mapping[str, pa.Schema] = {
    "nodes": schema(
        cluster=_TEXT,
        node=pa.string(),
        node_type=_TEXT,
        ready=pa.bool_(),
        schedulable=pa.bool_(),
        cpu_cores=pa.float64(),
        memory_bytes=pa.float64(),
        pods=pa.float64(),
        gpu_count=pa.int32(),
        gpu_model=_TEXT,
        disk_type=_TEXT,
        network_bytes_per_s=pa.float64(),
        labels=pa.string(),
        taints=pa.string(),
        allocatable=pa.string(),
        cpu_used_cores=pa.float64(),
        memory_used_bytes=pa.float64(),
        used_at=TIME,
    ),
    "functions": schema(
        cluster=_TEXT,
        function=pa.string(),
        node_type=_TEXT,
        dominant=_TEXT,
        cpu=_TEXT,
        memory=_TEXT,
        network=_TEXT,
        disk=_TEXT,
        source=_TEXT,
        cpu_cores=pa.float64(),
        memory_bytes=pa.float64(),
        network_bytes_per_s=pa.float64(),
        disk_bytes_per_s=pa.float64(),
        cpu_seconds_per_run=pa.float64(),
        memory_bytes_p95=pa.float64(),
        network_bytes_per_run=pa.float64(),
        disk_bytes_per_run=pa.float64(),
        activations=pa.int64(),
        p50_ms=pa.float64(),
        p95_ms=pa.float64(),
    ),
    "latencies": schema(
        cluster=_TEXT,
        function=_TEXT,
        node_type=_TEXT,
        node=_TEXT,
        activations=pa.int64(),
        p50_ms=pa.float64(),
        p95_ms=pa.float64(),
    ),
    "base_times": schema(  # the time alone by node type, as the fit found it: company and load taken out
        cluster=_TEXT,
        function=_TEXT,
        node_type=_TEXT,
        base_ms=pa.float64(),
    ),
    "company": schema(  # medians by the company that runs had: `featurestore.company`
        cluster=_TEXT,
        function=_TEXT,
        node_type=_TEXT,
        node=_TEXT,
        company=pa.int64(),
        activations=pa.int64(),
        p50_ms=pa.float64(),
    ),
    "pairs": schema(
        cluster=_TEXT,
        victim=_TEXT,
        aggressor=_TEXT,
        node_type=_TEXT,
        status=_TEXT,
        slowdown=pa.float64(),
        low=pa.float64(),
        high=pa.float64(),
        probability=pa.float64(),
        effective_overlaps=pa.float64(),
        activations=pa.int64(),
        window_start=TIME,
        window_end=TIME,
    ),
    "placements": schema(
        cluster=_TEXT,
        uid=pa.string(),
        namespace=_TEXT,
        pod=pa.string(),
        node=_TEXT,
        function=_TEXT,
        phase=_TEXT,
        started=TIME,
        cpu_request_cores=pa.float64(),
        memory_request_bytes=pa.float64(),
        other_requests=pa.string(),  # {resource: amount} beside cpu and memory, null for none
        labels=pa.string(),
    ),
    "busyness": schema(  # mean numbers of a function's running activations and pods on a node, last hour
        cluster=_TEXT,
        node=_TEXT,
        function=_TEXT,
        running=pa.float64(),
        pods=pa.float64(),  # null where none is known
    ),
    "workflows": schema(cluster=_TEXT, namespace=_TEXT, workflow=pa.string(), document=pa.string()),
    "disks": schema(  # records of `pipeline.disk_records` as JSON
        cluster=_TEXT, kind=_TEXT, namespace=_TEXT, name=pa.string(), document=pa.string()
    ),
    "drives": schema(  # how busy devices of nodes were, last known of the last hour
        cluster=_TEXT, node=_TEXT, device=_TEXT, busy_ratio=pa.float64()
    ),
    "regions": schema(  # consistent regions of stream jobs, as last listed
        cluster=_TEXT,
        namespace=_TEXT,
        stream_job=_TEXT,
        region=pa.int32(),
        trigger=_TEXT,
        state=_TEXT,
        healthy=pa.bool_(),
        current_seq_id=pa.int64(),
        last_completed_seq_id=pa.int64(),
        reset_attempts=pa.int64(),
        max_reset_attempts=pa.int64(),
        average_drain_ms=pa.int64(),
        average_reset_ms=pa.int64(),
        last_consistent_at=TIME,
        last_reset_at=TIME,
        last_completed_drain=pa.int64(),
        last_completed_reset=pa.int64(),
        pes=pa.int32(),
        seen=TIME,
    ),
    "health": schema(
        cluster=_TEXT,
        source=_TEXT,
        last_success=TIME,
        last_attempt=TIME,
        outcome=_TEXT,
        reason=_TEXT,
        rows=pa.int64(),
        refused=pa.int64(),
        watermark=TIME,
        rows_total=pa.int64(),
        errors_total=pa.int64(),
    ),
}

#: Columns that name functions, by table. In a published file their dictionaries are one: all functions, in order.
FUNCTIONS: Final = (
    *(("functions", "function"), ("pairs", "victim"), ("pairs", "aggressor"), ("placements", "function")),
    *(("busyness", "function"), ("latencies", "function"), ("base_times", "function"), ("company", "function")),
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything learned and last seen, at *created*; *version* names it in every decision.

    *models* maps a cluster to its promoted model; *attribution* a cluster to the counts by method of its last
    learning run (``exact``, ``node``, ``inferred``, ``ambiguous``, ``none``, ``skew_max_ms``); *learning* a cluster
    to what its model says of itself: ``drift`` by function, ``distance`` of the folded state to full fits, and its
    calibration: ``calibration_error`` by status, ``stated`` and ``found`` shares by ``status/bin``. *laid* maps a
    cluster to columns that were laid out of its tables as they were published, by name, where there are any.
    """

    version: str
    created: datetime
    clusters: tuple[str, ...]
    models: Mapping[str, str]
    attribution: Mapping[str, Mapping[str, float]]
    tables: Mapping[str, pa.Table]
    learning: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    laid: Mapping[str, Mapping[str, Column]] = field(default_factory=dict)

    def __getitem__(self, table: str) -> pa.Table:
        return self.tables[table]


def empty(created: datetime, version: str = "empty") -> Snapshot:
    """Return a snapshot that knows nothing, for answers without a store."""
    return Snapshot(version, created, (), {}, {}, {name: schema.empty_table() for name, schema in TABLES.items()})


def rows(table: pa.Table, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows of *table*, or of its *columns* alone.

    Python's values of a dictionary's codes are made forty times as slowly as those of texts, and no other thread runs
    meanwhile: codes become texts first, and only some rows are made at once.
    """
    wanted = table if columns is None else table.select(columns)
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in wanted.schema
    ]
    for part in wanted.cast(pa.schema(fields)).to_batches(max_chunksize=_PART):
        yield from part.to_pylist()
