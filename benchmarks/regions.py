"""Consistent regions: events a second with writes that cost nothing, and the operator's CPU time of a real drain.

The floor of the events is the state machine alone on the same events; that of a drain are as many requests to the
same operator about a region that nobody knows. The soak (`benchmarks.regions_soak`) drains with faults and kills.
"""

import statistics
import tempfile
from collections.abc import Iterable
from pathlib import Path

import structlog

from benchmarks.figures import Figure, interleaved
from benchmarks.regions_soak import soak
from jobs.demo.pes import BASE, Manner, Simulator
from jobs.regions.boards import Boards
from jobs.regions.consumer import Consumer
from jobs.regions.inbox import Inbox, Listed
from jobs.regions.resources import Resource
from pipeline.clients.kubernetes import KubernetesClient
from rules.regions.events import CheckpointDone, DrainPeriod
from rules.regions.health import Health
from rules.regions.machine import step
from rules.regions.region import RegionSpec, RegionStatus, Trigger, initial
from tests.support.kube_api import serving
from tests.support.region_operators import Forked, Loop, simulated
from tests.support.region_world import Job, free_ports, free_udp_port, wait_for

__all__ = ["run", "soak"]

REGIONS, PES = 100, 100
_LEAST, _MOST_CPU = 5000, 250.0


def run(scale: float = 1.0) -> list[Figure]:
    """Measure both at *scale* of 100 regions of 100 PEs."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    return [_events(max(1, round(REGIONS * scale)), PES), *_drains(max(2, round(PES * scale)))]


class _Nowhere:
    """Takes every write and tells nobody."""

    def region(self, name: str) -> Resource:
        raise LookupError(name)  # nothing is read back while every write is taken

    def write(self, name: str, version: str, spec: RegionSpec, status: RegionStatus) -> str:
        return version

    def tell(self, pes: Iterable[int]) -> None:
        """Nothing."""


def _spec(index: int, pes: int) -> RegionSpec:
    members = tuple(range(index * pes, (index + 1) * pes))
    return RegionSpec(region_index=index, pes_in_region=members, trigger=Trigger.PERIODIC, period=1.0)


def _events(regions: int, pes: int) -> Figure:
    """One drain of every region: a timer and a report of each PE, in the order in which they would mix."""
    nowhere, inbox, boards = _Nowhere(), Inbox(), Boards()
    now = 0.0
    consumer = Consumer(
        inbox,
        nowhere,
        boards,
        nowhere,
        lambda members: Health(True, True),
        expected=regions,
        restarted=False,
        clock=lambda: now,
        now=lambda: int(now * 1000),
    )
    specs = [_spec(index, pes) for index in range(regions)]
    resources = [Resource(f"j-cr{spec.region_index}", "1", initial(spec), False) for spec in specs]
    inbox.watched(Listed(resources, frozenset(resource.name for resource in resources)))
    while consumer.turn():
        pass
    alone = dict(consumer.regions)
    count = regions * (pes + 1)

    def queue() -> None:
        nonlocal now
        now += 1.0
        consumer.turn()
        for member in range(pes):
            for index in range(regions):
                seq = consumer.region(index).status.current_seq_id  # type: ignore[union-attr]
                inbox.report(index, CheckpointDone(index * pes + member, seq))
        while consumer.turn():
            pass

    def machine() -> None:
        for index, region in alone.items():
            alone[index] = step(region, DrainPeriod(region.status.current_timer_seq_id), 0).region
        for member in range(pes):
            for index, region in alone.items():
                event = CheckpointDone(index * pes + member, region.status.current_seq_id)
                alone[index] = step(region, event, 0).region

    taken = interleaved({"queue": queue, "machine": machine})
    assert all(region.status.last_completed_seq_id == 8 for region in consumer.regions.values())
    rate, floor = count / taken["queue"].median, count / taken["machine"].median
    return Figure(
        "events handled, writes faked",
        rate,
        "events/s",
        floor=floor,
        ratio=rate / floor,
        spread=taken["queue"].spread,
        goal=f">= {_LEAST} events/s",
        met=rate >= _LEAST,
        note=f"{regions} regions of {pes} PEs; floor: the state machine alone",
    )


def _drains(pes: int) -> list[Figure]:
    """The operator's CPU time of one drain of *pes* simulated PEs over loopback."""
    with tempfile.TemporaryDirectory() as name, serving() as api:
        directory = Path(name)
        client = KubernetesClient(kubeconfig=api.kubeconfig(directory))
        region = {"regionIndex": 0, "pesInRegion": list(range(pes)), "trigger": "periodic", "period": 0.2}
        job, port = Job(client, "j", [region], directory), free_udp_port()
        job.apply()
        job.run_pes()
        operator = Forked(directory / "kubeconfig", job, port, free_ports())
        try:
            with simulated(job, operator, port, Manner()) as (simulator, loop):
                wait_for(lambda: job.status().get("lastCompletedSeqID", 0) >= 3, 60.0, "three drains")
                drained, floor = _rounds(job, operator, simulator, loop, pes)
        finally:
            operator.kill()
    low, high = (statistics.quantiles(drained, n=4)[number] for number in (0, 2))
    middle, beneath = statistics.median(drained), statistics.median(floor)
    return [
        Figure(
            "operator's CPU time of a drain",
            middle,
            "ms",
            floor=beneath,
            ratio=middle / beneath if beneath else None,
            spread=(high - low) / middle if middle else 0.0,
            goal=f"< {_MOST_CPU:g} ms",
            met=middle < _MOST_CPU,
            note=f"{pes} PEs over loopback; floor: as many requests about an unknown region",
        )
    ]


def _rounds(
    job: Job, operator: Forked, simulator: Simulator, loop: Loop, pes: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of CPU time of drains and of the floor, nine rounds of five drains each."""
    drained, floor = [], []
    for _ in range(9):
        first, began = job.status()["lastCompletedSeqID"], operator.cpu()
        wait_for(lambda first=first: job.status()["lastCompletedSeqID"] >= first + 5, 60.0, "five drains")  # type: ignore[misc]
        count = job.status()["lastCompletedSeqID"] - first
        drained.append((operator.cpu() - began) * 1000 / count)
        began, before = operator.cpu(), job.status()["lastCompletedSeqID"]
        loop.do(simulator.everywhere("PUT", lambda pe: f"{BASE}/region/999/pe/{pe}/checkpoint", b"1", 5))
        between = job.status()["lastCompletedSeqID"] - before
        floor.append(max(0.0, (operator.cpu() - began) * 1000 - between * drained[-1]) / 5)
    return drained, floor
