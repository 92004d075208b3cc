"""The operator as its Deployment starts it: the container's own command line and variables, in a process."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import msgspec

from jobs.cli.regions import serve
from jobs.regions import paths, workload
from pipeline.clients.kubernetes import KubernetesClient
from tests.support.kube_api import serving
from tests.support.region_operators import Reached
from tests.support.region_world import Job, free_ports, wait_for


def test_the_ports_of_the_container_are_those_that_the_command_listens_on() -> None:
    defaults = {name: each.default for name, each in inspect.signature(serve).parameters.items()}
    assert (
        (defaults["port"], defaults["metrics_port"]) == (workload.REST_PORT, workload.METRICS_PORT) == (10000, 9696)
    )


def test_what_the_manifest_runs_starts_and_ends_when_it_is_told(tmp_path: Path) -> None:
    with serving() as api:
        client = KubernetesClient(kubeconfig=api.kubeconfig(tmp_path))
        regions = [{"regionIndex": 0, "pesInRegion": [0, 1], "trigger": "periodic", "period": 60}]
        job = Job(client, "j", regions, tmp_path, namespace="streams")
        job.apply()
        job.run_pes()
        resource = msgspec.json.decode(client.get(f"{paths.operators('streams')}/{paths.operator_name('j')}"))
        deployment = workload.deployment(workload.asked(resource), "registry.example/colocation-advisor:0.1", "x")
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        fields = {"metadata.namespace": "streams", "metadata.name": "the-pod"}
        variables = {
            each["name"]: each["value"] if "value" in each else fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
            for each in container["env"]
        }
        assert variables["NUM_CONSISTENT_REGIONS"] == "1"
        assert variables["STREAMS_JOB_ID"] == resource["spec"]["jobId"]
        assert variables["STREAMS_GENERATION_ID"] == "1"
        # An image has the command on its path; nothing else of this machine's surroundings is passed on.
        path = {"PATH": str(Path(sys.executable).parent), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        reached = Reached()
        reached.ports = free_ports()
        rest, metrics = map(str, reached.ports)
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(
                [*container["command"], *("--host", "127.0.0.1", "--port", rest, "--metrics-port", metrics)],
                env={**path, **variables, "KUBECONFIG": str(tmp_path / "kubeconfig")},
                cwd=tmp_path,
                stderr=log,
            )
        try:
            wait_for(
                lambda: job.status().get("state") == "PROCESSING" or process.poll() is not None,
                60,
                "the region's start",
                every=0.1,
            )
            assert process.poll() is None, (tmp_path / "log").read_text()
            assert reached.ask("GET", "region/0/state") == (200, "PROCESSING")
            assert reached.metrics()["state", "ConsistentRegion_0"] == 1
            lease = job.send("GET", f"{paths.leases('streams')}/{paths.operator_name('j')}")
            assert lease["spec"]["holderIdentity"] == "the-pod"
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.wait(10)
