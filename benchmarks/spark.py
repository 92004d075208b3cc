"""A full fit on two Spark workers beside the same on this machine: store or tables to the published snapshot.

Spark's own ``local-cluster`` is taken: a master and two workers of one core, each with a virtual machine and
processes of Python of its own. The local engine has as many threads. What Spark takes to start is told apart: that
of the session, and, before anything is measured, a fit of a small history on either side. The driver and the local
engine learn in processes of their own, so that their peaks of memory are their own.

Then the local engine learns the same again under a bound on the memory of its process, the largest that any process
of Python of Spark's needed, and fails where that is too little for it.

Each part is told also where another fails. Both engines learn the small history first, so that what does not work at
all fails before the large one is made; ``COLOCATION_SPARK_STORES=DIRECTORY`` keeps what is made for the next run.
"""

import importlib.util
import json
import math
import multiprocessing
import os
import resource
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import histories
from benchmarks.figures import Figure
from benchmarks.ingestion import peak
from benchmarks.learning_at_once import DAYS
from featurestore.engines.spark.session import session
from featurestore.store import models
from featurestore.store.duck import Store
from featurestore.store.ingest import ingest
from jobs import learn, sparking
from jobs.config import LearnSettings, Settings, StoreSettings
from jobs.exporting.parquet import export
from pipeline.records import Batch

