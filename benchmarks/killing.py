"""Ingestion that is killed with SIGKILL at random moments, and what the store looks like afterwards."""

import multiprocessing
import os
import random
import signal
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from benchmarks.activation_pages import NEWEST, pages
from featurestore.store import ingest
from featurestore.store.duck import Store
from pipeline.records import Batch

#: Records of one batch; enough for its transaction to write row groups as well as the log.
RECORDS = 3000


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What was found after the kills; all but *kills* and *batches* must be 0.

    *batches* were acknowledged by the child after its commit. *lost* are those of them that are not in the store,
    *halves* have some of their rows or a watermark without rows or rows without one, *doubles* are ids stored twice.
    """

    kills: int
    batches: int
    lost: int = 0
    halves: int = 0
    doubles: int = 0


def kill_repeatedly(directory: Path, kills: int, *, seed: int = 0, longest: float = 0.4) -> Aftermath:
    """Ingest batch after batch into a store in *directory* and kill the process *kills* times.

    The first kill comes as soon as a batch is acknowledged, which shows the machine's pace; each other up to
    *longest* seconds after the start, or up to the time of three batches where that is longer. After it the store is
    looked through, and the next process begins again at a batch that the last one had: what was committed without a
    word of it comes twice.
    """
    rng = random.Random(seed)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.killing"])
    store = Store(directory / "killed.duckdb")
    acknowledged = directory / "acknowledged"
    acknowledged.touch()
    batches = [pages(directory / f"pages-{number}", RECORDS, page=1000, seed=number) for number in range(4 * kills)]
    first = 0
    found = Aftermath(kills, 0)
    for number in range(kills):
        child = context.Process(target=_ingest_on, args=(store, batches, acknowledged, first))
        child.start()
        _wait_for(directory / "begun")
        if number:
            time.sleep(rng.uniform(0, longest))
        else:
            began = time.monotonic()
            _wait_for(acknowledged, size=1)
            longest = max(longest, 3 * (time.monotonic() - began))
        if child.pid is not None:
            os.kill(child.pid, signal.SIGKILL)
        child.join()
        (directory / "begun").unlink()
        before, first = first, len(acknowledged.read_bytes())
        one = look(store, first)
        found = Aftermath(
            kills, first, found.lost + one.lost, found.halves + one.halves, max(found.doubles, one.doubles)
        )
        first = rng.randint(before, first)
    return found


def look(store: Store, batches: int) -> Aftermath:
    """Compare what is in *store* with the *batches* that were acknowledged."""
    counts = dict(
        store.read(
            lambda con: con.execute(
                "SELECT cluster, count(DISTINCT activation_id) FROM activations GROUP BY cluster"
            ).fetchall()
        )
    )
    marks = dict(
        store.read(lambda con: con.execute("SELECT cluster, count(*) FROM watermarks GROUP BY 1").fetchall())
    )
    [[doubles]] = store.read(
        lambda con: con.execute(
            "SELECT count(*) - count(DISTINCT (cluster, activation_id)) FROM activations"
        ).fetchall()
    )
    lost = sum(f"batch{number}" not in counts for number in range(batches))
    halves = sum(count != RECORDS for count in counts.values()) + len(marks.keys() ^ counts.keys())
    halves += sum(count != 1 for count in marks.values())
    return Aftermath(0, batches, lost, halves, doubles)


def _ingest_on(store: Store, batches: list[list[Path]], acknowledged: Path, first: int) -> None:
    """Ingest batches from number *first* on; each is its own cluster, and one byte acknowledges a new one."""
    done = len(acknowledged.read_bytes())
    acknowledged.with_name("begun").touch()
    for number, files in list(enumerate(batches))[first:]:
        batch = Batch("activations", files=tuple(files), watermark=NEWEST)
        ingest.ingest(store, f"batch{number}", batch, collected=NEWEST, overlap=timedelta(minutes=10))
        if number >= done:
            with acknowledged.open("ab") as log:
                log.write(b".")


def _wait_for(path: Path, size: int = 0) -> None:
    until = time.monotonic() + 60
    while not path.exists() or path.stat().st_size < size:
        if time.monotonic() > until:
            raise TimeoutError(f"{path} did not appear")
        time.sleep(0.002)
