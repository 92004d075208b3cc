"""The webhook against a no-op handler on the same server: CPU a request, and latency, on a large snapshot.

Servers are processes of their own on one core, who asks has the others. The no-op is the same serving process, behind
the same layers, whose handler decodes the same types and admits. Rounds are interleaved; CPU time is the kernel's, of
all threads, so that writing the history is in it. A function's first request is timed twice: before the background
has reached the function, and once it has worked the answer out ahead, whose own CPU time is a figure too; while the
others are timed the background is held up. Every answer is applied to its pod and compared with one that is
worked out without any cache from the view that it was prepared from.
"""

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np

from benchmarks import webhook_churn, webhook_cores
from benchmarks.figures import Figure, Timing, timing
from benchmarks.webhook_client import Asked, Target, differing
from benchmarks.webhook_world import configuration, snapshot, templates
from featurestore.store import published
from jobs.supervisor import children
from rules.publishing import columns

NAME = "webhook"
ROUNDS = 7
#: Functions that are asked about often, requests a round of these, and new functions a round.
OFTEN, REQUESTS, NEW = 500, 1500, 60
#: Nothing is worked out ahead any more where nothing was for so many seconds.
_STILL = 3
_GIB = 2.0**30
#: Seconds that a server has to end in.
_GRACE = 30.0


