"""Consistent regions in the store: as last listed, and their drains and resets, each kept once."""

import pyarrow as pa
from duckdb import DuckDBPyConnection

from featurestore.store import queries
from featurestore.store.merging import Listed

#: What makes two rows of a batch the same region.
KEYS = "namespace, name"

#: A region's columns besides the cluster and when it was seen, as listed and as stored.
_FACTS = (
    'namespace, name, stream_job, region, "trigger", state, healthy, current_seq_id, last_completed_seq_id,'
    " reset_attempts, max_reset_attempts, average_drain_ms, average_reset_ms, last_consistent_at, last_reset_at,"
    " last_completed_drain, last_completed_reset, pes, members"
)

_SPANS = """
CREATE OR REPLACE TEMP TABLE ended AS
SELECT DISTINCT namespace, stream_job, region, span.kind AS kind, span.seq AS seq_id,
    make_timestamptz(span.started * 1000) AS started,
    make_timestamptz((span.started + span.milliseconds) * 1000) AS ended
FROM (
    SELECT namespace, stream_job, region, unnest(from_json(spans, '[{
        "kind": "VARCHAR", "seq": "BIGINT", "started": "BIGINT", "milliseconds": "BIGINT"}]')) AS span
    FROM listed
) WHERE span.started > 0 AND span.milliseconds >= 0
"""


def merge(con: DuckDBPyConnection, listed: Listed) -> int:
    """Put what is ``listed`` in the place of what was, as `featurestore.store.objects` says; add new spans.

    A list older than what is stored changes no state.
    """
    cluster = listed.cluster
    values = {"cluster": cluster, "at": listed.at}
    con.execute(_SPANS)
    [[rows]] = con.execute(
        """
        INSERT INTO region_spans SELECT $cluster, * FROM ended AS e
        WHERE NOT EXISTS (
            FROM region_spans AS s WHERE s.cluster = $cluster AND s.namespace = e.namespace
                AND s.stream_job = e.stream_job AND s.region = e.region AND s.kind = e.kind
                AND s.seq_id = e.seq_id AND s.started = e.started
        )
        """,
        {"cluster": cluster},
    ).fetchall()
    [[newer]] = con.execute("SELECT count(*) FROM regions WHERE cluster = $cluster AND seen > $at", values).fetchall()
    if newer:
        return int(rows)
    known = f"SELECT {_FACTS} FROM regions WHERE cluster = $cluster"
    [[changed]] = con.execute(
        f"SELECT count(*) FROM (SELECT {_FACTS} FROM listed EXCEPT {known})", {"cluster": cluster}
    ).fetchall()
    kept, of = ("NOT EXISTS", "spared") if listed.whole else ("EXISTS", "listed")
    gone = f" AND {kept} (FROM {of} AS o WHERE o.namespace = regions.namespace AND o.name = regions.name)"
    [[before]] = con.execute("SELECT count(*) FROM regions WHERE cluster = $cluster", {"cluster": cluster}).fetchall()
    con.execute(f"DELETE FROM regions WHERE cluster = $cluster{gone}", {"cluster": cluster})
    con.execute(f"INSERT INTO regions SELECT $cluster, {_FACTS}, $at FROM listed", values)
    [[after]] = con.execute("SELECT count(*) FROM regions WHERE cluster = $cluster", {"cluster": cluster}).fetchall()
    return int(rows) + int(changed) + max(0, int(before) - int(after))


def current(con: DuckDBPyConnection) -> pa.Table:
    """The regions of all clusters as last listed."""
    return queries.arrow(con, f"SELECT cluster, {_FACTS}, seen FROM regions ORDER BY cluster, namespace, name")
