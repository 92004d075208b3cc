"""Consistent regions on a real API server: a whole life, with resources, REST answers and metrics that agree."""

import contextlib
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobs.config import KubernetesSettings, RegionsSettings
from jobs.demo.pes import Manner
from jobs.regions import paths
from jobs.regions.gauges import GAUGES
from jobs.regions.managing import Managing
from jobs.regions.reading import rows
from jobs.regions.resources import read
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.errors import SourceError
from rules.regions.events import Notification
from rules.regions.region import RegionStatus, State
from tests.support.region_operators import Served, simulated
from tests.support.region_world import MERGE, Job, free_ports, free_udp_port, wait_for

pytestmark = pytest.mark.cluster

CRDS = Path(__file__).parents[2] / "deploy" / "regions" / "crds.yaml"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
#: An id that no region gets to.
EVER = 2**53
#: What REST tells of a region, and which part and field of its resource that is.
READ = {
    "state": ("status", "state"),
    "lastcompletedseqid": ("status", "lastCompletedSeqID"),
    "trigger": ("spec", "trigger"),
    "period": ("spec", "period"),
    "draintimeout": ("spec", "drainTimeout"),
    "resettimeout": ("spec", "resetTimeout"),
    "maxconsecutiveresetattempts": ("spec", "maxConsecutiveResetAttempts"),
}
#: Columns of the command's list, and their fields.
LISTED = {
    "state": "state",
    "healthy": "regionHealthy",
    "current_seq_id": "currentSeqID",
    "last_completed_seq_id": "lastCompletedSeqID",
    "reset_attempts": "currentResetAttempt",
    "max_reset_attempts": "currentMaxResetAttempts",
    "average_drain_ms": "avgDrainTimeMetric",
    "average_reset_ms": "avgResetTimeMetric",
}
MAX = "MAXIMUM_RESET_ATTEMPTS_REACHED"


@pytest.fixture(scope="module")
def defined(client: KubernetesClient) -> None:
    """The custom resources of deploy/, accepted by the server."""
    for definition in yaml.safe_load_all(CRDS.read_text(encoding="utf-8")):
        try:
            client.send("POST", DEFINITIONS, json.dumps(definition).encode())
        except SourceError as error:
            assert error.reason == "status_409", error

    def established() -> bool:
        definitions = [json.loads(bytes(raw)) for raw in client.list(DEFINITIONS).items]
        conditions = [
            {each["type"]: each["status"] for each in definition["status"].get("conditions") or ()}
            for definition in definitions
            if definition["metadata"]["name"].startswith("streams")
        ]
        return len(conditions) == 4 and all(each.get("Established") == "True" for each in conditions)

    wait_for(established, what="the definitions being established")
    time.sleep(1.0)  # the paths are served a moment later


