"""Ingestion of OpenWhisk records in pages to committed, deduplicated rows, beside the bare reading of them."""

import multiprocessing
import os
import re
import statistics
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from benchmarks.activation_pages import NEWEST, pages
from benchmarks.figures import Figure, interleaved
from benchmarks.killing import kill_repeatedly
from featurestore.store import ingest
from featurestore.store.duck import Store, staging
from pipeline.records import Batch

T = TypeVar("T")

#: Records at full scale, and a page as OpenWhisk's default maximum gives it.
RECORDS, PAGE = 1_000_000, 200
ROUNDS = 7
#: Share of the floor's rate to reach.
GOAL = 0.60

# The columns of a record that a row is made of, as the reader itself sees them.
_FLOOR = """
CREATE OR REPLACE TEMP TABLE pages AS
SELECT activationId, namespace, name, version, "start", "end", duration, response, annotations FROM read_json(?)
"""


def run(scale: float = 1.0) -> list[Figure]:
    """Measure 1,000,000 x *scale* records; rates in records a second, memory in MB."""
    with tempfile.TemporaryDirectory(prefix="ingestion-") as place:
        directory = Path(place)
        files = tuple(pages(directory / "pages", max(PAGE, int(RECORDS * scale)), page=PAGE))
        count = max(PAGE, int(RECORDS * scale))
        stores = [Store(directory / f"{number}.duckdb") for number in range(ROUNDS + 1)]
        for store in stores:
            store.read(lambda con: None)  # made and migrated once in the life of an installation
        fresh = iter(stores)
        with staging(directory / "spill") as con:
            texts = [str(file) for file in files]
            taken = interleaved(
                {"product": lambda: _ingest(next(fresh), files), "floor": lambda: con.execute(_FLOOR, [texts])},
                ROUNDS,
            )
        for store in stores:
            if (rows := _rows(store)) != count:
                raise AssertionError(f"{store.path}: {rows} rows of {count} records")
        memory = _peak(_ingest_once, directory, files)
        reading = _peak(_read_once, directory, files)
        repeated = _again(directory, files)
    rate, floor = count / taken["product"].median, count / taken["floor"].median
    # Round by round, so that a slow minute hits both sides of a ratio.
    ratio = statistics.median(
        bare / whole for bare, whole in zip(taken["floor"].seconds, taken["product"].seconds, strict=True)
    )
    note = f"{count:,} records in {len(files):,} files; floor: CREATE TEMP TABLE AS SELECT ... FROM read_json"
    return [
        Figure(
            "ingestion",
            rate,
            "records/s",
            floor,
            ratio,
            taken["product"].spread,
            f"ratio >= {GOAL:.2f}",
            ratio >= GOAL,
            note,
        ),
        Figure("ingestion of known records", repeated, "rows added", goal="0", met=repeated == 0),
        Figure("peak memory of ingestion", memory, "MB", reading, memory / reading, note="floor: the bare reading"),
    ]


def soak(scale: float = 1.0) -> list[Figure]:
    """Kill ingestion 500 x *scale* times with SIGKILL; nothing committed may be lost, doubled or half there."""
    with tempfile.TemporaryDirectory(prefix="killed-") as place:
        after = kill_repeatedly(Path(place), max(1, int(500 * scale)), seed=os.getpid())
    note = f"{after.kills} kills, {after.batches} batches acknowledged"
    counts = {"lost": after.lost, "half": after.halves, "doubled": after.doubles}
    return [
        Figure(f"{name} after kill -9", n, "found", goal="0", met=n == 0, note=note) for name, n in counts.items()
    ]


def _ingest(store: Store, files: tuple[Path, ...]) -> ingest.Written:
    batch = Batch("activations", files=files, watermark=NEWEST)
    return ingest.ingest(store, "bench", batch, collected=NEWEST, overlap=timedelta(minutes=10))


def _rows(store: Store) -> int:
    [[rows]] = store.read(lambda con: con.execute("SELECT count(*) FROM activations").fetchall())
    return int(rows)


def _again(directory: Path, files: tuple[Path, ...]) -> int:
    store = Store(directory / "again.duckdb")
    _ingest(store, files)
    return _ingest(store, files).rows


def _ingest_once(directory: Path, files: tuple[Path, ...]) -> None:
    _ingest(Store(directory / "memory.duckdb"), files)


def _read_once(directory: Path, files: tuple[Path, ...]) -> None:
    with staging(directory / "spill") as con:
        con.execute(_FLOOR, [[str(file) for file in files]])


def _peak(work: Callable[[Path, tuple[Path, ...]], None], directory: Path, files: tuple[Path, ...]) -> float:
    return measured_peak(work, directory, files)


def measured_peak(work: Callable[..., None], *arguments: object) -> float:
    """Return the peak resident memory, in MB, of a fresh process that does *work*."""
    return alone(_measured, work, *arguments)


def alone(work: Callable[..., T], *arguments: object) -> T:
    """Return what a fresh process returns of *work*, which may have processes of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def _measured(work: Callable[..., None], *arguments: object) -> float:
    work(*arguments)
    return peak()


def peak() -> float:
    """Return the peak resident memory of this process, in MB."""
    # Unlike the resource usage of the process, this one does not begin with what the parent needed.
    [found] = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    return int(found) / 1024
