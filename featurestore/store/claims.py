"""Who writes a model in parts: what is not read before the last of them, and is cleared away where that never came.

A model of a thousand functions and its state are half a gigabyte: written at once they hold the file for seconds. So
pieces of bodies and rows of a model are written under names that nothing refers to yet, each part a short transaction
of its own, and the last one makes them count. The last run to begin has the claim of its cluster: another that it
took it from has to learn anew. What a run that was killed has left is deleted when the next one claims, or saves.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

import pyarrow as pa
from duckdb import DuckDBPyConnection

from featurestore.store import models, pieces
from featurestore.store.duck import Store

#: Rows of a model's tables that one transaction writes at most: whole row groups of DuckDB, like those of pieces.
PART = pieces.PART

#: Entries are numbers of 63 bits: there are some millions of claims in them.
_APART = 1 << 40


class Outdated(Exception):
    """The state was changed by another run since it was read, or another run writes one."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to write *model* of *cluster*, with bodies under the entries from *first* to *last*."""

    cluster: str
    model: str
    first: int
    last: int


def claim(con: DuckDBPyConnection, cluster: str, model: str, bodies: int) -> Claim:
    """Return the claim for *model* with so many *bodies*; whoever had that of *cluster* has it no more."""
    end(con, cluster)
    # Entries of a claim that was lost are free again: where they began tells two of the same name apart.
    first = pieces.last(con) + 1 + secrets.randbelow(_APART)
    con.execute("INSERT INTO saving VALUES (?, ?, ?, ?)", [cluster, model, first, first + bodies - 1])
    return Claim(cluster, model, first, first + bodies - 1)


def check(con: DuckDBPyConnection, own: Claim) -> None:
    """Raise `Outdated` where another run has the claim now."""
    found = con.execute(
        "SELECT 1 FROM saving WHERE cluster = ? AND model = ? AND first = ? AND last = ?",
        [own.cluster, own.model, own.first, own.last],
    ).fetchall()
    if not found:
        raise Outdated


def end(con: DuckDBPyConnection, cluster: str) -> None:
    """End the claim of *cluster*, and delete what was written under it and counts for nothing."""
    if con.execute("SELECT 1 FROM saving WHERE cluster = ?", [cluster]).fetchall():
        con.execute("DELETE FROM saving WHERE cluster = ?", [cluster])
        models.sweep(con, cluster)
    pieces.clear(con)


def in_parts(
    store: Store,
    cluster: str,
    model: str,
    bodies: Sequence[bytes],
    tables: Mapping[str, pa.Table],
    before: Callable[[DuckDBPyConnection], None],
) -> Claim:
    """Write *bodies* (`begun`) and rows of *tables* (`fill`); return the claim that they stand under."""
    own = begun(store, cluster, model, bodies, before)
    fill(store, own, tables)
    return own


def begun(
    store: Store,
    cluster: str,
    model: str,
    bodies: Sequence[bytes],
    before: Callable[[DuckDBPyConnection], None],
    wanted: Callable[[], bool] = lambda: True,
) -> Claim:
    """Write *bodies* part by part, as long as that is *wanted*; return the claim that they stand under.

    *before* is asked first, in the transaction that claims. Raises `Outdated` where another run took the claim.
    """

    def begin(con: DuckDBPyConnection) -> Claim:
        before(con)
        return claim(con, cluster, model, len(bodies))

    own = store.write(begin)
    parts = takewhile(lambda _: wanted(), pieces.cut(bodies, own.first))
    store.write_each(_under(own, partial(pieces.write, pieces=part)) for part in parts)
    return own


def fill(store: Store, own: Claim, tables: Mapping[str, pa.Table]) -> None:
    """Write rows of the claim's model (as `models.fill`) part by part. Raises `Outdated` as `begun` does."""
    each = (partial(models.fill, cluster=own.cluster, model=own.model, tables=some) for some in _some(tables))
    store.write_each(_under(own, work) for work in each)


def _under(own: Claim, work: Callable[[DuckDBPyConnection], None]) -> Callable[[DuckDBPyConnection], None]:
    def checked(con: DuckDBPyConnection) -> None:
        check(con, own)
        work(con)

    return checked


def _some(tables: Mapping[str, pa.Table]) -> Iterator[Mapping[str, pa.Table]]:
    """Yield the rows of *tables*, at most `PART` at a time."""
    waiting: dict[str, pa.Table] = {}
    for name, rows in tables.items():
        for at in range(0, rows.num_rows, PART):
            part = rows.slice(at, PART)
            if sum(each.num_rows for each in waiting.values()) + part.num_rows > PART:
                yield waiting
                waiting = {}
            waiting[name] = part
    if waiting:
        yield waiting
