"""The size of the store's file over thirty days of collecting, learning and deleting what is older than a week.

What is deleted has to make room for what comes: once a week is there the file must not grow any more. Each day ends
with what retention deletes, each third one with learning, which writes models and what activations used.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import histories, pictures
from benchmarks.figures import Figure
from featurestore.store.duck import Store
from featurestore.store.ingest import ingest
from jobs import learn
from jobs.config import Settings, StoreSettings
from pipeline.columns import METRICS, TABLES
from pipeline.records import Batch

DAYS, KEPT = 30, 7
#: The section of results that the picture in the docs is drawn of.
PICTURED = "retention, soak, scale 0.1"
#: Activations a day, and pods that are sampled every five minutes, at full scale.
ACTIVATIONS, PODS = 20_000, 40
FUNCTIONS, NODES = 8, 3
#: Collections a day, and days between two learnings.
COLLECTIONS, LEARNED = 4, 3
#: How much larger the file may be in the last ten days than in the week after the first was deleted.
GOAL = 1.15

_END = datetime(2024, 7, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_TIME = pa.timestamp("us", tz="UTC")


def soak(scale: float = 1.0) -> list[Figure]:
    """Measure 20,000 activations and 40 sampled pods a day, times *scale*."""
    sizes = growth_of_the_file(scale, lambda day, size: print(f"day {day}: {size / 2**20:.2f} MB", flush=True))
    before, after = max(sizes[KEPT : 2 * KEPT]), max(sizes[-10:])
    return [
        Figure(
            f"file after {DAYS} days of which {KEPT} are kept",
            after / 2**20,
            "MB",
            before / 2**20,
            after / before,
            goal=f"ratio <= {GOAL}",
            met=after <= GOAL * before,
            note=f"the largest of the last ten days; floor: of days {KEPT + 1} to {2 * KEPT}; day 1: "
            f"{sizes[0] / 2**20:.2f} MB",
            series=[round(size / 2**20, 2) for size in sizes],
        )
    ]


def picture(figures: Sequence[Figure]) -> str:
    """Draw the size of the file day by day."""
    [whole] = figures
    marks = {KEPT: "from here on days are deleted"}
    return pictures.line("The store's file, a week kept", "MB", whole.series, below="day", marks=marks)


run = soak


def growth_of_the_file(scale: float = 1.0, told: Callable[[int, int], None] = lambda day, size: None) -> list[int]:
    """Return the bytes of the store's file at the end of each of `DAYS` days; *told* hears of each."""
    count, pods = max(FUNCTIONS * 40, int(ACTIVATIONS * scale)), max(2, int(PODS * scale))
    sizes = []
    with tempfile.TemporaryDirectory(prefix="retention-") as place:
        kept = KEPT * _DAY
        settings = Settings(
            store=StoreSettings(
                path=Path(place) / "history.duckdb",
                snapshot=Path(place) / "snapshot",
                retain_usage=kept,
                retain_activations=kept,
                retain_placements=kept,
                retain_decisions=kept,
            )
        )
        store = Store(settings.store.path)
        days = histories.history(count * DAYS, _END, days=DAYS, functions=FUNCTIONS, nodes=NODES)
        for number, rows in enumerate(days):
            first = _END - (DAYS - number) * _DAY
            for until, batch in _collections(rows, pods, first):
                ingest(store, "bench", batch, collected=until, overlap=timedelta(minutes=10), started=until)
            now = first + _DAY
            if number % LEARNED == 0:
                learn.run(settings, "bench", now=lambda at=now: at, store=store)  # type: ignore[misc]
            learn.retain(settings, store, now)
            sizes.append(settings.store.path.stat().st_size)
            told(number + 1, sizes[-1])
    return sizes


def _collections(rows: pa.Table, pods: int, first: datetime) -> Iterator[tuple[datetime, Batch]]:
    """Yield the batches of a day from *first* on, in order of their collection."""
    step = _DAY / COLLECTIONS
    for number in range(COLLECTIONS):
        since, until = first + number * step, first + (number + 1) * step
        after = pc.greater_equal(rows["start"], pa.scalar(since, _TIME))
        part = rows.filter(pc.and_(after, pc.less(rows["start"], pa.scalar(until, _TIME))))
        yield until, Batch("activations", rows=part, watermark=until)
        yield until, Batch("usage", scope="pod", rows=_samples(pods, since, until), watermark=until)


def _samples(pods: int, since: datetime, until: datetime) -> pa.Table:
    """Return samples of *pods* every five minutes."""
    metrics = METRICS["pod"]
    times = np.arange(int(since.timestamp()), int(until.timestamp()), 300, dtype=np.int64) * 1_000_000
    n = pods * len(metrics) * len(times)
    made = {
        "scope": pa.array(["pod"] * n),
        "namespace": pa.array(["openwhisk"] * n),
        "name": pa.array(np.repeat([f"pod-{number}" for number in range(pods)], n // pods)),
        "metric": pa.array(np.tile(np.repeat(metrics, len(times)), pods)),
        "at": pa.array(np.tile(times, pods * len(metrics))).cast(_TIME),
        "value": pa.array(np.random.default_rng(int(since.timestamp())).random(n)),
    }
    schema = TABLES["usage"]
    return pa.table({name: made[name] for name in schema.names}).cast(schema)
