"""Folded states in the store: written with the model that they led to, so that a run that dies changes neither.

Each function takes the connection that `Store.read` or `Store.write` hands to its work.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta

import msgspec
from duckdb import DuckDBPyConnection

from featurestore.interference.blocks import Block
from featurestore.states import (
    LAYOUT,
    Head,
    Packed,
    State,
    Step,
    pack_blocks,
    pack_points,
    pack_predictions,
    unpack_blocks,
    unpack_points,
    unpack_predictions,
)


class _Stored(msgspec.Struct, frozen=True):
    layout: int
    head: msgspec.Raw


class Outdated(Exception):
    """The state was changed by another run since it was read."""


def load(con: DuckDBPyConnection, cluster: str) -> State | None:
    """Return the state of *cluster* without its steps; None where there is none that this version reads."""
    known = head(con, cluster)
    if known is None:
        return None
    parts = _parts(con, cluster, ("point", "current", "predictions"))
    return State(
        known,
        unpack_points(parts.get("point", ())),
        unpack_blocks(parts.get("current", ())),
        unpack_predictions(parts.get("predictions", ())),
    )


def whole(con: DuckDBPyConnection, cluster: str) -> State | None:
    """Return the state of *cluster* with what is known from before its window, and every step since, in order."""
    state = load(con, cluster)
    if state is None:
        return None
    return replace(state, aged=_aged(con, cluster), steps=list(_steps(con, cluster).values()))


@dataclass(frozen=True, slots=True)
class Older:
    """The oldest *steps* of a state of a *serial*, up to the one of a *number*, and what is known from *aged*, before
    them."""

    serial: int
    number: int
    steps: Sequence[Step]
    aged: Mapping[int, Block]


def older(con: DuckDBPyConnection, cluster: str, rows: float) -> Older | None:
    """Return the oldest steps of the state of *cluster* without which the others still hold *rows* of evidence; None
    where there are none."""
    known = head(con, cluster)
    counts = con.execute(
        """
        SELECT number, sum("rows") OVER (ORDER BY number DESC) - "rows" FROM folded
        WHERE cluster = ? AND kind = 'step' AND part = 0 ORDER BY number
        """,
        [cluster],
    ).fetchall()
    old = [number for number, beyond in counts if beyond >= rows]
    if known is None or not old:
        return None
    return Older(known.serial, old[-1], list(_steps(con, cluster, old[-1]).values()), _aged(con, cluster))


def forget(con: DuckDBPyConnection, cluster: str, old: Older, aged: Mapping[int, Block]) -> None:
    """Put *aged*, what the *old* steps were folded into, in their place; nothing where the state changed since."""
    known = head(con, cluster)
    if known is None or known.serial != old.serial:
        return
    con.execute("DELETE FROM folded WHERE cluster = ? AND kind IN ('head', 'aged')", [cluster])
    con.execute(
        "DELETE FROM folded WHERE cluster = ? AND kind IN ('step', 'running') AND number <= ?", [cluster, old.number]
    )
    _write(con, cluster, "aged", pack_blocks(aged))
    until = max(step.until for step in old.steps)
    _write_head(con, cluster, replace(known, serial=known.serial + 1, aged=max(known.aged, until)))


def unchanged(con: DuckDBPyConnection, cluster: str, serial: int) -> None:
    """Raise `Outdated` where the stored state is not the one of *serial* any more (0: there was none)."""
    stored = head(con, cluster)
    if (0 if stored is None else stored.serial) != serial:
        raise Outdated


def save(con: DuckDBPyConnection, cluster: str, state: State) -> None:
    """Write what is new of *state*, under the next serial.

    A state of the same full fit has its new steps added; another one takes the place of all that was.
    """
    stored = head(con, cluster)
    if stored is None or stored.model != state.head.model:
        con.execute("DELETE FROM folded WHERE cluster = ?", [cluster])
        _write(con, cluster, "point", pack_points(state.points))
        _write(con, cluster, "aged", pack_blocks(state.aged))
        _write(con, cluster, "predictions", pack_predictions(state.predictions))
    con.execute("DELETE FROM folded WHERE cluster = ? AND kind IN ('head', 'current')", [cluster])
    _write_head(con, cluster, replace(state.head, serial=(0 if stored is None else stored.serial) + 1))
    _write(con, cluster, "current", pack_blocks(state.current))
    [[last]] = con.execute(
        "SELECT coalesce(max(number), 0) FROM folded WHERE cluster = ? AND kind = 'step'", [cluster]
    ).fetchall()
    for number, step in enumerate(state.steps, start=last + 1):
        of = (step.since, step.until, step.rows)
        _write(con, cluster, "step", pack_blocks(step.blocks), number, of)
        _write(con, cluster, "running", [msgspec.json.encode(step.running)] if step.running else [], number, of)


def reach(con: DuckDBPyConnection, cluster: str, since: datetime) -> datetime:
    """Return from which start on activations are to be read so that all that ended at *since* or later are among
    them, and all that they ran beside. Those of which no end is known end with their timeout; a day is the most."""
    first = since
    for _ in range(2):
        [[begun]] = con.execute(
            """
            SELECT min("start") FROM activations WHERE cluster = ? AND NOT composite AND "start" >= ?
                AND coalesce("end", "start" + to_milliseconds(coalesce(timeout_ms, 0))) >= ?
            """,
            [cluster, since - timedelta(days=1), first],
        ).fetchall()
        if begun is not None:
            first = min(first, begun.astimezone(UTC))
    return first


def late(con: DuckDBPyConnection, cluster: str, closed: datetime, since: datetime) -> int:
    """Return how many activations that ended before *closed* were collected after *since*."""
    [[found]] = con.execute(
        'SELECT count(*) FROM activations WHERE cluster = ? AND "end" < ? AND collected > ? AND NOT composite',
        [cluster, closed, since],
    ).fetchall()
    return int(found)


def head(con: DuckDBPyConnection, cluster: str) -> Head | None:
    """Return the head of the state of *cluster*; None where there is none that this version reads."""
    rows = con.execute("SELECT body FROM folded WHERE cluster = ? AND kind = 'head'", [cluster]).fetchall()
    if not rows:
        return None
    stored = msgspec.json.decode(rows[0][0], type=_Stored)
    return msgspec.json.decode(stored.head, type=Head) if stored.layout == LAYOUT else None


def _write_head(con: DuckDBPyConnection, cluster: str, known: Head) -> None:
    _write(con, cluster, "head", [msgspec.json.encode({"layout": LAYOUT, "head": asdict(known)})])


def _aged(con: DuckDBPyConnection, cluster: str) -> dict[int, Block]:
    return unpack_blocks(_parts(con, cluster, ("aged",)).get("aged", ()))


def _steps(con: DuckDBPyConnection, cluster: str, last: int | None = None) -> dict[int, Step]:
    """Return the steps by number, in order, up to the *last*; their blocks stay packed."""
    rows = con.execute(
        """
        SELECT number, since, until, "rows", kind, body FROM folded
        WHERE cluster = ? AND kind IN ('step', 'running') AND number <= coalesce(?, number) ORDER BY number, part
        """,
        [cluster, last],
    ).fetchall()
    running = {row[0]: msgspec.json.decode(row[-1], type=tuple[str, ...]) for row in rows if row[4] == "running"}
    found: dict[int, Step] = {}
    for number, since, until, count, kind, body in rows:
        if kind == "step":
            parts = [*_parts_of(found.get(number)), body]
            found[number] = Step(since, until, count, Packed(parts), running.get(number, ()))
    return found


def _parts_of(step: Step | None) -> Sequence[bytes]:
    return step.blocks.parts if step is not None and isinstance(step.blocks, Packed) else ()


def _parts(con: DuckDBPyConnection, cluster: str, kinds: Sequence[str]) -> Mapping[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for kind, body in con.execute(
        "SELECT kind, body FROM folded WHERE cluster = ? AND kind IN ? ORDER BY kind, number, part",
        [cluster, list(kinds)],
    ).fetchall():
        found.setdefault(kind, []).append(body)
    return found


def _write(
    con: DuckDBPyConnection,
    cluster: str,
    kind: str,
    parts: Sequence[bytes],
    number: int = 0,
    of: tuple[int, int, float] = (0, 0, 0.0),
) -> None:
    for part, body in enumerate(parts):
        con.execute("INSERT INTO folded VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [cluster, kind, number, part, *of, body])
