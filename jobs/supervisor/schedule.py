"""What runs when: the settings' intervals as jobs of the built-in scheduler."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from jobs.config import Settings
from jobs.supervisor.clockwork import Job


def plan(settings: Settings, config_path: Path | None) -> list[Job]:
    """Return what runs when: one job a source that is configured, over all clusters, and learning after them."""
    schedule = settings.schedule
    config = ("--config", str(config_path)) if config_path is not None else ()
    every: dict[str, timedelta] = {}
    if any(cluster.kubernetes is not None for cluster in settings.clusters):
        every |= {
            "nodes": schedule.nodes,
            "workflows": schedule.workflows,
            "placements": schedule.placements,
        }
        if settings.disks.collect:
            every["disks"] = schedule.disks
    if any(cluster.prometheus is not None for cluster in settings.clusters):
        every["usage"] = schedule.usage
    if any(cluster.openwhisk is not None for cluster in settings.clusters):
        every["activations"] = schedule.activations
    if not every:
        return []
    jobs = [_job(name, (*config, "collect", name), span, schedule.job_limit) for name, span in every.items()]
    if "nodes" in every and settings.hosts.change_nodes:
        reconcile = (*config, "hosts", "reconcile", "--change-nodes")
        jobs.append(_job("hosts", reconcile, settings.hosts.reconcile, schedule.job_limit))
    return [*jobs, _job("learn", (*config, "learn"), schedule.learn, schedule.job_limit, after_first=True)]


def _job(name: str, arguments: Sequence[str], every: timedelta, limit: timedelta, after_first: bool = False) -> Job:
    return Job(name, "jobs.cli", tuple(arguments), every, limit, after_first)
