"""The pairs' family: the evidence of the strongest pairs stands under the same labels as their slowdown."""

from datetime import UTC, datetime

from jobs.service.families.pairs import pairs
from tests.support.metrics import key, samples
from tests.support.snapshots import snapshot

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_pair_has_its_interval_probability_and_overlaps() -> None:
    row = {"cluster": "c1", "victim": "v", "aggressor": "a", "node_type": "", "status": "observed", "slowdown": 0.5,
           "low": 0.25, "high": 0.75, "probability": 0.99, "effective_overlaps": 41.5}  # fmt: skip
    weak = row | {"aggressor": "b", "slowdown": 0.01}
    found = samples(pairs(snapshot(AT, {"pairs": [weak, row]}), 1))
    labels = {"cluster": "c1", "victim": "v", "aggressor": "a", "node_type": "", "status": "observed"}
    assert found == {
        key("pair_slowdown_ratio", **labels): 0.5,
        key("pair_slowdown_low_ratio", **labels): 0.25,
        key("pair_slowdown_high_ratio", **labels): 0.75,
        key("pair_interference_probability_ratio", **labels): 0.99,
        key("pair_effective_overlaps", **labels): 41.5,
        key("pairs", cluster="c1", status="observed"): 2,
    }
