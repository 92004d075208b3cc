"""Drains with faulty datagrams by the thousand, and an operator that is killed at moments of all kinds.

What must hold: every drain completes; after each start the regions are at their last completed checkpoint, or have
used up their attempts; no id is drained twice; nothing is completed that a PE has not checkpointed; memory stays.
"""

import contextlib
import json
import logging
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from jobs.demo.pes import Faults, Manner, Simulator
from pipeline.clients.kubernetes import KubernetesClient
from tests.support.kube_api import KubeApi, serving
from tests.support.region_operators import Forked, simulated
from tests.support.region_world import Job, Writes, free_ports, free_udp_port, wait_for

DRAINS, KILLS = 10_000, 200

#: Regions and their PEs; some are in two.
_REGIONS = ((0, 1, 2), (2, 3, 4), (5, 6), (7, 8, 9))
_FAULTS = Manner(poll=0.1, blocking=frozenset({1, 6}), faults=Faults(lost=0.2, doubled=0.2, delayed=0.2, delay=0.02))
_MAX = "MAXIMUM_RESET_ATTEMPTS_REACHED"
_WELL = ("PROCESSING", "DRAINING", "CHECKPOINT_PENDING")


def soak(scale: float = 1.0) -> list[Figure]:
    """Drain and kill *scale* of 10,000 and 200 times."""
    drains, kills = max(20, round(DRAINS * scale)), max(4, round(KILLS * scale))
    return [*_drained(drains), *_killed(kills)]


#: Resets that each may try: the last one has used them up when it is killed twice without a drain in between.
_ATTEMPTS = (5, 5, 5, 1)


def _job(api: KubeApi, directory: Path) -> Job:
    common = {"trigger": "periodic", "period": 0.01}
    regions = [
        {"regionIndex": index, "pesInRegion": list(pes), "maxConsecutiveResetAttempts": attempts, **common}
        for index, (pes, attempts) in enumerate(zip(_REGIONS, _ATTEMPTS, strict=True))
    ]
    job = Job(KubernetesClient(kubeconfig=api.kubeconfig(directory)), "j", regions, directory)
    job.apply()
    job.run_pes()
    return job


def _indices() -> range:
    return range(len(_REGIONS))


def _checkpoints(simulator: Simulator) -> dict[int, list[set[int]]]:
    return {index: [simulator.pes[pe].checkpoints[index] for pe in _REGIONS[index]] for index in _indices()}


def _say(what: str, job: Job, operator: Forked, simulator: Simulator, writes: Writes) -> None:
    """Write what explains a failure: the operator's own words, what was written of each region, what its PEs saw."""
    lines = [f"==== {what}", operator.says()]
    for index in _indices():
        lines.append(f"--- region {index}: {json.dumps(job.status(index))}")
        lines += [f"  written {json.dumps(status)}" for status in writes.statuses[index][-6:]]
        lines += [f"  PE {pe}: saw {simulator.pes[pe].seen.get(index)}" for pe in _REGIONS[index]]
    lines += [f"--- failures of PEs: {simulator.failures}", "===="]
    print("\n".join(lines), file=sys.stderr, flush=True)


@contextlib.contextmanager
def _explained(job: Job, operator: Forked, simulator: Simulator, writes: Writes) -> Iterator[None]:
    """Whatever ends what is inside is explained first."""
    try:
        yield
    except Exception as error:
        _say(f"{type(error).__name__}: {error}", job, operator, simulator, writes)
        raise


