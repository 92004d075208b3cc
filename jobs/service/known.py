"""What is known, as tables to read: which columns, filters and order each has; pure functions of a snapshot."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from featurestore.snapshot import Snapshot
from jobs.service import words


@dataclass(frozen=True, slots=True)
class Known:
    """One readable table of the snapshot.

    *filters* maps a query parameter to the column that must equal it, *least* one to the column that must be as much;
    *assumed* holds the filters that apply where
    none is given; *more* are columns that the command line shows when it is asked for them.
    """

    table: str
    summary: str
    columns: tuple[str, ...]
    filters: Mapping[str, str]
    order: tuple[tuple[str, str], ...]
    assumed: Mapping[str, str] = field(default_factory=dict)
    more: tuple[str, ...] = ()
    least: Mapping[str, str] = field(default_factory=dict)


#: By the name in the path; the columns stand in the order of the CSV, the cluster last.
KNOWN: Mapping[str, Known] = {
    "functions": Known(
        "functions",
        "Profiles of functions: what they use, how much of each, how fast they answer",
        (
            *("function", "dominant", "cpu", "memory", "network", "disk", "source"),
            *("activations", "p50_ms", "p95_ms", "cluster"),
        ),
        {"cluster": "cluster", "function": "function", "node_type": "node_type", "dominant": "dominant"},
        (("cluster", "ascending"), ("function", "ascending")),
        {"node_type": ""},
        (
            *("node_type", "cpu_cores", "memory_bytes", "network_bytes_per_s", "disk_bytes_per_s"),
            *("cpu_seconds_per_run", "memory_bytes_p95", "network_bytes_per_run", "disk_bytes_per_run"),
        ),
    ),
    "interference": Known(
        "pairs",
        "Which function is slowed down by which: .25 = 25 % longer beside one always-running aggressor",
        (
            *("victim", "aggressor", "node_type", "status", "slowdown", "low", "high", "probability"),
            *("effective_overlaps", "activations", "window_start", "window_end", "cluster"),
        ),
        {
            "cluster": "cluster",
            "victim": "victim",
            "aggressor": "aggressor",
            "node_type": "node_type",
            "status": "status",
        },
        (("cluster", "ascending"), ("slowdown", "descending"), ("victim", "ascending"), ("aggressor", "ascending")),
        least={"min_slowdown": "slowdown", "min_probability": "probability"},
    ),
    "regions": Known(
        "regions",
        "Consistent regions of stream jobs: state, sequence ids, and how long drains and resets take",
        (
            *("stream_job", "region", "trigger", "state", "healthy", "current_seq_id", "last_completed_seq_id"),
            *("reset_attempts", "max_reset_attempts", "average_drain_ms", "average_reset_ms", "last_consistent_at"),
            *("last_reset_at", "last_completed_drain", "last_completed_reset", "pes", "seen", "namespace", "cluster"),
        ),
        {"cluster": "cluster", "namespace": "namespace", "stream_job": "stream_job", "state": "state"},
        (
            ("cluster", "ascending"),
            ("namespace", "ascending"),
            ("stream_job", "ascending"),
            ("region", "ascending"),
        ),
    ),
    "nodes": Known(
        "nodes",
        "Nodes with their allocatable resources and last known use",
        (
            *("node", "node_type", "ready", "schedulable", "cpu_cores", "memory_bytes", "pods", "gpu_count"),
            *("gpu_model", "disk_type", "network_bytes_per_s", "cpu_used_cores", "memory_used_bytes", "used_at"),
            "cluster",
        ),
        {"cluster": "cluster", "node": "node", "node_type": "node_type"},
        (("cluster", "ascending"), ("node", "ascending")),
    ),
}


def select(known: Known, snapshot: Snapshot, given: Mapping[str, str], *, wide: bool = False) -> pa.Table:
    """Return the rows that match *given* filters, ordered; raises `BadInput` naming a wrong filter.

    *wide* adds the columns that are more than usual before the last one, the cluster.
    """
    words.check(given, (*known.filters, *known.least), "format", "limit", "offset")
    wanted = {**known.assumed, **given}
    table = snapshot[known.table]

    def matching(name: str) -> pa.ChunkedArray:
        if name in known.least:  # what is not known, or not finite, is not as much
            return pc.fill_null(pc.greater_equal(table[known.least[name]], words.least(name, wanted[name])), False)
        return pc.equal(pc.fill_null(table[known.filters[name]].cast(pa.string()), ""), wanted[name])

    if wanted:
        table = table.filter(reduce(pc.and_, map(matching, wanted)))
    *first, cluster = known.columns
    table = table.select([*first, *(known.more if wide else ()), cluster])
    # Arrow sorts no dictionaries.
    plain = [
        pa.field(field.name, pa.string()) if pa.types.is_dictionary(field.type) else field for field in table.schema
    ]
    return table.cast(pa.schema(plain)).sort_by(list(known.order))
