"""The manifests of consistent regions: valid, typed, and as much as is needed and no more."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import msgspec
import pytest
import yaml

from rules.regions.region import RegionSpec, RegionStatus, State

DEPLOY = Path(__file__).parents[2] / "deploy" / "regions"
DOCUMENTS = [
    document
    for file in sorted(DEPLOY.glob("*.yaml"))
    if file.stem != "kustomization"
    for document in yaml.safe_load_all(file.read_text("utf-8"))
]
CRDS = {each["spec"]["names"]["kind"]: each for each in DOCUMENTS if each["kind"] == "CustomResourceDefinition"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
@pytest.mark.parametrize("version", ["1.25", "1.37"])
def test_every_manifest_is_valid_without_unknown_fields(document: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(document, version, strict=True)


def test_the_kinds_have_their_names() -> None:
    names = {
        kind: (crd["metadata"]["name"], crd["spec"]["names"]["shortNames"], crd["spec"]["scope"])
        for kind, crd in CRDS.items()
    }
    assert names["ConsistentRegion"] == ("streamscrs.streams.ibm.com", ["stcr"], "Namespaced")
    assert names["ConsistentRegionOperator"] == ("streamscros.streams.ibm.com", ["stcro"], "Namespaced")
    assert names["ProcessingElement"][0] == "streamspes.streams.ibm.com"
    for kind in ("ConsistentRegion", "ConsistentRegionOperator", "ProcessingElement"):
        [version] = CRDS[kind]["spec"]["versions"]
        assert (version["name"], version["subresources"]) == ("v1", {"status": {}})
        assert version["additionalPrinterColumns"]


def test_the_schema_types_every_field_that_is_written() -> None:
    [version] = CRDS["ConsistentRegion"]["spec"]["versions"]
    parts = version["schema"]["openAPIV3Schema"]["properties"]
    for part, kind in (("spec", RegionSpec), ("status", RegionStatus)):
        fields = {field.encode_name for field in msgspec.structs.fields(kind)}
        assert set(parts[part]["properties"]) == fields
    assert parts["status"]["properties"]["state"]["enum"] == [state.value for state in State]


def test_an_operator_may_only_write_statuses_and_its_lease() -> None:
    [role] = [each for each in DOCUMENTS if each["kind"] == "Role"]
    written = {
        resource
        for rule in role["rules"]
        for resource in rule["resources"]
        if set(rule["verbs"]) - {"get", "list", "watch"}
    }
    assert written == {"streamscrs/status", "streamscros/status", "leases"}
