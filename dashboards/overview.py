"""Cluster overview: nodes, how loaded they are, where it is hot, and whether the pipeline is well."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.board import board, cluster, node
from dashboards.panels import Query, lines, listing, number, told

_C = 'cluster=~"$cluster"'
_N = f'{_C}, node=~"$node"'
_READY, _OUT = ', state="ready"', ', state!="ready"'
_NODE = ("cluster", "node")
_USED, _HAS = "colocation_node_cpu_used_cores", "colocation_node_cpu_allocatable_cores"
_CPU = told(f"{_USED}{{{_N}}} / {_HAS}{{{_N}}}", *_NODE)
_MEMORY = told(
    f"colocation_node_memory_used_bytes{{{_N}}} / colocation_node_memory_allocatable_bytes{{{_N}}}", *_NODE
)
_RUNNING = told(f"colocation_node_running_activations{{{_N}}}", *_NODE)
_PLACED = told(f"colocation_attributed_activations{{{_C}}}", "cluster", "method")
_FAILING = told(f"colocation_source_failing{{{_C}}}", "cluster", "source", "reason")
_SOURCE = "{{cluster}} {{source}}"


def _nodes(more: str = "") -> str:
    return told(f"colocation_nodes{{{_C}{more}}}", "cluster", "node_type", "state")


def _source(expr: str) -> str:
    return told(f"colocation_source_{expr}", "cluster", "source")


def overview() -> Dashboard:
    """Build the dashboard."""
    nodes = (
        number("Nodes ready", "Ready and schedulable.", Query(f"sum({_nodes(_READY)})")),
        number("Nodes out", "Not ready, or closed to pods.",
               Query(f"sum({_nodes(_OUT)}) or vector(0)")),
        number("Hot nodes", "More than four fifths of the allocatable CPU or memory in use.",
               Query(f"count({_CPU} > 0.8 or {_MEMORY} > 0.8) or vector(0)")),
        number("CPU in use", "Of all nodes shown, of what pods can request.",
               Query(f"sum({told(f'{_USED}{{{_N}}}', *_NODE)}) / sum({told(f'{_HAS}{{{_N}}}', *_NODE)})"),
               unit="percentunit"),
        number("Sources failing", "Sources whose last collection was not whole.",
               Query(f"sum({_FAILING}) or vector(0)")),
        number("Age of answers", "Age of the snapshot that answers come from.",
               Query("max(colocation_snapshot_age_seconds)"), unit="s"),
        lines("CPU by node", "The ten most loaded nodes.", Query(f"topk(10, {_CPU})", "{{node}}"),
              unit="percentunit"),
        lines("Memory by node", "The ten fullest nodes.", Query(f"topk(10, {_MEMORY})", "{{node}}"),
              unit="percentunit"),
        listing("Hot spots", "The ten most loaded nodes, and how many activations run there at once.",
                Query(f"topk(10, {_CPU})", "CPU"), Query(f"{_MEMORY} and topk(10, {_CPU})", "memory"),
                Query(f"{_RUNNING} and topk(10, {_CPU})", "running"),
                units={"CPU": "percentunit", "memory": "percentunit"}),
        lines("Activations at once", "The ten nodes where most functions ran at once.",
              Query(f"topk(10, {_RUNNING})", "{{node}}")),
        lines("Nodes by type and state", "Types are told apart by hardware.",
              Query(f"sum by (node_type, state) ({_nodes()})", "{{node_type}} {{state}}"),
              stacked=True),
        listing("Models", "The model that answers in each cluster.",
                Query(told(f"colocation_model_info{{{_C}}}", "cluster", "model"), "")),
    )  # fmt: skip
    pipeline = (
        lines("Since the last success", "How long ago each source gave what was asked of it.",
              Query(f"time() - {_source(f'last_success_timestamp_seconds{{{_C}}}')}", _SOURCE), unit="s"),
        lines("Lag", "Age of what is known from each source.",
              Query(_source(f"lag_seconds{{{_C}}}"), _SOURCE), unit="s"),
        lines("Rows a second", "What the sources bring.",
              Query(told(f"rate(colocation_source_rows_total{{{_C}}}[$__rate_interval])", "cluster", "source"),
                    _SOURCE)),
        lines("Failed or partial collections", "In an hour.",
              Query(told(f"increase(colocation_source_errors_total{{{_C}}}[1h])", "cluster", "source"), _SOURCE)),
        listing("Failing now", "Sources whose last collection was not whole, and why.",
                Query(_FAILING, "failing")),
        lines("Objects that could not be used", "In the last collection of each source.",
              Query(_source(f"refused{{{_C}}}"), _SOURCE)),
        lines("How activations were placed", "By the last learning run: exact is best, ambiguous is not used.",
              Query(f"sum by (method) ({_PLACED})", "{{method}}"), stacked=True),
        lines("Staleness of watches", "Since each watch was last known current.",
              Query(told(f"colocation_watch_staleness_seconds{{{_C}}}", "cluster", "resource", "use"),
                    "{{cluster}} {{resource}} {{use}}"), unit="s"),
        lines("Scheduled jobs", "Runs in an hour by outcome.",
              Query(told("increase(colocation_job_runs_total[1h])", "task", "outcome"), "{{task}} {{outcome}}")),
        lines("Duration of jobs", "How long the last run took.",
              Query(told("colocation_job_last_duration_seconds", "task"), "{{task}}"), unit="s"),
        lines("Decisions on their way", "Written to the history, and writes that failed, in an hour.",
              Query("max(increase(colocation_decisions_flushed_total[1h]))", "written"),
              Query("max(increase(colocation_decisions_flush_errors_total[1h]))", "failed writes")),
        lines("Restarts", "Serving processes that ended and were replaced, and snapshots that could not be read.",
              Query("max(increase(colocation_serving_restarts_total[1h]))", "restarts"),
              Query("sum(increase(colocation_snapshot_load_failures_total[1h]))", "snapshots")),
    )  # fmt: skip
    return board(
        "overview",
        "cluster overview",
        "Nodes, their load, hot spots, and the health of what learns from them.",
        (cluster(), node()),
        ("Nodes", nodes),
        ("Pipeline", pipeline),
    )
