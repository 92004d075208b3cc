"""How many tasks of each step Spark had to try again, as its status tracker knows."""

import time
import uuid
from collections.abc import Mapping
from typing import Any

#: Spark records what happened after it went on; so long is waited for that, in seconds.
_PATIENCE = 30.0


class Tries:
    """Jobs between two calls of `step` belong to the former; each learning has groups of its own."""

    def __init__(self, spark: Any) -> None:
        self._context = spark.sparkContext
        self._own = uuid.uuid4().hex
        self._steps: list[str] = []

    def step(self, name: str) -> None:
        """Jobs from here on belong to step *name*."""
        self._steps.append(name)
        self._context.setJobGroup(self._group(name), f"colocate learn: {name}")

    def again(self) -> Mapping[str, int]:
        """Return of each step but the last how many tasks were tried again.

        Those whose try failed, or whose output was lost, within a stage; and all of a stage that was begun anew, for
        what an earlier stage had left on a worker that is gone. The last step must have run a job: events arrive in
        order, so that once one of its is known to be over, all about those before is known.
        """
        tracker, (*steps, last) = self._context.statusTracker(), self._steps
        until = time.monotonic() + _PATIENCE
        while not self._over(tracker, last) and time.monotonic() < until:
            time.sleep(0.02)
        counted: set[int] = set()
        return {name: self._count(tracker, name, counted) for name in steps}

    def _over(self, tracker: Any, name: str) -> bool:
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group(name))]
        return any(job is not None and job.status != "RUNNING" for job in jobs)

    def _count(self, tracker: Any, name: str, counted: set[int]) -> int:
        """Return how many tasks of stages that are not *counted* yet were tried again, and count those stages."""
        stages: set[int] = set()
        for job in tracker.getJobIdsForGroup(self._group(name)):
            found = tracker.getJobInfo(job)
            stages |= set() if found is None else set(found.stageIds)
        infos = [tracker.getStageInfo(stage) for stage in sorted(stages - counted)]
        counted |= stages
        return sum(
            info.numFailedTasks + (info.numTasks if info.currentAttemptId > 0 else 0)
            for info in infos
            if info is not None
        )

    def _group(self, name: str) -> str:
        return f"{name}-{self._own}"
