"""All that is stored of one cluster is deleted, a table at a time: others get the file between."""

from collections.abc import Callable

from duckdb import DuckDBPyConnection

from featurestore.store.duck import Store
from featurestore.store.merging import changed

_TABLES = """
SELECT table_name FROM duckdb_columns()
WHERE database_name = current_database() AND column_name = 'cluster' ORDER BY table_name
"""


def known(con: DuckDBPyConnection) -> list[str]:
    """Return the clusters of which anything is stored, sorted."""
    return [cluster for (cluster,) in con.execute(" UNION ".join(map(_of, _tables(con))) + " ORDER BY 1").fetchall()]


def forget(store: Store, cluster: str, told: Callable[[int, int], None] = lambda done, of: None) -> dict[str, int]:
    """Delete all of *cluster*; return how many rows by table, where there were any. A run that is killed is mended by
    the next. *told* hears of how many tables how many are done."""
    tables, gone = store.read(_tables), dict[str, int]()
    for done, table in enumerate(tables, 1):

        def delete(con: DuckDBPyConnection, table: str = table) -> int:
            return changed(con, f"DELETE FROM {table} WHERE cluster = $cluster", {"cluster": cluster})

        if rows := store.write(delete):
            gone[table] = rows
        told(done, len(tables))
    return gone


def _tables(con: DuckDBPyConnection) -> list[str]:
    return [name for (name,) in con.execute(_TABLES).fetchall()]


def _of(table: str) -> str:
    return f"SELECT cluster FROM {table}"
