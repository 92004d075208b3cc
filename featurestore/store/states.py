"""Folded states in the store: written with the model that they led to, so that a run that dies changes neither.

Each function takes the connection that `Store.read` or `Store.write` hands to its work. Long bodies stand in pieces
(`featurestore.store.pieces`), which may be written before the rows that name them: until then nobody reads them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

import msgspec
from duckdb import DuckDBPyConnection

from featurestore.interference.blocks import Block
from featurestore.states import (
    LAYOUT,
    Head,
    Packed,
    Points,
    State,
    Step,
    pack_blocks,
    pack_points,
    pack_predictions,
    unpack_points,
    unpack_predictions,
)
from featurestore.store import bodies
from featurestore.store.bodies import Row
from featurestore.store.claims import Outdated
from featurestore.store.duck import Store
from featurestore.store.later import Later


class _Stored(msgspec.Struct, frozen=True):
    layout: int
    head: msgspec.Raw


def load(con: DuckDBPyConnection, cluster: str) -> State | None:
    """Return the state of *cluster* without its steps; None where there is none that this version reads."""
    known = head(con, cluster)
    if known is None:
        return None
    parts = _parts(con, cluster, ("point", "current", "predictions"))
    return State(
        known,
        Later(parts.get("point", ()), unpack_points),
        Packed(parts.get("current", ())),
        unpack_predictions(parts.get("predictions", ())),
    )


def whole(con: DuckDBPyConnection, cluster: str) -> State | None:
    """Return the state of *cluster* with what is known from before its window, every step since, in order, and the
    points that these had."""
    state = load(con, cluster)
    if state is None:
        return None
    steps, former = list(_steps(con, cluster).values()), _former(con, cluster)
    return replace(state, aged=_aged(con, cluster), steps=steps, former=former)


def outlined(con: DuckDBPyConnection, cluster: str) -> State | None:
    """Return the `whole` state of *cluster* but for the blocks of its steps, which `filled` reads."""
    state = load(con, cluster)
    if state is None:
        return None
    rows = con.execute(
        "SELECT since, until, \"rows\" FROM folded WHERE cluster = ? AND kind = 'step' AND part = 0 ORDER BY number",
        [cluster],
    ).fetchall()
    steps = [Step(since, until, count, Packed(())) for since, until, count in rows]
    return replace(state, aged=_aged(con, cluster), steps=steps, former=_former(con, cluster))


def filled(store: Store, cluster: str, state: State) -> State:
    """Return what is `outlined` with the blocks of its steps: short ones are read at once, long ones one at a
    time. Raises `Outdated` where the state was changed since."""
    if not state.steps:
        return state

    def steps(con: DuckDBPyConnection, first: int, last: int) -> dict[int, Step]:
        unchanged(con, cluster, state.head.serial)
        return _steps(con, cluster, last, first)

    numbers = store.read(lambda con: _numbers(con, cluster))
    spans = [(number, number) for number in numbers] if any(numbers.values()) else [(min(numbers), max(numbers))]
    found: dict[int, Step] = {}
    for first, last in spans:
        found |= store.read(partial(steps, first=first, last=last))
    return replace(state, steps=list(found.values()))


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


def forget(con: DuckDBPyConnection, cluster: str, old: Older, aged: Sequence[Row], first: int = 0) -> None:
    """Put *aged* (`aged_rows`), what the *old* steps were folded into, in their place; nothing where the state has
    changed since. *first* as for `save`."""
    known = head(con, cluster)
    if known is None or known.serial != old.serial:
        return
    con.execute("DELETE FROM folded WHERE cluster = ? AND kind IN ('head', 'aged')", [cluster])
    con.execute(
        "DELETE FROM folded WHERE cluster = ? AND kind IN ('step', 'running') AND number <= ?", [cluster, old.number]
    )
    until = max(step.until for step in old.steps)
    con.execute("DELETE FROM folded WHERE cluster = ? AND kind = 'former' AND until <= ?", [cluster, until])
    serial = known.serial + 1
    bodies.write(con, cluster, [*aged, _head_row(replace(known, serial=serial, aged=max(known.aged, until)))], first)


def aged_rows(aged: Mapping[int, Block]) -> list[Row]:
    """Return what is known from before a window, packed."""
    return _packed("aged", pack_blocks(aged))


def unchanged(con: DuckDBPyConnection, cluster: str, serial: int) -> None:
    """Raise `Outdated` where the stored state is not the one of *serial* any more (0: there was none)."""
    stored = head(con, cluster)
    if (0 if stored is None else stored.serial) != serial:
        raise Outdated


def laid(state: State, before: State | None) -> list[Row]:
    """Return what is new of *state* beside the one *before*, packed, but for its head; steps are counted from 1.

    Of a state of the same full fit these are the steps, the sum of all, and where some moved the points; of another
    one all that it holds.
    """
    rows: list[Row] = []
    another = before is None or before.head.model != state.head.model
    if another or state.former:
        rows += _packed("point", pack_points(state.points))
    if another:
        rows += aged_rows(state.aged)
        rows += _packed("predictions", pack_predictions(state.predictions))
    rows += _packed("current", pack_blocks(state.current))
    for number, step in enumerate(state.steps, start=1):
        of = Row("step", 0, b"", number, step.since, step.until, step.rows)
        rows += [replace(of, part=part, body=body) for part, body in enumerate(pack_blocks(step.blocks))]
        if step.running:
            rows.append(replace(of, kind="running", body=msgspec.json.encode(step.running)))
    for until, points in state.former.items():
        parts = _packed("former", pack_points(points))
        rows += [replace(row, number=len(state.steps), until=until) for row in parts]
    return rows


def save(con: DuckDBPyConnection, cluster: str, known: Head, rows: Sequence[Row], first: int = 0) -> None:
    """Write a state under the next serial: what is *known* as its head, and its *rows* (`laid`).

    A state of the same full fit has its new steps added; another one takes the place of all that was. The pieces of
    its long bodies were written under the entries from *first* on; 0: they are written here. Pieces that are not
    needed any more are left to `pieces.clear`.
    """
    stored = head(con, cluster)
    if stored is None or stored.model != known.model:
        con.execute("DELETE FROM folded WHERE cluster = ?", [cluster])
    renewed = list({"head", "current", *(row.kind for row in rows if row.kind == "point")})
    con.execute("DELETE FROM folded WHERE cluster = ? AND kind IN ?", [cluster, renewed])
    [[last]] = con.execute(
        "SELECT coalesce(max(number), 0) FROM folded WHERE cluster = ? AND kind = 'step'", [cluster]
    ).fetchall()
    head_row = _head_row(replace(known, serial=(0 if stored is None else stored.serial) + 1))
    new = [replace(row, number=last + row.number) if row.number else row for row in rows]
    bodies.write(con, cluster, [*new, head_row], first)


def reach(con: DuckDBPyConnection, cluster: str, since: datetime) -> datetime:
    """Return from which start on activations are to be read so that all that ended at *since* or later are among
    them, and all that they ran beside. Those of which no end is known end with their timeout; a day is the most."""
    first = since
    for _ in range(2):
        [[begun]] = con.execute(
            """
            SELECT min("start") FROM activations WHERE cluster = ? AND NOT composite AND "start" >= ? AND "start" < ?
                AND coalesce("end", "start" + to_milliseconds(coalesce(timeout_ms, 0))) >= ?
            """,
            [cluster, since - timedelta(days=1), first, first],
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
    for row in bodies.read(con, cluster, ("head",)):
        stored = msgspec.json.decode(row.body, type=_Stored)
        return msgspec.json.decode(stored.head, type=Head) if stored.layout == LAYOUT else None
    return None


def _head_row(known: Head) -> Row:
    return Row("head", 0, msgspec.json.encode({"layout": LAYOUT, "head": asdict(known)}))


def _packed(kind: str, bodies: Sequence[bytes]) -> list[Row]:
    return [Row(kind, part, body) for part, body in enumerate(bodies)]


def _aged(con: DuckDBPyConnection, cluster: str) -> Mapping[int, Block]:
    return Packed(_parts(con, cluster, ("aged",)).get("aged", ()))


def _former(con: DuckDBPyConnection, cluster: str) -> dict[int, Points]:
    """Return the points that moved, by the time up to which they held."""
    found: dict[int, list[bytes]] = {}
    for row in bodies.read(con, cluster, ("former",)):
        found.setdefault(row.until, []).append(row.body)
    return {until: unpack_points(parts) for until, parts in found.items()}


def _steps(con: DuckDBPyConnection, cluster: str, last: int | None = None, first: int = 0) -> dict[int, Step]:
    """Return the steps by number, in order, from the *first* up to the *last*; their blocks stay packed."""
    rows = bodies.read(con, cluster, ("step", "running"), last, first)
    running = {
        row.number: msgspec.json.decode(row.body, type=tuple[str, ...]) for row in rows if row.kind == "running"
    }
    found: dict[int, Step] = {}
    for row in rows:
        if row.kind == "step":
            parts = [*_parts_of(found.get(row.number)), row.body]
            found[row.number] = Step(row.since, row.until, row.rows, Packed(parts), running.get(row.number, ()))
    return found


def _numbers(con: DuckDBPyConnection, cluster: str) -> dict[int, bool]:
    """Return the numbers of all steps in order, and whether a body of theirs is long."""
    return dict(
        con.execute(
            """
            SELECT number, bool_or(coalesce(entry, 1) > 0) FROM folded
            WHERE cluster = ? AND kind = 'step' GROUP BY number ORDER BY number
            """,
            [cluster],
        ).fetchall()
    )


def _parts_of(step: Step | None) -> Sequence[bytes]:
    return step.blocks.parts if step is not None and isinstance(step.blocks, Packed) else ()


def _parts(con: DuckDBPyConnection, cluster: str, kinds: Sequence[str]) -> Mapping[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for row in bodies.read(con, cluster, kinds):
        found.setdefault(row.kind, []).append(row.body)
    return found
