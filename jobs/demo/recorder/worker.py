"""One container's process: initialises, runs its cold invocation, says so, invokes as it is told, reports, ends.

Reads two JSON lines on standard input (who it is; then when to invoke) and writes two (ready; the invocations).
"""

import json
import random
import resource
import sys
import time
from pathlib import Path
from typing import Any

from jobs.demo.recorder.functions import FUNCTIONS, Run

#: What is kept of an invocation. Times are epoch microseconds; CPU, read and written count since the process began.
COLUMNS = (
    "start", "end", "cpu_before", "cpu_after", "rss", "read_before", "read_after", "written_before", "written_after",
    "sent", "received",
)  # fmt: skip


def now() -> int:
    """Return the wall clock in epoch microseconds."""
    return time.time_ns() // 1000


def spent() -> tuple[int, int, int]:
    """Return this process's CPU time in microseconds, and the bytes it made the disk read and write."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    counted = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return round((used.ru_utime + used.ru_stime) * 1e6), int(counted["read_bytes"]), int(counted["write_bytes"])


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def invoke(run: Run, size: float, began: int | None = None) -> tuple[int, ...]:
    """Run once and return the `COLUMNS`; *began* is given for the cold one, whose time includes initialisation."""
    before = spent() if began is None else (0, 0, 0)
    start = now() if began is None else began
    sent, received = run(size)
    end = now()
    after = spent()
    return (
        start, end, before[0], after[0], resident(), before[1], after[1], before[2], after[2], sent, received,
    )  # fmt: skip


def main() -> None:
    """Speak the protocol of this module's head."""
    told: dict[str, Any] = json.loads(sys.stdin.readline())
    draw = random.Random(told["seed"])
    run = FUNCTIONS[told["function"]].build(Path(told["scratch"]))
    initialised = now()
    rows = [invoke(run, 1.0, told["spawned"])]
    sys.stdout.write(json.dumps({"initialised": initialised}) + "\n")
    sys.stdout.flush()
    schedule: dict[str, Any] = json.loads(sys.stdin.readline())
    for start, end in schedule["blocks"]:
        time.sleep(max(0.0, (start - now()) / 1e6))
        while now() < end:
            rows.append(invoke(run, min(1.6, draw.lognormvariate(0.0, told["spread"]))))
            if schedule["think"]:
                time.sleep(draw.expovariate(1 / schedule["think"]))
    sys.stdout.write(json.dumps({"invocations": rows}) + "\n")


if __name__ == "__main__":
    main()
