"""The outcomes' family: pods by whether they followed, and a ratio only where some pod ran."""

from jobs.service.families.outcomes import outcomes
from jobs.supervisor.status import OutcomeStatus
from tests.support.metrics import key, samples


def test_pods_and_their_latency_are_told_by_mode_and_whether_they_followed() -> None:
    known = [OutcomeStatus("c1", "prefer", "yes", 7, 0.9), OutcomeStatus("c1", "prefer", "unknown", 2, None)]
    assert samples(outcomes(known)) == {
        key("decided_pods", cluster="c1", mode="prefer", followed="yes"): 7,
        key("decided_pods", cluster="c1", mode="prefer", followed="unknown"): 2,
        key("decided_latency_ratio", cluster="c1", mode="prefer", followed="yes"): 0.9,
    }
