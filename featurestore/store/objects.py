"""How rows about Kubernetes objects and profiles meet what is stored: one merge for each table (usage: `samples`).

A merge reads the temporary table ``listed`` (the batch without double keys, the last row kept) and ``spared``
(objects that the list held and nobody could read: they are not gone), and is idempotent.
"""

from collections.abc import Iterable, Mapping

import pyarrow as pa
from duckdb import DuckDBPyConnection

from featurestore.store import disks, regions, samples
from featurestore.store.merging import Listed, Merge, changed
from pipeline.columns import TABLES
from pipeline.records import Batch

#: What makes two rows of a batch the same thing, by table.
_KEYS: Mapping[str, str] = {
    "nodes": "node",
    "usage": samples.KEYS,
    "placements": "uid",
    "workflows": "namespace, workflow",
    "regions": regions.KEYS,
    "profiles": "function, node_type",
    "disks": disks.KEYS,
}


def stage(con: DuckDBPyConnection, batch: Batch) -> tuple[int, int]:
    """Put *batch* into ``listed`` and ``spared``; return the number of its rows and of unusable ones.

    Unusable are usage samples that are no finite number; the others stand in `samples.ORDER`.
    """
    con.register("given", _with_columns(batch))
    keep, order = ("WHERE isfinite(value)", samples.ORDER) if batch.table == "usage" else ("", "place")
    keys = _KEYS[batch.table]
    # Almost never is anything there twice, and hashes are compared in no time.
    [[twice]] = con.execute(f"SELECT count(*) > count(DISTINCT hash({keys})) FROM given {keep}").fetchall()
    last = f"QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY place DESC) = 1" if twice else ""
    con.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE listed AS
        SELECT * EXCLUDE (place) FROM (SELECT *, row_number() OVER () AS place FROM given) {keep} {last}
        ORDER BY {order}
        """
    )
    [[usable]] = con.execute(f"SELECT count(*) FROM given {keep}").fetchall()
    con.unregister("given")
    con.register("names", _names(refusal.what for refusal in batch.refused))
    con.execute("CREATE OR REPLACE TEMP TABLE spared AS SELECT DISTINCT * FROM names")
    con.unregister("names")
    [[listed]] = con.execute("SELECT count(*) FROM listed").fetchall()
    return listed, (batch.rows.num_rows if batch.rows is not None else 0) - usable


def _with_columns(batch: Batch) -> pa.Table:
    schema = TABLES[batch.table]
    return schema.empty_table() if batch.rows is None else batch.rows.select(schema.names).cast(schema)


def _names(what: Iterable[str]) -> pa.Table:
    """Take apart ``plural/name`` and ``plural/namespace/name``, as collectors name what they refuse."""
    parts = [one.split("/") for one in what]
    pairs = [(part[1] if len(part) > 2 else "", part[-1]) for part in parts]
    return pa.table(
        {"namespace": [pair[0] for pair in pairs], "name": [pair[1] for pair in pairs]},
        schema=pa.schema([("namespace", pa.string()), ("name", pa.string())]),
    )


_NODE_FACTS = (
    "uid, node_type, ready, schedulable, cpu_cores, memory_bytes, pods, gpu_count, gpu_model, disk_type,"
    " network_bytes_per_s, labels, taints, addresses, conditions, capacity, allocatable, kernel"
)


def nodes(con: DuckDBPyConnection, listed: Listed) -> int:
    """Close the row of each node whose facts changed or that is gone, and open one for what it is now.

    A list that is older than what is stored changes nothing.
    """
    con.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE moved AS SELECT listed.* FROM listed
        WHERE NOT EXISTS (
            FROM node_specs AS s WHERE s.cluster = ? AND s.node = listed.node AND (
                coalesce(s.valid_to, s.valid_from) > listed."at"
                OR (s.valid_to IS NULL
                    AND ({_row("s", _NODE_FACTS)}) IS NOT DISTINCT FROM ({_row("listed", _NODE_FACTS)}))
            )
        )
        """,
        [listed.cluster],
    )
    values: dict[str, object] = {"cluster": listed.cluster}
    con.execute(
        """
        UPDATE node_specs SET valid_to = moved."at" FROM moved
        WHERE node_specs.cluster = $cluster AND node_specs.node = moved.node AND node_specs.valid_to IS NULL
        """,
        values,
    )
    rows = changed(
        con,
        f"""
        INSERT INTO node_specs (cluster, node, valid_from, {_NODE_FACTS})
        SELECT $cluster, node, "at", {_NODE_FACTS} FROM moved
        """,
        values,
    )
    if listed.whole:
        rows += changed(
            con,
            """
            UPDATE node_specs SET valid_to = $at
            WHERE cluster = $cluster AND valid_to IS NULL AND valid_from < $at
                AND node NOT IN (SELECT node FROM listed) AND node NOT IN (SELECT name FROM spared)
            """,
            values | {"at": listed.at},
        )
    return rows


