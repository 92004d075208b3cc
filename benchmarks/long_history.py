"""Learning from more than fits into memory: the peak by the length of a history, and a hundred days in turn.

The history is the simulator's: 1,000 functions on 100 nodes, a million activations a day, each day imported from a
Parquet file. What is measured is a process that learns from a store which others filled, so that its peak is
learning's own, DuckDB's included.
"""

import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks import histories
from benchmarks.figures import Figure
from benchmarks.ingestion import alone, peak
from jobs import importing, learn
from jobs.config import LearnSettings, Settings, StoreSettings

#: Activations a day, days of the soak, and days at which the peak is measured.
A_DAY, DAYS, SIZES = 1_000_000, 100, (1, 2, 4)
#: What learning may take of memory, MB; and by how much its peak may be larger for four days than for one.
MOST_MEMORY, GROWN = 2048.0, 1.1

#: So many activations are learned from together: fewer than is usual, so that the process stays below `MOST_MEMORY`.
_TOGETHER = 300_000
_BEGIN = datetime(2024, 3, 1, tzinfo=UTC)
_DAY = timedelta(days=1)


def run(scale: float = 1.0) -> list[Figure]:
    """Measure the peak of learning from one, two and four days at once, of so many activations times *scale*."""
    found = [_learned(days, scale) for days in SIZES]
    least = found[0][0]
    return [
        Figure(
            f"memory of learning from {days * A_DAY * scale:,.0f} activations",
            peak,
            "MB",
            least,
            peak / least,
            goal=f"at most {GROWN} times that of one day, under {MOST_MEMORY:,.0f} MB",
            met=peak <= min(GROWN * least, MOST_MEMORY),
            note=f"{seconds:,.0f} s of processor time",
        )
        for days, (peak, seconds) in zip(SIZES, found, strict=True)
    ]


def soak(scale: float = 1.0) -> list[Figure]:
    """Learn 100 x *scale* days, each when it has ended, of a million activations of 1,000 functions times *scale*
    squared: a tenth is ten days of 10,000."""
    days, size = max(3, round(DAYS * scale)), scale * scale
    most, seconds = _learned(days, size, functions=max(50, round(histories.FUNCTIONS * size)), each=True)
    return [
        Figure(
            f"memory of learning {days * A_DAY * size:,.0f} activations day by day",
            most,
            "MB",
            goal=f"under {MOST_MEMORY:,.0f} MB",
            met=most <= MOST_MEMORY,
            note=f"{days} days, {seconds:,.0f} s of processor time",
        )
    ]


def _learned(
    days: int, scale: float, *, functions: int = histories.FUNCTIONS, each: bool = False
) -> tuple[float, float]:
    """Return the peak, in MB, and the processor seconds of a process that learns from so many *days*."""
    with tempfile.TemporaryDirectory(prefix="long-history-") as place:
        settings = _settings(Path(place), scale)
        ends = [_BEGIN + number * _DAY for number in range(1, days + 1)]
        count, nodes = round(days * A_DAY * scale), max(5, functions // 10)
        made = histories.history(count, ends[-1], days=days, functions=functions, nodes=nodes)
        for at, rows in zip(ends, made, strict=True):
            file = Path(place, "day.parquet")
            pq.write_table(rows, file)
            importing.run(settings, "activations", [file], cluster="bench", now=lambda at=at: at)  # type: ignore[misc]
        ends = ends if each else ends[-1:]
        return alone(_learn, Path(place), scale, ends)


def _settings(place: Path, scale: float) -> Settings:
    """Return settings under which a day that has ended is folded: full fits come where evidence grew by half."""
    learning = LearnSettings(activations=max(1000, round(_TOGETHER * scale)), full_every=2 * DAYS * _DAY)
    return Settings(store=StoreSettings(path=place / "history.duckdb", snapshot=place / "snapshot"), learn=learning)


def _learn(place: Path, scale: float, ends: list[datetime]) -> tuple[float, float]:
    settings = _settings(place, scale)
    for end in ends:
        began = time.process_time()
        found = learn.run(settings, "bench", now=lambda at=end: at)  # type: ignore[misc]
        print(
            f"{end:%m-%d}: {found.activations:,} activations, {time.process_time() - began:.0f} s, {peak():,.0f} MB",
            flush=True,
        )
    return peak(), time.process_time()