@contextmanager
def serving(kind: str, config: Path) -> Iterator[Target]:
    """Run one serving process, and wait until it answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        descriptor, port = listening.fileno(), listening.getsockname()[1]
        process = children.start("benchmarks.webhook_server", [kind, str(descriptor), str(config)], (descriptor,))
        try:
            target = Target(port, process.pid)
            target.ask(Asked(templates([0], 1), 0), [0])  # waits for the server, and for its snapshot
            yield target
        finally:
            children.end([process], _GRACE)


def run(scale: float) -> list[Figure]:
    """Measure at *scale* of 5,000 nodes, 50,000 pods, 10,000 functions."""
    size = tuple(max(10, int(full * scale)) for full in (5_000, 50_000, 10_000))
    nodes, pods, functions = size
    with tempfile.TemporaryDirectory() as name, webhook_cores.asking():
        directory = Path(name)
        empty, full = configuration(directory, "noop"), configuration(directory, "full")
        published.write(snapshot(nodes, pods, functions, 10 * functions), directory / "full.snapshot", columns)
        return [
            *_loading(full),
            *_answering(empty, full, functions),
            *webhook_churn.run(directory, (nodes, pods, functions)),
        ]


def _loading(config: Path) -> list[Figure]:
    command = [sys.executable, "-m", "benchmarks.webhook_server", "load", str(config), str(ROUNDS)]
    found = msgspec.json.decode(subprocess.run(command, check=True, capture_output=True).stdout)
    seconds, size = timing(found["seconds"]), timing(found["bytes"])
    return [
        Figure("the snapshot is loaded and laid out", seconds.median, "s", spread=seconds.spread,
               goal="under 5 s", met=seconds.median < 5),
        Figure("memory that this takes at its peak", size.median / _GIB, "GiB",
               goal="under 1 GiB", met=size.median < _GIB),
    ]  # fmt: skip


def _answering(empty: Path, full: Path, functions: int) -> list[Figure]:
    order = np.random.default_rng(7).permutation(functions)
    often = min(OFTEN, functions // 2)
    fresh = min(NEW, (functions - often) // (2 * ROUNDS))
    known = Asked(templates([*order[:often], *order[:often]], 1), 1)
    early, new = (
        Asked(
            templates(order[often + part * ROUNDS * fresh : often + (part + 1) * ROUNDS * fresh], 2 + part), 2 + part
        )
        for part in range(2)
    )
    rows = [row % len(known) for row in range(min(REQUESTS, 6 * often))]
    cpu: dict[str, list[float]] = {name: [] for name in ("noop", "known", "before", "early", "floor", "first")}
    took: dict[str, list[list[float]]] = {name: [] for name in cpu}

    def measured(name: str, target: Target, asked: Asked, numbers: Sequence[int]) -> None:
        before = target.cpu()
        taken = target.ask(asked, numbers)
        cpu[name].append((target.cpu() - before) / len(numbers))
        took[name].append(taken)

    with serving("noop", empty) as noop, serving("webhook", full) as webhook:
        webhook.post(b"/keep", b"true")
        webhook.post(b"/hold", b"true")
        noop.ask(known, rows)
        known.forget()
        webhook.ask(known, rows)
        webhook.settle()
        for _ in range(ROUNDS):
            measured("noop", noop, Asked(known.templates, 4), rows)
            measured("known", webhook, known, rows)
        for floor, name, asked in (("before", "early", early), ("floor", "first", new)):
            webhook.settle()
            if asked is new:
                made, spent = _ahead(webhook)
            for number in range(ROUNDS):
                part = range(number * fresh, (number + 1) * fresh)
                measured(floor, noop, Asked(asked.templates, 5), part)
                measured(name, webhook, asked, part)
        whole = memory(webhook)
        counts = [each.compare(webhook) for each in (known, early, new)]
    p99 = {name: [float(np.percentile(taken, 99)) for taken in rounds] for name, rounds in took.items()}
    pooled = {name: float(np.percentile(np.concatenate(rounds), 99)) for name, rounds in took.items()}
    mean = float(np.mean(cpu["known"])) / float(np.mean(cpu["noop"]))
    compared, wrong = (sum(each[place] for each in counts) for place in (0, 1))
    return [
        _against("CPU a request, function prepared in this snapshot", cpu["known"], cpu["noop"], 1.5,
                 f"{len(rows):,} a round; mean of all rounds, changes of the view among them, {mean:.2f}"),
        _against("CPU a request, the first of each function, worked out ahead", cpu["first"], cpu["floor"], 3.0,
                 f"{fresh} a round"),
        Figure("CPU a function that is worked out ahead, in the background", spent / max(made, 1) * 1e6, "us",
               note=f"{made:,} functions"),
        _against("CPU a request, the first of each function, before that", cpu["early"], cpu["before"], None,
                 f"{fresh} a round"),
        _against("p99 of a round's latencies", p99["known"], p99["noop"], 3.0, "function prepared"),
        _against("p99 of the latencies of all rounds", [pooled["known"]], [pooled["noop"]], 3.0, "function prepared"),
        _waited("worked out ahead", took["first"], took["floor"]),
        _waited("before that", took["early"], took["before"]),
        Figure("memory of the serving process, all functions worked out", whole / _GIB, "GiB"),
        differing(wrong, compared, "prepared and first"),
    ]  # fmt: skip


def _ahead(webhook: Target, patience: int = 300) -> tuple[int, float]:
    """Let answers be worked out ahead until there are no more to make; returns how many, and the seconds of CPU."""
    webhook.post(b"/hold", b"false")
    made, still = -1, 0
    for _ in range(patience):
        time.sleep(1.0)
        found = json.loads(webhook.post(b"/hold", b"null"))
        still = still + 1 if found["made"] == made else 0
        made = found["made"]
        if made and still == _STILL:
            return made, found["seconds"]
    raise RuntimeError(f"answers are still worked out ahead after {patience} s")


def _waited(which: str, ours: Sequence[list[float]], floor: Sequence[list[float]]) -> Figure:
    value, low = (float(np.median(np.concatenate(each))) * 1e6 for each in (ours, floor))
    return Figure(f"median wait for a function's first answer, {which}", value, "us", low)


def memory(target: Target) -> int:
    """Return the bytes of memory that the process of *target* has in use."""
    for line in Path(f"/proc/{target.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no such process")


def _against(name: str, ours: Sequence[float], floor: Sequence[float], most: float | None, note: str) -> Figure:
    """Compare medians of rounds; *most* is what their ratio may be, None where it may be anything."""
    value, low = timing(ours), timing(floor)
    ratio = value.median / low.median
    return Figure(
        name, value.median * 1e6, "us", low.median * 1e6, ratio, _spread(value, low, ours, floor),
        "" if most is None else f"at most {most:g} times the no-op", None if most is None else ratio <= most, note,
    )  # fmt: skip


def _spread(value: Timing, low: Timing, ours: Sequence[float], floor: Sequence[float]) -> float | None:
    """Return the spread of the rounds' own ratios; None of one round."""
    return timing([one / other for one, other in zip(ours, floor, strict=True)]).spread if len(ours) > 1 else None
