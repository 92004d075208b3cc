"""Takes a worker's power while it is at a task, and knows which tasks that cost."""

import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.spark.conftest import PATIENCE, Cluster, below, kill

#: One partition of one stage.
Part = tuple[int, int]


@dataclass(frozen=True)
class Tried:
    """One try at a part, as the driver's status store has it."""

    part: Part
    executor: str
    status: str


class Power(threading.Thread):
    """Watches a run, and cuts one worker off in the middle of it.

    The worker's Python processes are stopped between two steps: what they are handed next they leave unread in
    their sockets. As soon as something lies there, and the driver knows a task of theirs as running, the worker is
    killed with all below it. *struck* are the parts that it was at then, *seen* all processes that were ever below a
    worker.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._status: Status | None = None
        self._cluster, self._lost = cluster, cluster.workers[1]
        self._over = threading.Event()
        self._stopped: list[int] = []
        self.executor = ""
        self.struck: set[Part] = set()
        self.seen: set[int] = set()

    def strike(self, spark: Any) -> None:
        """Let the worker stand still, and kill it as soon as it is at a task."""
        self._status = Status(spark)
        programs = {pid: _program(pid) for pid in below(self._lost.pid)}
        [self.executor] = {words[words.index("--executor-id") + 1] for words in programs.values() if _OWN in words}
        pythons = [pid for pid, words in programs.items() if "python" in words[0]]
        for pid in pythons:
            os.kill(pid, signal.SIGSTOP)
        assert pythons
        self._stopped = pythons

    def run(self) -> None:
        until = None
        try:
            while not self._over.wait(0.2):
                for worker in self._cluster.workers:
                    self.seen |= set(below(worker.pid))
                if not self._stopped or self._lost.poll() is not None:
                    continue
                until = until or time.monotonic() + PATIENCE
                if self._status and _unread(self._stopped):
                    running = self._status.tries(self._status.active())
                    self.struck = {each.part for each in running if self._is_lost(each) and each.status == "RUNNING"}
                if self.struck or time.monotonic() > until:
                    kill(self._lost)
        finally:  # whatever went wrong here, the run must not wait for what stands still
            if self._lost.poll() is None:
                kill(self._lost)

    def end(self) -> None:
        """Watch no longer."""
        self._over.set()
        self.join()

    def outcomes(self) -> tuple[set[Part], set[Part]]:
        """Return which parts failed on the lost worker, and which of those were done elsewhere; waits until the
        driver has recorded it of all that were struck."""
        assert self._status
        until = time.monotonic() + PATIENCE
        while True:
            tries = list(self._status.tries({stage for stage, _ in self.struck}))
            failed = {each.part for each in tries if self._is_lost(each) and each.status == "FAILED"}
            again = {each.part for each in tries if not self._is_lost(each) and each.status == "SUCCESS"}
            if self.struck <= failed & again or time.monotonic() > until:
                return failed, failed & again
            time.sleep(0.1)

    def _is_lost(self, tried: Tried) -> bool:
        return tried.executor == self.executor


@dataclass
class Status:
    """The driver's status store, which its pages and its REST interface read from."""

    spark: Any
    store: Any = field(init=False)

    def __post_init__(self) -> None:
        self.store = self.spark.sparkContext._jsc.sc().statusStore()

    def active(self) -> Iterable[int]:
        """Return the stages that are being worked on."""
        found: list[int] = self.spark.sparkContext.statusTracker().getActiveStageIds()
        return found

    def tries(self, stages: Iterable[int]) -> Iterator[Tried]:
        """Yield all tries at the parts of *stages*, those of stages that were begun anew included."""
        for stage in stages:
            for attempt in range(self.store.lastStageAttempt(stage).attemptId() + 1):
                tasks = self.store.taskList(stage, attempt, 1000)
                for task in (tasks.apply(number) for number in range(tasks.size())):
                    yield Tried((stage, task.partitionId()), task.executorId(), task.status())


_OWN = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def _program(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:  # gone
        return [""]


def _unread(pids: Iterable[int]) -> bool:
    """Whether bytes, or connections, lie unread in a socket of one of the processes."""
    held = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            held.add(str(descriptor.readlink()))
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if f"socket:[{fields[9]}]" in held and int(fields[4].partition(":")[2], 16) > 0:
                return True
    return False