def _row(table: str, columns: str) -> str:
    return ", ".join(f"{table}.{column}" for column in columns.split(", "))


_LATEST = (
    "namespace, pod, node, phase, cpu_limit_cores, memory_limit_bytes, cpu_request_cores, memory_request_bytes,"
    " other_requests, labels"
)

# A pod belongs to one function for life, and the function is remembered when a later list does not show it.
# function_from: when a watch saw its label come, its start where the name said it from the start, else the last time
# it was seen without, else its start. ended: as stated for a terminal pod, or for one whose deletion a watch saw; a
# pod that is seen alive again was not gone.
_LIVES = f"""
CREATE OR REPLACE TEMP TABLE lives AS
SELECT listed.uid, p.uid IS NULL AS fresh, coalesce(listed."at" >= p.last_seen, true) AS newer,
    {", ".join(f"CASE WHEN newer THEN listed.{c} ELSE p.{c} END AS {c}" for c in _LATEST.split(", "))},
    coalesce(p.function, listed.function) AS function,
    least(p.started, listed.started) AS started,
    CASE
        WHEN listed.function_from IS NOT NULL AND listed.function = coalesce(p.function, listed.function)
            THEN greatest(listed.function_from, least(p.started, listed.started))
        WHEN p.function IS NOT NULL AND NOT (listed.named AND listed.function IS NOT DISTINCT FROM p.function)
            THEN p.function_from
        WHEN listed.function IS NULL THEN NULL
        WHEN listed.named OR p.uid IS NULL THEN least(p.started, listed.started)
        WHEN newer THEN greatest(p.last_seen, least(p.started, listed.started))
        ELSE least(p.started, listed.started)
    END AS function_from,
    CASE WHEN newer THEN listed.ended ELSE p.ended END AS ended,
    greatest(p.last_seen, listed."at") AS last_seen,
    (p.function, p.function_from, p.started, p.ended, {_row("p", _LATEST)}) AS before
FROM listed LEFT JOIN (SELECT * FROM placements WHERE cluster = $cluster) AS p ON p.uid = listed.uid
"""

_LIFE = f"function, function_from, started, ended, {_LATEST}"


def placements(con: DuckDBPyConnection, listed: Listed) -> int:
    """Write what a list says about the lives of pods, one row a pod.

    A pod that a whole list lacks ended by then: *ended* is the time of the list, an upper bound, and *last_seen*
    keeps the last time it was confirmed.
    """
    values: dict[str, object] = {"cluster": listed.cluster}
    con.execute(_LIVES, values)
    rows = changed(
        con,
        f"""
        UPDATE placements SET {", ".join(f"{c} = lives.{c}" for c in _LIFE.split(", "))},
            last_seen = lives.last_seen
        FROM lives WHERE placements.cluster = $cluster AND placements.uid = lives.uid AND NOT lives.fresh
            AND ({_row("lives", _LIFE)}) IS DISTINCT FROM lives.before
        """,
        values,
    )
    con.execute(
        """
        UPDATE placements SET last_seen = lives.last_seen FROM lives
        WHERE placements.cluster = $cluster AND placements.uid = lives.uid AND placements.last_seen < lives.last_seen
        """,
        values,
    )
    rows += changed(
        con,
        f"""
        INSERT INTO placements (cluster, uid, last_seen, {_LIFE})
        SELECT $cluster, uid, last_seen, {_LIFE} FROM lives WHERE fresh
        """,
        values,
    )
    if listed.whole:
        rows += changed(
            con,
            """
            UPDATE placements SET ended = greatest($at, started)
            WHERE cluster = $cluster AND ended IS NULL AND last_seen < $at AND uid NOT IN (SELECT uid FROM listed)
                AND NOT EXISTS (FROM spared AS s WHERE s.namespace = placements.namespace AND s.name = placements.pod)
            """,
            values | {"at": listed.at},
        )
    return rows