def _drained(drains: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name, serving() as api:
        directory = Path(name)
        job, port = _job(api, directory), free_udp_port()
        writes = Writes(api, job)
        operator = Forked(directory / "kubeconfig", job, port, free_ports())
        began = time.monotonic()
        try:
            with (
                simulated(job, operator, port, _FAULTS) as (simulator, _),
                _explained(job, operator, simulator, writes),
            ):

                def done() -> int:
                    return sum(job.status(index).get("lastCompletedSeqID", 0) for index in _indices())

                wait_for(lambda: done() >= drains // 5, 60.0 + drains, "the first fifth of the drains", 0.2)
                early = operator.memory()
                wait_for(lambda: done() >= drains, 60.0 + drains, "all drains", 0.2)
                growth, took = operator.memory() / early - 1.0, time.monotonic() - began
                resets = sum(job.status(index)["lastCompletedReset"] >= 0 for index in _indices())
                count = done()
                faults = writes.faults(_checkpoints(simulator))
                if resets or faults:
                    _say(f"{resets} regions were reset; {faults}", job, operator, simulator, writes)
        finally:
            operator.kill()
    return [
        Figure("drains with 20 % of datagrams lost, doubled, late", count, "drains", note=f"{count / took:.0f}/s"),
        Figure("... that timed out or broke a rule", resets + len(faults), "", goal="0", met=not (resets or faults)),
        Figure("memory after all drains to that after a fifth", growth * 100, "%", goal="< 5 %", met=growth < 0.05),
    ]


def _killed(kills: int) -> list[Figure]:
    rng = random.Random(7)
    exhausted = wrong = 0
    took = []
    with tempfile.TemporaryDirectory() as name, serving() as api:
        directory = Path(name)
        job, port = _job(api, directory), free_udp_port()
        writes = Writes(api, job)
        operator = Forked(directory / "kubeconfig", job, port, free_ports(), logging.INFO)
        try:
            with (
                simulated(job, operator, port, _FAULTS) as (simulator, _),
                _explained(job, operator, simulator, writes),
            ):
                for number in range(kills):
                    if number % 2:
                        # Right after a write, whose answer and whose notification nobody gets.
                        writes.at_a_write(after=rng.randrange(30), kill=operator.process.kill)
                        wait_for(lambda: writes.killed, 30.0, f"kill {number} at a write")
                        operator.process.join(10.0)
                    else:
                        time.sleep(rng.uniform(0.0, 0.5))
                        operator.kill()
                    killed = time.time_ns() // 1_000_000
                    before = {index: job.status(index) for index in _indices()}
                    fresh = not job.has_started()
                    began = time.monotonic()
                    operator.start()
                    how = {index: _after(job, operator, index, before[index], killed, fresh) for index in _indices()}
                    took.append(time.monotonic() - began)
                    exhausted += sum(each == "exhausted" for each in how.values())
                    elsewhere = [index for index, each in how.items() if each == "wrong"]
                    wrong += len(elsewhere)
                    if elsewhere:
                        what = f"kill {number} at {killed}: regions {elsewhere} are elsewhere; before: {before}"
                        _say(what, job, operator, simulator, writes)
                faults = writes.faults(_checkpoints(simulator))
                if faults:
                    _say("\n".join(faults), job, operator, simulator, writes)
        finally:
            operator.kill()
    back = f"back after {statistics.median(took):.1f} s, {max(took):.1f} s at most"
    return [
        Figure("kills of the operator", kills, "", note=f"{exhausted} regions had used up their attempts; {back}"),
        Figure("... after which a region was elsewhere", wrong, "", goal="0", met=wrong == 0),
        Figure("... ids used twice, false completions", len(faults), "", goal="0", met=not faults),
    ]


def _after(job: Job, operator: Forked, index: int, before: dict[str, Any], killed: int, fresh: bool) -> str:
    """Wait until a region is well again after a start; say how it came there.

    *fresh*: no operator had noted yet that it runs, as on a busy machine at the first kill. What starts then may
    start as the first one, without a reset.

    A write that was under way at the kill may be done a moment later, so that more may be completed than *before*.
    """
    last = before.get("lastCompletedSeqID", 0)

    def settled() -> bool:
        status = job.status(index)
        reset = status.get("lastResetTime", 0) >= killed and status["lastCompletedReset"] >= last
        return reset or status.get("state") == _MAX or (fresh and status.get("state") in _WELL)

    try:
        wait_for(settled, 30.0, "a reset after the start")
    except AssertionError:
        return "wrong"
    status = job.status(index)
    if status["state"] != _MAX:
        return "reset"
    used_up = status["currentResetAttempt"] == status["currentMaxResetAttempts"]
    if status["lastCompletedSeqID"] < last or not used_up:
        return "wrong"
    operator.ask("PUT", f"region/{index}/reset", b'{"request":{"operator":"soak","force":"true"}}')
    wait_for(lambda: job.status(index)["state"] != _MAX, 30.0, "a forced reset")
    return "exhausted"
