"""The webhook against a no-op handler on the same server: CPU a request, and latency, on a large snapshot.

Both servers are processes of their own on one CPU where there are two; rounds are interleaved, CPU time is the
kernel's. Every function of the reviews is asked once before the rounds of the *prepared* figure.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure, timing
from benchmarks.webhook_world import CLUSTER, reviews, snapshot
from featurestore.store import published

NAME = "webhook"
ROUNDS = 5


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

    def ask(self, bodies: Sequence[bytes]) -> list[float]:
        """Post *bodies* one after the other; returns the seconds that each answer took."""
        taken = []
        for body in bodies:
            head = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            began = time.perf_counter()
            self._socket.sendall(head % len(body) + body)
            self._answer()
            taken.append(time.perf_counter() - began)
        return taken

    def _answer(self) -> None:
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
        if b'"allowed":true' not in rest:
            raise RuntimeError("a pod was not admitted")

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
        bodies = list(reviews(2 * asked, asked))
        with _serving("noop") as noop, _serving("webhook", str(config)) as webhook:
            noop.ask(bodies[:asked])
            first, _ = _round(webhook, bodies[:asked])
            sides: dict[str, list[float]] = {"noop": [], "webhook": []}
            latencies: dict[str, list[float]] = {"noop": [], "webhook": []}
            webhook.ask(bodies)
            for _ in range(ROUNDS):
                for side, target in (("noop", noop), ("webhook", webhook)):
                    cpu, taken = _round(target, bodies)
                    sides[side].append(cpu)
                    latencies[side] += taken
    floor, value = timing(sides["noop"]), timing(sides["webhook"])
    p99 = {side: float(np.percentile(taken, 99)) for side, taken in latencies.items()}
    return [
        _against("CPU a request, function seen before", value.median * 1e6, floor.median * 1e6, 1.5, value.spread),
        _against("CPU a request, the first of each function", first * 1e6, floor.median * 1e6, 3.0, None),
        _against("p99 of the latency", p99["webhook"] * 1e6, p99["noop"] * 1e6, 3.0, None),
        Figure("slowest answer", max(latencies["webhook"]) * 1e3, "ms", goal="at most 100 ms",
               met=max(latencies["webhook"]) <= 0.1),
    ]  # fmt: skip


def _against(name: str, value: float, floor: float, most: float, spread: float | None) -> Figure:
    ratio = value / floor
    return Figure(name, value, "us", floor, ratio, spread, f"at most {most:g} times the no-op", ratio <= most)
