"""Serving processes side by side: CPU a request of two against one, what each has to itself, and a swap of snapshots.

The processes are the product's, on one listening socket as `colocate serve` hands it to them. CPU time is the
kernel's, of all threads of all of them: who asks needs a core too, so that throughput on two cores says little. What
a snapshot adds to a process's memory is looked at in two at once, since pages that both map are shared only then.
"""

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.figures import Figure, timing
from benchmarks.webhook_client import Asked, Target, cpu_of
from benchmarks.webhook_world import configuration, publish, templates
from benchmarks.workers_memory import memory
from jobs.supervisor import children

NAME = "workers"
ROUNDS = 7
#: Requests a round, connections at once, and functions that are asked about.
REQUESTS, CONNECTIONS, ASKED = 3_000, 8, 200
#: Snapshots that are swapped while answers are timed, and seconds of asking after each.
SWAPS, SECONDS = 3, 6.0
_MIB = 2.0**20
_GRACE, _PATIENCE = 30.0, 180.0
#: Seconds between two new connections.
_GAP = 0.05


class Served:
    """So many serving processes on one socket, and the connections to them."""

    def __init__(self, port: int, processes: Sequence[children.Process]) -> None:
        self.pids = [process.pid for process in processes]
        self._port = port
        self._targets = [Target(port) for _ in range(CONNECTIONS)]

    def reconnect(self) -> None:
        """Connect anew: the first connections went to whoever was there first."""
        for target in self._targets:
            target.close()
        self._targets = []
        for _ in range(CONNECTIONS):  # not at once: whoever wakes up first would take several
            time.sleep(_GAP)
            self._targets.append(Target(self._port))

    def cpu(self) -> list[float]:
        """Seconds of CPU that each has used."""
        return [cpu_of(pid) for pid in self.pids]

    def settle(self) -> None:
        """Wait until they have worked out what they do by themselves."""
        until, before = time.monotonic() + _PATIENCE, sum(self.cpu())
        while time.monotonic() < until:
            time.sleep(1.0)
            now = sum(self.cpu())
            if now - before < 0.1 * len(self.pids):
                return
            before = now
        raise RuntimeError("still busy by themselves")

    def ask(self, asked: Asked, count: int) -> list[float]:
        """Ask so often, on all connections at once; returns the seconds of each answer."""
        taken: list[float] = []
        for first in range(0, count, CONNECTIONS):
            began = []
            answers = []
            for place, target in enumerate(self._targets):
                body = asked.body((first + place) % len(asked))
                began.append(time.perf_counter())
                target.send(b"/mutate", body)
            for target, start in zip(self._targets, began, strict=True):
                answers.append(target.answer())
                taken.append(time.perf_counter() - start)
            asked.answered(answers)
        asked.forget()
        return taken


@contextmanager
def serving(count: int, config: Path) -> Iterator[Served]:
    """Run *count* serving processes on one socket, and wait until each has its snapshot."""
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listening:
        descriptor, port = listening.fileno(), listening.getsockname()[1]
        given = ("--config", str(config), "--descriptor", str(descriptor))
        processes = [
            children.start("jobs.service.process", (*given, "--slot", str(slot)), (descriptor,))
            for slot in range(count)
        ]
        try:
            served = Served(port, processes)
            served.ask(Asked(templates([0], 1), 0), CONNECTIONS)
            served.settle()
            served.reconnect()
            yield served
        finally:
            children.end(processes, _GRACE)


def run(scale: float) -> list[Figure]:
    """Measure at *scale* of 5,000 nodes, 50,000 pods, 10,000 functions."""
    nodes, pods, functions = (max(10, int(full * scale)) for full in (5_000, 50_000, 10_000))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for number in range(SWAPS + 1):
            publish(str(directory / f"made-{number}"), (nodes, pods, functions, 10 * functions, number))
        made = [directory / f"made-{number}" for number in range(SWAPS + 1)]
        return [*_memory(directory, made[0]), *_answering(directory, made, functions)]


