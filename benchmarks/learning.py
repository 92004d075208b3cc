"""Learning through the product: full fits, five-minute increments, memory by size, and the days folded again.

A simulated cluster's records are stretched to the days that they stand for and put into a store; what is timed is the
whole run of ``colocate learn`` on it, from the file to the published snapshot.
"""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import simulator
from benchmarks.figures import Figure, timing
from benchmarks.ingestion import measured_peak
from featurestore.store import models
from featurestore.store.duck import Store
from featurestore.store.ingest import ingest
from jobs import learn, refold
from jobs.config import Settings, StoreSettings
from pipeline.columns import TABLES
from pipeline.records import Batch

#: When the simulated histories end.
END = datetime(2024, 6, 3, 12, tzinfo=UTC)
STEP = timedelta(minutes=5)
SEED = 90_101
#: Activations at full scale, of 40 functions over two days; and the sizes at which memory is measured.
ACTIVATIONS = 60_000
SIZES = (60_000, 120_000, 240_000)
ROUNDS = 7


def run(scale: float = 1.0) -> list[Figure]:
    """Measure 60,000 x *scale* activations of 40 functions over two days."""
    count = round(ACTIVATIONS * scale)
    with tempfile.TemporaryDirectory(prefix="learning-") as place:
        rows = activations(count)
        settings = _settings(Path(place))
        store = Store(settings.store.path)
        held = ROUNDS + 1
        _fill(store, rows, None, END - held * STEP)
        moments = [END - held * STEP + timedelta(seconds=turn) for turn in range(3)]  # a model is named by its moment
        full = [_timed(settings, store, moment, full=True) for moment in moments]
        steps = []
        for number in range(held, 0, -1):
            _fill(store, rows, END - number * STEP, END - (number - 1) * STEP)
            steps.append(_timed(settings, store, END - (number - 1) * STEP))
        distance = _distance(settings, store)
    fitted, step = timing(full), timing(steps[1:])
    note = f"{rows.num_rows:,} activations of 40 functions over 2 days, store to snapshot"
    return [
        Figure("full fit", fitted.median, "s", None, None, fitted.spread, "<= 8, aim 5", fitted.median <= 8, note),
        Figure(
            "increment of 5 minutes",
            step.median,
            "s",
            fitted.median,
            step.median / fitted.median,
            step.spread,
            "<= 1",
            step.median <= 1,
            note,
        ),
        *distance,
        *_memory(scale),
    ]


def _distance(settings: Settings, store: Store) -> list[Figure]:
    """Return how far the folded days lay from the one-shot fit before they were corrected to it, in its standard
    errors; how far the closed days alone lie from a full fit of all; and the stored days folded again."""
    again = refold.again(settings, store, "bench")
    first = store.read(lambda con: models.saved(con, "bench"))[0].metrics["distance"]
    _timed(settings, store, END + timedelta(seconds=1), full=True)
    strayed = store.read(lambda con: models.saved(con, "bench"))[0].metrics["distance"]["before"]
    return [
        _at_most("distance of the fold to the one-shot fit, typical", first["typical"], "se", 0.5),
        _at_most("distance of the fold to the one-shot fit, largest", first["largest"], "se", 2.0),
        Figure("distance of the closed days alone to the next full fit of all, largest", strayed, "se"),
        _at_most("stored days folded again against the state", again, "", refold.AGREES),
    ]


def _at_most(name: str, value: float, unit: str, most: float) -> Figure:
    return Figure(name, value, unit, goal=f"<= {most:g}", met=value <= most)