def workflows(con: DuckDBPyConnection, listed: Listed) -> int:
    """Keep the workflows as they were last listed; a list older than what is stored changes nothing."""
    values: dict[str, object] = {"cluster": listed.cluster, "at": listed.at}
    rows = changed(
        con,
        """
        UPDATE workflows SET document = listed.document, seen = $at FROM listed
        WHERE workflows.cluster = $cluster AND workflows.seen <= $at AND workflows.namespace = listed.namespace
            AND workflows.workflow = listed.workflow AND workflows.document <> listed.document
        """,
        values,
    )
    rows += changed(
        con,
        """
        INSERT INTO workflows
        SELECT $cluster, namespace, workflow, $at, document FROM listed
        ANTI JOIN (SELECT namespace, workflow FROM workflows WHERE cluster = $cluster) AS known
            USING (namespace, workflow)
        WHERE NOT EXISTS (FROM workflows AS w WHERE w.cluster = $cluster AND w.seen > $at)
        """,
        values,
    )
    con.execute(
        """
        UPDATE workflows SET seen = $at FROM listed WHERE workflows.cluster = $cluster AND workflows.seen < $at
            AND workflows.namespace = listed.namespace AND workflows.workflow = listed.workflow
        """,
        values,
    )
    if listed.whole:
        rows += changed(
            con,
            """
            DELETE FROM workflows WHERE cluster = $cluster AND seen <= $at
                AND NOT EXISTS (
                    FROM listed AS l WHERE l.namespace = workflows.namespace AND l.workflow = workflows.workflow
                ) AND NOT EXISTS (
                    FROM spared AS s WHERE s.namespace = workflows.namespace AND s.name = workflows.workflow
                )
            """,
            values,
        )
    return rows


def profiles(con: DuckDBPyConnection, listed: Listed) -> int:
    """Write declared profiles; the last one given for a function and node type stands."""
    amounts = "cpu_cores, memory_bytes, network_bytes_per_s, disk_bytes_per_s"
    con.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE other AS SELECT listed.* FROM listed WHERE NOT EXISTS (
            FROM declared_profiles AS d
            WHERE d.cluster = $cluster AND d.function = listed.function AND d.node_type = listed.node_type
                AND ({_row("d", amounts)}) IS NOT DISTINCT FROM ({_row("listed", amounts)}))
        """,
        {"cluster": listed.cluster},
    )
    con.execute(
        """
        DELETE FROM declared_profiles USING other WHERE declared_profiles.cluster = $cluster
            AND declared_profiles.function = other.function AND declared_profiles.node_type = other.node_type
        """,
        {"cluster": listed.cluster},
    )
    return changed(
        con,
        f"INSERT INTO declared_profiles SELECT $cluster, function, node_type, {amounts}, $at FROM other",
        {"cluster": listed.cluster, "at": listed.at},
    )


#: By the name of the batch's table; samples of usage are written in parts.
MERGES: Mapping[str, Merge] = {
    "nodes": nodes,
    "placements": placements,
    "workflows": workflows,
    "regions": regions.merge,
    "profiles": profiles,
    "disks": disks.merge,
}
