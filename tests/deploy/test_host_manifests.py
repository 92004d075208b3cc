"""The manifests of host constraints: valid, apart from what every installation gets, and enough for what is done."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCUMENTS: list[dict[str, Any]] = [
    document
    for file in sorted((DEPLOY / "hosts").glob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
@pytest.mark.parametrize("version", ["1.25", "1.37"])
def test_every_manifest_is_valid_without_unknown_fields(document: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(document, version, strict=True)


def test_only_the_role_of_its_own_changes_nodes() -> None:
    roles = {each["metadata"]["name"]: each["rules"] for each in DOCUMENTS if each["kind"] == "ClusterRole"}
    verbs = {
        (resource, verb)
        for rule in roles["colocation-advisor-host-pools"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert {verb for resource, verb in verbs if resource == "nodes"} == {"get", "list", "patch"}
    assert {resource for resource, _ in verbs} == {"nodes", "hostpools"}
    [binding] = [each for each in DOCUMENTS if each["kind"] == "ClusterRoleBinding"]
    assert binding["roleRef"]["name"] == "colocation-advisor-host-pools", "submitters are bound by hand"
