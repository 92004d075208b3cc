"""What one run of the demo came to."""

from dataclasses import dataclass

from featurestore.snapshot import Snapshot
from jobs import collect
from jobs.demo import recorded
from jobs.demo.findings import Finding
from jobs.recommending import Answer
from rules.policy import Policy


@dataclass(frozen=True, slots=True)
class Result:
    """What one run of the demo came to."""

    recording: recorded.Recording
    outcomes: list[collect.Outcome]
    snapshot: Snapshot
    policy: Policy
    findings: list[Finding]
    answer: Answer
