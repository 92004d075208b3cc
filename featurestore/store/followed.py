"""What became of decisions: which node the pod got, and how its function fared there; one join of what is stored.

A decision's pod is the first of its name that started after it and before the next decision about that name, within
`WAITS`. A pod whose name was made up after admission (generateName), and one that was never created, stay without.
A run counts for the pod that it is known to be of, else for the pod of its function that started last on its node.
"""

from datetime import datetime, timedelta

import pyarrow as pa
from duckdb import DuckDBPyConnection

from featurestore.store.queries import arrow

#: A pod that has waited longer for its node is not looked for any more.
WAITS = timedelta(days=1)
#: Runs of a pod that has ended come to be known for so long.
LATE = timedelta(hours=1)
#: A pod's creation is told in whole seconds, by a clock that may differ by another.
SLACK = timedelta(seconds=2)

_ASKED = """
CREATE OR REPLACE TEMP TABLE asked AS
SELECT d.cluster, d.decision, d."at", d.namespace, d.pod, d.function, d.document
FROM decisions AS d LEFT JOIN decision_outcomes AS o ON o.cluster = d.cluster AND o.decision = d.decision
WHERE d.pod <> '' AND (
    (o.decision IS NULL AND d."at" >= $now - $waits)
    OR (o.decision IS NOT NULL AND (o.ended IS NULL OR o.ended >= o.updated - $late))
)
"""

# All decisions about a name part its pods among them, settled ones too.
_PLACED = """
CREATE OR REPLACE TEMP TABLE placed AS
WITH about AS (
    SELECT cluster, namespace, pod, decision, "at", "at" - $slack AS since FROM decisions
    SEMI JOIN asked USING (cluster, namespace, pod)
), pods AS (
    SELECT p.cluster, p.uid, p.pod, p.node, p.function, p.started, p.ended, about.decision
    FROM placements AS p ASOF JOIN about ON about.cluster = p.cluster AND about.namespace = p.namespace
        AND about.pod = p.pod AND p.started >= about.since
    WHERE p.started <= about."at" + $waits
    QUALIFY row_number() OVER (PARTITION BY p.cluster, about.decision ORDER BY p.started, p.uid) = 1
)
SELECT pods.* EXCLUDE (function), coalesce(pods.function, asked.function) AS function, asked."at",
    from_json(json_extract(asked.document, '$.nodes'), '[{"name": "VARCHAR", "score": "DOUBLE"}]') AS ranked
FROM pods JOIN asked ON asked.cluster = pods.cluster AND asked.decision = pods.decision
"""

_INSERT = """
INSERT INTO decision_outcomes
WITH runs AS (
    SELECT p.cluster, p.decision, u.latency_ms FROM activation_use AS u ASOF JOIN placed AS p
        ON p.cluster = u.cluster AND p.node = u.node AND p.pod = u.pod AND u."start" >= p.started
    WHERE u."start" >= (SELECT min(started) FROM placed) AND u."start" <= coalesce(p.ended, $now)
    UNION ALL
    SELECT p.cluster, p.decision, u.latency_ms FROM activation_use AS u ASOF JOIN placed AS p
        ON p.cluster = u.cluster AND p.node = u.node AND p.function = u.function AND u."start" >= p.started
    WHERE u.pod IS NULL AND u."start" >= (SELECT min(started) FROM placed) AND u."start" <= coalesce(p.ended, $now)
), fared AS (
    SELECT cluster, decision, count(*) AS activations, median(latency_ms) AS p50_ms FROM runs GROUP BY ALL
), usual AS (
    SELECT f.cluster, f.function, f.p50_ms AS usual_ms FROM function_profiles AS f
    JOIN models AS m ON m.cluster = f.cluster AND m.model = f.model AND m.promoted WHERE f.node_type = ''
), seen AS (
    SELECT *, list_position(list_transform(ranked, lambda one: one.name), node) AS place FROM placed
)
SELECT seen.cluster, seen.decision, seen."at", uid, node, started, ended,
    CASE WHEN coalesce(len(ranked), 0) = 0 THEN NULL
        WHEN place IS NOT NULL AND place > 0 THEN ranked[place].score = ranked[1].score
        WHEN ranked[-1].score = ranked[1].score THEN NULL  -- the list is cut among the best
        ELSE false END,
    coalesce(activations, 0), p50_ms, usual_ms, $now
FROM seen LEFT JOIN fared ON fared.cluster = seen.cluster AND fared.decision = seen.decision
    LEFT JOIN usual ON usual.cluster = seen.cluster AND usual.function = seen.function
"""


_SUMMARY = """
SELECT o.cluster, d.mode,
    CASE WHEN o.followed THEN 'yes' WHEN NOT o.followed THEN 'no' ELSE 'unknown' END AS followed,
    count(*) AS pods, median(o.p50_ms / o.usual_ms) FILTER (o.usual_ms > 0) AS latency_ratio
FROM decision_outcomes AS o JOIN decisions AS d ON d.cluster = o.cluster AND d.decision = o.decision
WHERE $until::TIMESTAMPTZ IS NULL OR o."at" <= $until
GROUP BY ALL ORDER BY ALL
"""


def summary(con: DuckDBPyConnection, until: datetime | None = None) -> pa.Table:
    """Return what became of the decisions that are kept, of those made up to *until* where it is given.

    Columns: cluster, mode, *followed* (yes, no, unknown), *pods*, *latency_ratio*: the median over the pods of their
    median run time over what is usual for their function, null where none ran.
    """
    return arrow(con, _SUMMARY, {"until": until})


def follow(con: DuckDBPyConnection, now: datetime) -> int:
    """Join decisions with their pods as far as they are known at *now*; return how many now have a pod.

    Looked at again are decisions of the last `WAITS` without a pod, and those whose pod lives, or lived until lately.
    """
    con.execute(_ASKED, {"now": now, "waits": WAITS, "late": LATE})
    con.execute(_PLACED, {"slack": SLACK, "waits": WAITS})
    con.execute(
        "DELETE FROM decision_outcomes USING placed WHERE decision_outcomes.cluster = placed.cluster"
        " AND decision_outcomes.decision = placed.decision"
    )
    row = con.execute(_INSERT, {"now": now}).fetchone()
    con.execute("DROP TABLE asked; DROP TABLE placed")
    return int(row[0]) if row is not None else 0
