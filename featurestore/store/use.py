"""What activations used, in the store: rows are added, and changed where more is known by now.

Each function takes the connection that `Store.read` or `Store.write` hands to its work.
"""

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection

from featurestore.store.queries import arrow
from featurestore.used import USE

#: Rows that one transaction writes at most.
PART = 250_000

_COLUMNS = ", ".join(f'"{name}"' for name in USE.names)


def write(con: DuckDBPyConnection, cluster: str, rows: pa.Table) -> int:
    """Write *rows* (`used.USE`); return how many were new or said something else than before."""
    if rows.num_rows == 0:
        return 0
    con.register("measured", rows)
    span = pc.min_max(rows["start"]).as_py()  # as values, so that blocks of other times are not even read
    con.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE known AS
        SELECT u.rowid AS place, u.activation_id, ({_row("u")}) IS NOT DISTINCT FROM ({_row("measured")}) AS same
        FROM activation_use AS u, measured WHERE u.cluster = $cluster AND u."start" BETWEEN $min AND $max
            AND u.activation_id = measured.activation_id
        """,
        {"cluster": cluster, **span},
    )
    con.execute("DELETE FROM activation_use USING known WHERE NOT same AND activation_use.rowid = known.place")
    row = con.execute(
        f"""
        INSERT INTO activation_use (cluster, {_COLUMNS})
        SELECT $cluster, {_COLUMNS} FROM measured
        ANTI JOIN (SELECT activation_id FROM known WHERE same) AS kept USING (activation_id)
        """,
        {"cluster": cluster},
    ).fetchone()
    con.execute("DROP TABLE known")
    con.unregister("measured")
    return int(row[0]) if row is not None else 0


def touched(con: DuckDBPyConnection, cluster: str, since: datetime) -> datetime | None:
    """Return the earliest end of the activations that were collected at *since* or later; None where none was."""
    row = con.execute(
        'SELECT min(coalesce("end", "start")) FROM activations WHERE cluster = ? AND collected >= ?', [cluster, since]
    ).fetchone()
    return row[0].astimezone(UTC) if row is not None and row[0] is not None else None


def runs(con: DuckDBPyConnection, cluster: str, function: str, since: datetime, limit: int = 500_000) -> pa.Table:
    """Copy when and where *function* ran since then, on certain nodes, the last *limit* runs: node, start, end."""
    return arrow(
        con,
        """
        SELECT node, "start", "end" FROM activation_use
        WHERE cluster = ? AND function = ? AND "start" >= ? AND node IS NOT NULL AND "end" IS NOT NULL
        ORDER BY "start" DESC LIMIT ?
        """,
        [cluster, function, since, limit],
    )


def _row(table: str) -> str:
    return ", ".join(f'{table}."{name}"' for name in USE.names)
