"""A history of more activations than are learned from together: learned in parts, oldest first, in bounded memory.

Each part ends an hour after a block of days does, and is learned as if it were then: the first in full, the others
fold the blocks that they close and decide nothing. What is left over after the last part is learned as usual.
"""

from dataclasses import dataclass
from datetime import datetime

import structlog
from duckdb import DuckDBPyConnection

from featurestore.engines.folding import HOUR, cuts
from featurestore.exposure.kernels import Ints
from featurestore.states import folded
from featurestore.store import bodies, claims, states, windows
from featurestore.store.duck import Store
from jobs.config import Settings
from jobs.planning import lasting, micros, options, time
from pipeline.records import Window

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Part:
    """Learn up to *until*: then what ended before *closed* is folded for good."""

    until: datetime
    closed: datetime


def part(
    con: DuckDBPyConnection, cluster: str, now: datetime, settings: Settings, beyond: datetime | None = None
) -> Part | None:
    """Return the next part of what is not folded by *now*, or None where all the rest can be learned together.

    It reads as many activations as are learned from together at most, but always whole hours, and a block; one
    that ends *beyond* a time, where up to then nothing could be closed.
    """
    most = settings.learn.activations
    span = windows.window(con, cluster, now, settings.learn.window)
    head = states.head(con, cluster)
    since = span.since if head is None else max(span.since, min(time(head.closed), span.until))
    hours, counts = windows.by_hour(con, cluster, "end", Window(since, span.until))
    if counts.sum() <= most:
        return None
    wait = lasting(settings)
    edges = cuts(hours, counts, micros(since), micros(span.until), options(settings).most)
    ends = [time(edge) for edge in edges[1:-1]]
    ends = [end for end in ends if end + wait < span.until and _before(hours, counts, end) > 0]
    ends = [end for end in ends if beyond is None or end > beyond]
    small = [end for end in ends if _before(hours, counts, end + wait) <= most]
    chosen = small[-1:] or ends[:1]
    return Part(chosen[0] + wait, chosen[0]) if chosen else None


def _before(hours: Ints, counts: Ints, at: datetime) -> int:
    """Return how many of *counts* by hour are of hours before a time."""
    return int(counts[: hours.searchsorted(micros(at) // HOUR)].sum())


def age(store: Store, cluster: str, settings: Settings, memory: float) -> None:
    """Fold the oldest steps of the state of *cluster* into what is known from before, until the others hold no more
    evidence than is fitted together: they are never fitted again."""
    try:
        old = store.read(lambda con: states.older(con, cluster, settings.learn.activations))
    except bodies.Damaged as error:  # the next full fit begins it anew
        _log.warning("steps not folded", cluster=cluster, error=str(error))
        return
    if old is not None:
        rows = states.aged_rows(folded(old.aged, old.steps, memory))
        claim = claims.in_parts(store, cluster, "", bodies.long(rows), {}, lambda con: None)

        def forget(con: DuckDBPyConnection) -> None:
            claims.check(con, claim)
            states.forget(con, cluster, old, rows, claim.first)
            claims.end(con, cluster)

        store.write(forget)
