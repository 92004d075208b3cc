"""Run one session: start its containers, wait until all are ready, let them invoke, and keep what happened."""

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from jobs.demo.recorder import machine
from jobs.demo.recorder.plan import Part, Session
from jobs.demo.recorder.worker import now
from pipeline.errors import BadInput

#: Seconds between readings of the machine's counters.
_EVERY = 0.25
#: How much an invocation's work varies (standard deviation of its logarithm); nobody records it.
SPREAD = 0.08


class _Worker(NamedTuple):
    function: str
    spawned: int
    scratch: Path
    process: subprocess.Popen[str]


def record(session: Session, parts: tuple[Part, ...], seed: int, scratch: Path) -> dict[str, Any]:
    """Run *session* for real, and return it as JSON values: members with their invocations, the machine's counters.

    ``foreign`` is the share of the cores that others than the session used meanwhile. Raises `BadInput` when a
    worker fails.
    """
    disk = machine.disk_of(scratch)
    readings: list[dict[str, float]] = []
    done = threading.Event()

    def sample() -> None:
        while True:
            readings.append({"at": now(), **machine.counters(disk)})
            if done.wait(_EVERY):
                return

    cpu, kernel = machine.own_cpu(), machine.kernel_cpu()
    before, began = machine.busy(machine.counters(disk)), now()
    sampler = threading.Thread(target=sample)
    sampler.start()
    workers: list[_Worker] = []
    try:
        workers += [_start(name, f"{seed}/{session.key}/{name}", scratch) for name in session.members]
        ready = [_answer(worker) for worker in workers]
        start = now() + 100_000
        for worker, part in zip(workers, parts, strict=True):
            blocks = [(start + int(a * 1e6), start + int((a + length) * 1e6)) for a, length in part.blocks]
            _tell(worker, {"blocks": blocks, "think": part.think})
        reports = [_answer(worker) for worker in workers]
        exits = [_finish(worker) for worker in workers]
    finally:
        done.set()
        sampler.join()
        for worker in workers:
            if worker.process.poll() is None:
                worker.process.kill()
                worker.process.wait()
            shutil.rmtree(worker.scratch)
    used = machine.busy(machine.counters(disk)) - before
    others = used - (machine.own_cpu() - cpu) - (machine.kernel_cpu() - kernel)
    capacity = (now() - began) / 1e6 * machine.describe()["cores"]
    readings.append({"at": now(), **machine.counters(disk)})
    return {
        **asdict(session),
        "disk": disk,
        "described": machine.describe(),
        "foreign": round(max(0.0, others) / capacity, 4),
        "parts": [asdict(part) for part in parts],
        "containers": [
            {"function": worker.function, "spawned": worker.spawned, "exited": exited, **first, **report}
            for worker, first, report, exited in zip(workers, ready, reports, exits, strict=True)
        ],
        "machine": {name: [reading[name] for reading in readings] for name in readings[0]},
    }


def _start(function: str, seed: str, scratch: Path) -> _Worker:
    own = Path(tempfile.mkdtemp(dir=scratch))
    spawned = now()
    process = subprocess.Popen(
        [sys.executable, "-m", "jobs.demo.recorder.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # its own scheduling group, as a container has
        env={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    worker = _Worker(function, spawned, own, process)
    _tell(worker, {"function": function, "seed": seed, "scratch": str(own), "spawned": spawned, "spread": SPREAD})
    return worker


def _tell(worker: _Worker, message: dict[str, Any]) -> None:
    assert worker.process.stdin is not None
    worker.process.stdin.write(json.dumps(message) + "\n")
    worker.process.stdin.flush()


def _answer(worker: _Worker) -> dict[str, Any]:
    assert worker.process.stdout is not None
    line = worker.process.stdout.readline()
    if not line:
        raise BadInput(f"recorder: {worker.function} ended with code {worker.process.wait()} before it had reported")
    answer: dict[str, Any] = json.loads(line)
    return answer


def _finish(worker: _Worker) -> int:
    worker.process.communicate(timeout=30)
    return now()


def settle(seconds: float) -> None:
    """Let the disk finish what was written before the next session starts."""
    subprocess.run(["sync"], check=True)
    time.sleep(seconds)
