"""What activations used, in the store: rows are added, and changed where more is known by now.

Each function takes the connection that `Store.read` or `Store.write` hands to its work.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection

from featurestore.store.queries import arrow
from featurestore.used import USE

#: Rows that one transaction writes at most: a whole row group of DuckDB, which is compressed as it comes; of less all
#: is compressed again with each transaction.
PART = 122_880

_COLUMNS = ", ".join(f'"{name}"' for name in USE.names)


def parts(rows: pa.Table) -> list[pa.Table]:
    """Return *rows* (`used.USE`) as parts that are written one at a time; at least one, which may be empty."""
    return [rows.slice(at, PART) for at in range(0, max(1, rows.num_rows), PART)]


def write(con: DuckDBPyConnection, cluster: str, rows: pa.Table) -> int:
    """Write *rows* (`used.USE`); return how many were new or said something else than before."""
    if rows.num_rows == 0:
        return 0
    span = pc.min_max(rows["start"]).as_py()  # as values, so that blocks of other times are not even read
    con.register("measured", rows)
    kept = _others_replaced(con, cluster, span) if _any(con, cluster, span) else False
    left = "ANTI JOIN (SELECT activation_id FROM known WHERE same) AS kept USING (activation_id)" if kept else ""
    row = con.execute(
        f"""
        INSERT INTO activation_use (cluster, {_COLUMNS})
        SELECT $cluster, {_COLUMNS} FROM measured {left}
        """,
        {"cluster": cluster},
    ).fetchone()
    con.execute("DROP TABLE IF EXISTS known")
    con.unregister("measured")
    return int(row[0]) if row is not None else 0


def _any(con: DuckDBPyConnection, cluster: str, span: Mapping[str, datetime]) -> bool:
    """Return whether anything is known of the time of *span*: most rows are new, and of new times."""
    query = 'SELECT 1 FROM activation_use WHERE cluster = $cluster AND "start" BETWEEN $min AND $max LIMIT 1'
    return bool(con.execute(query, {"cluster": cluster, **span}).fetchall())


def _others_replaced(con: DuckDBPyConnection, cluster: str, span: Mapping[str, datetime]) -> bool:
    """Delete what is known otherwise than ``measured`` says; list in ``known`` what is the same, and return whether
    any is."""
    con.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE known AS
        SELECT u.rowid AS place, u.activation_id, ({_row("u")}) IS NOT DISTINCT FROM ({_row("measured")}) AS same
        FROM activation_use AS u, measured WHERE u.cluster = $cluster AND u."start" BETWEEN $min AND $max
            AND u.activation_id = measured.activation_id
        """,
        {"cluster": cluster, **span},
    )
    [[same, others]] = con.execute("SELECT count(*) FILTER (same), count(*) FILTER (NOT same) FROM known").fetchall()
    if others:
        con.execute("DELETE FROM activation_use USING known WHERE NOT same AND activation_use.rowid = known.place")
    return bool(same)


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
