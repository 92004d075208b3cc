"""The columns of every batch that a collector may bring: the agreement between the pipeline and the store.

Times are microseconds in UTC; JSON columns hold objects or arrays as text.
"""

from collections.abc import Mapping

import pyarrow as pa

#: Times as every table has them.
TIME = pa.timestamp("us", tz="UTC")


def schema(**fields: pa.DataType) -> pa.Schema:
    """Return the schema of *fields*, in their order."""
    return pa.schema([pa.field(name, kind) for name, kind in fields.items()])


#: One row a node of the whole list at *at*; nodes that are missing are gone.
NODES = schema(
    node=pa.string(),
    uid=pa.string(),
    at=TIME,
    node_type=pa.string(),
    ready=pa.bool_(),
    schedulable=pa.bool_(),
    cpu_cores=pa.float64(),
    memory_bytes=pa.float64(),
    pods=pa.float64(),
    gpu_count=pa.int32(),
    gpu_model=pa.string(),
    disk_type=pa.string(),
    network_bytes_per_s=pa.float64(),
    labels=pa.string(),
    taints=pa.string(),
    addresses=pa.string(),
    conditions=pa.string(),
    capacity=pa.string(),
    allocatable=pa.string(),
    kernel=pa.string(),
)

#: One row a sample; *scope* is ``node`` or ``pod``; finite values only.
USAGE = schema(
    scope=pa.string(), namespace=pa.string(), name=pa.string(), metric=pa.string(), at=TIME, value=pa.float64()
)

#: One row a pod that has a node, of the whole list at *at*; pods that are missing are gone.
#: *started* is the kubelet's start, else creation. *ended* is null while the pod is not terminal.
#: *function* is set where the label (or an unambiguous name) says so; *named* tells that the name already did.
#: *function_from* is when a watch saw the label come; null where it is to be bounded by what was seen before.
PLACEMENTS = schema(
    uid=pa.string(),
    namespace=pa.string(),
    pod=pa.string(),
    node=pa.string(),
    at=TIME,
    function=pa.string(),
    named=pa.bool_(),
    started=TIME,
    ended=TIME,
    phase=pa.string(),
    cpu_limit_cores=pa.float64(),
    memory_limit_bytes=pa.float64(),
    cpu_request_cores=pa.float64(),
    memory_request_bytes=pa.float64(),
    other_requests=pa.string(),
    labels=pa.string(),
    function_from=TIME,
)

#: One row a workflow object of the whole list.
WORKFLOWS = schema(namespace=pa.string(), workflow=pa.string(), document=pa.string())

#: One row an object about disks of the whole list: the record of `pipeline.disk_records` as JSON.
DISKS = schema(kind=pa.string(), namespace=pa.string(), name=pa.string(), document=pa.string())

#: One row a consistent region of the whole list; *members* a JSON array of PEs, *spans* of the drains and resets that
#: it completed last: {kind, seq, started (epoch ms), milliseconds}.
REGIONS = schema(
    namespace=pa.string(),
    name=pa.string(),
    stream_job=pa.string(),
    region=pa.int32(),
    trigger=pa.string(),
    state=pa.string(),
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
    members=pa.string(),
    spans=pa.string(),
)

#: One row an imported activation; what an OpenWhisk page gives the store extracts itself.
ACTIVATIONS = schema(
    activation_id=pa.string(),
    function=pa.string(),
    version=pa.string(),
    kind=pa.string(),
    start=TIME,
    end=TIME,
    duration_ms=pa.float64(),
    init_ms=pa.float64(),
    wait_ms=pa.float64(),
    status_code=pa.int32(),
    memory_mb=pa.int32(),
    timeout_ms=pa.int64(),
    concurrency=pa.int32(),
    composite=pa.bool_(),
    caused_by=pa.string(),
    node=pa.string(),
    pod=pa.string(),
    node_type=pa.string(),
)

#: One row a declared or imported profile of a function on a node type ('' = every type); per second busy.
PROFILES = schema(
    function=pa.string(),
    node_type=pa.string(),
    cpu_cores=pa.float64(),
    memory_bytes=pa.float64(),
    network_bytes_per_s=pa.float64(),
    disk_bytes_per_s=pa.float64(),
)

#: By the name of the batch's table.
TABLES: Mapping[str, pa.Schema] = {
    "nodes": NODES,
    "usage": USAGE,
    "placements": PLACEMENTS,
    "workflows": WORKFLOWS,
    "regions": REGIONS,
    "activations": ACTIVATIONS,
    "profiles": PROFILES,
    "disks": DISKS,
}

#: Names of usage metrics, by scope; units: cores, bytes, bytes per second, fractions of time.
METRICS: Mapping[str, tuple[str, ...]] = {
    "node": (
        "cpu_cores",
        "memory_bytes",
        "network_receive_bytes_per_s",
        "network_transmit_bytes_per_s",
        "disk_read_bytes_per_s",
        "disk_write_bytes_per_s",
        "cpu_pressure",
        "memory_pressure",
        "io_pressure",
        "network_speed_bytes_per_s",
    ),
    "pod": (
        "cpu_cores",
        "memory_bytes",
        "network_receive_bytes_per_s",
        "network_transmit_bytes_per_s",
        "disk_read_bytes_per_s",
        "disk_write_bytes_per_s",
        "cpu_throttled",
        "cpu_pressure",
        "memory_pressure",
        "io_pressure",
    ),
    "drive": (
        "busy_ratio",
        "read_operations_per_s",
        "write_operations_per_s",
        "read_bytes_per_s",
        "write_bytes_per_s",
        "latency_s",
    ),
}