#: Activations at scale 1 of 1,000 functions on 100 nodes, which are fewer as well at a smaller scale; ten times as
#: many are asked for: scale 10, the history of `learning_at_once`. The small history has so many.
ACTIVATIONS, SMALL = 1_000_000, 20_000
MASTER = "local-cluster[2,1,4096]"
#: Of virtual machines that live for minutes, and only hand bytes on: compiling it well takes longer than it all does.
SHORT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.executor.memory": "3g",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": SHORT,
    "spark.executor.extraJavaOptions": SHORT,
}
#: Most that Spark may take of what the local engine takes, and that a number of theirs may differ by.
GOAL, SAME = 2.0, 1e-9
#: Names a directory where stores and tables stay for the next run.
STORES = "COLOCATION_SPARK_STORES"
#: Seconds that a process has to end after it has answered.
_ENDING = 30.0
END = datetime(2024, 6, 3, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Fit:
    """What one fit took: *seconds*, the *start* of Spark before, the *peak* of process *pid* in MB; or how it
    *failed*."""

    seconds: float = 0.0
    start: float = 0.0
    peak: float = 0.0
    pid: int = 0
    failed: str = ""


def run(scale: float = 1.0) -> list[Figure]:
    """Measure 1,000,000 x *scale* activations; nothing where the extra ``[spark]`` or Java is missing."""
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        print("\nspark: left out, for it needs the extra [spark] and Java")
        return []
    size = min(scale, 1.0)
    functions, nodes = max(20, int(histories.FUNCTIONS * size)), max(3, int(histories.NODES * size))
    with tempfile.TemporaryDirectory(prefix="spark-") as directory:
        place = Path(directory)
        stores = Path(os.environ.get(STORES) or place / "stores")
        _filled(stores, "small", SMALL, 20, 3)
        for part in (_locally, _on_spark):
            _lent(place, stores, "small")
            if failed := _apart(part, place).failed:
                raise RuntimeError(f"not even the small history is learned: {failed}")
        name = f"{round(ACTIVATIONS * scale)}"
        count = _filled(stores, name, round(ACTIVATIONS * scale), functions, nodes)
        _lent(place, stores, "small", name)
        local = _apart(_locally, place, name)
        _lent(place, stores, "small")
        spark = _apart(_on_spark, place, name)
        told: Mapping[str, Any] = {"steps": {}}
        apart = math.nan
        if not (local.failed or spark.failed):
            store = Store(place / name / "history.duckdb")
            other, own = store.read(lambda con: models.saved(con, "bench"))[:2]  # the newest first
            told = other.metrics["engine"]
            print(json.dumps(told, indent=1))
            apart = _difference(store, own, other)
        largest = max([spark.peak, *(step["peak_mb"] for step in told["steps"].values())])
        bounded = Fit(failed="not tried")
        if largest:
            _lent(place, stores, "small", name)
            bounded = _apart(_locally, place, name, largest, patience=60 + 3 * local.seconds)
    return _figures(f"{count:,} activations of {functions:,} functions", scale, (local, spark, bounded), told, apart)


def _figures(
    what: str, scale: float, parts: tuple[Fit, Fit, Fit], told: Mapping[str, Any], apart: float
) -> list[Figure]:
    """Return the figures of the *parts*: the local engine, Spark, and the local engine under a bound; *told* of
    Spark's steps, *apart* how far the pair tables are."""
    local, spark, bounded = parts
    steps = told["steps"].values()
    processes = {process for step in steps for process in step["processes"]}
    driver = {process for process in processes if process.endswith(f":{spark.pid}")}
    worker = max([0.0, *(step["peak_mb"] for step in steps)])
    failed = "; ".join(f"{name}: {part.failed}" for name, part in (("local", local), ("Spark", spark)) if part.failed)
    ratio = math.nan if failed else spark.seconds / local.seconds
    return [
        Figure("start of Spark", spark.start, "s"),
        Figure(
            "learning on Spark, two workers",
            spark.seconds,
            "s",
            local.seconds or None,
            ratio,
            goal=f"ratio <= {GOAL:g}",
            met=ratio <= GOAL,
            note=failed or f"{what}; floor: the local engine",
        ),
        Figure("workers' processes that ran the kernels", len(processes), "", goal=">= 2", met=len(processes) >= 2),
        Figure("of them the driver", len(driver), "", goal="0", met=not driver),
        Figure("pair tables, largest difference", apart, "", goal=f"<= {SAME:g}", met=apart <= SAME),
        Figure("peak memory of the local engine", local.peak, "MB"),
        *(
            Figure(f"peak memory of Spark's {name}", own, "MB", local.peak or None, own / (local.peak or math.nan))
            for name, own in (("driver, in Python", spark.peak), ("largest worker, in Python", worker))
        ),
        Figure(
            "the local engine fails where its process has no more than the larger of these",
            float(bool(bounded.failed)),
            "",
            goal="1" if scale >= 10 else "",
            met=bool(bounded.failed) and bool(max(spark.peak, worker)) if scale >= 10 else None,
            note=bounded.failed or f"learned, its peak {bounded.peak:.0f} MB",
        ),
    ]


def _filled(stores: Path, name: str, count: int, functions: int, nodes: int) -> int:
    """Make a store and tables with about *count* activations, where they are not yet; return how many they are."""
    done = stores / name / "activations"
    if not done.exists():
        shutil.rmtree(done.parent, ignore_errors=True)
        done.parent.mkdir(parents=True)
        store, filled = Store(done.parent / "history.duckdb"), 0
        for rows in histories.history(count, END, days=DAYS, functions=functions, nodes=nodes):
            batch = Batch("activations", rows=rows, watermark=END)
            ingest(store, "bench", batch, collected=END, overlap=timedelta(minutes=10))
            filled += rows.num_rows
        export(store, done.parent / "tables")
        done.write_text(f"{filled}")
    return int(done.read_text())


def _lent(place: Path, stores: Path, *names: str) -> None:
    """Put copies of stores, which nothing was learned in yet, beside their tables into *place*."""
    for name in names:
        own = place / name
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir()
        shutil.copy(stores / name / "history.duckdb", own / "history.duckdb")
        (own / "tables").symlink_to((stores / name / "tables").resolve())


def _settings(place: Path) -> Settings:
    store = StoreSettings(path=place / "history.duckdb", snapshot=place / "snapshot")
    return Settings(store=store, learn=LearnSettings(activations=100 * ACTIVATIONS))


def _apart(work: Callable[..., Fit], *arguments: object, patience: float | None = None) -> Fit:
    """Return what *work* says in a process of its own, also where that is ended, by itself or after *patience*
    (seconds): threads that lack memory may take the process with them, or wait for each other for good."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(there, work, *arguments))
    process.start()
    there.close()
    try:
        found = (
            here.recv() if here.poll(patience) else Fit(failed=f"the process did nothing more in {patience:.0f} s")
        )
        process.join(0 if found.failed else _ENDING)
    except EOFError:
        process.join()
        found = Fit(failed=f"the process ended with {process.exitcode}")
    if process.is_alive():
        process.kill()
        process.join()
    return found


def _answer(there: Any, work: Callable[..., Fit], *arguments: object) -> None:
    try:
        there.send(work(*arguments))
    except Exception as error:
        resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        there.send(Fit(failed=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"))
        traceback.print_exc()


def _locally(place: Path, name: str = "", bound: float = 0.0) -> Fit:
    """Learn the small history with the local engine, then that of *name*, if any, in *bound* MB of data, if any."""
    learn.run(_settings(place / "small"), "bench", now=lambda: END, full=True)
    if not name:
        return Fit()
    if bound:
        resource.setrlimit(resource.RLIMIT_DATA, (round(bound * 1024**2), resource.RLIM_INFINITY))
    began = time.perf_counter()
    learn.run(_settings(place / name), "bench", now=lambda: END, full=True)
    return Fit(time.perf_counter() - began, peak=peak(), pid=os.getpid())


def _on_spark(place: Path, *names: str) -> Fit:
    """Learn the small history on Spark, then those of *names*; what is told is of the last."""
    (place / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in SETTINGS.items()))
    repository = str(Path(__file__).resolve().parents[1])
    os.environ |= {"SPARK_CONF_DIR": str(place), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": repository}
    began = time.perf_counter()
    with session(MASTER) as spark:
        start = time.perf_counter() - began
        for each in (place / name for name in ("small", *names)):
            began, settings = time.perf_counter(), _settings(each)
            sparking.run_in(
                spark,
                settings,
                "bench",
                tables=str(each / "tables"),
                now=lambda: END + timedelta(seconds=1),  # a model is named by its moment
                store=Store(settings.store.path),
            )
        return Fit(time.perf_counter() - began, start, peak(), os.getpid())


def _difference(store: Store, own: models.Model, other: models.Model) -> float:
    """Return the largest difference of two models' numbers for a pair, infinity where they know other pairs."""
    keys = ["victim", "aggressor", "node_type"]
    found = store.read(lambda con: [models.table(con, model, "pairs") for model in (own, other)])
    one, two = (table.to_pandas().sort_values(keys) for table in found)
    numbers = one.select_dtypes("number").columns
    texts = one.columns.difference(numbers)
    if not one[texts].astype(str).reset_index(drop=True).equals(two[texts].astype(str).reset_index(drop=True)):
        return float("inf")
    first, second = (each[numbers].to_numpy(np.float64) for each in (one, two))
    if (np.isnan(first) != np.isnan(second)).any():
        return float("inf")
    return float(np.nanmax(np.abs(first - second), initial=0.0))
