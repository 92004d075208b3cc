"""A full fit on two Spark workers beside the same on this machine: store or tables to the published snapshot.

Spark's own ``local-cluster`` is taken: a master and two workers of one core, each with a virtual machine and
processes of Python of its own. The local engine has as many threads. What Spark takes to start is told apart.
"""

import importlib.util
import json
import os
import shutil
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import histories
from benchmarks.figures import Figure, interleaved
from featurestore.engines.spark.session import session
from featurestore.store import models
from featurestore.store.duck import Store
from featurestore.store.ingest import ingest
from jobs import learn, sparking
from jobs.config import Settings, StoreSettings
from jobs.exporting.parquet import export
from pipeline.records import Batch

#: Activations at scale 1, over two days, of 1,000 functions on 100 nodes, which are fewer as well at a smaller scale;
#: ten times as many are asked for: scale 10.
ACTIVATIONS, DAYS = 1_000_000, 2
MASTER = "local-cluster[2,1,4096]"
SETTINGS = {"spark.executor.memory": "1g", "spark.driver.memory": "2g", "spark.driver.host": "127.0.0.1"}
END = datetime(2024, 6, 3, 12, tzinfo=UTC)
ROUNDS = 1
#: Most that Spark may take of what the local engine takes, and that a number of theirs may differ by.
GOAL, SAME = 2.0, 1e-9


def run(scale: float = 1.0) -> list[Figure]:
    """Measure 1,000,000 x *scale* activations; nothing where the extra ``[spark]`` or Java is missing."""
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        print("\nspark: left out, for it needs the extra [spark] and Java")
        return []
    with tempfile.TemporaryDirectory(prefix="spark-") as directory:
        place = Path(directory)
        settings = Settings(store=StoreSettings(path=place / "history.duckdb", snapshot=place / "snapshot"))
        store = Store(settings.store.path)
        count = 0
        size = min(scale, 1.0)
        functions, nodes = max(20, int(histories.FUNCTIONS * size)), max(3, int(histories.NODES * size))
        given = histories.history(round(ACTIVATIONS * scale), END, days=DAYS, functions=functions, nodes=nodes)
        for rows in given:
            batch = Batch("activations", rows=rows, watermark=END)
            ingest(store, "bench", batch, collected=END, overlap=timedelta(minutes=10))
            count += rows.num_rows
        export(store, place / "tables")
        _configure(place)
        began = time.perf_counter()
        with session(MASTER) as spark:
            start = time.perf_counter() - began
            return [
                Figure("start of Spark", start, "s"),
                *_measure(spark, settings, store, place / "tables", (count, functions)),
            ]


def _configure(place: Path) -> None:
    (place / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in SETTINGS.items()))
    repository = str(Path(__file__).resolve().parents[1])
    os.environ |= {"SPARK_CONF_DIR": str(place), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": repository}


def _measure(spark: Any, settings: Settings, store: Store, tables: Path, size: tuple[int, int]) -> list[Figure]:
    turn = 0

    def now() -> datetime:  # a model is named by its moment
        return END + timedelta(seconds=turn)

    def local() -> None:
        nonlocal turn
        turn += 1
        learn.run(settings, "bench", now=now, full=True, store=store)

    def on_spark() -> None:
        nonlocal turn
        turn += 1
        sparking.run_in(spark, settings, "bench", tables=str(tables), now=now, store=store)

    taken = interleaved({"local": local, "spark": on_spark}, ROUNDS)
    own, other = store.read(lambda con: models.saved(con, "bench"))[:2]  # the newest first
    steps = own.metrics["engine"]["steps"]
    print(json.dumps(own.metrics["engine"], indent=1))
    processes = {process for step in steps.values() for process in step["processes"]}
    inside = {process for process in processes if process.endswith(f":{os.getpid()}")}
    apart = _apart(store, own, other)
    ratio = taken["spark"].median / taken["local"].median
    return [
        Figure(
            "learning on Spark, two workers",
            taken["spark"].median,
            "s",
            taken["local"].median,
            ratio,
            taken["spark"].spread,
            f"ratio <= {GOAL:g}",
            ratio <= GOAL,
            f"{size[0]:,} activations of {size[1]:,} functions; floor: the local engine, {ROUNDS} rounds",
        ),
        Figure("workers' processes that ran the kernels", len(processes), "", goal=">= 2", met=len(processes) >= 2),
        Figure("of them this very process", len(inside), "", goal="0", met=not inside),
        Figure("pair tables, largest difference", apart, "", goal=f"<= {SAME:g}", met=apart <= SAME),
    ]


def _apart(store: Store, own: models.Model, other: models.Model) -> float:
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
