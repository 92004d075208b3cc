"""``colocate regions``: what it says and how it ends."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.cli import main
from jobs.regions import paths
from pipeline.clients.kubernetes import KubernetesClient
from tests.support.kube_api import KubeApi, serving
from tests.support.region_operators import Running
from tests.support.region_world import Job, free_udp_port, wait_for

PERIODIC = {"regionIndex": 0, "trigger": "periodic", "period": 5, "pesInRegion": [0, 1]}
DRIVEN = {
    "regionIndex": 1,
    "trigger": "operatorDriven",
    "pesInRegion": [0],
    "operatorsToTriggerMap": {"Src": True, "Mid": False},
}


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeApi]:
    monkeypatch.chdir(tmp_path)
    with serving() as api:
        monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
        yield api


@pytest.fixture
def job(api: KubeApi, tmp_path: Path) -> Job:
    return Job(KubernetesClient(kubeconfig=tmp_path / "kubeconfig"), "j", [PERIODIC, DRIVEN], tmp_path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["regions", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_apply_creates_what_belongs_to_the_job(api: KubeApi, job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "apply", "-f", str(job.file), "-o", "json")
    assert code == 0
    assert [(each["kind"], each["name"], each["outcome"]) for each in json.loads(out)] == [
        ("Job", "j", "created"),
        ("ConsistentRegion", "j-cr0", "created"),
        ("ConsistentRegion", "j-cr1", "created"),
        ("ConsistentRegionOperator", "j-consistent-region-operator", "created"),
    ]
    owner = api.get(f"{paths.jobs('default')}/j")["metadata"]
    region = api.get(f"{paths.regions('default')}/j-cr1")
    assert region["metadata"]["labels"] == {
        "streams.ibm.com/job": "j",
        "streams.ibm.com/generation": "1",
        "streams.ibm.com/cr": "j-cr1",
    }
    [reference] = region["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["name"], reference["uid"]) == ("Job", "j", owner["uid"])
    assert region["spec"]["trigger"] == "operator driven"
    operator = api.get(f"{paths.operators('default')}/j-consistent-region-operator")
    assert operator["spec"] == {
        "jobName": "j",
        "numRegions": 2,
        "jobId": owner["uid"],
        "imagePullPolicy": "Always",
        "logLevel": "info",
    }


def test_apply_again_changes_only_what_differs_and_deletes_what_is_gone(
    api: KubeApi, job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    assert job.apply()[0] == "created"
    thing = api.get(f"{paths.regions('default')}/j-cr0")
    api.put(paths.regions("default"), thing | {"status": {"state": "PROCESSING"}})
    document = json.loads(job.file.read_text())
    document["spec"]["consistentRegions"] = [{**PERIODIC, "period": 9}]
    job.file.write_text(json.dumps(document))
    code, out, _ = run(capsys, "apply", "-f", str(job.file), "-o", "json")
    assert (code, [each["outcome"] for each in json.loads(out)]) == (0, ["changed", "deleted", "changed"])
    left = api.all(paths.regions("default"))
    assert set(left) == {"j-cr0"}
    assert (left["j-cr0"]["spec"]["period"], left["j-cr0"]["status"]) == (9.0, {"state": "PROCESSING"})
    assert api.get(f"{paths.operators('default')}/j-consistent-region-operator")["spec"]["numRegions"] == 1


def test_list_and_show(api: KubeApi, job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "list", "-o", "json")[1].strip() == "[]"
    job.apply()
    api.put(paths.regions("default"), {"metadata": {"name": "odd", "labels": {paths.JOB: "k"}}, "spec": {}})
    code, out, _ = run(capsys, "list", "-o", "json")
    rows: list[dict[str, Any]] = json.loads(out)
    assert code == 0
    assert [(row["job"], row["region"], row["state"], row["current_seq_id"]) for row in rows[:2]] == [
        ("j", 0, "STARTED", 1),
        ("j", 1, "STARTED", 1),
    ]
    assert (rows[2]["region"], rows[2]["job"]) == ("odd", "k")
    code, out, _ = run(capsys, "show", "j", "1", "-o", "json")
    assert (code, json.loads(out)["spec"]["regionIndex"]) == (0, 1)
    code, _, err = run(capsys, "show", "j", "7")
    assert (code, err) == (2, "colocate: region 7 of job j in namespace default: no such region\n")


def test_a_bad_file_is_one_line(job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(
        "apiVersion: streams.ibm.com/v1\nkind: Job\nmetadata: {name: j}\n"
        "spec: {consistentRegions: [{regionIndex: 0, trigger: periodic}]}\n"
    )
    code, _, err = run(capsys, "apply", "-f", str(file))
    assert code == 2
    assert err.startswith(f"colocate: {file}: spec.consistentRegions[0]")
    assert err.count("\n") == 1


def test_drain_and_reset_reach_the_operator(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    job.apply()
    running = Running(job.client, job, free_udp_port()).listening()
    try:
        wait_for(lambda: job.status(1).get("state") == "STARTED")
        code, out, _ = run(capsys, "drain", "j", "1", "--url", running.url, "-o", "json")
        said = {"job": "j", "region": 1, "asked": "drain", "accepted": True, "state": "STARTED", "why": ""}
        assert (code, json.loads(out)) == (0, [said | {"namespace": "default"}])
        job.wait(1, mustReset=True)
        assert run(capsys, "reset", "j", "0", "--force", "--url", running.url)[0] == 0
        job.wait(0, mustReset=True)
    finally:
        running.stop()
    code, out, err = run(capsys, "drain", "j", "0", "--url", running.url, "-o", "json")
    assert (code, "drains by itself every 5 s" in err) == (1, True)
    [told] = json.loads(out)
    assert (told["accepted"], told["why"]) == (False, "region 0 of j is periodic: it drains by itself every 5 s")
    code, _, err = run(capsys, "drain", "j", "1", "--operator", "Mid", "--url", running.url)
    assert (code, err) == (2, "colocate: --operator: name one of Src\n")
    code, _, err = run(capsys, "reset", "j", "0", "--url", running.url)
    assert (code, err.count("\n")) == (3, 1)


def test_without_a_url_the_api_server_hands_it_on(api: KubeApi, job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    job.apply()
    code, _, err = run(capsys, "reset", "j", "0")  # nobody is there in this world
    assert (code, "no operator of job j in namespace default answers" in err) == (3, True)
    service = f"{paths.services('default')}/streams-j-consistentregion-api:sys-api"
    assert ("PUT", f"{service}/proxy/api/consistentregion/region/0/reset") in api.log


def test_serving_a_job_that_is_not_there_is_one_line(api: KubeApi, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "serve", "--job", "nobody", "--port", "0", "--metrics-port", "0")
    assert (code, err.count("\n")) == (2, 1)
    assert "job nobody in namespace default has no ConsistentRegionOperator" in err


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("NUM_CONSISTENT_REGIONS", "two", "NUM_CONSISTENT_REGIONS"),
        ("NUM_CONSISTENT_REGIONS", "-1", "--regions"),
        ("NUM_CONSISTENT_REGIONS", "3", "NUM_CONSISTENT_REGIONS (--regions): 3, but j-consistent-region-operator"),
        ("STREAMS_JOB_ID", "another", "STREAMS_JOB_ID (--job-id): 'another', but j-consistent-region-operator"),
        ("STREAMS_GENERATION_ID", "first", "STREAMS_GENERATION_ID"),
    ],
)
def test_an_operator_that_is_told_of_another_job_ends_with_one_line(
    job: Job,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    said: str,
) -> None:
    job.apply()
    monkeypatch.setenv(variable, value)
    code, _, err = run(capsys, "serve", "--job", "j", "--port", "0", "--metrics-port", "0")
    assert (code, err.count("\n"), said in err) == (2, 1, True), err
    assert not job.has_started()


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "../x"),
        ("reset", "a/b", "0"),
        ("drain", "j", "0", "-n", "../x"),
        ("list", "-n", "a/b"),
        ("list", "--job", "a,b=c"),
        ("serve", "--job", "../x"),
        ("serve", "--job", "j", "--lease", "inf"),
        ("serve", "--job", "j", "--lease", "nan"),
    ],
)
def test_what_names_nothing_is_refused_before_it_becomes_a_path(
    api: KubeApi, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert err.count("\n") == 1 and ("only" in err or "--lease" in err)


def test_a_drain_that_no_state_expects_is_said(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    job.apply()
    path = f"{paths.regions('default')}/j-cr1/status"
    job.send("PATCH", path, {"status": {"state": "RESETTING"}}, "application/merge-patch+json")
    code, _, err = run(capsys, "drain", "j", "1")
    assert (code, err) == (1, "colocate: region 1 of j is RESETTING: it drains only from PROCESSING\n")


def test_an_apply_goes_on_where_another_makes_or_changes_the_same(
    api: KubeApi, job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    write, seen = api.write, set[tuple[str, str]]()

    def crossed(method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Another is faster at every first write: it does the same, and this one conflicts."""
        if (method, path) in seen or method not in ("POST", "PUT"):
            return write(method, path, body)
        seen.add((method, path))
        write(method, path, body)
        return 409, {"kind": "Status", "reason": "Conflict"}

    api.write = crossed  # type: ignore[method-assign]
    code, _, err = run(capsys, "apply", "-f", str(job.file))
    assert (code, err) == (0, "")
    assert set(api.all(paths.regions("default"))) == {"j-cr0", "j-cr1"}
