"""The webhook against a no-op handler on the same server: CPU a request, and latency, on a large snapshot.

Both servers are processes of their own on one CPU where there are two; rounds are interleaved, CPU time is the
kernel's, of all threads, so that writing the history is in it. Every function of the reviews is asked once before the
rounds of the first figure; those of the second figure are new ones. Every answer is applied to its pod and compared
with one that is worked out without any cache from the same view.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure, Timing, timing
from benchmarks.webhook_world import CLUSTER, reviews, snapshot
from featurestore.store import published

NAME = "webhook"
ROUNDS = 15
#: Snapshots that are swapped in while the answers of the last figure are timed.
SWAPS = 3
_SETTLED = 4.0
#: Seconds to wait at most for what a server does in the background after its snapshot was taken up.
_PATIENCE = 60


class Target:
    """A server under measurement."""

    def __init__(self, pid: int, port: int) -> None:
        self._pid = pid
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def cpu(self) -> float:
        """Seconds of CPU that all of its threads have used."""
        spent = 0
        for task in Path(f"/proc/{self._pid}/task").iterdir():
            spent += int((task / "schedstat").read_text().split()[0])
        return spent / 1e9

    def settle(self) -> None:
        """Wait until it does nothing by itself any more."""
        for _ in range(_PATIENCE):
            before = self.cpu()
            time.sleep(1.0)
            if self.cpu() - before < 0.03:
                return

    def ask(self, bodies: Sequence[bytes]) -> list[float]:
        """Post *bodies* one after the other; returns the seconds that each answer took."""
        taken = []
        for body in bodies:
            began = time.perf_counter()
            answer = self.post(b"/mutate", body)
            taken.append(time.perf_counter() - began)
            if b'"allowed":true' not in answer:
                raise RuntimeError("a pod was not admitted")
        return taken

    def compare(self, bodies: Sequence[bytes]) -> tuple[int, int]:
        """Return how many of the last answers to *bodies* were held against a reference, and how many differ."""
        told = json.loads(self.post(b"/compare", b"[" + b",".join(bodies) + b"]"))
        return int(told["compared"]), len(told["wrong"])

    def post(self, path: bytes, body: bytes) -> bytes:
        """Post *body* to *path* and return what comes back; raises `RuntimeError` for anything but 200."""
        head = b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self._socket.sendall(head % (path, len(body)) + body)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._received()
        head, _, rest = data.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.splitlines()[0].decode())
        length = next(
            int(line.split(b":")[1]) for line in head.splitlines() if line.lower().startswith(b"content-length")
        )
        while len(rest) < length:
            rest += self._received()
        return rest

    def _received(self) -> bytes:
        data = self._socket.recv(65536)
        if not data:
            raise RuntimeError("the server closed the connection")
        return data


@contextmanager
def _serving(kind: str, *arguments: str) -> Iterator[Target]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        descriptor = listening.fileno()
        port = listening.getsockname()[1]
        command = [sys.executable, "-m", "benchmarks.webhook_server", kind, str(descriptor), *arguments]
        process = subprocess.Popen(command, pass_fds=[descriptor], stderr=subprocess.DEVNULL)
        if (os.cpu_count() or 1) > 1:
            os.sched_setaffinity(process.pid, {1})
        try:
            target = Target(process.pid, port)
            target.ask(list(reviews(1, 1)))  # waits for the server, and for its snapshot
            yield target
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def _round(target: Target, bodies: Sequence[bytes]) -> tuple[float, list[float]]:
    before = target.cpu()
    taken = target.ask(bodies)
    return (target.cpu() - before) / len(bodies), taken


def run(scale: float) -> list[Figure]:
    """Measure at *scale* of 5,000 nodes, 50,000 pods, 10,000 functions."""
    nodes, pods, functions = (max(10, int(full * scale)) for full in (5_000, 50_000, 10_000))
    asked = max(5, min(functions, 500))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        published.write(snapshot(nodes, pods, functions, 10 * functions), directory / "snapshot")
        config = directory / "colocate.toml"
        config.write_text(
            f"[store]\npath = {str(directory / 'db')!r}\nsnapshot = {str(directory / 'snapshot')!r}\n"
            f"spool = {str(directory / 'spool')!r}\n[advice]\nmode = 'prefer'\nstale_after = '7d'\n"
            f"[serve]\ncluster = '{CLUSTER}'\n"
        )
        known = list(reviews(2 * asked, asked))
        new = list(reviews(asked, functions, seed=2))
        sides: dict[str, list[float]] = {"noop": [], "webhook": []}
        latencies: dict[str, list[float]] = {"noop": [], "webhook": []}
        with _serving("noop") as noop, _serving("webhook", str(config)) as webhook:
            noop.ask(known[:asked])
            webhook.ask(known)
            webhook.settle()
            for _ in range(ROUNDS):
                for side, target in (("noop", noop), ("webhook", webhook)):
                    cpu, taken = _round(target, known)
                    sides[side].append(cpu)
                    latencies[side] += taken
            webhook.settle()
            before = webhook.cpu()
            waited = webhook.ask(new)
            webhook.settle()  # until the history has them
            first = (webhook.cpu() - before) / len(new)
            compared, wrong = webhook.compare([*known, *new])
            swapping = _swapped(webhook, known, directory / "snapshot", (nodes, pods, functions))
            more, wrong_then = webhook.compare(known)
    floor, seen = timing(sides["noop"]), _mean(sides["webhook"])
    p99 = {side: float(np.percentile(taken, 99)) for side, taken in latencies.items()}
    slowest = max(swapping)
    return [
        _against("CPU a request, function seen before, changes of the view among them", seen, floor, 1.5),
        _against("the same, between two changes of the view", timing(sides["webhook"]), floor, 1.5),
        _against("CPU a request, the first of each function", timing([first]), floor, 3.0),
        _against("p99 of the latency", timing([p99["webhook"]]), timing([p99["noop"]]), 3.0),
        Figure("median wait for the first answer of each function", float(np.median(waited)) * 1e6, "us"),
        Figure(f"slowest answer while {SWAPS} snapshots are swapped in", slowest * 1e3, "ms",
               goal="at most 100 ms", met=slowest <= 0.1, note=f"{len(swapping)} answers"),
        Figure("answers that differ from the uncached reference", wrong + wrong_then, f"of {compared + more}",
               goal="none", met=not wrong + wrong_then),
    ]  # fmt: skip


def _swapped(target: Target, bodies: Sequence[bytes], path: Path, size: tuple[int, int, int]) -> list[float]:
    """Ask on and on while new snapshots are published and taken up; returns the seconds of each answer."""
    nodes, pods, functions = size
    done = threading.Event()

    def publish() -> None:
        # Written by a process of its own, as learning is: only taking it up is the server's.
        for seed in range(1, SWAPS + 1):
            arguments = (nodes, pods, functions, 10 * functions, seed)
            code = f"from benchmarks import webhook_world as w; w.publish({str(path)!r}, {arguments!r})"
            subprocess.run([sys.executable, "-c", code], check=True)
            time.sleep(_SETTLED)
        done.set()

    publisher = threading.Thread(target=publish)
    publisher.start()
    taken: list[float] = []
    while not done.is_set():
        taken += target.ask(bodies[:100])
    publisher.join()
    return taken


def _mean(seconds: Sequence[float]) -> Timing:
    """Summarise rounds of which some fall on a change of the view, after which all answers are prepared anew."""
    return replace(timing(seconds), median=float(np.mean(seconds)))


def _against(name: str, value: Timing, floor: Timing, most: float) -> Figure:
    ratio = value.median / floor.median
    return Figure(
        name, value.median * 1e6, "us", floor.median * 1e6, ratio, value.spread, f"at most {most:g} times the no-op",
        ratio <= most,
    )  # fmt: skip
