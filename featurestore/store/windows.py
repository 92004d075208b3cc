"""The window that a learning run looks at, copied out in slices, so that nobody waits long for the file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
from duckdb import DuckDBPyConnection

from featurestore import chronological
from featurestore.exposure.kernels import Ints
from featurestore.store import queries, regions
from featurestore.store.duck import Store
from pipeline.columns import METRICS
from pipeline.records import Window

#: The usage of pods that learning looks at.
USAGE = tuple(metric for metric in METRICS["pod"] if metric not in ("cpu_pressure", "io_pressure"))

#: Rows that one read copies.
PART = 250_000

_Read = Callable[[DuckDBPyConnection, str, Window], pa.Table]

#: No history is older: a window before it, of a century at most, is still within the years that a datetime holds.
FIRST = datetime(200, 1, 1, tzinfo=UTC)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMES: Mapping[str, str] = {"activations": '"start"', "usage": '"at"'}

#: Texts that are all different: no dictionary.
_UNIQUE = ("activation_id",)
#: The columns of activations that learning has a use for.
_USED = (
    'activation_id, function, version, "start", "end", duration_ms, init_ms, status_code, memory_mb, timeout_ms,'
    " composite, node, pod, node_type"
)


def newest(con: DuckDBPyConnection, cluster: str, now: datetime) -> datetime | None:
    """Return the newest start up to *now* of an activation of *cluster*, or None where there is none.

    A record of a clock that is years ahead must not hide a history that ended long ago; one that is centuries behind
    is of no history, as nothing could be told of the time before it.
    """
    told = 'SELECT max("start") FROM activations WHERE cluster = ? AND "start" >= ? AND "start" <= ?'
    row = con.execute(told, [cluster, FIRST, now]).fetchone()
    return row[0].astimezone(UTC) if row is not None and row[0] is not None else None


def oldest(con: DuckDBPyConnection, cluster: str) -> datetime | None:
    """Return the oldest start of an activation of *cluster*, or None where there is none."""
    row = con.execute('SELECT min("start") FROM activations WHERE cluster = ?', [cluster]).fetchone()
    return row[0].astimezone(UTC) if row is not None and row[0] is not None else None


def window(con: DuckDBPyConnection, cluster: str, now: datetime, span: timedelta, most: int | None = None) -> Window:
    """Return the last *span* up to *now*, or up to the newest activation of a history that ended before that.

    Where more than *most* activations started in it, it begins later, at the full hour from which on they are no
    more; the last hour is always in it.
    """
    last = newest(con, cluster, now)
    until = now if last is None or last >= now - span else last + timedelta(seconds=1)
    since = until - span
    if most is not None:
        hours, counts = by_hour(con, cluster, "start", Window(since, until))
        beyond = np.flatnonzero(np.cumsum(counts[::-1])[::-1] > most)
        if len(beyond):
            first = min(int(beyond[-1]) + 1, len(hours) - 1)
            since = max(since, _EPOCH + timedelta(hours=int(hours[first])))
    return Window(since, until)


def by_hour(con: DuckDBPyConnection, cluster: str, time: str, span: Window) -> tuple[Ints, Ints]:
    """Return the hours since the epoch, in order, and how many activations but composites had their *time* ("start",
    "end") in each within *span*."""
    found = con.execute(
        f"""
        SELECT epoch_us("{time}") // 3600000000 AS hour, count(*) AS runs FROM activations
        WHERE cluster = ? AND "{time}" >= ? AND "{time}" < ? AND NOT composite GROUP BY 1 ORDER BY 1
        """,
        [cluster, span.since, span.until],
    ).fetchall()
    hours, counts = np.array(found, np.int64).reshape(-1, 2).T
    return hours, counts


@dataclass(frozen=True, slots=True)
class Copied:
    """What one transaction copied of *span*: *tables*, and the *slices* in which `rest` reads the others."""

    span: Window
    tables: Mapping[str, pa.Table]
    slices: Mapping[str, Sequence[Window]]


def copy(store: Store, cluster: str, span: Window, part: int = PART) -> Mapping[str, pa.Table]:
    """Copy what learning needs of *span*: activations, placements, nodes, usage (of pods), declared, workflows.

    Drains of consistent regions stand among the activations, as runs of their region.

    The large ones are read in slices of about *part* rows, each of its own transaction, and their texts are put into
    dictionaries when the file is free again; what is one slice each is read in one transaction with all else. Rows
    that arrive meanwhile in a slice that was read are not seen.
    """
    return rest(store, cluster, store.read(lambda con: begin(con, cluster, span, part)))


def begin(con: DuckDBPyConnection, cluster: str, span: Window, part: int = PART) -> Copied:
    """Copy of *span* what one transaction should, for those who have other things to read in it too."""
    cuts = {name: slices(con, name, cluster, span, part) for name in LARGE}
    tables = {
        "placements": queries.placements(con, cluster, span.since, span.until),
        "nodes": queries.nodes(con, cluster, span.since),  # runs are on what their node was first known to be
        "declared": queries.declared_profiles(con, cluster),
        "workflows": queries.workflows(con, cluster),
    }
    if all(len(own) == 1 for own in cuts.values()):
        tables |= {name: read(con, cluster, span) for name, read in LARGE.items()}
    return Copied(span, tables, cuts)


def rest(store: Store, cluster: str, begun: Copied) -> Mapping[str, pa.Table]:
    """Return the tables of `copy`: those that were *begun* with, and the large ones slice by slice."""
    found = dict(begun.tables)
    for name, read in LARGE.items():
        if name in found:
            found[name] = _owned(found[name])
        else:
            reads = (partial(_sliced, read, cluster, own) for own in begun.slices[name])
            found[name] = pa.concat_tables(_each_owned(store, reads)).unify_dictionaries()
    return found


def _each_owned(store: Store, reads: Iterable[Callable[[DuckDBPyConnection], pa.Table]]) -> list[pa.Table]:
    """Return the answers to *reads* as `_owned`: one is made so while the next is read, no more than two wait."""
    found, last = list[pa.Table](), list[Future[pa.Table]]()
    with ThreadPoolExecutor(1, "copies") as beside:
        for read in reads:
            answer = store.read(read)
            found += [each.result() for each in last]
            last = [beside.submit(_owned, answer)]
        return found + [each.result() for each in last]


def _sliced(read: _Read, cluster: str, span: Window, con: DuckDBPyConnection) -> pa.Table:
    return read(con, cluster, span)


def activations(con: DuckDBPyConnection, cluster: str, span: Window) -> pa.Table:
    """Copy the runs that started in *span*: activations, and drains of consistent regions as runs of their region.

    Columns: those of `pipeline.columns.ACTIVATIONS` that learning has a use for. *end* is null for triggers and where
    it is not known; *composite* marks sequences, conductors and triggers, which have no pod of their own;
    *status_code* 0 is the only success, -1 an unknown one. In no particular order: to sort in the file takes longer.
    """
    found = queries.arrow(
        con,
        f'SELECT {_USED} FROM activations WHERE cluster = ? AND "start" >= ? AND "start" < ?',
        [cluster, span.since, span.until],
    )
    if regions.known(con, cluster):
        drains = regions.drains(con, cluster, span.since, span.until)
        found = pa.concat_tables([found, drains.cast(found.schema)])
    return found


def _usage(con: DuckDBPyConnection, cluster: str, span: Window) -> pa.Table:
    return queries.usage(con, cluster, "pod", span.since, span.until, USAGE)


#: What may be more than one transaction should copy.
LARGE: Mapping[str, _Read] = {
    "activations": activations,
    "usage": _usage,
}


def slices(con: DuckDBPyConnection, table: str, cluster: str, span: Window, part: int = PART) -> list[Window]:
    """Cut *span* at full minutes into slices of about *part* rows of *table*; one slice where there are few."""
    time = _TIMES[table]
    rows = con.execute(
        f"""
        SELECT epoch_us({time}) // 60000000, count(*) FROM {table}
        WHERE cluster = ? AND {time} >= ? AND {time} < ? GROUP BY 1 ORDER BY 1
        """,
        [cluster, span.since, span.until],
    ).fetchall()
    cuts = [span.since]
    seen = 0
    for minute, count in rows:
        at = _EPOCH + timedelta(minutes=minute)
        if seen and seen + count > part and at > cuts[-1]:
            cuts.append(at)
            seen = 0
        seen += count
    return [Window(since, until) for since, until in pairwise([*cuts, span.until])]


def _owned(table: pa.Table) -> pa.Table:
    """Put texts that recur into dictionaries, and activations in order, in memory of the answer's own.

    What DuckDB hands over is freed as a whole: one column that is kept would keep the texts of all.
    """
    table = table.combine_chunks()
    for index, field in enumerate(table.schema):
        if pa.types.is_string(field.type) and field.name not in _UNIQUE:
            table = table.set_column(index, field.name, table[index].dictionary_encode())
    order = chronological.order(table) if "activation_id" in table.schema.names else None
    return table.take(pa.array(np.arange(len(table), dtype=np.int32) if order is None else order))


def clusters(con: DuckDBPyConnection) -> list[str]:
    """Return the clusters of which there is history to learn from, or anything that was imported, sorted."""
    tables = ("activations", "placements", "declared_profiles", "node_specs")
    found = con.execute(" UNION ".join(f"SELECT cluster FROM {table}" for table in tables) + " ORDER BY 1")
    return [cluster for (cluster,) in found.fetchall()]
