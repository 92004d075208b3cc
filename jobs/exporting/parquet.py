"""``colocate export parquet``: the tables that learning reads, a day of a table at a time.

A day is copied out of the store in slices into a database of its own, which spills to disk, sorted by node and
written aside; when all of it is there it is renamed into its place. A run that is killed leaves each day as it was
or as it is now. Days that the store does not have any more stay where they are.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

import duckdb
from duckdb import DuckDBPyConnection

from featurestore.exported import TABLES, partition
from featurestore.store import tables, windows
from featurestore.store.duck import Store, staging
from jobs.exporting.alone import alone
from pipeline.errors import BadInput
from pipeline.records import Window

#: Where days are written before they are renamed, and what was there is kept until then.
#: Readers of Parquet leave names out that begin with a dot.
_ASIDE, _BEFORE = ".writing", ".before"


#: Tables without days are read as they are.
_EVER = (Window(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)),)


class Written(NamedTuple):
    """One day of a table, or a table without days, and the rows that it holds."""

    path: Path
    rows: int


def export(
    store: Store,
    directory: Path,
    *,
    clusters: Sequence[str] = (),
    since: datetime | None = None,
    told: Callable[[Written], None] = lambda _: None,
) -> list[Written]:
    """Write the history of *clusters* (none given: of all) to *directory*, and return what was written, in order.

    Activations and samples begin with the day (UTC) of *since*, or with the oldest. Exporting again replaces each
    day by what the store has of it now. Raises `BadInput` where there is no history, a cluster is not known, or
    *directory* cannot be written or is being written by another export. *told* hears of each day.
    """
    if not store.path.exists():
        raise BadInput(f"{store.path}: no history yet (colocate collect)")
    known = store.read(windows.clusters)
    for name in clusters:
        if name not in known:
            raise BadInput(f"cluster {name!r}: no history of it; there are {', '.join(known) or 'none'}")
    if not known:
        raise BadInput(f"{store.path}: the history is empty")
    written: list[Written] = []
    try:
        with _alone(directory), store.session() as held, staging(store.spill) as con:
            for cluster in clusters or known:
                for table in TABLES:
                    for day in _days(held, table, cluster, since):
                        written.append(_day(held, con, directory, table, cluster, day))
                        told(written[-1])
    except OSError as error:
        raise BadInput(f"{error.filename or directory}: {error.strerror}") from error
    return written


def _days(store: Store, table: str, cluster: str, since: datetime | None) -> Sequence[date | None]:
    source = tables.SOURCES[table]
    if source.days is None:
        return [None]
    found = store.read(lambda con: tables.days(con, table, cluster))
    return [day for day in found if source.whole or since is None or day >= since.date()]


def _day(
    store: Store, con: DuckDBPyConnection, directory: Path, table: str, cluster: str, day: date | None
) -> Written:
    """Write one *day* of a table, or, where it is None, a table without days."""
    place = Path(table) / partition("cluster", cluster)
    place = place if day is None else place / partition("day", day.isoformat())
    con.execute("DROP TABLE IF EXISTS exported")
    con.register("empty", TABLES[table].empty_table())
    con.execute("CREATE TEMP TABLE exported AS FROM empty")
    for part in _EVER if day is None else store.read(partial(tables.slices, table=table, cluster=cluster, day=day)):
        con.register("slice", store.read(partial(tables.read, table=table, cluster=cluster, span=part)))
        con.execute("INSERT INTO exported FROM slice")
        con.unregister("slice")
    aside = directory / _ASIDE / "day"
    [[count]] = con.execute("SELECT count(*) FROM exported").fetchall()
    order = ", ".join(f'"{name}"' for name in TABLES[table].names)
    aside.parent.mkdir(exist_ok=True)
    if day is None:
        aside.mkdir()
        target, options = aside / "data_0.parquet", ""
    else:
        target, options = aside, ", PARTITION_BY (node)"
    try:
        con.execute(
            f"COPY (FROM exported ORDER BY {order}) TO {_literal(target)} (FORMAT parquet, COMPRESSION zstd{options})"
        )
    except duckdb.IOException as error:  # what is prepared may be what no disk holds: that is told as it is
        number = re.search(r'"errno":"(\d+)"', str(error))
        if number is None or str(directory) not in str(error):
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(directory)) from error
    con.execute("DROP TABLE exported")
    _put(directory, place, aside)
    return Written(directory / place, int(count))


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Keep other exports out of *directory*, and mend what one that was killed has left."""
    with alone(directory):
        before = directory / _BEFORE
        if before.is_dir():
            for old in before.iterdir():
                place = directory / unquote(old.name)
                if not place.exists():
                    old.rename(place)
        _clear(directory)
        try:
            yield
        finally:
            _clear(directory)


def _clear(directory: Path) -> None:
    for name in (_ASIDE, _BEFORE):
        if (directory / name).exists():
            shutil.rmtree(directory / name)


def _put(directory: Path, place: Path, made: Path) -> None:
    """Rename what was *made* to *place*, and what was there before away; a directory cannot be replaced at once, so
    that it is kept under its own name until then (`_alone` puts it back)."""
    target = directory / place
    target.parent.mkdir(parents=True, exist_ok=True)
    before = directory / _BEFORE / quote(str(place), safe="")
    if target.exists():
        before.parent.mkdir(exist_ok=True)
        target.rename(before)
    made.rename(target)
    if before.exists():
        shutil.rmtree(before)


def _literal(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
