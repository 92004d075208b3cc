"""The supervisor's jobs: runs by outcome, missed and overrun starts, and replaced serving processes."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from jobs.supervisor.status import Status

#: Not "job": Prometheus gives that name to what it scrapes.
_BY = ("task",)


def schedule(status: Status) -> Iterator[Metric]:
    """Yield one sample a job."""
    runs = CounterMetricFamily("colocation_job_runs", "Runs of a job by outcome", labels=("task", "outcome"))
    missed = CounterMetricFamily("colocation_job_missed", "Starts that came too late to be made up for", labels=_BY)
    overrun = CounterMetricFamily("colocation_job_overrun", "Starts that fell into a run not yet ended", labels=_BY)
    running = GaugeMetricFamily("colocation_job_running", "1 while the job runs", labels=_BY)
    success = GaugeMetricFamily(
        "colocation_job_last_success_timestamp_seconds", "When the job last succeeded", labels=_BY
    )
    seconds = GaugeMetricFamily("colocation_job_last_duration_seconds", "How long its last run took", labels=_BY)
    for name, job in sorted(status.jobs.items()):
        for outcome, count in sorted(job.runs.items()):
            runs.add_metric((name, outcome), count)
        missed.add_metric((name,), job.missed)
        overrun.add_metric((name,), job.overrun)
        running.add_metric((name,), float(job.running))
        if job.last_success:
            success.add_metric((name,), job.last_success)
        if job.runs:
            seconds.add_metric((name,), job.last_seconds)
    restarts = CounterMetricFamily("colocation_serving_restarts", "Serving processes that ended and were replaced")
    restarts.add_metric((), status.restarts)
    flushed = CounterMetricFamily("colocation_decisions_flushed", "Decisions written to the history")
    flushed.add_metric((), status.decisions_flushed)
    failed = CounterMetricFamily("colocation_decisions_flush_errors", "Times that writing decisions failed")
    failed.add_metric((), status.flush_errors)
    yield from (runs, missed, overrun, running, success, seconds, restarts, flushed, failed)
