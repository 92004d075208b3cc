"""What a collection brought goes into the store: deduplicated, anti-joined, with its watermark, in one transaction."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from featurestore.store.duck import Store
from pipeline.records import Batch


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a batch: *rows* new or changed, *duplicates* known before, *refused* unusable, *noise* health
    actions left out, *late* new rows from before the watermark less the overlap."""

    rows: int = 0
    duplicates: int = 0
    refused: int = 0
    noise: int = 0
    late: int = 0


def ingest(
    store: Store,
    cluster: str,
    batch: Batch,
    *,
    collected: datetime,
    overlap: timedelta,
    source: str = "",
    started: datetime | None = None,
) -> Written:
    """Write *batch* of *cluster*, as it was at *collected*; the same batch again adds nothing.

    The watermark of (*source*, default the table's name; ``batch.scope``) moves to ``batch.watermark``, never back,
    and where *started* is given the run is recorded, both in the same transaction. Raises as `Store.write` does.
    """
    raise NotImplementedError
