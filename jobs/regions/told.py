"""What an operator is told of its job when it is started, held against the job's own resource."""

from typing import NamedTuple

import structlog

from jobs.regions.resources import Started
from pipeline.errors import BadInput

_log = structlog.get_logger(__name__)


class Told(NamedTuple):
    """The number of regions, the uid of the job and the job's generation; None and "" where nothing was said.

    A Deployment that was made of the resource says so in variables; where they differ it is not of that resource.
    """

    regions: int | None = None
    job_id: str = ""
    generation: int | None = None

    def check(self, started: Started, name: str) -> None:
        """Raise `BadInput` where the resource *name* is that of another job, or has other regions.

        Another generation alone is only logged: it may differ in nothing that an operator does.
        """
        if self.job_id and started.job_id and self.job_id != started.job_id:
            raise BadInput(
                f"STREAMS_JOB_ID (--job-id): {self.job_id[:60]!r}, but {name} is of the job {started.job_id!r}"
            )
        if self.regions is not None and self.regions != started.regions:
            raise BadInput(
                f"NUM_CONSISTENT_REGIONS (--regions): {self.regions}, but {name} says numRegions {started.regions}"
            )
        if self.generation is not None and started.generation not in ("", str(self.generation)):
            _log.warning("started for another generation", told=self.generation, resource=started.generation)


#: An operator that a person starts is told nothing.
NOTHING = Told()
