"""Objects about disks in the store: kept as they were last listed, and copied out for plans."""

from duckdb import DuckDBPyConnection

from featurestore.store.merging import Listed, changed

KEYS = "kind, namespace, name"


def merge(con: DuckDBPyConnection, listed: Listed) -> int:
    """Keep the objects as they were last listed; a list older than what is stored changes nothing.

    Only the last state matters, so that all rows of the cluster but those that nobody could read are replaced.
    """
    values: dict[str, object] = {"cluster": listed.cluster, "at": listed.at}
    [[newer]] = con.execute("SELECT count(*) FROM disks WHERE cluster = $cluster AND seen > $at", values).fetchall()
    if newer:
        return 0
    rows = changed(
        con,
        """
        DELETE FROM disks WHERE cluster = $cluster AND NOT EXISTS (
            FROM listed AS l WHERE l.kind = disks.kind AND l.namespace = disks.namespace AND l.name = disks.name
                AND l.document = disks.document
        ) AND NOT EXISTS (FROM spared AS s WHERE s.namespace = disks.namespace AND s.name = disks.name)
        """,
        {"cluster": listed.cluster},
    )
    rows = max(
        rows,
        changed(
            con,
            f"""
            INSERT INTO disks SELECT $cluster, {KEYS}, $at, document FROM listed
            ANTI JOIN (SELECT {KEYS} FROM disks WHERE cluster = $cluster) AS known USING ({KEYS})
            """,
            values,
        ),
    )
    con.execute("UPDATE disks SET seen = $at WHERE cluster = $cluster", values)
    return rows


def known(con: DuckDBPyConnection, cluster: str) -> bool:
    """Say whether any drive of *cluster* is known."""
    query = "SELECT count(*) FROM (FROM disks WHERE cluster = ? AND kind = 'Drive' LIMIT 1)"
    [[found]] = con.execute(query, [cluster]).fetchall()
    return bool(found)
