"""Folded states in the store: written with the model that they led to, so that a run that dies changes neither.

Each function takes the connection that `Store.read` or `Store.write` hands to its work.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta

import msgspec
from duckdb import DuckDBPyConnection

from featurestore.states import (
    LAYOUT,
    Head,
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
    head = _head(con, cluster)
    if head is None:
        return None
    parts = _parts(con, cluster, ("point", "current", "predictions"))
    return State(
        head,
        unpack_points(parts.get("point", ())),
        unpack_blocks(parts.get("current", ())),
        unpack_predictions(parts.get("predictions", ())),
    )


def whole(con: DuckDBPyConnection, cluster: str) -> State | None:
    """Return the state of *cluster* with what is known from before its window, and every step since, in order."""
    state = load(con, cluster)
    if state is None:
        return None
    rows = con.execute(
        """
        SELECT number, since, until, "rows", body FROM folded WHERE cluster = ? AND kind = 'step'
        ORDER BY number, part
        """,
        [cluster],
    ).fetchall()
    steps: dict[int, tuple[int, int, float, list[bytes]]] = {}
    for number, since, until, count, body in rows:
        steps.setdefault(number, (since, until, count, []))[3].append(body)
    running = {
        number: msgspec.json.decode(body, type=tuple[str, ...])
        for number, body in con.execute(
            "SELECT number, body FROM folded WHERE cluster = ? AND kind = 'running'", [cluster]
        ).fetchall()
    }
    return replace(
        state,
        aged=unpack_blocks(_parts(con, cluster, ("aged",)).get("aged", ())),
        steps=[
            Step(since, until, count, unpack_blocks(parts), running.get(number, ()))
            for number, (since, until, count, parts) in steps.items()
        ],
    )


def unchanged(con: DuckDBPyConnection, cluster: str, serial: int) -> None:
    """Raise `Outdated` where the stored state is not the one of *serial* any more (0: there was none)."""
    stored = _head(con, cluster)
    if (0 if stored is None else stored.serial) != serial:
        raise Outdated


def save(con: DuckDBPyConnection, cluster: str, state: State) -> None:
    """Write what is new of *state*, under the next serial.

    A state of the same full fit has its new steps added; another one takes the place of all that was.
    """
    stored = _head(con, cluster)
    if stored is None or stored.model != state.head.model:
        con.execute("DELETE FROM folded WHERE cluster = ?", [cluster])
        _write(con, cluster, "point", pack_points(state.points))
        _write(con, cluster, "aged", pack_blocks(state.aged))
        _write(con, cluster, "predictions", pack_predictions(state.predictions))
    con.execute("DELETE FROM folded WHERE cluster = ? AND kind IN ('head', 'current')", [cluster])
    head = replace(state.head, serial=(0 if stored is None else stored.serial) + 1)
    _write(con, cluster, "head", [msgspec.json.encode({"layout": LAYOUT, "head": asdict(head)})])
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


def _head(con: DuckDBPyConnection, cluster: str) -> Head | None:
    rows = con.execute("SELECT body FROM folded WHERE cluster = ? AND kind = 'head'", [cluster]).fetchall()
    if not rows:
        return None
    stored = msgspec.json.decode(rows[0][0], type=_Stored)
    return msgspec.json.decode(stored.head, type=Head) if stored.layout == LAYOUT else None


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