def colocate(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    return subprocess.run(
        [sys.executable, "-m", "jobs.cli", *arguments],
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def told(status: RegionStatus) -> Notification | None:
    """What the PEs of a region without blocking checkpoints are told last in a state; None for nothing."""
    if status.state is State.DRAINING:
        return Notification("triggerDrain", f"seqId={status.current_seq_id}")
    if status.state is State.RESETTING:
        attempt = status.current_reset_attempt - 1
        return Notification("triggerReset", f"seqId={status.last_completed_seq_id};resetAttempt={attempt}")
    if status.state is State.MAXIMUM_RESET_ATTEMPTS_REACHED:
        return Notification("resetFailed", f"seqId={status.last_completed_seq_id}")
    if status.state is State.PROCESSING and status.last_completed_drain + status.last_completed_reset > -2:
        resumed = f"seqId={status.current_seq_id};retId={status.to_retire_seq_id};pendCkpt=0"
        return Notification("resumeSubmission", resumed)
    return None


def differences(job: Job, served: Served, index: int) -> list[str] | None:
    """Where REST answers, boards, list and metrics differ from a region's resource; None if it changed meanwhile."""
    before = job.resource(index)
    metrics = served.metrics()
    answers = {what: served.ask("GET", f"region/{index}/{what}") for what in READ}
    boards = {pe: served.ask("GET", f"pe/{pe}/region/{index}") for pe in before["spec"]["pesInRegion"]}
    [listed] = [row for row in rows(job.client, job.namespace, job.name) if row["region"] == index]
    if job.resource(index) != before:
        return None
    status = read(json.dumps(before).encode()).region.status
    notification = told(status)
    found = [
        *((what, answers[what], (200, before[part].get(name))) for what, (part, name) in READ.items()),
        *((column, listed[column], before["status"][name]) for column, name in LISTED.items()),
        *((name, metrics[name, f"ConsistentRegion_{index}"], value(status)) for name, _, value in GAUGES),
    ]
    for pe, (code, body) in boards.items():
        wanted = (200, notification._asdict()) if notification else (404, body)
        found.append((f"board of PE {pe}", (code, body), wanted))
    return [f"{what}: {one}, not {other}" for what, one, other in found if one != other]


def agree(job: Job, served: Served, *states: str) -> None:
    """Each region's resource, REST answers, boards, list and metrics say the same, in one of its moments.

    The operator acts right after the resource is written: what differs then agrees a moment later. *states* are
    those that the regions have to be in, before and after.
    """
    for number, each in enumerate(job.regions):
        index = each["regionIndex"]
        until = time.monotonic() + 60
        while (found := differences(job, served, index)) != []:
            assert time.monotonic() < until, found or "the region never rests"
        if states:
            assert job.status(index)["state"] == states[number]


def drained_beyond(job: Job, index: int, seq: int) -> None:
    """Wait until a later drain than *seq* is completed."""
    wait_for(lambda: job.status(index).get("lastCompletedSeqID", 0) > seq, 120, f"a drain after {seq}")


@pytest.fixture
def job(defined: None, client: KubernetesClient, tmp_path: Path) -> Iterator[Job]:
    common = {"trigger": "periodic", "drainTimeout": 120, "period": 0.4}
    regions: list[dict[str, Any]] = [
        {"regionIndex": 0, "pesInRegion": [0, 1, 2], "resetTimeout": 120, **common},
        {"regionIndex": 1, "pesInRegion": [2, 3], "resetTimeout": 2, "maxConsecutiveResetAttempts": 2, **common},
    ]
    made = Job(client, f"job{uuid.uuid4().hex[:6]}", regions, tmp_path)
    yield made
    for pe in made.pes:
        for path in (f"{made.pod_path(pe)}?gracePeriodSeconds=0", made.element_path(pe)):
            with contextlib.suppress(SourceError):
                client.send("DELETE", path)
    for path in (
        *(f"{paths.regions('default')}/{made.name}-cr{index}" for index in (0, 1)),
        f"{paths.operators('default')}/{paths.operator_name(made.name)}",
        f"{paths.jobs('default')}/{made.name}",
    ):
        client.send("DELETE", path)


def test_a_whole_life(kubeconfig: Path, job: Job, tmp_path: Path) -> None:
    applied = colocate(kubeconfig, "regions", "apply", "-f", str(job.file), "-o", "json")
    assert applied.returncode == 0, applied.stderr
    assert [each["outcome"] for each in json.loads(applied.stdout)] == ["created"] * 4
    again = colocate(kubeconfig, "regions", "apply", "-f", str(job.file), "-o", "json")
    assert [each["outcome"] for each in json.loads(again.stdout)] == ["unchanged"] * 3
    port = free_udp_port()
    refusing, allowed = False, {0: 0, 1: 0}
    manner = Manner(
        poll=1.0,
        refuses=lambda pe, told: refusing and pe == 3 and told.type == "triggerReset",
        holds=lambda region, seq: seq > allowed[region],
    )
    served = Served(kubeconfig, job, port, free_ports(), tmp_path / "operator.log")
    try:
        with simulated(job, served, port, manner) as (simulator, loop):
            # the operator is there before the PEs
            for index in (0, 1):
                job.wait(index, seconds=60, state="STARTED")
            wait_for(served.listens, 60, "the operator's interfaces")
            agree(job, served, "STARTED", "STARTED")
            # start and ten drains: each is held until all is compared, and compared again when it is completed
            job.run_pes()
            for seq in range(1, 11):
                for index in (0, 1):
                    job.wait(index, seconds=60, state="DRAINING", currentSeqID=seq, lastCompletedSeqID=seq - 1)
                agree(job, served, "DRAINING", "DRAINING")
                for index in (0, 1):
                    allowed[index] = seq
                for index in (0, 1):
                    job.wait(index, seconds=60, lastCompletedSeqID=seq, lastCompletedDrain=seq)
                agree(job, served)
            for index in (0, 1):
                assert job.status(index)["currentResetAttempt"] == 0
                assert len(job.status(index)["recentDrains"]) == 10
            # a PE crashes, is launched again, and its regions are reset
            loop.do(simulator.crash(2))
            job.connect(2, "None")
            for index in (0, 1):
                job.wait(index, state="UNHEALTHY", regionHealthy=False)
            agree(job, served, "UNHEALTHY", "UNHEALTHY")
            assert served.ask("GET", "pe/0")[0] == 404
            allowed[0], allowed[1] = -1, EVER
            job.relaunch(2)
            loop.do(simulator.start([2]))
            job.connect(2, "Full")
            job.phase(2, "Running")
            job.wait(0, seconds=60, state="RESETTING", currentResetAttempt=1, cleanStart=False)
            drained_beyond(job, 1, 10)
            agree(job, served)
            allowed[0] = EVER
            for index in (0, 1):
                drained_beyond(job, index, 10)
                status = job.status(index)
                assert status["lastCompletedReset"] == 10
                assert status["cleanStart"] is False
            notified = {told.type for _, told in simulator.pes[2].told}
            assert {"triggerReset", "resumeSubmission"} <= notified
            agree(job, served)
            # attempts used up: PE 3 answers no reset
            refusing = True
            job.connect(3, "Partial")
            job.wait(1, state="UNHEALTHY")
            job.connect(3, "Full")
            exhausted = job.wait(1, state=MAX, currentResetAttempt=2)
            assert exhausted["currentMaxResetAttempts"] == 2
            failed = Notification("resetFailed", f"seqId={exhausted['lastCompletedSeqID']}")
            wait_for(lambda: simulator.pes[3].seen.get(1) == failed, what="resetFailed at the PE")
            assert served.ask("GET", "pe/3/region/1") == (200, failed._asdict())
            agree(job, served)
            # a forced reset
            refusing = False
            unforced = colocate(kubeconfig, "regions", "reset", job.name, "1", "--url", served.url)
            assert unforced.returncode == 1
            assert job.status(1)["state"] == MAX
            forced = colocate(kubeconfig, "regions", "reset", job.name, "1", "--force", "--url", served.url)
            assert forced.returncode == 0, forced.stderr
            last = exhausted["lastCompletedSeqID"]
            drained_beyond(job, 1, last)
            assert job.status(1)["currentMaxResetAttempts"] == 2
            agree(job, served)
            # the operator is killed and starts again
            served.kill()
            time.sleep(0.5)  # a write that was under way is done by then
            before = [job.status(index) for index in (0, 1)]
            allowed[0] = -1
            served.start()
            job.wait(0, seconds=60, state="RESETTING", lastCompletedSeqID=before[0]["lastCompletedSeqID"])
            drained_beyond(job, 1, before[1]["lastCompletedSeqID"])
            agree(job, served)
            allowed[0] = EVER
            for index in (0, 1):
                last = before[index]["lastCompletedSeqID"]
                drained_beyond(job, index, last)
                status = job.status(index)
                assert status["lastCompletedReset"] == last
                assert status["lastCompletedSeqID"] > before[index]["currentSeqID"]
            agree(job, served)
            listed = colocate(kubeconfig, "regions", "list", "--job", job.name, "-o", "json")
            assert [row["region"] for row in json.loads(listed.stdout)] == [0, 1]
            shown = colocate(kubeconfig, "regions", "show", job.name, "1", "-o", "json")
            assert json.loads(shown.stdout)["spec"]["pesInRegion"] == [2, 3]
            drained = colocate(kubeconfig, "regions", "drain", job.name, "0", "--url", served.url)
            assert (drained.returncode, "periodic" in drained.stderr) == (1, True)
        assert served.stop() == 0
    finally:
        if served.process.poll() is None:
            served.kill()


def test_operators_come_and_go_with_their_resources(
    defined: None, kubeconfig: Path, client: KubernetesClient, tmp_path: Path
) -> None:
    regions = [{"regionIndex": 0, "pesInRegion": [0], "trigger": "periodic", "period": 5}]
    job = Job(client, f"job{uuid.uuid4().hex[:6]}", regions, tmp_path)
    settings = RegionsSettings(manage=True, image="registry.example/colocation-advisor:0.1")
    managing = Managing("c1", KubernetesSettings(kubeconfig=kubeconfig), settings)
    made = (
        f"{paths.deployments('default')}/{paths.operator_name(job.name)}",
        f"{paths.services('default')}/{paths.service_name(job.name)}",
    )

    def there() -> list[bool]:
        found = []
        for path in made:
            try:
                client.get(path)
                found.append(True)
            except SourceError as error:
                assert error.reason == "status_404", error
                found.append(False)
        return found

    managing.start()
    try:
        job.apply()
        wait_for(lambda: there() == [True, True], what="the Deployment and the Service")
        deployment, service = (json.loads(client.get(path)) for path in made)
        assert service["spec"]["clusterIP"] == "None"
        path = f"{paths.operators('default')}/{paths.operator_name(job.name)}"
        job.send("PATCH", path, {"spec": {"logLevel": "debug"}}, MERGE)

        def generation() -> int:
            return int(json.loads(client.get(made[0]))["metadata"]["generation"])

        wait_for(lambda: generation() == 2, what="the changed Deployment")
        assert json.loads(client.get(made[1]))["metadata"]["uid"] == service["metadata"]["uid"]
        assert json.loads(client.get(made[0]))["metadata"]["uid"] == deployment["metadata"]["uid"]
        client.send("DELETE", path)
        wait_for(lambda: there() == [False, False], what="their removal")
    finally:
        managing.close()
        for path in (f"{paths.regions('default')}/{job.name}-cr0", f"{paths.jobs('default')}/{job.name}"):
            client.send("DELETE", path)


def test_what_the_schemas_forbid_is_refused(defined: None, client: KubernetesClient) -> None:
    spec = {"regionIndex": 0, "pesInRegion": [0], "trigger": "periodic", "period": 5}
    for change in (
        {"trigger": "sometimes"},
        {"pesInRegion": []},
        {"maxConsecutiveResetAttempts": 0},
        {"period": "5"},
    ):
        body = {
            "apiVersion": "streams.ibm.com/v1",
            "kind": "ConsistentRegion",
            "metadata": {"name": "refused"},
            "spec": {**spec, **change},
        }
        with pytest.raises(SourceError, match="status 422"):
            client.send("POST", paths.regions("default"), json.dumps(body).encode())
