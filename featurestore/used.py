"""The table of what activations used, apart from what works it out: who only reads it compiles nothing."""

import pyarrow as pa

from featurestore.columnar import TEXT, TIME

#: The columns of what is kept of each activation; amounts in base units, times in UTC.
USE = pa.schema(
    [
        pa.field("activation_id", pa.string()),
        pa.field("start", TIME),
        pa.field("end", TIME),
        pa.field("function", TEXT),
        pa.field("node", TEXT),
        pa.field("pod", TEXT),
        pa.field("method", TEXT),
        pa.field("latency_ms", pa.float64()),
        pa.field("vcores", pa.float64()),
        pa.field("memory_limit_bytes", pa.float64()),
        pa.field("cpu_seconds", pa.float64()),
        pa.field("memory_bytes", pa.float64()),
        pa.field("network_bytes", pa.float64()),
        pa.field("disk_bytes", pa.float64()),
    ]
)
