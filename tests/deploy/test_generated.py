"""The committed manifests are what the code makes, and Kustomize and Helm render the same from them."""

import importlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from pydantic import ValidationError

from deploy.generate import DIRECTORY, OWNED, documents
from deploy.kustomize import OVERLAYS
from deploy.parts import CHOSEN
from tests.support.renderers import DEPLOY, charted, kustomized, program

#: What a chart is told for each overlay, and further ones that have none.
VALUES: dict[str, tuple[str, ...]] = {
    "default": (),
    "cert-manager": ("certificates=certManager", "serviceMonitor=true"),
    "everything": (
        "schedule=cron", "features.disks=true", "features.diskReservations=true", "features.hosts=true",
        "features.regions=true", "features.regionOperators=true",
    ),
}  # fmt: skip
Documents = list[dict[str, Any]]


def test_the_committed_files_are_what_the_code_makes() -> None:
    committed = {
        str(path.relative_to(DIRECTORY)): path.read_text(encoding="utf-8")
        for name in OWNED
        for path in (DIRECTORY / name).rglob("*")
        if path.is_file()
    }
    assert committed == documents()


def _told(found: Documents) -> dict[tuple[str, str, str], dict[str, Any]]:
    told = {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in found}
    assert len(told) == len(found)
    return told


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_helm_and_kustomize_make_the_same_objects(overlay: str) -> None:
    """Helm makes no namespace, and brings all kinds whether they are needed or not."""
    by_helm = _told(charted(*VALUES[overlay]))
    by_kustomize = _told(kustomized(f"overlays/{overlay}"))
    del by_kustomize["Namespace", "", "colocation-system"]
    kinds = {key for key in by_helm if key[0] == "CustomResourceDefinition"}
    assert {key for key in by_kustomize if key[0] == "CustomResourceDefinition"} <= kinds
    assert set(by_helm) - kinds == {key for key in by_kustomize if key[0] != "CustomResourceDefinition"}
    for key, document in by_kustomize.items():
        assert by_helm[key] == document, key


_THIRD = {"monitoring.coreos.com", "cert-manager.io"}


def _rendered(what: str) -> Documents:
    if what == "helm":
        return charted("clientCertificates=true", "serviceMonitor=true", namespace="elsewhere")
    return kustomized(f"overlays/{what}")


@pytest.mark.parametrize(
    ("what", "version"), [("cert-manager", "1.37"), ("everything", "1.25"), ("everything", "1.37"), ("helm", "1.37")]
)
def test_every_object_is_valid_without_unknown_fields(what: str, version: str) -> None:
    found = _rendered(what)
    assert len(found) > 20
    for document in found:
        if document["apiVersion"].partition("/")[0] not in _THIRD:
            kubernetes_validate.validate(document, version, strict=True)


def test_what_most_clusters_get_is_a_part_of_everything() -> None:
    default, everything = _told(_rendered("default")), _told(_rendered("everything"))
    assert all(everything[key] == document for key, document in default.items())


#: Where the kinds of other operators are, as models generated from these operators' own definitions. They are
#: several hundred and take seconds to import, which only the tests that use them shall pay.
THIRD_PARTIES = {
    "cert-manager.io/v1": "cloudcoil.models.cert_manager.v1",
    "monitoring.coreos.com/v1": "cloudcoil.models.prometheus_operator.v1",
}


def _model(document: dict[str, Any]) -> Any:
    return getattr(importlib.import_module(THIRD_PARTIES[document["apiVersion"]]), document["kind"])


def _of_third_parties() -> Documents:
    return [each for each in kustomized("overlays/cert-manager") if each["apiVersion"].partition("/")[0] in _THIRD]


def test_objects_of_other_operators_are_valid_by_their_definitions_without_unknown_fields() -> None:
    found = _of_third_parties()
    assert {each["kind"] for each in found} == {"Certificate", "Issuer", "ServiceMonitor"}
    for each in found:
        _model(each).model_validate(each, extra="forbid")


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("Certificate", ("secretname",), "tls"),
        ("Certificate", ("privateKey", "algorithm"), "DSA"),
        ("ServiceMonitor", ("endpoints", 0, "tlsConfig", "ca", "secret", "file"), "ca.crt"),
        ("Issuer", ("ca",), "root"),
    ],
)
def test_a_fault_in_an_object_of_another_operator_is_found(kind: str, path: tuple[Any, ...], value: str) -> None:
    wrong = next(each for each in _of_third_parties() if each["kind"] == kind)
    place = wrong["spec"]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(ValidationError, match=str(path[-1])):
        _model(wrong).model_validate(wrong, extra="forbid")


