"""``colocate recommend -f`` on every real pod and workload: a merged result, or a reason for leaving it alone."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonpatch
import pytest
import yaml

from featurestore.store import published
from jobs.cli import main
from tests.support.manifests import check
from tests.support.scheduling import PREFERRED, REQUIRED
from tests.support.worlds import World, node

#: By file, what becomes of each pod in it: why it is left alone, or "".
FILES = {
    "admission_v1_pod_named.json": [""],
    "cronjob_no_template_metadata.yaml": [""],
    "ow_action_pod_reconstructed.yaml": ["", "prewarm", "pinned"],
    "pod_aks_coredns_required_and_preferred.json": ["namespace"],
    "pod_aks_daemonset_matchfields.json": ["namespace"],
    "pod_static_mirror_etcd.json": ["mirror"],
    "statefulset_nginx_csi_baremetal.yaml": [""],
    "affinity_three_terms_control_plane.yaml": [""],
}
INVOKER = {"openwhisk-role": "invoker"}
NODES = [
    node("A", {**INVOKER, "node-role.kubernetes.io/master": ""}, kind="t1"),
    node("B", INVOKER, kind="t2"),
    node("C", kind="t2"),
]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Settings whose snapshot knows three nodes, on two of which the action of the real OpenWhisk pod is faster."""
    world = World(NODES, medians={("guest/video-processing", "t1"): 100.0, ("guest/video-processing", "t2"): 50.0})
    published.write(replace(world.snapshot(), created=datetime.now(UTC)), tmp_path / "s.snapshot")
    file = tmp_path / "colocate.toml"
    file.write_text(f'[store]\nsnapshot = "{tmp_path}/s.snapshot"\n[[clusters]]\nname = "c1"\n', encoding="utf-8")
    return file


def given(real: Path, name: str, directory: Path) -> Path:
    """The file itself; a bare affinity in a pod around it."""
    text = (real / name).read_text(encoding="utf-8")
    if not name.startswith("affinity"):
        return real / name
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {**yaml.safe_load(text), "containers": [{"name": "c", "image": "i"}]},
    }  # fmt: skip
    file = directory / name
    file.write_text(json.dumps(pod), encoding="utf-8")
    return file


def template(document: Any) -> Any:
    """The pod in a document, as it stands there."""
    if document.get("kind") == "AdmissionReview":
        return document["request"]["object"]
    if document.get("kind") == "CronJob":
        document = document["spec"]["jobTemplate"]
    return document["spec"].get("template") or document


def terms(affinity: Any, kind: str, strength: str) -> list[Any]:
    found: list[Any] = ((affinity or {}).get(kind) or {}).get(strength) or []
    return found


@pytest.mark.parametrize("name", FILES)
def test_a_real_file_gets_a_merged_result_or_a_reason(
    name: str, real: Path, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = given(real, name, tmp_path)
    assert main(["--config", str(config), "recommend", "-f", str(file), "-o", "json"]) in (0, 1)
    printed = json.loads(capsys.readouterr().out)
    answers = printed if isinstance(printed, list) else [printed]
    documents = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    assert [answer["cause"] if answer["outcome"] == "left_alone" else "" for answer in answers] == FILES[name]
    for answer, document in zip(answers, documents, strict=True):
        pod = template(document)
        assert answer["reasons"]
        if answer["outcome"] == "left_alone":
            assert answer["patch"] == []
            assert any(reason["rule"] == "left_alone" and reason["sentence"] for reason in answer["reasons"])
            continue
        before = pod["spec"].get("affinity") or {}
        result = jsonpatch.apply_patch({"metadata": {}, **pod}, answer["patch"])
        check(result)
        after = result["spec"].get("affinity") or {}
        assert after == answer["affinity"]
        for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity"):
            assert terms(after, kind, PREFERRED)[: len(terms(before, kind, PREFERRED))] == terms(
                before, kind, PREFERRED
            )
        required = (before.get("nodeAffinity") or {}).get(REQUIRED)
        assert ((after.get("nodeAffinity") or {}).get(REQUIRED)) == required, "no stated need: theirs alone"
        assert answer["nodes"] or not answer["satisfiable"]


def test_the_real_action_is_sent_where_it_is_faster(
    real: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = real / "ow_action_pod_reconstructed.yaml"
    main(["--config", str(config), "recommend", "-f", str(file), "-o", "json"])
    first, *_ = json.loads(capsys.readouterr().out)
    assert first["function"] == "guest/video-processing"
    assert [each["name"] for each in first["nodes"]] == ["B", "A"]
