"""Numbered SQL migrations: each file once, in order, all of a run in one transaction."""

import contextlib
import functools
import os
from importlib import resources
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from pipeline.errors import BadInput


@functools.cache
def scripts(folder: str = "") -> tuple[tuple[int, str], ...]:
    """Return the (number, SQL) of every file ``NNNN_name.sql`` in *folder* of the package's schema, ascending."""
    place = resources.files("featurestore").joinpath("schema", *filter(None, [folder]))
    found = [
        (int(file.name.split("_", 1)[0]), file.read_text(encoding="utf-8"))
        for file in place.iterdir()
        if file.name.endswith(".sql")
    ]
    return tuple(sorted(found))


def newest(folder: str = "") -> int:
    """Return the number of the newest migration that this version knows."""
    return scripts(folder)[-1][0]


def version(con: DuckDBPyConnection) -> int:
    """Return the number of the last migration applied to the database in use; 0 for an empty one, and for one that is
    no store."""
    try:
        asked = "SELECT max(version) FROM (SELECT version, applied FROM schema_version)"  # ours has both
        [(last,)] = con.execute(asked).fetchall()
    except (duckdb.CatalogException, duckdb.BinderException):
        return 0
    return last if isinstance(last, int) else 0


def migrate(con: DuckDBPyConnection, path: Path, *, read_only: bool = False) -> bool:
    """Bring the database in use to the newest version; return whether it has that, where it can only be read.

    Raises `BadInput` naming *path* where it is newer, and where it is somebody else's.
    """
    at = version(con)
    if not at and _relations(con):
        raise BadInput(f"{path}: a DuckDB file, but no store of this product")
    if at > newest():
        raise BadInput(f"{path}: written by a newer version (schema {at}, this one knows {newest()})")
    if at == newest() or read_only:
        return at == newest()
    con.execute("BEGIN")
    try:
        if not at:
            con.execute("CREATE TABLE schema_version (version INTEGER NOT NULL, applied TIMESTAMPTZ NOT NULL)")
        for number, script in scripts():
            if number > at:
                con.execute(script)
                con.execute("INSERT INTO schema_version VALUES (?, now())", [number])
        con.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(duckdb.Error):  # the first error is what counts
            con.execute("ROLLBACK")
        raise
    return True


def _relations(con: DuckDBPyConnection) -> int:
    """Return how many tables and views there are in the database in use, whatever their schema."""
    [(count,)] = con.execute(
        "SELECT count(*) FROM (SELECT database_name FROM duckdb_tables() UNION ALL"
        " SELECT database_name FROM duckdb_views() WHERE NOT internal) WHERE database_name = current_database()"
    ).fetchall()
    return int(count)


def create(path: Path) -> None:
    """Create the store at *path*: made aside and linked, so that being killed leaves no half file under its name.

    Does nothing where another process was faster. Raises `duckdb.IOException` where the directory is not writable.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.new")
    leftover = aside.with_name(f"{aside.name}.wal")  # of a process that had the same number and was killed
    aside.unlink(missing_ok=True)
    leftover.unlink(missing_ok=True)
    try:
        with duckdb.connect(":memory:") as con:
            con.execute("SET TimeZone = 'UTC'")
            con.execute("ATTACH ? AS store", [str(aside)])
            con.execute("USE store")
            migrate(con, path)
            con.execute("USE memory")
            con.execute("DETACH store")
        with contextlib.suppress(FileExistsError):
            os.link(aside, path)
    finally:
        aside.unlink(missing_ok=True)