def test_every_part_is_in_an_overlay_or_for_one_of_ones_own() -> None:
    used = {name for _, components in OVERLAYS.values() for name in components}
    assert set(CHOSEN) - used == {"client-certificates"}


def test_helm_finds_nothing_to_mend() -> None:
    done = subprocess.run(
        [str(program("helm")), "lint", "--strict", str(DEPLOY / "chart")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("features.diskReservations=true", "/features/disks"),
        ("features.regionOperators=true", "/features/regions"),
        ("features.hosts=maybe", "/features/hosts"),
        ("featuers.hosts=true", "featuers"),
        ("features.gpu=true", "gpu"),
        ("schedule=never", "/schedule"),
        ("certificates=both", "/certificates"),
        ("replicas=0", "/replicas"),
        ("replicas=many", "/replicas"),
        ("image=", "/image"),
        ("storage=much", "/storage"),
    ],
)
def test_values_that_contradict_or_are_misspelled_are_refused_by_name(given: str, named: str) -> None:
    command = [str(program("helm")), "template", "advisor", str(DEPLOY / "chart"), "--set", given]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode != 0
    assert named in done.stderr.replace("'", "").replace(".", "/")


def _overlay(directory: Path, *components: str) -> subprocess.CompletedProcess[str]:
    """Have Kustomize render an overlay of one's own in *directory*, with *components* on the base."""
    above = Path(os.path.relpath(DEPLOY.resolve() / "kustomize", directory.resolve()))
    overlay = {
        "resources": [str(above / "base")],
        "components": [str(above / "components" / each) for each in components],
    }
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(overlay), encoding="utf-8")
    command = [str(program("kubectl")), "kustomize", str(directory)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    ("components", "named"),
    [
        (["disk-reservations"], "ConfigMap.v1.[noGrp]/colocation-advisor-disks.colocation-system"),
        (["disk-reservations", "disks"], "ConfigMap.v1.[noGrp]/colocation-advisor-disks.colocation-system"),
        (["region-operators"], "ConfigMap.v1.[noGrp]/colocation-advisor-regions.colocation-system"),
        (["certificates", "cert-manager"], "may not add resource with an already registered id"),
        (["hosts", "hosts"], "may not add resource with an already registered id"),
    ],
)
def test_components_that_contradict_or_lack_another_are_refused(
    components: list[str], named: str, tmp_path: Path
) -> None:
    done = _overlay(tmp_path, *components)
    assert done.returncode != 0
    assert named in done.stderr


def test_what_one_component_needs_of_another_is_told_by_both_ways_of_installing(tmp_path: Path) -> None:
    needs = {name: part.needs for name, part in CHOSEN.items() if part.needs}
    assert needs == {"disk-reservations": "disks", "region-operators": "regions"}
    done = _overlay(tmp_path, *(each for feature, needed in needs.items() for each in (needed, feature)))
    assert done.returncode == 0, done.stderr
    rows = {row[1].strip(" `"): row[-2].strip(" `") for row in map(_cells, _readme()) if len(row) == 6}
    assert {name: rows[name] for name in CHOSEN if rows.get(name)} == needs


def _readme() -> list[str]:
    return (DEPLOY / "README.md").read_text(encoding="utf-8").splitlines()


def _cells(line: str) -> list[str]:
    return line.split("|")


def test_every_value_of_the_chart_has_a_form() -> None:
    schema = json.loads((DEPLOY / "chart" / "values.schema.json").read_text())
    values = yaml.safe_load((DEPLOY / "chart" / "values.yaml").read_text())
    assert set(schema["properties"]) == {*values, "global"}
    assert set(schema["properties"]["features"]["properties"]) == set(values["features"])
