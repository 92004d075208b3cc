"""Simulated processing elements (PEs): they listen for datagrams, ask now and then, checkpoint, reset, and crash.

Datagrams can be lost, come twice and come late; what a PE did is kept, so that it can be held against what the
operator says. All PEs of a `Simulator` live in one event loop.
"""

import asyncio
import contextlib
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rules.regions.events import Notification
from rules.regions.notifications import read

BASE = "/api/consistentregion"
_AGAIN = 0.05

#: Seconds that a PE waits for an answer before it asks again on a new connection.
_PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class Faults:
    """Shares of datagrams that are lost, doubled and delayed by up to *delay* seconds."""

    lost: float = 0.0
    doubled: float = 0.0
    delayed: float = 0.0
    delay: float = 0.05


@dataclass(frozen=True, slots=True)
class Manner:
    """How PEs behave: seconds that a checkpoint and a reset take, and between two questions without a datagram.

    *blocking* PEs report a checkpoint in two steps. *refuses* says whether a PE leaves a notification unanswered;
    while *holds* says so of a region and a sequence id, its PEs neither checkpoint nor reset.
    """

    drain: float = 0.0
    reset: float = 0.0
    poll: float = 5.0
    blocking: frozenset[int] = frozenset()
    refuses: Callable[[int, Notification], bool] = lambda pe, notification: False
    holds: Callable[[int, int], bool] = lambda region, seq: False
    faults: Faults = Faults()


@dataclass(slots=True)
class Pe:
    """One PE: what it saw last of each region, and what it did."""

    number: int
    seen: dict[int, Notification] = field(default_factory=dict)
    told: list[tuple[int, Notification]] = field(default_factory=list)
    checkpoints: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    submits: dict[int, int] = field(default_factory=dict)
    datagrams: int = 0


class Simulator:
    """The PEs *numbers* against the operator at *host*:*port*; *address* gives the host that a PE listens on."""

    def __init__(
        self,
        numbers: Iterable[int],
        *,
        operator: tuple[str, int],
        address: Callable[[int], str],
        port: int,
        manner: Manner | None = None,
        seed: int = 0,
    ) -> None:
        self.pes = {number: Pe(number) for number in numbers}
        self.manner = manner or Manner()
        #: What ended work of a PE that nobody foresaw: a fault of the simulator, or of the operator's answers.
        self.failures: list[str] = []
        self._operator, self._address, self._port = operator, address, port
        self._rng = random.Random(seed)
        self._running: dict[int, _Running] = {}

    async def start(self, numbers: Iterable[int] | None = None) -> None:
        """Start PEs, all by default."""
        for number in self.pes if numbers is None else numbers:
            running = _Running(self, self.pes[number], _Http(*self._operator))
            self._running[number] = running
            await running.start(self._address(number), self._port)

    async def stop(self, numbers: Iterable[int] | None = None) -> None:
        """Stop PEs, all by default."""
        for number in list(self._running) if numbers is None else list(numbers):
            await self._running.pop(number).stop()

    async def crash(self, number: int) -> None:
        """End a PE that forgets what it saw; its checkpoints stay."""
        await self.stop([number])
        before = self.pes[number]
        self.pes[number] = Pe(number, checkpoints=before.checkpoints, told=before.told)

    async def drain(self, region: int, operator: str, seq: int) -> int:
        """Ask for a drain as an operator of the region, and checkpoint everywhere; return the answer's status."""
        first = next(iter(self._running.values()))
        body = {"request": {"seqId": str(seq), "operator": operator}}
        status, _ = await first.http.ask("PUT", f"{BASE}/region/{region}/drain", msgspec.json.encode(body))
        await asyncio.gather(*(each.checkpoint(region, seq) for each in self._running.values()))
        return status

    async def everywhere(self, method: str, path: Callable[[int], str], body: bytes, times: int) -> None:
        """Have every PE ask the same, so many times."""
        for _ in range(times):
            await asyncio.gather(
                *(running.http.ask(method, path(number), body) for number, running in self._running.items())
            )

    def fate(self) -> list[float]:
        """When copies of a datagram arrive, in seconds from now."""
        faults, rng = self.manner.faults, self._rng
        if rng.random() < faults.lost:
            return []
        copies = 2 if rng.random() < faults.doubled else 1
        return [rng.uniform(0, faults.delay) if rng.random() < faults.delayed else 0.0 for _ in range(copies)]


