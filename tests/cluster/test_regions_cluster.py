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
from jobs.regions.resources import read
from pipeline.clients.kubernetes import KubernetesClient
from pipeline.errors import SourceError
from rules.regions.events import Notification
from tests.support.region_operators import Served, simulated
from tests.support.region_world import MERGE, Job, free_ports, free_udp_port, wait_for

pytestmark = pytest.mark.cluster

CRDS = Path(__file__).parents[2] / "deploy" / "regions" / "crds.yaml"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
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


def agree(job: Job, served: Served) -> None:
    """At one moment the resource, the REST answers and the metrics say the same of every region."""
    for each in job.regions:
        index = each["regionIndex"]
        until = time.monotonic() + 20
        while True:
            before = job.resource(index)
            metrics = served.metrics()
            state, last = (served.ask("GET", f"region/{index}/{what}") for what in ("state", "lastcompletedseqid"))
            if job.resource(index) == before:
                break  # nothing happened in between
            assert time.monotonic() < until, "the region never rests"
        status = read(json.dumps(before).encode()).region.status
        assert state == (200, before["status"]["state"])
        assert last == (200, before["status"]["lastCompletedSeqID"])
        for name, _, value in GAUGES:
            assert metrics[name, f"ConsistentRegion_{index}"] == value(status), name
        assert metrics["state", f"ConsistentRegion_{index}"] == status.state.ordinal


def drained_beyond(job: Job, index: int, seq: int) -> None:
    """Wait until a later drain than *seq* is completed."""
    wait_for(lambda: job.status(index).get("lastCompletedSeqID", 0) > seq, 120, f"a drain after {seq}")


@pytest.fixture
def job(defined: None, client: KubernetesClient, tmp_path: Path) -> Iterator[Job]:
    common = {"trigger": "periodic", "drainTimeout": 5, "resetTimeout": 1, "period": 0.4}
    regions: list[dict[str, Any]] = [
        {"regionIndex": 0, "pesInRegion": [0, 1, 2], **common},
        {"regionIndex": 1, "pesInRegion": [2, 3], "maxConsecutiveResetAttempts": 2, **common},
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
    job.run_pes()
    port = free_udp_port()
    refusing = False
    manner = Manner(poll=1.0, refuses=lambda pe, told: refusing and pe == 3 and told.type == "triggerReset")
    served = Served(kubeconfig, job, port, free_ports(), tmp_path / "operator.log")
    try:
        with simulated(job, served, port, manner) as (simulator, loop):
            # start and ten drains
            for index in (0, 1):
                drained_beyond(job, index, 9)
                assert job.status(index)["currentResetAttempt"] == 0
            agree(job, served)
            # a PE crashes, is launched again, and its regions are reset
            loop.do(simulator.crash(2))
            job.connect(2, "None")
            for index in (0, 1):
                job.wait(index, state="UNHEALTHY", regionHealthy=False)
            agree(job, served)
            completed = [job.status(index)["lastCompletedSeqID"] for index in (0, 1)]
            assert served.ask("GET", "pe/0") == (404, served.ask("GET", "pe/0")[1])
            job.relaunch(2)
            loop.do(simulator.start([2]))
            job.connect(2, "Full")
            job.phase(2, "Running")
            for index in (0, 1):
                last = completed[index]
                drained_beyond(job, index, last)
                status = job.status(index)
                assert status["lastCompletedReset"] == last
                assert status["cleanStart"] is False
            told = {told.type for _, told in simulator.pes[2].told}
            assert {"triggerReset", "resumeSubmission"} <= told
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
            served.start()
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
