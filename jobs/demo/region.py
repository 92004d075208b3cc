"""A consistent region of simulated PEs on loopback: some drains, a crash and its reset, without a cluster.

The consumer, the REST interface and the datagrams are those of the operator; only the resource is kept in memory.
"""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from jobs.demo.pes import Faults, Manner, Simulator
from jobs.regions.boards import Boards
from jobs.regions.consumer import Consumer
from jobs.regions.inbox import Inbox, Listed
from jobs.regions.messenger import Addresses, Messenger
from jobs.regions.resources import Resource
from jobs.regions.rest import Rest
from jobs.regions.web import Web
from pipeline.errors import BadInput
from rules.regions.health import Health
from rules.regions.region import Region, RegionSpec, RegionStatus, State, Trigger, initial

PES, DRAINS, LOST = 4, 3, 0.2

_ADDRESS = "127.0.{high}.{low}"
_PATIENCE = 20.0


class Played(NamedTuple):
    """What happened: the region after the first drains, after the crash's reset, and after one drain more."""

    drained: RegionStatus
    reset: RegionStatus
    again: RegionStatus


class _Memory:
    """The region's resource, in memory."""

    def __init__(self, region: Region) -> None:
        self._region, self._version = region, 1

    def region(self, name: str) -> Resource:
        return Resource(name, str(self._version), self._region, self._version > 1)

    def write(self, name: str, version: str, spec: RegionSpec, status: RegionStatus) -> str:
        self._region, self._version = Region(spec, status), self._version + 1
        return str(self._version)


def play() -> Played:
    """Play it, in a second or two; raises OSError where loopback cannot be used, TimeoutError where it gets stuck."""
    spec = RegionSpec(
        region_index=0, pes_in_region=tuple(range(PES)), trigger=Trigger.PERIODIC, period=0.05, drain_timeout=5.0
    )
    inbox, boards, memory = Inbox(), Boards(), _Memory(initial(spec))
    well = Health(True, True)
    port = _free_port()
    messenger = Messenger(boards, Addresses(_ADDRESS, port, "demo", "demo"))

    def health(_: Iterable[int]) -> Health:
        return well

    consumer = Consumer(inbox, memory, boards, messenger, health, expected=1, restarted=False)

    def until(holds: Callable[[RegionStatus], bool]) -> RegionStatus:
        end = time.monotonic() + _PATIENCE
        while (region := consumer.region(0)) is None or not holds(region.status):
            if time.monotonic() > end:
                raise TimeoutError("the region of the demo does not go on")
            time.sleep(0.005)
        return region.status

    rest = Rest(boards.of, boards.entry, consumer.region, inbox.report)
    ended = threading.Event()
    consuming = threading.Thread(target=consumer.run, args=(ended.is_set,), daemon=True)
    with Web((rest, 0), (rest, 0), host="127.0.0.1") as web, asyncio.Runner() as runner:
        manner = Manner(drain=0.01, reset=0.01, poll=0.1, faults=Faults(lost=LOST))
        addresses = [_ADDRESS.format(high=0, low=pe + 1) for pe in range(PES)]
        pes = Simulator(
            range(PES), operator=("127.0.0.1", web.ports[0]), address=addresses.__getitem__, port=port, manner=manner
        )

        async def played() -> Played:
            nonlocal well
            await pes.start()
            drained = await asyncio.to_thread(until, lambda status: status.last_completed_seq_id >= DRAINS)
            await pes.crash(PES - 1)
            well = Health(False, False)
            inbox.recheck(0)
            await asyncio.to_thread(until, lambda status: status.state is State.UNHEALTHY)
            await pes.start([PES - 1])
            well = Health(True, False)
            inbox.recheck(0)
            reset = await asyncio.to_thread(until, lambda status: status.last_completed_reset >= 0)
            last = reset.last_completed_seq_id
            again = await asyncio.to_thread(until, lambda status: status.last_completed_seq_id > last)
            await pes.stop()
            return Played(drained, reset, again)

        try:
            messenger.start()
            consuming.start()
            inbox.watched(Listed([memory.region("demo-cr0")], frozenset({"demo-cr0"})))
            inbox.recheck(0)
            return runner.run(played())
        finally:
            ended.set()
            inbox.close()
            consuming.join(5.0)
            messenger.close()


def told() -> str:
    """Play it and say in one line what happened, or that it could not be shown."""
    try:
        drained, reset, again = play()
    except (OSError, BadInput) as error:
        return f"A consistent region of simulated PEs could not be shown: {error}"
    return (
        f"A consistent region of {PES} simulated PEs, {LOST:.0%} of whose datagrams are lost:"
        f" {drained.last_completed_seq_id} drains of {drained.avg_drain_time_metric} ms on average; a PE crashed, and"
        f" all went back to checkpoint {reset.last_completed_reset} in {reset.avg_reset_time_metric} ms;"
        f" checkpoint {again.last_completed_seq_id} is completed since."
    )


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
