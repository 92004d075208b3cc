"""Functions: what each uses, the classes that follow, and how fast it answers on each type of node."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.board import board, cluster, function, namespace
from dashboards.panels import Query, lines, listing, number, told

_F = 'cluster=~"$cluster", function=~"($namespace)/.*", function=~"$function"'
_ON = "{{function}} on {{node_type}}"
_USE = (("cpu_used_cores", "CPU"), ("memory_used_bytes", "memory"),
        ("network_bytes_per_second", "network"), ("disk_bytes_per_second", "disk"))  # fmt: skip


def _gauge(name: str) -> str:
    return told(f"colocation_function_{name}{{{_F}}}", "cluster", "function")


def _latency(quantile: str) -> str:
    selector = f'colocation_function_latency_seconds{{{_F}, quantile="{quantile}"}}'
    return told(selector, "cluster", "function", "node_type")


def functions() -> Dashboard:
    """Build the dashboard."""
    labels = ("cluster", "function", "dominant", "cpu", "memory", "network", "disk", "source")
    classes = told(f"colocation_function_class_info{{{_F}}}", *labels)
    profiles = (
        number("Functions", "The most active ones, up to `serve.metrics_pairs`.",
               Query(f"count({_gauge('activations')})")),
        number("By dominant resource", "What functions use most of.",
               Query(f"count by (dominant) ({classes})", "{{dominant}}"), width=12),
        number("Activations", "That the profiles were learned from.",
               Query(f"sum({_gauge('activations')})"), width=8),
        listing("Classes", "Low, medium or high of each resource, and where that is known from.",
                Query(classes, ""), width=12),
        listing("Profiles", "What a function uses while it runs.",
                *(Query(_gauge(name), column) for name, column in _USE),
                Query(_gauge("activations"), "activations"),
                units={"memory": "bytes", "network": "Bps", "disk": "Bps"}),
    )  # fmt: skip
    speed = (
        lines("Median run time by node type", "The ten slowest, initialisation excluded.",
              Query(f"topk(10, {_latency('0.5')})", _ON), unit="s"),
        lines("95th percentile by node type", "The ten slowest, initialisation excluded.",
              Query(f"topk(10, {_latency('0.95')})", _ON), unit="s"),
        listing("Slowest over fastest node type", "How much a function gains from the right type of node.",
                Query(f"max by (cluster, function) ({_latency('0.5')})"
                      f" / min by (cluster, function) ({_latency('0.5')})", "slowest over fastest")),
        lines("CPU in use", "The ten that use most while they run.",
              Query(f"topk(10, {_gauge('cpu_used_cores')})", "{{function}}")),
    )  # fmt: skip
    return board(
        "functions",
        "functions",
        "Profiles and classes of functions, and their latency by node type.",
        (cluster(), namespace(), function()),
        ("Profiles", profiles),
        ("Speed", speed),
    )
