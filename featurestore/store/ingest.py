"""What a collection brought goes into the store: deduplicated, anti-joined, with its watermark, in one transaction.

Everything long (reading JSON, judging, deduplicating) is done in a staging database before the file is opened.

Records that come late, even later than the overlap that collections read again, are kept like any other: a batch is
compared with what is stored in the batch's own range of start times, wherever the watermark stands. The watermark
only says from where the next collection reads; it never moves back.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import cast

import pyarrow.compute as pc
import structlog
from duckdb import DuckDBPyConnection

from featurestore.store import objects, openwhisk, queries, samples
from featurestore.store.duck import Store, one_thread, staging
from featurestore.store.merging import Listed
from featurestore.store.reconciling import reconciled
from pipeline.records import Batch

_log = structlog.get_logger(__name__)

#: The source of what comes from files.
FILES = "import"

#: Activations that one transaction writes at most: whole row groups, as `samples.PART`.
PART = 245_760


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a batch.

    *rows* are new, changed or gone, *duplicates* known before or given twice, *refused* what the store could not use
    beside the batch's own refusals, *noise* health actions left out, and *late* those of the new rows that are from
    before the watermark less the overlap. *differ* counts activations of a file that are known, and otherwise.
    """

    rows: int = 0
    duplicates: int = 0
    refused: int = 0
    noise: int = 0
    late: int = 0
    differ: int = 0

    def __add__(self, other: "Written") -> "Written":
        return Written(
            self.rows + other.rows,
            self.duplicates + other.duplicates,
            self.refused + other.refused,
            self.noise + other.noise,
            self.late + other.late,
            self.differ + other.differ,
        )


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
    and where *started* is given a run from then to *collected* is recorded, both in the same transaction. Raises
    `pipeline.errors.BadInput` for a file that holds no records, and as `Store.write` does; then nothing of the batch
    was written. Only more than `PART` activations or `samples.PART` samples, such as a large cluster has, take
    several transactions, the last of which moves the watermark; being killed between is mended by the repetition.
    """
    source = source or batch.table

    def finish(con: DuckDBPyConnection, written: Written) -> Written:
        if batch.watermark is not None:
            queries.advance(con, cluster, source, batch.scope, batch.watermark)
        if started is not None:
            refused = written.refused + len(batch.refused)
            run = queries.Run(cluster, source, started, collected, written.rows, refused)
            queries.record_run(con, run)
        return written

    with staging(store.spill) as con:
        *parts, last = _prepare(con, cluster, batch, collected, overlap, source)
        written = Written()
        for part in parts:
            written += store.write(part, prepared=con)
        return store.write(lambda con: finish(con, written + last(con)), prepared=con)


Work = Callable[[DuckDBPyConnection], Written]


def _prepare(
    con: DuckDBPyConnection, cluster: str, batch: Batch, collected: datetime, overlap: timedelta, source: str
) -> list[Work]:
    if batch.table == "activations":
        return _activations(con, cluster, batch, collected, overlap, source)
    listed, unusable = objects.stage(con, batch)
    given = batch.rows.num_rows if batch.rows is not None else 0
    if batch.table == "usage":
        return _usage(con, cluster, Written(duplicates=given - unusable, refused=unusable))
    whole = Listed(cluster, _listed_at(batch, collected), batch.whole and batch.rows is not None)
    merge = objects.MERGES[batch.table]

    def work(con: DuckDBPyConnection) -> Written:
        rows = merge(con, whole) if listed or whole.whole else 0
        return Written(rows, max(0, given - unusable - rows), unusable)

    return [work]


def _usage(con: DuckDBPyConnection, cluster: str, seen: Written) -> list[Work]:
    def work(con: DuckDBPyConnection, part: samples.Range) -> Written:
        rows = samples.merge(con, cluster, part)
        return Written(rows, -rows)

    parts: list[Work] = [partial(work, part=part) for part in samples.ranges(con)]
    end = parts.pop() if parts else lambda _: Written()
    return [*parts, lambda con: seen + end(con)]


def _listed_at(batch: Batch, collected: datetime) -> datetime:
    """Return when the list was made, as its rows say; an empty list at the time of its collection."""
    if batch.rows is None or not batch.rows.num_rows or batch.table not in ("nodes", "placements"):
        return collected
    return cast(datetime, pc.max(batch.rows["at"]).as_py())


def _activations(
    con: DuckDBPyConnection, cluster: str, batch: Batch, collected: datetime, overlap: timedelta, source: str
) -> list[Work]:
    if batch.rows is not None:
        openwhisk.stage_rows(con, batch.rows)
    elif batch.files:
        openwhisk.stage_files(con, batch.files)
    else:
        return [lambda _: Written()]
    verdicts = dict(con.execute("SELECT verdict, count(*) FROM staged GROUP BY verdict").fetchall())
    good, noise = verdicts.pop(None, 0), verdicts.pop(openwhisk.NOISE, 0)
    if verdicts and source != FILES:  # who imports is told of each
        _log.warning("activation records refused", cluster=cluster, scope=batch.scope, reasons=verdicts)
    twice = _deduplicate(con)

    def work(con: DuckDBPyConnection, first: datetime | None, last: datetime | None) -> Written:
        before = queries.watermark(con, cluster, source, batch.scope)
        values = {"cluster": cluster, "first": first, "last": last}
        late = 0
        if before is not None and first is not None and first < before - overlap:
            [[late]] = con.execute(
                f'SELECT count(*) FROM {_FRESH} AND "start" < $edge', values | {"edge": before - overlap}
            ).fetchall()
        with one_thread(con):
            [[rows]] = con.execute(
                f"INSERT INTO activations SELECT $cluster, * EXCLUDE (verdict), $collected FROM {_FRESH}",
                values | {"collected": collected},
            ).fetchall()
        return Written(rows=rows, duplicates=-rows, late=late)

    seen = Written(duplicates=good, refused=sum(verdicts.values()), noise=noise)
    *parts, end = [partial(work, first=first, last=last) for first, last in _ranges(con, good - twice)]
    begin: list[Work] = [partial(_reconciled, cluster=cluster, collected=collected)] if source == FILES else []
    return [*begin, *parts, lambda con: seen + end(con)]


def _reconciled(con: DuckDBPyConnection, cluster: str, collected: datetime) -> Written:
    told, differ = reconciled(con, cluster, collected)
    return Written(rows=told, duplicates=-told, differ=differ)


# Only the batch's own range of starts is looked through, which the zone maps of the large table find quickly.
_FRESH = """
staged ANTI JOIN (
    SELECT activation_id FROM activations WHERE cluster = $cluster AND "start" BETWEEN $first AND $last
) AS known USING (activation_id) WHERE verdict IS NULL AND "start" BETWEEN $first AND $last
"""


def _ranges(con: DuckDBPyConnection, rows: int) -> list[tuple[datetime | None, datetime | None]]:
    """Cut the starts in ``staged`` into closed ranges of about `PART` rows, no start in two of them."""
    [[first, last]] = con.execute('SELECT min("start"), max("start") FROM staged WHERE verdict IS NULL').fetchall()
    if rows <= PART:
        return [(first, last)]
    cuts = con.execute(
        """
        SELECT DISTINCT "start" FROM (
            SELECT "start", row_number() OVER (ORDER BY "start") AS place FROM staged WHERE verdict IS NULL
        ) WHERE place % ? = 0 AND "start" < ? ORDER BY "start"
        """,
        [PART, last],
    ).fetchall()
    ends = [*(cut for (cut,) in cuts), last]
    return list(zip([first, *(end + timedelta(microseconds=1) for end in ends[:-1])], ends, strict=True))


def _deduplicate(con: DuckDBPyConnection) -> int:
    """Keep the last of the records in ``staged`` that share an id, and return how many went.

    Hashes are compared first, since almost always none is there twice.
    """
    con.execute(
        """
        CREATE OR REPLACE TEMP TABLE twice AS
        SELECT activation_id, max(rowid) AS kept FROM staged
        WHERE verdict IS NULL AND hash(activation_id) IN (
            SELECT hash(activation_id) FROM staged WHERE verdict IS NULL GROUP BY 1 HAVING count(*) > 1
        ) GROUP BY activation_id HAVING count(*) > 1
        """
    )
    [[gone]] = con.execute(
        "DELETE FROM staged USING twice"
        " WHERE staged.activation_id = twice.activation_id AND staged.rowid <> kept AND verdict IS NULL"
    ).fetchall()
    return int(gone)
