"""The kind that host constraints bring along is valid."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCUMENTS: list[dict[str, Any]] = [
    document
    for file in sorted((DEPLOY / "hosts").glob("crd*.yaml"))
    for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}")
@pytest.mark.parametrize("version", ["1.25", "1.37"])
def test_every_manifest_is_valid_without_unknown_fields(document: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(document, version, strict=True)