class _Running(asyncio.DatagramProtocol):
    """One PE that runs."""

    def __init__(self, simulator: Simulator, pe: Pe, http: "_Http") -> None:
        self._simulator, self._pe, self.http = simulator, pe, http
        self._tasks: set[asyncio.Task[None]] = set()
        self._heard = asyncio.Event()
        self._transport: asyncio.BaseTransport | None = None

    async def start(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=(host, port))
        self._spawn(self._ask_now_and_then())

    async def stop(self) -> None:
        if self._transport is not None:
            self._transport.close()
        while tasks := list(self._tasks):  # a task that is cancelled at the wrong moment may begin another
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=1.0)
        self.http.close()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        loop = asyncio.get_running_loop()
        for delay in self._simulator.fate():
            if delay:
                loop.call_later(delay, self._arrived, data)
            else:
                self._arrived(data)

    def _arrived(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._pe.datagrams += 1
            self._heard.set()
            self._take(data)

    async def _ask_now_and_then(self) -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                status, body = await self.http.ask("GET", f"{BASE}/pe/{self._pe.number}")
                if status == 200:
                    self._take(body)
            self._heard.clear()
            with contextlib.suppress(TimeoutError):
                while True:
                    async with asyncio.timeout(self._simulator.manner.poll):
                        await self._heard.wait()
                    self._heard.clear()

    def _take(self, body: bytes) -> None:
        """Act on each notification that differs from the last one of its region."""
        for region, entry in _BOARDS.decode(body).items():
            notification = Notification(entry["type"], entry["message"])
            if self._pe.seen.get(region) == notification:
                continue
            self._pe.seen[region] = notification
            self._pe.told.append((region, notification))
            del self._pe.told[:-1000]
            self._act(region, notification)

    def _act(self, region: int, notification: Notification) -> None:
        numbers, manner, pe = read(notification), self._simulator.manner, self._pe
        if manner.refuses(pe.number, notification):
            return
        if notification.type == "triggerDrain":
            self._spawn(self.checkpoint(region, numbers["seqId"]))
        elif notification.type == "triggerReset":
            self._spawn(self._reset(region, numbers))
        elif notification.type == "resumeSubmission":
            pe.submits[region] = max(numbers["seqId"], pe.submits.get(region, 0))

    async def checkpoint(self, region: int, seq: int) -> None:
        """Take a checkpoint, in two steps where the PE blocks, and report it."""
        manner, number = self._simulator.manner, self._pe.number
        await self._held(region, seq)
        await asyncio.sleep(manner.drain)
        path = f"{BASE}/region/{region}/pe/{number}"
        if number in manner.blocking:
            await self._report(f"{path}/blockingcheckpoint", b"%d" % seq)
            await asyncio.sleep(manner.drain)
        self._pe.checkpoints[region].add(seq)
        await self._report(f"{path}/checkpoint", b"%d" % seq)

    async def _reset(self, region: int, numbers: Mapping[str, int]) -> None:
        await self._held(region, numbers["seqId"])
        await asyncio.sleep(self._simulator.manner.reset)
        progress = {"seqId": str(numbers["seqId"]), "resetAttempt": str(numbers["resetAttempt"])}
        path = f"{BASE}/region/{region}/pe/{self._pe.number}/reset"
        await self._report(path, msgspec.json.encode({"progress": progress}))

    async def _held(self, region: int, seq: int) -> None:
        while self._simulator.manner.holds(region, seq):
            await asyncio.sleep(_AGAIN)

    async def _report(self, path: str, body: bytes) -> None:
        """Put until the operator takes it."""
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                status, _ = await self.http.ask("PUT", path, body)
                if status < 500:
                    return
            await asyncio.sleep(_AGAIN)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._simulator.failures.append(f"PE {self._pe.number}: {type(error).__name__}: {error}"[:500])


_BOARDS = msgspec.json.Decoder(dict[int, dict[str, str]])


class _Http:
    """One connection that is kept, for one question after the other; OSError where it fails."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._lock = asyncio.Lock()

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Ask once; return the status and the body."""
        async with self._lock:
            try:
                async with asyncio.timeout(_PATIENCE):
                    return await self._asked(method, path, body)
            except BaseException:
                self.close()
                raise

    async def _asked(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        if writer.get_extra_info("sockname") == writer.get_extra_info("peername"):
            # Where nobody listens and the port is one that outgoing connections get, TCP connects a socket to
            # itself; kept, it would also hold the port against an operator that starts again.
            raise ConnectionRefusedError(f"nobody listens on {self._host}:{self._port}")
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        version, _, rest = lines[0].partition(" ")
        if not version.startswith("HTTP/") or not rest[:3].isdecimal():
            raise ConnectionError(f"{self._host}:{self._port} does not answer in HTTP")
        status, length, close = int(rest[:3]), 0, False
        for line in lines[1:]:
            name, _, value = line.partition(":")
            if name.lower() == "content-length":
                length = int(value)
            elif name.lower() == "connection":
                close = value.strip().lower() == "close"
        answer = await reader.readexactly(length)
        if close:
            self.close()
        return status, answer

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
