"""Consistent regions: their state, and the last drains and resets with their times."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from pipeline.collectors.objects import read, table, text
from pipeline.columns import REGIONS
from pipeline.errors import SourceError
from pipeline.objects.regions import Region, Span, region
from pipeline.ports import ListObjects
from pipeline.records import Batch

PATH = "/apis/streams.ibm.com/v1/streamscrs"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def collect(list_objects: ListObjects, at: datetime) -> Batch:
    """List the regions at *at*: none where the cluster does not know the kind.

    Raises `pipeline.errors.SourceError` where the list itself fails otherwise.
    """
    try:
        items = list_objects(PATH).items
    except SourceError as error:
        if error.reason != "status_404":
            raise
        items = ()
    regions, refused = read("streamscrs", items, region)
    return Batch("regions", table(REGIONS, [_row(each) for each in regions]), refused=refused, watermark=at)


def _row(each: Region) -> tuple[object, ...]:
    state = each.state
    return (
        each.namespace,
        each.name,
        each.stream_job,
        each.index,
        each.trigger,
        state.state,
        state.region_healthy,
        state.current_seq_id,
        state.last_completed_seq_id,
        state.current_reset_attempt,
        state.current_max_reset_attempts,
        state.avg_drain_time_metric,
        state.avg_reset_time_metric,
        _moment(state.last_consistent_state_time),
        _moment(state.last_reset_time),
        state.last_completed_drain,
        state.last_completed_reset,
        len(each.pes),
        text(each.pes),
        text([*_spans("drain", state.recent_drains), *_spans("reset", state.recent_resets)]),
    )


def _spans(kind: str, spans: tuple[Span, ...]) -> Iterator[dict[str, object]]:
    for span in spans:
        yield {"kind": kind, "seq": span.seq_id, "started": span.started_at, "milliseconds": span.milliseconds}


def _moment(milliseconds: int) -> datetime | None:
    """A moment in epoch milliseconds; 0, and what no calendar holds, is never."""
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds) if milliseconds > 0 else None
    except OverflowError:
        return None
