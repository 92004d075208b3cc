"""The committed manifests are what the code makes, and Kustomize and Helm render the same from them."""

import subprocess
from typing import Any

import jsonschema
import kubernetes_validate
import pytest

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


#: The fields of the third parties' kinds that are used, as their API references have them.
_STRING, _STRINGS = {"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}


def _closed(required: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "additionalProperties": False, "required": list(required)}


_DURATION = {"type": "string", "pattern": r"^\d+h$"}
_SELECTOR = _closed(("name", "key"), name=_STRING, key=_STRING)
_KEY = _closed(
    algorithm={"enum": ["RSA", "ECDSA", "Ed25519"]},
    size={"type": "integer"},
    rotationPolicy={"enum": ["Never", "Always"]},
)
_ISSUER = _closed(("name",), name=_STRING, kind={"enum": ["Issuer", "ClusterIssuer"]})
THIRD_PARTIES = {
    "ServiceMonitor": _closed(
        ("selector", "endpoints"),
        selector=_closed(matchLabels={"type": "object"}),
        namespaceSelector=_closed(matchNames=_STRINGS),
        endpoints={"type": "array", "items": _closed(
            port=_STRING, scheme={"enum": ["http", "https"]}, path=_STRING, interval={"pattern": r"^\d+s$"},
            honorLabels={"const": True},
            authorization=_closed(type={"const": "Bearer"}, credentials=_SELECTOR),
            metricRelabelings={"type": "array", "items": _closed(
                sourceLabels=_STRINGS, regex=_STRING, action={"enum": ["keep", "drop"]},
            )},
            tlsConfig=_closed(serverName=_STRING, ca=_closed(secret=_SELECTOR)),
        )},
    ),
    "Issuer": {"oneOf": [
        _closed(("selfSigned",), selfSigned=_closed()),
        _closed(("ca",), ca=_closed(("secretName",), secretName=_STRING)),
    ]},
    "Certificate": _closed(
        ("secretName", "issuerRef"), isCA={"type": "boolean"}, commonName=_STRING, secretName=_STRING,
        dnsNames=_STRINGS, usages={"type": "array", "items": {"enum": ["server auth", "digital signature"]}},
        duration=_DURATION, renewBefore=_DURATION, privateKey=_KEY, issuerRef=_ISSUER,
    ),
}  # fmt: skip


def test_objects_of_other_operators_hold_only_fields_that_these_know() -> None:
    found = [each for each in kustomized("overlays/cert-manager") if each["apiVersion"].partition("/")[0] in _THIRD]
    assert {each["kind"] for each in found} == set(THIRD_PARTIES)
    for each in found:
        jsonschema.validate(each["spec"], THIRD_PARTIES[each["kind"]])


def test_every_part_is_in_an_overlay_or_for_one_of_ones_own() -> None:
    used = {name for _, components in OVERLAYS.values() for name in components}
    assert set(CHOSEN) - used == {"client-certificates"}


def test_helm_finds_nothing_to_mend() -> None:
    done = subprocess.run(
        [str(program("helm")), "lint", "--strict", str(DEPLOY / "chart")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
