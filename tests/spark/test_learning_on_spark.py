"""Both engines say the same, on a real Spark cluster that loses a worker in the middle of the run."""

import datetime as dt
import math
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from featurestore.detailed import DETAILS
from featurestore.store import models, published, states
from featurestore.store.duck import Store
from jobs import learn, sparking
from jobs.config import Settings, StoreSettings
from jobs.exporting.parquet import export
from tests.spark.conftest import Cluster
from tests.spark.power import Part, Power
from tests.support.history import BEGIN, fill, history

HOUR = dt.timedelta(hours=1)
NOW = BEGIN + 36 * HOUR
#: Of f0 beside f1, as simulated.
SLOWDOWN = 0.6
#: What the nodes run.
KERNELS = ("6.1", "6.1", "6.8")


def test_a_worker_that_is_killed_costs_a_task_and_both_engines_say_the_same(tmp_path: Path, cluster: Cluster) -> None:
    from pyspark.sql import SparkSession

    here, there = (_settings(tmp_path, name) for name in ("here", "there"))
    given = history(slowdown=SLOWDOWN, an_hour=60)
    at = given.nodes.column_names.index("kernel")
    given = replace(given, nodes=given.nodes.set_column(at, "kernel", pa.array(KERNELS)))
    given = replace(given, activations=pa.concat_tables([_long(given.activations), given.activations]))
    local, spark = Store(here.store.path), Store(there.store.path)
    fill(local, given)
    export(local, tmp_path / "tables")
    shutil.copy(here.store.path, there.store.path)
    learn.run(here, "c1", now=lambda: NOW, full=True, store=local)

    power, outcomes = Power(cluster), list[set[Part]]()

    def progress(done: int, of: int) -> None:
        if done == 1:
            power.strike(SparkSession.getActiveSession())
        if done == of:
            outcomes.extend(power.outcomes())

    power.start()
    try:
        sparking.run(
            there,
            "c1",
            master=cluster.url,
            tables=str(tmp_path / "tables"),
            now=lambda: NOW,
            store=spark,
            progress=progress,
        )
    finally:
        power.end()
    assert cluster.workers[1].poll() == -signal.SIGKILL
    failed, again = outcomes
    assert power.struck
    assert power.struck <= failed  # what it was at, it did not finish
    assert power.struck <= again  # and another did

    [own], [other] = (store.read(lambda con: models.saved(con, "c1")) for store in (spark, local))
    assert (own.window_start, own.window_end) == (other.window_start, other.window_end)
    for name in (*models.LEARNED, *DETAILS):
        found, wanted = (
            store.read(lambda con, model=model, name=name: models.table(con, model, name))
            for store, model in ((spark, own), (local, other))
        )
        assert_same(found, wanted)
    for name in ("activations", "composites", "placed", "functions", "evidence", "seen", "exposures", "pairs"):
        assert own.metrics[name] == other.metrics[name]
    assert own.metrics["attribution"] == other.metrics["attribution"]
    snapshot = published.load(there.store.snapshot)
    assert snapshot.models == {"c1": own.model}
    [pair] = [
        row
        for row in snapshot["pairs"].to_pylist()
        if (row["victim"], row["aggressor"], row["cluster"]) == ("guest/f0", "guest/f1", "c1")
    ]
    assert pair["status"] == "observed"
    assert pair["low"] <= SLOWDOWN <= pair["high"]

    steps = own.metrics["engine"]["steps"]
    assert set(steps) == {"attribution", "fit", "fold"}
    assert steps["attribution"]["parts"] == steps["fit"]["parts"] == 5
    assert steps["fold"]["parts"] == 1  # the day that what ran for long before is no part of
    for step in steps.values():
        processes = {int(process.rpartition(":")[2]) for process in step["processes"]}
        assert processes
        assert processes <= power.seen
        assert os.getpid() not in processes
    assert steps["attribution"]["retried"] == 0
    assert steps["fit"]["retried"] >= len(power.struck)

    found, wanted = (store.read(lambda con: states.whole(con, "c1")) for store in (spark, local))
    assert [(step.since, step.until, step.rows, step.running) for step in found.steps] == [
        (step.since, step.until, step.rows, step.running) for step in wanted.steps
    ]
    assert found.current.keys() == wanted.current.keys()
    for victim, block in wanted.current.items():
        assert found.current[victim].kernels == block.kernels
        np.testing.assert_allclose(found.current[victim].under, block.under, rtol=1e-7)
        np.testing.assert_allclose(found.current[victim].gram, block.gram, rtol=1e-7, atol=1e-6)
    learn.run(there, "c1", now=lambda: NOW, store=spark)  # goes on from that state, and finds nothing new
    assert spark.read(lambda con: models.saved(con, "c1")) == [own]


def _long(activations: pa.Table) -> pa.Table:
    """One run from an hour before all others into the second day: that is a block that is swept by itself."""
    own = {"activation_id": "long", "function": "guest/f4", "node": "n0", "start": BEGIN - HOUR}
    own |= {"end": BEGIN + 30 * HOUR, "duration_ms": 31 * 3.6e6, "timeout_ms": 48 * 3_600_000}
    return pa.Table.from_pylist([{**activations.slice(0, 1).to_pylist()[0], **own}], activations.schema)


def _settings(place: Path, name: str) -> Settings:
    return Settings(store=StoreSettings(path=place / f"{name}.duckdb", snapshot=place / f"{name}.snapshot"))


def assert_same(found: pa.Table, wanted: pa.Table) -> None:
    """Texts and counts are equal, numbers within 1e-9, in whatever order the rows are."""
    assert found.schema.equals(wanted.schema)
    keys = [field.name for field in wanted.schema if not _holds_numbers(field.type)]

    def key(row: dict[str, Any]) -> str:
        return repr([row[name] for name in keys])

    ours, theirs = (sorted(table.to_pylist(), key=key) for table in (found, wanted))
    assert len(ours) == len(theirs)
    for own, other in zip(ours, theirs, strict=True):
        assert {name: (own[name], other[name]) for name in other if not _near(own[name], other[name])} == {}


def _holds_numbers(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or pa.types.is_nested(kind)


def _near(own: Any, other: Any) -> bool:
    if isinstance(own, list) and isinstance(other, list):
        return len(own) == len(other) and all(map(_near, own, other))
    if isinstance(own, float) and isinstance(other, float):
        return math.isclose(own, other, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(own) and math.isnan(other))
    return bool(own == other)
