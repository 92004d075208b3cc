"""Both engines say the same, on a real Spark cluster that loses a worker in the middle of the run."""

import math
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from featurestore.details import OF_FULL_FITS
from featurestore.engines.candidate import Inputs, Learned, Options
from featurestore.engines.local import learn as locally
from featurestore.engines.spark.session import session
from featurestore.store import models, published, windows
from featurestore.store.duck import Store
from jobs.cli import main
from jobs.exporting.parquet import export
from jobs.planning import micros
from jobs.planning import time as moment
from pipeline.records import Window
from tests.spark.conftest import Cluster
from tests.spark.power import Power
from tests.support.history import BEGIN_US, fill, history

HOUR = 3_600_000_000
UNTIL, WINDOW, LAG = BEGIN_US + 36 * HOUR, 48 * HOUR, HOUR
OPTIONS = Options(model="m")
#: Of f0 beside f1, as simulated.
SLOWDOWN = 0.6


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Path]:
    """36 hours of a cluster, stored, and exported."""
    place = tmp_path_factory.mktemp("tables")
    store = Store(place / "history.duckdb")
    fill(store, history(slowdown=SLOWDOWN, an_hour=60))
    export(store, place / "tables")
    return store, place / "tables"


@pytest.fixture(scope="module")
def local(tables: tuple[Store, Path]) -> Learned:
    span = Window(moment(UNTIL - WINDOW), moment(UNTIL))
    copied = windows.copy(tables[0], "c1", span)
    return locally(Inputs(**copied, since=micros(span.since), until=UNTIL, settled=UNTIL - LAG), OPTIONS)


def test_the_command_saves_and_publishes_and_increments_go_on_from_it(
    tables: tuple[Store, Path], cluster: Cluster, tmp_path: Path
) -> None:
    store, exported = tables
    (tmp_path / "colocate.toml").write_text(
        f'[store]\npath = "{store.path}"\nsnapshot = "{tmp_path}/snapshot"\n', encoding="utf-8"
    )
    learn = ["--config", str(tmp_path / "colocate.toml"), "learn"]
    assert main([*learn, "--engine", "spark", "--master", cluster.url, "--from", str(exported)]) == 0
    snapshot = published.load(tmp_path / "snapshot")
    [model] = store.read(lambda con: models.saved(con, "c1"))
    assert snapshot.models == {"c1": model.model}
    assert model.metrics["engine"]["name"] == "spark"
    [pair] = [
        row
        for row in snapshot["pairs"].to_pylist()
        if (row["victim"], row["aggressor"], row["cluster"]) == ("guest/f0", "guest/f1", "c1")
    ]
    assert pair["status"] == "observed"
    assert pair["low"] <= SLOWDOWN <= pair["high"]
    assert main(learn) == 0  # there is nothing new
    assert [each.model for each in store.read(lambda con: models.saved(con, "c1"))] == [model.model]


def test_a_worker_that_is_killed_costs_a_task_and_both_engines_say_the_same(
    tables: tuple[Store, Path], local: Learned, cluster: Cluster
) -> None:
    with session(cluster.url) as spark:
        from featurestore.engines.spark.learn import Asked, learn

        power = Power(spark, cluster)
        power.start()
        try:
            found, inputs = learn(spark, Asked(str(tables[1]), "c1", WINDOW, UNTIL, LAG), OPTIONS, power.done)
        finally:
            power.end()
        failed, again = power.outcomes()
    assert cluster.workers[1].poll() == -signal.SIGKILL
    assert power.struck
    assert power.struck <= failed  # what it was at, it did not finish
    assert power.struck <= again  # and another did
    assert (inputs.since, inputs.until) == (UNTIL - WINDOW, UNTIL)
    assert found.tables["pairs"].num_rows == 25
    for name in ("pairs", "functions", "latencies", "company", "busyness"):
        assert_same(found.tables[name], local.tables[name])
    for name in ("pair_evidence", "fits", "base_times", *OF_FULL_FITS):
        assert_same(found.details[name], local.details[name])
    steps = found.metrics["engine"]["steps"]
    for name in ("activations", "composites", "placed", "functions", "evidence", "seen", "exposures", "pairs"):
        assert found.metrics[name] == local.metrics[name]
    assert found.attribution == local.attribution
    assert steps["attribution"]["parts"] == steps["fit"]["parts"] == 5
    assert set(steps) == {"attribution", "fit", "fold"}
    for step in steps.values():
        processes = {int(process.rpartition(":")[2]) for process in step["processes"]}
        assert processes
        assert processes <= power.seen
        assert os.getpid() not in processes
    assert found.state is not None and local.state is not None
    assert [(step.since, step.until, step.rows) for step in found.state.steps] == [
        (step.since, step.until, step.rows) for step in local.state.steps
    ]
    for victim, block in local.state.current.items():
        np.testing.assert_allclose(found.state.current[victim].gram, block.gram, rtol=1e-7, atol=1e-6)


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