def _memory(directory: Path, made: Path) -> list[Figure]:
    """Return what taking up the snapshot adds to a process, of which how much is its own."""
    configs = [configuration(directory, f"memory-{number}") for number in range(2)]
    command = [sys.executable, "-m", "benchmarks.workers_memory"]
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen([*command, str(config)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            for config in configs
        ]
        for process in started:
            _said(process)
        for process in started:  # asked again once both are there: until then one has what both map to itself
            _tell(process)
        before = [_said(process) for process in started]
        for config in configs:  # one file under two names: what both map are the same pages
            config.with_suffix(".snapshot").hardlink_to(made)
        for process in started:
            _tell(process)
        for process in started:
            _said(process)
        for process in started:  # asked again once both have it
            _tell(process)
        after = [_said(process) for process in started]
        for process in started:
            _tell(process)
    own = float(np.mean([late["private"] - early["private"] for early, late in zip(before, after, strict=True)]))
    whole = float(np.mean([late["all"] - early["all"] for early, late in zip(before, after, strict=True)]))
    bare = float(np.mean([each["private"] for each in before]))
    return [
        Figure("the snapshot's file", made.stat().st_size / _MIB, "MiB"),
        Figure("private memory of a serving process without a snapshot", bare / _MIB, "MiB"),
        Figure("private memory that the snapshot adds to each of two", own / _MIB, "MiB", whole / _MIB, own / whole,
               goal="at most .20 of all memory that it adds", met=own <= 0.2 * whole,
               note="floor: with the pages that both map"),
    ]  # fmt: skip


def _said(process: "subprocess.Popen[str]") -> dict[str, int]:
    assert process.stdout is not None
    found: dict[str, int] = msgspec.json.decode(process.stdout.readline())
    return found


def _tell(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def _answering(directory: Path, made: Sequence[Path], functions: int) -> list[Figure]:
    configs = {count: configuration(directory, f"served-{count}", f"workers = {count}\n") for count in (1, 2)}
    for config in configs.values():
        config.with_suffix(".snapshot").hardlink_to(made[0])
    asked = Asked(templates(range(min(ASKED, functions)), 1), 1)
    cpu: dict[int, list[float]] = {1: [], 2: []}
    rate: dict[int, list[float]] = {1: [], 2: []}
    shares: list[float] = []
    with serving(1, configs[1]) as one, serving(2, configs[2]) as two:
        served = {1: one, 2: two}
        for each in served.values():
            each.ask(asked, 4 * len(asked))
            each.settle()
        for _ in range(ROUNDS):
            for count, each in served.items():
                before, began = each.cpu(), time.perf_counter()
                each.ask(asked, REQUESTS)
                took, used = time.perf_counter() - began, np.array(each.cpu()) - before
                cpu[count].append(float(used.sum()) / REQUESTS)
                rate[count].append(REQUESTS / took)
                if count == 2:
                    shares.append(float(used.min() / used.sum()))
        own = [memory(pid)["private"] for pid in two.pids]
        slowest = _swapping(two, asked, configs[2].with_suffix(".snapshot"), made[1:])
    ours, floor = timing(cpu[2]), timing(cpu[1])
    ratios = timing([many / few for many, few in zip(cpu[2], cpu[1], strict=True)])
    fast = {count: timing(each) for count, each in rate.items()}
    return [
        Figure("CPU a request, two serving processes (floor: one)", ours.median * 1e6, "us", floor.median * 1e6,
               ours.median / floor.median, ratios.spread, "at most 1.15 times", ours.median <= 1.15 * floor.median,
               f"{REQUESTS:,} a round; the less busy of both had {np.median(shares):.0%}"),
        Figure("answers a second, two serving processes beside who asks (floor: one)", fast[2].median, "/s",
               fast[1].median, fast[2].median / fast[1].median, fast[2].spread),
        Figure("private memory of a process of two, all functions worked out", float(np.mean(own)) / _MIB, "MiB"),
        Figure("slowest answer of two while they swap snapshots", max(slowest) * 1e3, "ms", goal="at most 100 ms",
               met=max(slowest) <= 0.1,
               note=f"{len(slowest):,} answers, {SWAPS} swaps, 20th slowest {np.sort(slowest)[-20] * 1e3:.1f} ms"),
    ]  # fmt: skip


def _swapping(served: Served, asked: Asked, path: Path, made: Sequence[Path]) -> list[float]:
    """Ask on and on while each of *made* takes its turn at *path*; returns the seconds of each answer."""
    taken: list[float] = []
    for fresh in made:
        fresh.replace(path)
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            taken += served.ask(asked, 10 * CONNECTIONS)
    return taken
