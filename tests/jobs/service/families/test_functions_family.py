"""The functions' family: profiles, classes and latency by node type, of the most active functions alone."""

from datetime import UTC, datetime

from jobs.service.families.functions import functions
from tests.support.metrics import samples
from tests.support.snapshots import snapshot

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
NUMBERS = {"guest/a": 500, "guest/b": 900, "guest/c": 100}
KNOWN = snapshot(
    AT,
    {
        "functions": [
            {"cluster": "c1", "function": name, "node_type": kind, "dominant": "cpu", "cpu": "high", "memory": "low",
             "network": "low", "disk": "low", "source": "measured", "cpu_cores": 0.75, "memory_bytes": None,
             "activations": number}
            for name, number in NUMBERS.items() for kind in ("", "t1")
        ],
        "latencies": [
            {"cluster": "c1", "function": name, "node_type": kind, "node": node, "activations": 9,
             "p50_ms": base, "p95_ms": 3 * base}
            for name in NUMBERS
            for kind, node, base in (("t1", "", 40.0), ("t2", "", 80.0), ("t2", "n1", 81.0))
        ],
    },
)  # fmt: skip


def test_the_most_active_functions_alone_are_shown() -> None:
    found = samples(functions(KNOWN, 2))
    shown = {name for (metric, labels) in found for key, name in labels if key == "function"}
    assert shown == {"guest/a", "guest/b"}
    of_b = {"cluster": "c1", "function": "guest/b"}
    assert found["colocation_function_activations", frozenset(of_b.items())] == 900
    assert found["colocation_function_cpu_used_cores", frozenset(of_b.items())] == 0.75
    assert ("colocation_function_memory_used_bytes", frozenset(of_b.items())) not in found
    classes = of_b | {
        "dominant": "cpu", "cpu": "high", "memory": "low", "network": "low", "disk": "low", "source": "measured"
    }  # fmt: skip
    assert found["colocation_function_class_info", frozenset(classes.items())] == 1


def test_latency_is_told_by_node_type_in_seconds() -> None:
    latency = {
        labels: value
        for (metric, labels), value in samples(functions(KNOWN, 3)).items()
        if metric == "colocation_function_latency_seconds" and ("function", "guest/c") in labels
    }
    by = {(dict(labels)["node_type"], dict(labels)["quantile"]): value for labels, value in latency.items()}
    assert by == {("t1", "0.5"): 0.04, ("t1", "0.95"): 0.12, ("t2", "0.5"): 0.08, ("t2", "0.95"): 0.24}
