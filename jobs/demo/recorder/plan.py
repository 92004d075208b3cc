"""What is recorded and in which order: a pure, seeded plan of sessions.

Each function alone and every two together, twice, by a round-robin tournament (in a round every function plays
once, so that the sessions of a round can stand on different nodes at the same time without sharing a function);
then three at a time by the affine plane of order 3, which has every two of nine together exactly once.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

#: Seconds: how long functions run together and alone in a block, between blocks, and in a session of three.
TOGETHER, ALONE, GAP, THREE = 1.3, 0.55, 0.1, 6.0
REPEATS = 2


@dataclass(frozen=True, slots=True)
class Session:
    """One run on all cores: its functions, and the table of its round; *kind* is alone, pair or three."""

    key: str
    kind: str
    round: int
    table: int
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """When one member invokes: blocks of (offset, length) seconds, and its mean thinking time (0: closed loop)."""

    blocks: tuple[tuple[float, float], ...]
    think: float


def sessions(functions: Sequence[str], repeats: int = REPEATS) -> tuple[Session, ...]:
    """Plan all sessions of *functions*; with nine of them 2 x 36 pairs, 2 x 9 alone and 12 of three."""
    planned: list[Session] = []
    number = 0
    for repeat in range(repeats):
        for tables in tournament(functions):
            for table, members in enumerate(tables):
                kind = "pair" if len(members) == 2 else "alone"
                key = f"{kind}-{repeat}-{'+'.join(name.split('/')[-1] for name in members)}"
                planned.append(Session(key, kind, number, table, members))
            number += 1
    for tables in triples(functions):
        for table, members in enumerate(tables):
            key = f"three-{'+'.join(name.split('/')[-1] for name in members)}"
            planned.append(Session(key, "three", number, table, members))
        number += 1
    return tuple(planned)


def tournament(functions: Sequence[str]) -> list[list[tuple[str, ...]]]:
    """Return rounds in which every two meet once (the circle method); with an odd number one is alone each time."""
    seats: list[str | None] = [*functions]
    if len(seats) % 2:
        seats.append(None)
    rounds = []
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        met = [(seats[i], seats[-1 - i]) for i in range(half)]
        rounds.append([tuple(name for name in two if name is not None) for two in met])
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return rounds


def triples(functions: Sequence[str]) -> list[list[tuple[str, ...]]]:
    """Return the lines of the affine plane of order 3 by their parallel class; [] unless there are nine points."""
    if len(functions) != 9:
        return []
    classes = []
    for slope in (0, 1, 2):
        lines = [[(x, (slope * x + shift) % 3) for x in range(3)] for shift in range(3)]
        classes.append(lines)
    classes.append([[(x, y) for y in range(3)] for x in range(3)])
    return [[tuple(functions[3 * x + y] for x, y in line) for line in lines] for lines in classes]


def parts(session: Session, seed: int, scale: float = 1.0) -> tuple[Part, ...]:
    """Draw when each member of *session* invokes: blocks alone and together in random order, or at random times."""
    draw = random.Random(f"{seed}/{session.key}")
    if session.kind == "three":
        return tuple(Part(((0.0, THREE * scale),), draw.uniform(0.02, 0.12)) for _ in session.members)
    phases: list[tuple[int, ...]]
    if session.kind == "alone":
        phases = [(0,)] * 4
    else:
        phases = [(0,), (0,), (1,), (1,), (0, 1), (0, 1), (0, 1)]
        draw.shuffle(phases)
    blocks: list[list[tuple[float, float]]] = [[] for _ in session.members]
    offset = 0.0
    for running in phases:
        length = (TOGETHER if len(running) > 1 else ALONE) * scale
        for member in running:
            blocks[member].append((offset, length))
        offset += length + GAP
    return tuple(Part(tuple(own), 0.0) for own in blocks)
