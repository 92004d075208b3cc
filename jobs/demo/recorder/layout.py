"""Where and when a session stands in the recording: on which node, and by how much its times are shifted. Pure.

A node at a time was recorded, on all cores, so a session shared nothing with another; sessions of one round are laid
side by side on different nodes, round after round. Inside a session every difference of times is kept exactly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

#: The first moment of the recording, in epoch microseconds: where it begins is a choice, and says nothing.
ANCHOR = int(datetime(2026, 1, 5, 8, tzinfo=UTC).timestamp()) * 1_000_000
#: A round's time: whole steps of the usage collectors, so that a step holds no more than one round.
SLOT = 300_000_000
SCRAPE = 15_000_000
#: A container starts this long before a scrape, so that its counters are first seen near zero.
BEFORE_SCRAPE = 50_000
#: When a node is scraped within each interval: late, so that a round's last scrape is near the round's end.
_PHASE, _PHASE_STEP = 12_000_000, 600_000


@dataclass(frozen=True, slots=True)
class Placed:
    """A recorded session on node number *node* (from 0); its times plus *shift* are the recording's.

    *until* is when its containers end: the end of its round, or None in the last round, where they stay.
    """

    session: Mapping[str, Any]
    node: int
    shift: int
    begin: int
    until: int | None


def nodes(sessions: Sequence[Mapping[str, Any]]) -> int:
    """Return how many nodes the recording has: as many as a round has tables."""
    return 1 + max(int(session["table"]) for session in sessions)


def place(sessions: Sequence[Mapping[str, Any]]) -> tuple[Placed, ...]:
    """Lay *sessions* out, in order of round and table; each round moves every table on by one node."""
    count = nodes(sessions)
    last = max(session["round"] for session in sessions)
    placed = []
    for session in sorted(sessions, key=lambda each: (each["round"], each["table"])):
        node = (session["table"] + session["round"]) % count
        begin = ANCHOR + session["round"] * SLOT
        first = min(container["spawned"] for container in session["containers"])
        shift = begin + phase(node) - BEFORE_SCRAPE - first
        until = None if session["round"] == last else begin + SLOT
        placed.append(Placed(session, node, shift, begin, until))
    return tuple(placed)


def phase(node: int) -> int:
    """Return when in each scrape interval node number *node* is scraped, in microseconds."""
    return _PHASE + _PHASE_STEP * (node % 5)


def end(placed: Sequence[Placed]) -> int:
    """Return the recording's last moment: the end of its last round."""
    return max(each.begin for each in placed) + SLOT


def node_name(node: int) -> str:
    """Return the name of node number *node*."""
    return f"worker-{node + 1}"


def pod_name(placed: Placed, position: int) -> str:
    """Return what OpenWhisk calls the pod of the session's container *position*."""
    namespace, action = placed.session["containers"][position]["function"].split("/")
    number = placed.session["round"] * 10 + position + 1
    return f"wskrecorded-invoker-{placed.node:02d}-{number}-{namespace}-{action}"
