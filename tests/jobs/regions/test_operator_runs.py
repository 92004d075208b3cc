"""The operator against a server that is written to, with PEs that answer over UDP and REST."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.demo.pes import Faults, Manner
from jobs.regions import paths
from pipeline.clients.kubernetes import KubernetesClient
from rules.regions.events import Notification
from tests.support.kube_api import KubeApi, serving
from tests.support.region_operators import Forked, Running, simulated
from tests.support.region_world import Job, Writes, free_ports, free_udp_port, wait_for

QUICK = {"period": 0.05, "drainTimeout": 10, "resetTimeout": 10, "trigger": "periodic"}


@pytest.fixture
def api() -> Iterator[KubeApi]:
    with serving() as api:
        yield api


@pytest.fixture
def client(api: KubeApi, tmp_path: Path) -> KubernetesClient:
    return KubernetesClient(kubeconfig=api.kubeconfig(tmp_path))


def region(index: int = 0, pes: tuple[int, ...] = (0, 1), **more: Any) -> dict[str, Any]:
    return {"regionIndex": index, "pesInRegion": list(pes), **QUICK, **more}


def completed(job: Job, seq: int, index: int = 0, seconds: float = 30.0) -> None:
    wait_for(lambda: job.status(index).get("lastCompletedSeqID", 0) >= seq, seconds, what=f"drain {seq}")


def of_operators() -> set[str]:
    """What runs of operators in this process."""
    names = {"lease", "messenger", "consumer", "web"}
    return {each.name for each in threading.enumerate() if each.name in names or "watch" in each.name}


def test_a_job_starts_clean_and_drains(client: KubernetesClient, tmp_path: Path) -> None:
    job, port = Job(client, "j", [region()], tmp_path), free_udp_port()
    assert job.apply() == ["created", "created", "created"]
    assert job.apply() == ["unchanged", "unchanged"]
    job.run_pes()
    running = Running(client, job, port).listening()
    assert of_operators() >= {"lease", "messenger", "consumer", "web"}
    with simulated(job, running, port, Manner(blocking=frozenset({1}))) as (simulator, _):
        completed(job, 5)
        assert all(pe.checkpoints[0] >= {1, 2, 3, 4, 5} for pe in simulator.pes.values())
        assert job.status()["currentResetAttempt"] == 0
        assert all(pe.datagrams for pe in simulator.pes.values())
    running.stop()
    assert running.ended is True
    assert job.send("GET", f"{paths.leases('default')}/{paths.operator_name('j')}")["spec"]["holderIdentity"] == ""
    # All that was begun is ended: threads, ports and, by the lease that is free, what another waits for.
    wait_for(lambda: not of_operators(), what=f"the end of {of_operators()}")
    for listened in running.ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", listened), timeout=5)


def test_drains_complete_where_datagrams_are_lost_doubled_and_late(client: KubernetesClient, tmp_path: Path) -> None:
    job, port = Job(client, "j", [region(pes=(0, 1, 2, 3)), region(1, pes=(2, 3, 4))], tmp_path), free_udp_port()
    job.apply()
    job.run_pes()
    running = Running(client, job, port).listening()
    manner = Manner(poll=0.2, faults=Faults(lost=0.2, doubled=0.2, delayed=0.2))
    with simulated(job, running, port, manner):
        for index in (0, 1):
            completed(job, 15, index)
            assert job.status(index)["lastCompletedReset"] == -1
    running.stop()


def test_polling_alone_is_enough(client: KubernetesClient, tmp_path: Path) -> None:
    job, port = Job(client, "j", [region()], tmp_path), free_udp_port()
    job.apply()
    job.run_pes()
    running = Running(client, job, port).listening()
    with simulated(job, running, port, Manner(poll=0.05, faults=Faults(lost=1.0))):
        completed(job, 3)
    running.stop()


def test_an_operator_driven_region_drains_when_it_is_asked(client: KubernetesClient, tmp_path: Path) -> None:
    asked = region(trigger="operatorDriven", operatorsToTriggerMap={"Src": True})
    del asked["period"]
    job, port = Job(client, "j", [asked], tmp_path), free_udp_port()
    job.apply()
    job.run_pes()
    running = Running(client, job, port).listening()
    job.wait(state="PROCESSING")
    with simulated(job, running, port, Manner()) as (simulator, loop):
        assert loop.do(simulator.drain(0, "Src", 1)) == 204
        completed(job, 1)
        wait_for(
            lambda: simulator.pes[0].seen.get(0) == Notification("resumeSubmission", "seqId=2;retId=0;pendCkpt=0")
        )
    running.stop()


def test_two_operators_do_not_both_act(client: KubernetesClient, tmp_path: Path) -> None:
    job, port = Job(client, "j", [region()], tmp_path), free_udp_port()
    job.apply()
    first = Running(client, job, port, identity="first").listening()
    second = Running(client, job, port, identity="second")
    job.run_pes()
    job.wait(state="DRAINING")
    assert not second.operator.listening.is_set()
    first.stop()
    second.listening()
    with simulated(job, second, port, Manner()):
        completed(job, 2)
        assert job.status()["lastCompletedReset"] == 0
    second.stop()


def test_a_job_without_an_operators_resource_is_said_at_once(client: KubernetesClient, tmp_path: Path) -> None:
    job = Job(client, "j", [region()], tmp_path)
    running = Running(client, job, free_udp_port())
    wait_for(lambda: running.error is not None)
    assert "has no ConsistentRegionOperator" in str(running.error)


def test_a_killed_operator_goes_on_where_it_was_and_uses_no_id_twice(
    api: KubeApi, client: KubernetesClient, tmp_path: Path
) -> None:
    job, port = Job(client, "j", [region(maxConsecutiveResetAttempts=1000)], tmp_path), free_udp_port()
    job.apply()
    job.run_pes()
    watched = Writes(api, job)
    served = Forked(tmp_path / "kubeconfig", job, port, free_ports())
    try:
        with simulated(job, served, port, Manner(poll=0.2)) as (simulator, _):
            for number in range(6):
                # The next write of the resource is the last thing that the operator does: its PEs hear nothing.
                watched.at_a_write(after=number, kill=served.process.kill)
                wait_for(lambda: watched.killed, what="a kill")
                served.process.join(10.0)
                last = job.status()["lastCompletedSeqID"]
                served.start()
                completed(job, last + 1)
            assert watched.statuses[0]
            assert watched.faults({0: [pe.checkpoints[0] for pe in simulator.pes.values()]}) == []
    finally:
        served.kill()


def test_a_start_waits_for_an_api_server_that_does_not_answer_yet(
    api: KubeApi, client: KubernetesClient, tmp_path: Path
) -> None:
    job, port = Job(client, "j", [region()], tmp_path), free_udp_port()
    job.apply()
    left = {"operators": 2, "status": 2}

    def failing(method: str, path: str) -> int | str | None:
        """The first reads and the first notes fail: refused by a server that starts, or broken off."""
        what = "status" if path.endswith("/status") else "operators"
        if paths.ALL_OPERATORS.rpartition("/")[2] not in path or not left[what]:
            return None
        left[what] -= 1
        return 503 if left[what] else "drop"

    api.fault = failing
    running = Running(client, job, port).listening()
    assert left == {"operators": 0, "status": 0}
    assert job.has_started()
    running.stop()
    assert running.ended is True


def test_a_start_waits_while_connections_are_refused_and_may_be_ended(tmp_path: Path) -> None:
    with serving() as gone:
        client = KubernetesClient(kubeconfig=gone.kubeconfig(tmp_path))
        job = Job(client, "j", [region()], tmp_path)
    running = Running(client, job, free_udp_port())
    running.operator.listening.wait(0.5)
    assert running.error is None
    running.stop()
    assert running.ended is True


def test_a_start_that_is_forbidden_ends_at_once(api: KubeApi, client: KubernetesClient, tmp_path: Path) -> None:
    job = Job(client, "j", [region()], tmp_path)
    job.apply()
    api.fault = lambda method, path: 403
    running = Running(client, job, free_udp_port())
    wait_for(lambda: running.error is not None, what="the end")
    assert paths.operator_name("j") in str(running.error)
    assert "403" in str(running.error)


@pytest.mark.parametrize("fault", [503, "drop"])
def test_an_api_server_that_is_away_for_a_while_costs_no_reset_and_no_checkpoint(
    api: KubeApi, client: KubernetesClient, tmp_path: Path, fault: int | str
) -> None:
    job, port = Job(client, "j", [region()], tmp_path), free_udp_port()
    job.apply()
    job.run_pes()
    writes = Writes(api, job)
    running = Running(client, job, port).listening()
    with simulated(job, running, port, Manner(poll=0.2)) as (simulator, _):
        completed(job, 3)
        # The lease apart: on a busy machine it may not outlive what a test can wait for.
        api.fault = lambda method, path: None if "/leases" in path else fault
        refused = len(api.log)
        wait_for(lambda: len([each for each in api.log[refused:] if each[0] == "PUT"]) >= 4, what="writes that fail")
        api.fault = lambda method, path: None
        last = job.status()["lastCompletedSeqID"]
        completed(job, last + 3)
        assert job.status()["lastCompletedReset"] == -1
        assert writes.faults({0: [pe.checkpoints[0] for pe in simulator.pes.values()]}) == []
    running.stop()
