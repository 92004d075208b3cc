"""The nodes' family: states are counted by type, and what runs on a node is summed over functions."""

from datetime import UTC, datetime

from jobs.service.families.nodes import nodes
from tests.support.metrics import key, samples
from tests.support.snapshots import snapshot

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_nodes_are_counted_by_type_and_state_and_their_activations_summed() -> None:
    rows = [("n1", "t1", True, True), ("n2", "t1", True, True), ("n3", "t1", True, False), ("n4", "t2", False, True),
            ("n5", "t2", False, False)]  # fmt: skip
    known = snapshot(
        AT,
        {
            "nodes": [
                {"cluster": "c1", "node": node, "node_type": kind, "ready": ready, "schedulable": schedulable}
                for node, kind, ready, schedulable in rows
            ],
            "busyness": [
                {"cluster": "c1", "node": "n1", "function": "f", "running": 1.5},
                {"cluster": "c1", "node": "n1", "function": "g", "running": 0.25},
            ],
        },
    )
    found = samples(nodes(known))
    assert found[key("nodes", cluster="c1", node_type="t1", state="ready")] == 2
    assert found[key("nodes", cluster="c1", node_type="t1", state="unschedulable")] == 1
    assert found[key("nodes", cluster="c1", node_type="t2", state="not_ready")] == 2
    assert found[key("node_running_activations", cluster="c1", node="n1")] == 1.75
    assert key("node_running_activations", cluster="c1", node="n2") not in found
