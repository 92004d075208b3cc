"""A long history learned at once, by one fit: from one file to the published snapshot, with the time of each step.

The history is the simulator's: 1,000 functions on 100 nodes over ten days. It is learned in a process of its own, so
that its peak of memory is learning's, DuckDB's included. Steps are timed where they are called: several that run
inside another are told apart only where both are named here. The processor's time of fits is in part another's: what
needs none of them, and what activations used, is worked on and written beside them.
"""

import importlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ParamSpec, TypeVar

from benchmarks import histories
from benchmarks.figures import Figure
from benchmarks.ingestion import alone, peak
from featurestore.store.duck import Store
from featurestore.store.ingest import ingest
from jobs import learn
from jobs.config import LearnSettings, Settings, StoreSettings
from pipeline.records import Batch

#: Activations at full size, the days that they are of, and the seconds of the clock that learning them may take.
ACTIVATIONS, DAYS, MOST_SECONDS = 10_000_000, 10, 60.0
#: Seconds that one transaction may hold the store's file: collection goes on beside.
MOST_HELD = 2.0

_HELD = "longest transaction"
_END = datetime(2024, 6, 3, 12, tzinfo=UTC)
#: The steps in their order, by the module that calls them and the name that it calls.
_STEPS: Mapping[str, tuple[str, str]] = {
    "copied out of the file": ("jobs.learn", "_inputs"),
    "attributed and read as runs": ("featurestore.engines.local", "prepare"),
    "profiles": ("featurestore.profiles", "amounts"),
    "exposures": ("featurestore.engines.local", "expose"),
    "fits, and blocks of days reduced": ("featurestore.engines.local", "_fitted"),
    "blocks folded": ("featurestore.engines.concluding", "begin"),
    "predictions": ("featurestore.interference.pairs", "predictions"),
    "how well probabilities are kept": ("featurestore.interference.pairs", "reliability"),
    "decision": ("featurestore.engines.candidate", "decide"),
    "saved and published": ("jobs.learn", "saved"),
}

P = ParamSpec("P")
R = TypeVar("R")
Taken = dict[str, tuple[float, float]]


def run(scale: float = 1.0) -> list[Figure]:
    """Measure learning 10,000,000 x *scale* activations of 1,000 functions."""
    count = 0
    with tempfile.TemporaryDirectory(prefix="learning-at-once-") as directory:
        place = Path(directory)
        store = Store(_settings(place, 1).store.path)
        for rows in histories.history(round(ACTIVATIONS * scale), _END, days=DAYS):
            batch = Batch("activations", rows=rows, watermark=_END)
            ingest(store, "bench", batch, collected=_END, overlap=timedelta(minutes=10), started=_END)
            count += rows.num_rows
        taken, most = alone(_learn, place, count)
    seconds, busy = taken.pop("")
    held = taken.pop(_HELD)[0]
    whole = scale >= 1
    return [
        Figure(
            f"learning {count:,} activations of {histories.FUNCTIONS:,} functions at once",
            seconds,
            "s",
            goal=f"at most {MOST_SECONDS:g} s" if whole else "",
            met=seconds <= MOST_SECONDS if whole else None,
            note=f"processor {busy:.1f} s, store to snapshot",
        ),
        Figure("peak memory of that", most, "MB"),
        Figure(
            "store's file held at once, at most",
            held,
            "s",
            goal=f"at most {MOST_HELD:g} s" if whole else "",
            met=held <= MOST_HELD if whole else None,
        ),
        *(
            Figure(f"{name}, of that", step, "s", seconds, step / seconds, note=f"processor {own:.1f} s")
            for name, (step, own) in taken.items()
        ),
    ]


def _settings(place: Path, most: int) -> Settings:
    store = StoreSettings(path=place / "history.duckdb", snapshot=place / "snapshot")
    return Settings(store=store, learn=LearnSettings(activations=most))


def _learn(place: Path, count: int) -> tuple[Taken, float]:
    """Return the seconds of the clock and of the processor, in all ("") and by step, and the peak of memory."""
    taken: Taken = dict.fromkeys(("", *_STEPS), (0.0, 0.0))
    for name, (module, attribute) in _STEPS.items():
        caller = importlib.import_module(module)
        setattr(caller, attribute, _timed(getattr(caller, attribute), name, taken))
    taken[_HELD] = (0.0, 0.0)
    for name in ("read", "write"):
        setattr(Store, name, _longest(getattr(Store, name), taken))
    settings = _settings(place, 2 * count)
    _timed(learn.run, "", taken)(settings, "bench", now=lambda: _END)
    return taken, peak()


def _timed(work: Callable[P, R], name: str, taken: Taken) -> Callable[P, R]:
    def timed(*arguments: P.args, **named: P.kwargs) -> R:
        with _adding(name, taken):
            return work(*arguments, **named)

    return timed


def _longest(work: Callable[P, R], taken: Taken) -> Callable[P, R]:
    """Keep the seconds of the longest call; nobody else has the file, so that no call waits for it."""

    def timed(*arguments: P.args, **named: P.kwargs) -> R:
        clock = time.perf_counter()
        try:
            return work(*arguments, **named)
        finally:
            taken[_HELD] = (max(taken[_HELD][0], time.perf_counter() - clock), 0.0)

    return timed


@contextmanager
def _adding(name: str, taken: Taken) -> Iterator[None]:
    clock, busy = time.perf_counter(), time.process_time()
    try:
        yield
    finally:
        before = taken[name]
        taken[name] = (before[0] + time.perf_counter() - clock, before[1] + time.process_time() - busy)
