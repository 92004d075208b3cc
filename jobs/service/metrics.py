"""GET /metrics: the families of `jobs.service.families`, gathered when they are asked for."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final
from zlib import compress, decompress

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from featurestore.snapshot import Snapshot
from jobs.regions import following
from jobs.service import counts
from jobs.service.families import (
    admission,
    disks,
    freshness,
    functions,
    learned,
    nodes,
    outcomes,
    pairs,
    refusals,
    regions,
    replica,
    schedule,
    sources,
)
from jobs.service.health import from_table, newest
from jobs.supervisor import status

#: Lines of a family before its samples.
_HEAD: Final = 2
#: Seconds of rest after each part, of some hundred samples, which takes a millisecond or two.
_REST: Final = 0.005
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Family(Collector):
    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        yield self._family


def render(families: Iterable[Metric]) -> bytes:
    """Write *families* in Prometheus' text format, one after another: all of a large cluster's take much memory.

    Several of one name behind each other are parts of one family.
    """
    return b"".join(_pages(families))


def _pages(families: Iterable[Metric]) -> Iterator[bytes]:
    last = ""
    for family in families:
        page = _rendered(family)
        yield page.split(b"\n", _HEAD)[_HEAD] if family.name == last else page
        last = family.name


def _rendered(family: Metric) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Family(family))
    return generate_latest(registry)


def of_snapshot(snapshot: Snapshot, most: int) -> Iterator[Metric]:
    """Yield what depends on *snapshot* alone; at most *most* pairs, functions and drives are shown."""
    yield from learned.version(snapshot)
    yield from nodes.nodes(snapshot)
    yield from pairs.pairs(snapshot, most)
    yield from functions.functions(snapshot, most)
    yield from learned.attribution(snapshot)
    yield from learned.learning(snapshot, most)
    yield from disks.disks(snapshot, most)


def of_model(snapshot: Snapshot, most: int) -> Iterator[Metric]:
    """Yield what depends on the models of *snapshot* alone."""
    yield learned.models(snapshot)
    yield nodes.running(snapshot)
    yield from pairs.pairs(snapshot, most)
    yield from functions.functions(snapshot, most)
    yield from learned.attribution(snapshot)
    yield from learned.learning(snapshot, most)


def _health(snapshot: Snapshot, told: status.Status | None) -> list[status.SourceHealth]:
    return newest(from_table(snapshot["health"]), told.health if told else ())


class Metrics:
    """Makes the page; *seen* is told of each new snapshot and renders what depends on it alone, once.

    *directory* is where the supervisor and every serving process leave their files, None for a process on its own.
    """

    def __init__(
        self,
        tally: counts.Tally,
        directory: Path | None,
        slot: int,
        pairs: int,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._tally = tally
        self._directory = directory
        self._own = f"serving-{slot}.json"
        self._pairs = pairs
        self._pause = pause
        self._learned = compress(b"")
        self._snapshot: Snapshot | None = None
        self.loads: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self.watches: Callable[[], Sequence[status.WatchStatus]] = lambda: ()

    def seen(self, snapshot: Snapshot) -> None:
        """Render what depends on *snapshot* alone, and keep it packed: a large cluster's takes megabytes.

        Where the former one's stands, with rests: pods are answered meanwhile, and nobody waits for this.
        """
        families = of_snapshot(snapshot, self._pairs)
        rested = families if self._snapshot is None else self._resting(families)
        self._learned, self._snapshot = compress(render(rested), 1), snapshot

    def _resting(self, families: Iterable[Metric]) -> Iterator[Metric]:
        for family in families:
            yield family
            self._pause(_REST)

    def publish(self) -> None:
        """Leave this process's counts where the others find them."""
        if self._directory is not None:
            counts.write(self._tally, self._directory / self._own)

    def page(self) -> bytes:
        """Return the whole page."""
        return render(self._current(time.time())) + decompress(self._learned)

    def with_regions(self, snapshot: Snapshot) -> Snapshot:
        """Return *snapshot* with the regions as the supervisor saw them last."""
        found = following.latest(self._directory, snapshot["regions"])
        return replace(snapshot, tables={**snapshot.tables, "regions": found})

    def health(self, snapshot: Snapshot) -> list[status.SourceHealth]:
        """Return how the sources fare, as *snapshot* or the supervisor saw them last."""
        return _health(snapshot, self._told())

    def _told(self) -> status.Status | None:
        return status.read(self._directory / status.FILE if self._directory else None)

    def _current(self, now: float) -> Iterator[Metric]:
        told = self._told()
        tally = counts.total(self._tallies())
        yield from admission.admission(tally)
        yield from refusals.refusals(tally.refusals)
        if (snapshot := self._snapshot) is not None:
            yield from sources.sources(_health(snapshot, told), now)
            yield from regions.regions(following.latest(self._directory, snapshot["regions"]))
            yield from freshness.snapshot(snapshot.created.timestamp(), now, *self.loads())
        yield from freshness.watches([*self.watches(), *(told.watches if told else ())], now)
        if told is not None:
            yield from schedule.schedule(told)
            yield from outcomes.outcomes(told.outcomes)
            if told.writer is not None:
                yield from replica.replica(told.writer, now)

    def _tallies(self) -> Iterator[counts.Tally]:
        yield self._tally
        if self._directory is not None:
            for path in sorted(self._directory.glob("serving-*.json")):
                if path.name != self._own:
                    yield counts.read(path)