def _memory(scale: float) -> list[Figure]:
    """Return the peak memory of full fits at three sizes, less that of a fit of next to nothing, per activation."""
    sizes = [round(size * scale) for size in SIZES]
    least, *peaks = [_peak(size) for size in (200, *sizes)]
    found = []
    for size, peak in zip(sizes, peaks, strict=True):
        each = (peak - least) * 2**20 / size
        first = (peaks[0] - least) * 2**20 / sizes[0]
        found.append(
            Figure(
                f"memory of a full fit of {size:,}",
                peak,
                "MB",
                least,
                peak / least,
                goal="bytes an activation: no more than at the smallest",
                met=each <= 1.1 * first,
                note=f"{each:,.0f} bytes an activation; floor: 200 activations",
            )
        )
    return found


def _peak(count: int) -> float:
    """Return the peak memory, in MB, of a process that learns from a store that others have filled."""
    with tempfile.TemporaryDirectory(prefix="learning-") as place:
        _fill(Store(_settings(Path(place)).store.path), activations(count), None, END)
        return measured_peak(_learn_once, Path(place))


def _learn_once(place: Path) -> None:
    learn.run(_settings(place), "bench", now=lambda: END)


def _settings(place: Path) -> Settings:
    return Settings(store=StoreSettings(path=place / "history.duckdb", snapshot=place / "snapshot"))


def _timed(settings: Settings, store: Store, at: datetime, *, full: bool = False) -> float:
    began = datetime.now(UTC)
    learn.run(settings, "bench", now=lambda: at, store=store, full=full)
    return (datetime.now(UTC) - began).total_seconds()


def _fill(store: Store, rows: pa.Table, since: datetime | None, until: datetime) -> None:
    """Put in what ended from *since* to *until*, as collections bring it."""
    end = rows["end"].cast(pa.int64()).to_numpy()
    low = -np.inf if since is None else since.timestamp() * 1e6
    part = rows.filter(pa.array((end >= low) & (end < until.timestamp() * 1e6)))
    batch = Batch("activations", rows=part, watermark=until)
    ingest(store, "bench", batch, collected=until, overlap=timedelta(minutes=10))


def activations(count: int, days: float = 2.0, seed: int = SEED, **setting: float) -> pa.Table:
    """Return about *count* activations of a simulated cluster over the *days* up to `END`, as rows of the store."""
    world = simulator.world(seed, simulator.Setting(activations=count, days=days, **setting))  # type: ignore[arg-type]
    records = simulator.run(world)
    return rows_of(records, world, days)


def rows_of(records: simulator.Records, world: simulator.World, days: float) -> pa.Table:
    """Return *records* stretched over the *days* up to `END`: who ran beside whom for which share stays the same."""
    n = len(records.start)
    last = float(records.end.max())
    stretch = days * 86_400 / last

    def time(seconds: simulator.Floats) -> pa.Array:
        at = END.timestamp() + (seconds - last) * stretch
        return pa.array(np.round(at * 1e6).astype(np.int64)).cast(pa.timestamp("us", tz="UTC"))

    columns = {
        "activation_id": pa.array([f"{number:032x}" for number in range(n)]),
        "function": pa.array(np.char.add("guest/f", records.function.astype(str))),
        "version": pa.array(np.char.add("0.0.", (records.version + 1).astype(str))),
        "start": time(records.start),
        "end": time(records.end),
        "duration_ms": pa.array((records.end - records.start) * stretch * 1000),
        "init_ms": pa.array(records.initialisation * stretch * 1000, mask=~records.cold),
        "status_code": pa.array(np.zeros(n, np.int32)),
        "memory_mb": pa.array(np.full(n, 256, np.int32)),
        "composite": pa.array(np.zeros(n, bool)),
        "kind": pa.array(["python:3"] * n),
        "caused_by": pa.array([""] * n),
        "node": pa.array([f"n{node}" if node >= 0 else None for node in records.node.tolist()]),
        "node_type": pa.array([f"t{world.node_type[node]}" if node >= 0 else None for node in records.node.tolist()]),
    }
    schema = TABLES["activations"]
    return pa.table({name: columns.get(name, pa.nulls(n, schema.field(name).type)) for name in schema.names}).cast(
        schema
    )
