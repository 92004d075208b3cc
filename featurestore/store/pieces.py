"""Long bytes in the store: rows of a few hundred bytes each, so that many can be written, and few read, at a time.

DuckDB writes a row group anew with each row that is added to it, and reads the longest values of many rows at once:
of the states of a thousand functions half a gigabyte each time. Row groups of pieces are small, and as they are
written whole they are written once.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from duckdb import DuckDBPyConnection

#: Bytes of a piece.
SIZE = 256
#: Pieces that one transaction writes: a whole row group of DuckDB, 31 MB.
PART = 122_880

_SCHEMA = pa.schema(
    [pa.field("entry", pa.int64()), pa.field("place", pa.int32()), pa.field("body", pa.large_binary())]
)


def cut(bodies: Sequence[bytes], first: int = 1) -> Iterator[pa.Table]:
    """Yield the pieces of *bodies*, the first of which has the entry *first*, as tables of at most `PART` rows.

    Columns: entry, place (of the piece in its body, from 0), body. Nothing is copied.
    """
    waiting: list[pa.RecordBatch] = []
    held = 0
    for entry, body in enumerate(bodies, start=first):
        whole, at = _pieces(entry, body), 0
        while at < whole.num_rows:
            some = whole.slice(at, PART - held)
            waiting.append(some)
            at, held = at + some.num_rows, held + some.num_rows
            if held == PART:
                yield pa.Table.from_batches(waiting, _SCHEMA)
                waiting, held = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting, _SCHEMA)


def write(con: DuckDBPyConnection, pieces: pa.Table) -> None:
    """Add *pieces* of `cut`."""
    con.register("pieces", pieces)
    con.execute("INSERT INTO folded_pieces SELECT entry, place, body FROM pieces")
    con.unregister("pieces")


def read(con: DuckDBPyConnection, entries: Sequence[int]) -> dict[int, bytes]:
    """Return the bodies of *entries* by entry; of one that has no pieces nothing is said."""
    found: dict[int, list[tuple[int, bytes]]] = {}
    if not entries:
        return {}
    wanted = con.sql(
        "SELECT entry, place, body FROM folded_pieces WHERE entry BETWEEN ? AND ? AND entry IN ?",
        params=[min(entries), max(entries), list(entries)],
    )
    for batch in wanted.to_arrow_reader(PART):
        for entry, place, body in _runs(batch):
            found.setdefault(entry, []).append((place, body))
    return {entry: b"".join(body for _, body in sorted(parts)) for entry, parts in found.items()}


def clear(con: DuckDBPyConnection) -> None:
    """Delete the pieces that no row of what is folded names, and that nobody is about to name."""
    con.execute(
        """
        DELETE FROM folded_pieces WHERE entry IN (
            SELECT p.entry FROM (SELECT DISTINCT entry FROM folded_pieces) AS p
            WHERE NOT EXISTS (FROM folded AS f WHERE f.entry = p.entry)
                AND NOT EXISTS (FROM saving AS s WHERE p.entry BETWEEN s.first AND s.last)
        )
        """
    )


def last(con: DuckDBPyConnection) -> int:
    """Return the last entry that is anybody's, 0 where there is none."""
    [[found]] = con.execute(
        """
        SELECT greatest(
            (SELECT coalesce(max(entry), 0) FROM folded), (SELECT coalesce(max(last), 0) FROM saving),
            (SELECT coalesce(max(entry), 0) FROM folded_pieces)
        )
        """
    ).fetchall()
    return int(found)


def _pieces(entry: int, body: bytes) -> pa.RecordBatch:
    number = -(-len(body) // SIZE)
    ends = np.minimum(np.arange(number + 1, dtype=np.int64) * SIZE, len(body))
    pieces = pa.Array.from_buffers(pa.large_binary(), number, [None, pa.py_buffer(ends), pa.py_buffer(body)])
    rows: list[Any] = [np.full(number, entry, np.int64), np.arange(number, dtype=np.int32), pieces]
    return pa.record_batch(rows, schema=_SCHEMA)


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[int, int, bytes]]:
    """Yield entry, first place and bytes of pieces that follow each other."""
    if not batch.num_rows:
        return
    entry, place = (batch.column(name).to_numpy() for name in ("entry", "place"))
    body = batch.column("body").cast(pa.large_binary())
    _, offsets, values = body.buffers()
    ends = np.frombuffer(offsets, np.int64)[body.offset : body.offset + len(body) + 1]
    cuts = np.flatnonzero((np.diff(entry) != 0) | (np.diff(place) != 1)) + 1
    for begin, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(body)], strict=True):
        yield int(entry[begin]), int(place[begin]), values[int(ends[begin]) : int(ends[end])].to_pybytes()
