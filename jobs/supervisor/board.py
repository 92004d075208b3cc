"""The supervisor's record of its jobs: what the scheduler's threads report, written down for the metrics."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock

from jobs.supervisor import status
from jobs.supervisor.children import Ended

#: Outcome of a job by the exit code of its command; any other is a failure.
OUTCOMES = {0: "ok", 3: "partial"}


def outcome(ended: Ended) -> str:
    """Name how a job ended."""
    return "timeout" if ended.timed_out else OUTCOMES.get(ended.code, "failed")


class Board:
    """Keeps the `jobs.supervisor.status.Status` and writes it to *path* after every change."""

    def __init__(self, path: Path, names: Iterable[str], now: Callable[[], float] = time.time) -> None:
        self._path = path
        self._now = now
        self._lock = Lock()
        self._status = status.Status(jobs={name: status.JobStatus() for name in names})
        self._write()

    def started(self, name: str) -> None:
        """A run of job *name* began."""
        with self._lock:
            job = self._status.jobs[name]
            job.running, job.last_start = True, self._now()
            self._write()

    def ended(self, name: str, how: str, seconds: float) -> None:
        """A run of job *name* ended with outcome *how*."""
        with self._lock:
            job = self._status.jobs[name]
            job.running, job.last_seconds = False, seconds
            job.runs[how] = job.runs.get(how, 0) + 1
            if how == "ok":
                job.last_success = self._now()
            self._write()

    def missed(self, name: str) -> None:
        """A start of job *name* came too late."""
        with self._lock:
            self._status.jobs[name].missed += 1
            self._write()

    def overrun(self, name: str) -> None:
        """A start of job *name* fell into its former run."""
        with self._lock:
            self._status.jobs[name].overrun += 1
            self._write()

    def restarted(self) -> None:
        """A serving process ended and is started again."""
        with self._lock:
            self._status.restarts += 1
            self._write()

    def health(self, health: list[status.SourceHealth]) -> None:
        """Take over what the store says of the sources."""
        with self._lock:
            self._status.health = health
            self._write()

    def outcomes(self, outcomes: list[status.OutcomeStatus]) -> None:
        """Take over what became of decisions."""
        with self._lock:
            if outcomes != self._status.outcomes:
                self._status.outcomes = outcomes
                self._write()

    def watches(self, watches: list[status.WatchStatus]) -> None:
        """Take over how the watches fare."""
        with self._lock:
            self._status.watches = watches
            self._write()

    def writer(self, writer: status.WriterStatus) -> None:
        """Take over how a replica fares with its writer."""
        with self._lock:
            self._status.writer = writer
            self._write()

    def flushed(self, count: int) -> None:
        """Decisions were written to the history."""
        if count:
            with self._lock:
                self._status.decisions_flushed += count
                self._write()

    def flush_failed(self) -> None:
        """Decisions could not be written to the history; they are tried again."""
        with self._lock:
            self._status.flush_errors += 1
            self._write()

    def _write(self) -> None:
        self._status.written = self._now()
        status.write(self._status, self._path)
