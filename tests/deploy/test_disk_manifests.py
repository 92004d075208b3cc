"""The manifests of disk affinity: valid, and the schema of the rules takes what is written and nothing else."""

from pathlib import Path

import jsonpatch
import pytest
import yaml

from rules.disks.annotations import parse
from rules.disks.reserving import written
from tests.support.disks import ANNOTATIONS

DEPLOY = Path(__file__).parents[2] / "deploy" / "disks"
PATCH = yaml.safe_load((DEPLOY / "reservation-rules.yaml").read_text("utf-8"))
EVERYTHING = {
    "TYPES": "pod-bound-required,dedicated-preferred",
    "TOL": "pool",
    "ATYPES": "pod-label-required,profile-disk-high-preferred",
    "ALABELS": "app=x:default",
    "DED": "preferred",
}


def checked(schema, value, at="AffinityRules"):
    """Fail where *value* has anything that *schema* would prune or refuse."""
    if schema["type"] == "object":
        assert set(value) <= set(schema["properties"]), at
        assert set(schema.get("required", ())) <= set(value), at
        for key, item in value.items():
            checked(schema["properties"][key], item, f"{at}.{key}")
    elif schema["type"] == "array":
        for item in value:
            checked(schema["items"], item, at)
    else:
        assert isinstance(value, {"string": str, "boolean": bool}[schema["type"]]), at
        assert value in schema.get("enum", [value]), at


@pytest.mark.parametrize("left_out", [(), *((name,) for name in EVERYTHING if name != "ALABELS")])
def test_the_schema_holds_every_rule_that_is_written(left_out):
    gone = {*left_out, *(("ALABELS",) if left_out == ("ATYPES",) else ())}
    given = {ANNOTATIONS[name]: value for name, value in EVERYTHING.items() if name not in gone}
    checked(PATCH[0]["value"], written(parse(given, "default")))


def test_the_patch_adds_to_the_schema_of_the_driver():
    properties = {"spec": {"properties": {"Status": {}}}}
    crd = {"spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": properties}}}]}}
    after = jsonpatch.apply_patch(crd, PATCH)
    properties = after["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert set(properties) == {"Status", "AffinityRules"}
