"""The file of a job: defaults, merging, and one line about what is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.regions.job import Job, read
from pipeline.errors import BadInput
from rules.regions.region import Trigger

PERIODIC = {"regionIndex": 0, "trigger": "periodic", "period": 5, "pesInRegion": [0, 1]}
DRIVEN = {"regionIndex": 0, "trigger": "operatorDriven", "pesInRegion": [0], "operatorsToTriggerMap": {"Src": True}}


def job(directory: Path, *regions: Any, **more: Any) -> Job:
    body = {
        "apiVersion": "streams.ibm.com/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "streams"},
        "spec": {"consistentRegions": list(regions)},
    } | more
    file = directory / "job.json"
    file.write_text(json.dumps(body))
    return read(file)


def test_what_is_not_said_has_the_compilers_defaults(tmp_path: Path) -> None:
    found = job(tmp_path, PERIODIC)
    assert (found.name, found.namespace) == ("j", "streams")
    spec = found.regions[0]
    assert (spec.drain_timeout, spec.reset_timeout, spec.max_consecutive_reset_attempts) == (180.0, 180.0, 5)
    assert (spec.period, spec.num_start_operators) == (5.0, 1)


def test_the_annotations_word_becomes_the_resources(tmp_path: Path) -> None:
    assert job(tmp_path, DRIVEN).regions[0].trigger is Trigger.OPERATOR


def test_regions_of_one_index_take_the_larger_of_each_number(tmp_path: Path) -> None:
    other = {**PERIODIC, "period": 3, "drainTimeout": 200, "maxConsecutiveResetAttempts": 7, "pesInRegion": [1, 4]}
    spec = job(tmp_path, PERIODIC, other).regions[0]
    assert (spec.period, spec.drain_timeout, spec.reset_timeout) == (5.0, 200.0, 180.0)
    assert (spec.max_consecutive_reset_attempts, spec.pes_in_region) == (7, (0, 1, 4))


@pytest.mark.parametrize(
    ("regions", "said"),
    [
        ([], "spec.consistentRegions: missing or empty"),
        ([7], "spec.consistentRegions[0]: not a mapping"),
        ([{**PERIODIC, "period": None}], "spec.consistentRegions[0].period: missing"),
        ([PERIODIC, {**PERIODIC, "regionIndex": 1, "drainTimeout": "x"}], "spec.consistentRegions[1].drainTimeout: "),
        ([DRIVEN, DRIVEN], "spec.consistentRegions[1].regionIndex: 0 twice"),
        ([{**DRIVEN, "numStartOperators": 2}], "spec.consistentRegions[0].numStartOperators: 2"),
        ([{**DRIVEN, "operatorsToTriggerMap": {"Src": False}}], "spec.consistentRegions[0].operatorsToTriggerMap: "),
        ([{**PERIODIC, "drainTimout": 3}], "spec.consistentRegions[0].drainTimout: unknown"),
        ([{**PERIODIC, "regionIndex": 0.5}], "spec.consistentRegions[0].regionIndex: expected `int`"),
        ([{**PERIODIC, "regionIndex": True}], "spec.consistentRegions[0].regionIndex: expected `int`"),
        ([{**PERIODIC, "pesInRegion": [0, 10**25]}], f"spec.consistentRegions[0].pesInRegion: {10**25} is above"),
        ([{**PERIODIC, "logicalIndex": -4}], "spec.consistentRegions[0].logicalIndex: -4 is below 0"),
        ([{**PERIODIC, "maxConsecutiveResetAttempts": 10**30}], "spec.consistentRegions[0].maxConsecutiveResetAtt"),
    ],
)
def test_what_is_wrong_names_the_file_and_the_field(tmp_path: Path, regions: list[Any], said: str) -> None:
    with pytest.raises(BadInput) as error:
        job(tmp_path, *regions)
    assert str(error.value).startswith(f"{tmp_path / 'job.json'}: {said}")


def test_a_file_without_a_job_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="0 documents of kind Job"):
        job(tmp_path, PERIODIC, kind="ConfigMap")
    with pytest.raises(BadInput, match=r"metadata\.name: missing"):
        job(tmp_path, PERIODIC, metadata={})


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"name": 5}, "metadata.name: '5' is no text"),
        ({"name": ""}, "metadata.name: empty"),
        ({"name": "../../x"}, "metadata.name: '../../x': only"),
        ({"name": "J_x"}, "metadata.name: 'J_x': only"),
        ({"name": "a" * 35}, "metadata.name: "),
        ({"name": "j", "namespace": 5}, "metadata.namespace: '5' is no text"),
        ({"name": "j", "namespace": "../x"}, "metadata.namespace: '../x': only"),
    ],
)
def test_names_that_objects_cannot_have_are_refused_before_anything_is_made(
    tmp_path: Path, metadata: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInput) as error:
        job(tmp_path, PERIODIC, metadata=metadata)
    assert str(error.value).startswith(f"{tmp_path / 'job.json'}: {said}")


def test_the_longest_name_of_a_job_leaves_its_service_a_name_that_dns_knows(tmp_path: Path) -> None:
    name = "a" * 34
    assert job(tmp_path, PERIODIC, metadata={"name": name}).name == name
    assert len(f"streams-{name}-consistentregion-api") == 63


@pytest.mark.parametrize(
    ("operator", "said"),
    [
        ([1], "not a mapping"),
        ({"logLevl": "info"}, "unknown"),
        ({"logLevel": 5}, "info or debug or warn or error is needed"),
        ({"imagePullPolicy": "Sometimes"}, "Always or IfNotPresent or Never is needed"),
        ({"imagePullSecret": ["x"]}, "text is needed"),
    ],
)
def test_what_is_wrong_with_the_operators_part_is_said_before_anything_is_made(
    tmp_path: Path, operator: Any, said: str
) -> None:
    with pytest.raises(BadInput, match=r"job\.json: spec\.consistentRegionOperator.*" + said):
        job(tmp_path, spec={"consistentRegions": [PERIODIC], "consistentRegionOperator": operator})


def test_a_key_that_is_no_text_is_said_of_its_line(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    region = "{regionIndex: 0, trigger: operatorDriven, pesInRegion: [0], operatorsToTriggerMap: {yes: true}}"
    file.write_text(
        f"apiVersion: streams.ibm.com/v1\nkind: Job\nmetadata: {{name: j}}\nspec: {{consistentRegions: [{region}]}}\n"
    )
    with pytest.raises(BadInput, match=r"job\.yaml, line 4: .*the key yes is no text; put it in quotes"):
        read(file)
