"""Whether a server's clock and this machine's agree: times of both meet in the history."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from jobs.finding import Finding
from rules.digits import digits

Clock = Callable[[], datetime]


class Reading(NamedTuple):
    """A *server*'s time between two readings of the own clock; it is cut off to *resolution*."""

    before: datetime
    server: datetime
    after: datetime
    resolution: timedelta


def read(ask: Callable[[], datetime | None], clock: Clock, resolution: timedelta = timedelta(0)) -> Reading | None:
    """Have a server's time *ask*ed, between two looks at the own *clock*; None where it gave none."""
    before = clock()
    server = ask()
    return None if server is None else Reading(before, server, clock(), resolution)


def ahead(reading: Reading) -> timedelta:
    """Return how far the server's clock is surely ahead of ours (negative: behind), zero where it may agree.

    The server looked at its clock at a moment between *before* and *after*, and cut off less than *resolution*.
    """
    if reading.server > reading.after:
        return reading.server - reading.after
    if reading.server + reading.resolution < reading.before:
        return reading.server + reading.resolution - reading.before
    return timedelta(0)


def examine(cluster: str, source: str, reading: Reading | None, limit: timedelta) -> Iterator[Finding]:
    """Yield what *reading* says of a source's clock; a difference beyond *limit* is a warning."""
    if reading is None:
        return
    off = ahead(reading)
    if abs(off) <= limit:
        yield Finding(cluster, source, "clock", "ok", f"agrees with this machine's within {_seconds(limit)}")
        return
    way = "ahead of" if off > timedelta(0) else "behind"
    said = f"at least {_seconds(abs(off))} {way} this machine's"
    fix = "synchronise both clocks (NTP); where they cannot be, raise learn.skew"
    yield Finding(cluster, source, "clock", "warning", said, fix)


def _seconds(span: timedelta) -> str:
    return f"{digits(span.total_seconds())} s"
