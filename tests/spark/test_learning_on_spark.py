"""Both engines say the same, on a real Spark cluster that loses a worker in the middle of the run."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from featurestore.details import OF_FULL_FITS
from featurestore.engines.candidate import Inputs, Learned, Options
from featurestore.engines.local import learn as locally
from featurestore.engines.spark.session import session
from featurestore.store import windows
from featurestore.store.duck import Store
from jobs.exporting.parquet import export
from jobs.planning import micros
from jobs.planning import time as moment
from pipeline.records import Window
from tests.spark.conftest import PATIENCE, Cluster, below, kill
from tests.support.history import BEGIN_US, fill, history

HOUR = 3_600_000_000
UNTIL, WINDOW, LAG = BEGIN_US + 36 * HOUR, 48 * HOUR, HOUR
OPTIONS = Options(model="m")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Path]:
    """36 hours of a cluster, stored, and exported."""
    place = tmp_path_factory.mktemp("tables")
    store = Store(place / "history.duckdb")
    fill(store, history(an_hour=60))
    export(store, place / "tables")
    return store, place / "tables"


@pytest.fixture(scope="module")
def local(tables: tuple[Store, Path]) -> Learned:
    span = Window(moment(UNTIL - WINDOW), moment(UNTIL))
    copied = windows.copy(tables[0], "c1", span)
    return locally(Inputs(**copied, since=micros(span.since), until=UNTIL, settled=UNTIL - LAG), OPTIONS)


class Power(threading.Thread):
    """Takes a worker's power while it is at a task: its Python processes are stopped, so that what it is given next
    is not done; when that task is all that a stage waits for, all of the worker is killed."""

    def __init__(self, spark: Any, cluster: Cluster) -> None:
        super().__init__()
        self.status = spark.sparkContext.statusTracker()
        self.cluster, self.lost = cluster, cluster.workers[1]
        self.seen: set[int] = set()
        self.failed = 0

    def done(self, step: str) -> None:
        """Hear that *step* of the run is done."""
        for worker in self.cluster.workers:
            self.seen |= set(below(worker.pid))
        if step == "attribution":
            for pid in below(self.lost.pid):
                if b"python" in _program(pid):
                    os.kill(pid, signal.SIGSTOP)
            self.start()

    def run(self) -> None:
        until = time.monotonic() + PATIENCE
        stage = None
        while stage is None and time.monotonic() < until:
            time.sleep(0.1)
            for number in self.status.getActiveStageIds():
                info = self.status.getStageInfo(number)
                if info and info.numActiveTasks == 1 and info.numCompletedTasks == info.numTasks - 1:
                    stage = number if self.quiet() else None
        kill(self.lost)
        while stage is not None and not self.failed and time.monotonic() < until:
            time.sleep(0.1)
            info = self.status.getStageInfo(stage)
            self.failed = info.numFailedTasks if info else self.failed

    def quiet(self) -> bool:
        """Whether no Python process of the other worker computes, or waits for its turn to: the one task that is left
        is the lost worker's."""
        for _ in range(20):
            time.sleep(0.2)
            if any(_state(pid) == "R" for pid in below(self.cluster.workers[0].pid) if b"java" not in _program(pid)):
                return False
        return True


def _program(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
    except OSError:  # gone
        return b""


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:  # gone
        return ""


def test_a_worker_that_is_killed_costs_a_task_and_both_engines_say_the_same(
    tables: tuple[Store, Path], local: Learned, cluster: Cluster
) -> None:
    with session(cluster.url) as spark:
        from featurestore.engines.spark.learn import Asked, learn

        power = Power(spark, cluster)
        found, inputs = learn(spark, Asked(str(tables[1]), "c1", WINDOW, UNTIL, LAG), OPTIONS, power.done)
        power.join(PATIENCE)
    assert cluster.workers[1].poll() == -signal.SIGKILL
    assert power.failed > 0  # and the stage was finished nevertheless
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
    processes = {int(process.rpartition(":")[2]) for process in steps["attribution"]["processes"]}
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
    texts = [field.name for field in wanted.schema if not pa.types.is_floating(field.type)]

    def key(row: dict[str, Any]) -> str:
        return repr([row[name] for name in texts])

    ours, theirs = (sorted(table.to_pylist(), key=key) for table in (found, wanted))
    assert [key(row) for row in ours] == [key(row) for row in theirs]
    for own, other in zip(ours, theirs, strict=True):
        assert own == pytest.approx(other, rel=1e-9, abs=1e-9, nan_ok=True)
