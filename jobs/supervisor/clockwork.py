"""The built-in scheduler: what runs when, each run as a child process with a limit.

APScheduler's defaults drop a run that is a second late and let a hung job block its later runs for ever; here late
runs are made up for once, each run has an end, and what was missed or overrun is counted. Intervals in UTC only: a
cron trigger at midnight in a zone with daylight saving would skip a day.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Lock

import structlog
from apscheduler.events import EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobExecutionEvent, JobSubmissionEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from jobs.supervisor.board import Board, outcome
from jobs.supervisor.children import Runner

_log = structlog.get_logger(__name__)

#: Children at once; each collects from all clusters, and the store admits one writer at a time anyway.
_AT_ONCE = 3

#: A run later than this is missed; until then it is made up for.
_MISFIRE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Job:
    """A command that is run *every* so often; *after_first* waits for the first runs of all jobs without it."""

    name: str
    module: str
    arguments: tuple[str, ...]
    every: timedelta
    limit: timedelta
    after_first: bool = False


class Clockwork:
    """Runs *jobs* until stopped; *afterwards* is called after each run, in the thread of the run."""

    def __init__(self, jobs: Sequence[Job], board: Board, afterwards: Callable[[], None] = lambda: None) -> None:
        self._jobs = {job.name: job for job in jobs}
        self._board = board
        self._afterwards = afterwards
        self._runner = Runner()
        self._lock = Lock()
        self._awaited = {job.name for job in jobs if not job.after_first}
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(_AT_ONCE)},
            job_defaults={
                "coalesce": True,
                "max_instances": 1,
                "misfire_grace_time": int(_MISFIRE.total_seconds()),
            },
        )
        self._scheduler.add_listener(self._missed, EVENT_JOB_MISSED)
        self._scheduler.add_listener(self._overrun, EVENT_JOB_MAX_INSTANCES)

    def start(self) -> None:
        """Begin; every job that waits for none runs at once."""
        now = datetime.now(UTC)
        for job in self._jobs.values():
            first = now if job.name in self._awaited or not self._awaited else now + job.every
            trigger = IntervalTrigger(seconds=max(1, int(job.every.total_seconds())), timezone=UTC)
            self._scheduler.add_job(self._run, trigger, (job,), id=job.name, next_run_time=first)
        self._scheduler.start()

    def stop(self) -> None:
        """Start nothing more, end what runs, and wait for it."""
        if self._scheduler.running:
            self._scheduler.pause()
            self._runner.stop()
            self._scheduler.shutdown(wait=True)

    def _run(self, job: Job) -> None:
        self._board.started(job.name)
        ended = self._runner.run(job.module, job.arguments, job.limit.total_seconds())
        if ended is None:
            return
        how = outcome(ended)
        self._board.ended(job.name, how, ended.seconds)
        if how != "ok":
            _log.warning("job ended", job=job.name, outcome=how, code=ended.code, seconds=round(ended.seconds, 1))
        self._afterwards()
        self._arrived(job)

    def _arrived(self, job: Job) -> None:
        """Once every job has run for the first time, run those that waited for it."""
        with self._lock:
            waited = bool(self._awaited)
            self._awaited.discard(job.name)
            if not waited or self._awaited:
                return
        for other in self._jobs.values():
            if other.after_first:
                self._scheduler.modify_job(other.name, next_run_time=datetime.now(UTC))

    def _missed(self, event: JobExecutionEvent) -> None:
        self._board.missed(event.job_id)
        _log.warning("job missed", job=event.job_id, due=str(event.scheduled_run_time))

    def _overrun(self, event: JobSubmissionEvent) -> None:
        self._board.overrun(event.job_id)
        _log.warning("job overrun: its former run has not ended", job=event.job_id)


def names(jobs: Iterable[Job]) -> list[str]:
    """The names of *jobs*, for the board."""
    return [job.name for job in jobs]
