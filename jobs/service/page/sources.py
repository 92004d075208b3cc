"""Health of the pipeline as a document: the sources, and the snapshot that answers are given from. Pure."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from featurestore.snapshot import Snapshot
from jobs.service.page.operations import Source, Sources
from jobs.supervisor.status import SourceHealth


def told(snapshot: Snapshot, health: Iterable[SourceHealth], stale_after: timedelta, now: datetime) -> Sources:
    """Return the document at *now*; a snapshot older than *stale_after* answers stated needs alone."""
    items = [
        Source(
            source=one.source,
            outcome=one.outcome,
            reason=one.reason,
            last_success=_moment(one.last_success),
            last_attempt=_moment(one.last_attempt),
            watermark=_moment(one.watermark),
            staleness_s=_age(one, now),
            refused=one.refused,
            rows_total=one.rows_total,
            errors_total=one.errors_total,
            cluster=one.cluster,
        )
        for one in health
    ]
    age = max(timedelta(0), now - snapshot.created)
    return Sources(
        snapshot=snapshot.version,
        created=snapshot.created.astimezone(UTC),
        age_s=age.total_seconds(),
        stale=age > stale_after,
        stale_after_s=stale_after.total_seconds(),
        clusters=snapshot.clusters,
        models=dict(snapshot.models),
        total=len(items),
        items=items,
    )


def _age(one: SourceHealth, now: datetime) -> float | None:
    """A source that lists what there is keeps no watermark: it is as old as its last success."""
    known = one.watermark if one.watermark is not None else one.last_success
    return None if known is None else max(0.0, now.timestamp() - known)


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
