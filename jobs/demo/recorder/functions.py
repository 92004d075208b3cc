"""The functions that are recorded: each a small real workload of one kind, 40 to 80 ms when nothing disturbs it.

A workload is built once (what a container's initialisation does) and then run once an invocation with a *size*
around 1 that scales its work. `run` returns the bytes it (sent, received) over the network.
"""

import hashlib
import mmap
import os
import socket
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Run = Callable[[float], tuple[int, int]]

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Function:
    """One recorded function: its names as OpenWhisk has them, what limits it, and how to build it."""

    namespace: str
    action: str
    bound: str
    memory_mb: int
    build: Callable[[Path], Run]

    @property
    def name(self) -> str:
        return f"{self.namespace}/{self.action}"


def _transcode(scratch: Path) -> Run:
    """Compress eight blocks on four threads: wants every core for its whole run."""
    pool = ThreadPoolExecutor(4)
    noise = np.random.default_rng(1).integers(0, 48, MIB, dtype=np.uint8).tobytes()

    def run(size: float) -> tuple[int, int]:
        block = noise[: int(520_000 * size)]
        for packed in pool.map(lambda level: zlib.compress(block, level), (4,) * 8):
            assert packed
        return 0, 0

    return run


def _thumbnail(scratch: Path) -> Run:
    """Interpret plain Python on one thread over a few kilobytes: one core, no memory traffic."""

    def run(size: float) -> tuple[int, int]:
        state = 1
        for _ in range(int(640_000 * size)):
            state = (state * 1_103_515_245 + 12_345) & 0x7FFF_FFFF
        return 0, state & 0

    return run


def _scan(scratch: Path) -> Run:
    """Stream over arrays several times larger than a last-level cache's share: memory bandwidth."""
    left = np.ones(24 * MIB // 2)
    right = np.ones(24 * MIB // 2)

    def run(size: float) -> tuple[int, int]:
        part = int(left.size * min(size, 2) / 2)
        for _ in range(10):
            np.add(left[:part], right[:part], out=left[:part])
            np.subtract(left[:part], right[:part], out=left[:part])
        return 0, 0

    return run


def _lookup(scratch: Path) -> Run:
    """Look up random places of a table that fits the last-level cache and no nearer one."""
    random = np.random.default_rng(2)
    table = random.integers(0, 1 << 30, 12 * MIB // 4, dtype=np.int32)
    places = random.integers(0, table.size, 4 * MIB, dtype=np.int32)

    def run(size: float) -> tuple[int, int]:
        for _ in range(5):
            table.take(places[: int(2 * MIB * size)]).sum()
        return 0, 0

    return run


def _journal(scratch: Path) -> Run:
    """Append small records and force each to the disk: the disk's latency."""
    descriptor = os.open(scratch / "journal", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    record = os.urandom(8192)

    def run(size: float) -> tuple[int, int]:
        os.lseek(descriptor, 0, os.SEEK_SET)
        for _ in range(max(1, round(320 * size))):
            os.write(descriptor, record)
            os.fdatasync(descriptor)
        return 0, 0

    return run


def _backup(scratch: Path) -> Run:
    """Write a megabyte at a time past the page cache: the disk's bandwidth."""
    buffer = mmap.mmap(-1, MIB)
    buffer.write(os.urandom(MIB))
    descriptor = os.open(scratch / "backup", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT, 0o600)

    def run(size: float) -> tuple[int, int]:
        for block in range(max(1, round(170 * size))):
            os.pwrite(descriptor, buffer, block % 128 * MIB)
        os.fdatasync(descriptor)
        return 0, 0

    return run


def _stream(scratch: Path) -> Run:
    """Send to a peer over the loopback interface and wait for its answer: sockets and copying."""
    here, there = _connected()
    payload = bytes(256 * 1024)
    total = 0

    def serve() -> None:
        view = bytearray(1 * MIB)
        while wanted := int.from_bytes(there.recv(8, socket.MSG_WAITALL), "big"):
            while wanted:
                wanted -= there.recv_into(view, min(wanted, len(view)))
            there.sendall(b"\x01" * 1024)

    threading.Thread(target=serve, daemon=True).start()

    def run(size: float) -> tuple[int, int]:
        nonlocal total
        count = max(1, round(450 * size))
        here.sendall((count * len(payload)).to_bytes(8, "big"))
        for _ in range(count):
            here.sendall(payload)
        answer = here.recv(1024, socket.MSG_WAITALL)
        return 8 + count * len(payload), len(answer)

    return run


def _connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        here = socket.create_connection(listener.getsockname())
        there, _ = listener.accept()
    return here, there


def _poll(scratch: Path) -> Run:
    """Wait for something far away: almost no resource at all."""

    def run(size: float) -> tuple[int, int]:
        for _ in range(6):
            time.sleep(0.01 * size)
        return 0, 0

    return run


def _report(scratch: Path) -> Run:
    """Compute on one core, wait, read memory, and force a file to the disk: some of everything."""
    descriptor = os.open(scratch / "report", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    rows = np.random.default_rng(3).random(2 * MIB)
    page = os.urandom(MIB)

    def run(size: float) -> tuple[int, int]:
        total = 0
        for number in range(int(400_000 * size)):
            total += number & 7
        rows[: int(rows.size * min(size, 2) / 2)].sum()
        time.sleep(0.015 * size)
        hashlib.sha256(page).digest()
        for block in range(100):
            os.pwrite(descriptor, page[: MIB // 8], block % 8 * MIB // 8)
            os.fdatasync(descriptor)
        return 0, total & 0

    return run


#: The recorded functions, by hand; what bounds each is what its author meant, not what was measured.
_ALL = (
    Function("media", "transcode", "cpu, four threads", 256, _transcode),
    Function("media", "thumbnail", "cpu, one thread", 128, _thumbnail),
    Function("media", "stream", "network over loopback", 256, _stream),
    Function("data", "scan", "memory bandwidth", 512, _scan),
    Function("data", "lookup", "last-level cache", 256, _lookup),
    Function("data", "backup", "disk bandwidth", 256, _backup),
    Function("shop", "journal", "disk latency", 128, _journal),
    Function("shop", "poll", "waiting", 128, _poll),
    Function("shop", "report", "mixed", 256, _report),
)
FUNCTIONS: Mapping[str, Function] = {function.name: function for function in _ALL}
