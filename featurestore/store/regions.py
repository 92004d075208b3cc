"""Consistent regions in the store: as last listed, and their drains and resets, each kept once."""

from datetime import datetime

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

#: How the name of a region among functions begins: PREFIX, then namespace/job/index. No namespace holds a colon.
PREFIX = "regions:"

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


def name(namespace: str, stream_job: str, region: int) -> str:
    """What a region is called among functions."""
    return f"{PREFIX}{namespace}/{stream_job}/{region}"


def current(con: DuckDBPyConnection) -> pa.Table:
    """The regions of all clusters as last listed."""
    return queries.arrow(con, f"SELECT cluster, {_FACTS}, seen FROM regions ORDER BY cluster, namespace, name")


def known(con: DuckDBPyConnection, cluster: str) -> bool:
    """Whether *cluster* has any region: only then are there drains to look for."""
    return bool(con.execute("SELECT 1 FROM regions WHERE cluster = ? LIMIT 1", [cluster]).fetchall())


_DRAINS = f"""
WITH drains AS (
    SELECT s.namespace, s.stream_job, s.region, s.seq_id, s.started, s.ended,
        from_json(r.members, '["INTEGER"]') AS members
    FROM region_spans AS s JOIN regions AS r USING (cluster, namespace, stream_job, region)
    WHERE cluster = $cluster AND kind = 'drain' AND s.started >= $since AND s.started < $until
), pods AS (
    SELECT namespace, node, started, ended, json_extract_string(labels, '$."streams.ibm.com/job"') AS stream_job,
        try_cast(string_split(json_extract_string(labels, '$."streams.ibm.com/pe"'), '-')[-1] AS INTEGER) AS pe
    FROM placements WHERE cluster = $cluster AND contains(labels, 'streams.ibm.com/pe')
        AND started < $until AND (ended IS NULL OR ended > $since)
), places AS (
    SELECT d.namespace, d.stream_job, d.region, d.seq_id, d.started, d.ended, p.node, count(*) AS held
    FROM drains AS d JOIN pods AS p ON p.namespace = d.namespace AND p.stream_job = d.stream_job
        AND p.started <= d.started AND (p.ended IS NULL OR p.ended >= d.ended) AND list_contains(d.members, p.pe)
    GROUP BY ALL
)
SELECT '{PREFIX}' || namespace || '/' || stream_job || '/' || region || ':' || seq_id || ':' || epoch_ms(started)
        AS activation_id,
    '{PREFIX}' || namespace || '/' || stream_job || '/' || region AS function, '' AS version,
    started AS "start", ended AS "end", epoch_us(ended - started) / 1000.0 AS duration_ms,
    NULL::DOUBLE AS init_ms, 0::INTEGER AS status_code, NULL::INTEGER AS memory_mb, NULL::BIGINT AS timeout_ms,
    false AS composite, node, NULL::VARCHAR AS pod, NULL::VARCHAR AS node_type
FROM places QUALIFY row_number() OVER (
    PARTITION BY namespace, stream_job, region, seq_id, started ORDER BY held DESC, node) = 1
ORDER BY "start", activation_id
"""


def drains(con: DuckDBPyConnection, cluster: str, since: datetime, until: datetime) -> pa.Table:
    """The drains that began in [since, until), with the columns of `featurestore.store.windows.activations`.

    Each is a run of its region on the node that held most of its PEs throughout, since the time of a drain is one
    measurement, wherever the PEs are; a drain whose PEs' pods are not known is left out. The reports do not say which
    PE was the last: neighbours of the others only add noise, so that effects are rather missed than made up.
    """
    return queries.arrow(con, _DRAINS, {"cluster": cluster, "since": since, "until": until})
