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
