"""``colocate hpa``: intents, nodes and manifests from files, without a server or a database."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from jobs.cli import main
from tests.support.intents import GROUP, allocatable, example_documents, label, meta

PATH = "projects/p1/composite-apps/ca1/v1/deployment-intent-groups/dig1"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the command: exit code, standard output and standard error."""
    code = main(["hpa", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def written(name: str, *documents: Any) -> str:
    Path(name).write_text("---\n".join(d if isinstance(d, str) else yaml.safe_dump(d) for d in documents))
    return name


def node(name: str, labels: dict[str, str] | None = None, **amounts: str) -> dict[str, Any]:
    amounts = {name.replace("_", "/"): amount for name, amount in amounts.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "status": {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def intents(*specs: dict[str, Any], app: str = "web", **more: Any) -> list[dict[str, Any]]:
    """Documents of one intent, one consumer (Deployment web, container main) and its requirements."""
    target = {"kind": "Deployment", "name": "web", "container-name": "main", **more}
    consumers = f"{PATH}/hpa-intents/i1/hpa-resource-consumers"
    return [
        {"path": f"{PATH}/hpa-intents", **meta("i1", appName=app)},
        {"path": consumers, **meta("c1", consumer=target)},
        *({"path": f"{consumers}/c1/resource-requirements", **meta(f"r{n}", **spec)} for n, spec in enumerate(specs)),
    ]


WEB = """\
# who looks after it: the web team
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web   # the shop
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
        - name: main
          image: "shop:1.0"   # pinned
          resources:
            requests:
              cpu: 100m   # measured in spring
        - name: side
          image: y
          env:
            - {name: DEBUG, value: 'no'}
"""


def test_the_usage_example_is_placed_on_three_clusters_and_applied_to_four_manifests(
    capsys: pytest.CaptureFixture[str],
) -> None:
    written("intents.yaml", *example_documents())
    big = {"cpu": "8", "memory": "16G"}
    written("a.yaml", node("a1", **big), node("a2", intel_qat="2", **big))
    written("b.yaml", node("b1", nvidia_gpu="1", **big), node("b2", **big))
    written("c.yaml", node("c1", cpu="3", memory="16G", intel_qat="1", nvidia_gpu="4"))
    # `_` above stands for `/`, and vendors end in .com.
    for file in ("a.yaml", "b.yaml", "c.yaml"):
        text = Path(file).read_text()
        Path(file).write_text(text.replace("intel/qat", "intel.com/qat").replace("nvidia/gpu", "nvidia.com/gpu"))
    clusters = [part for name in "abc" for part in ("--cluster", name, "--nodes", f"{name}.yaml")]
    code, out, _ = ran(capsys, "place", "-f", "intents.yaml", *clusters, "-o", "json", "--explain")
    answer = json.loads(out)
    assert code == 0
    assert answer["fwall"] == {"replication-count": 1, "allow": ["b", "a"]}
    assert answer["scores"]["fwall"] == {"b": 9, "a": 0}
    assert answer["analytics"] == {"replication-count": 1, "deny": ["b"]}
    assert "intel.com/qat" in answer["reasons"]["analytics"]["b"][0]

    names = {"core-fwall": ("StatefulSet", "palo-alto-e3000"), "api-server": ("Deployment", "nginx"),
             "ai-model": ("StatefulSet", "openvino"), "logger": ("Deployment", "logger")}  # fmt: skip
    for name, (kind, container) in names.items():
        labels = {"app": name}
        spec = {"selector": {"matchLabels": labels}, **({"serviceName": name} if kind == "StatefulSet" else {})}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": container, "image": "x"}]}}
        document = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}}
        written(f"{name}.yaml", {**document, "spec": {**spec, "template": template}})
    files = [f"{name}.yaml" for name in names]
    code, out, err = ran(capsys, "apply", "-f", "intents.yaml", "-m", *files, "--cluster", "b", "--nodes", "b.yaml")
    assert code == 0
    assert "analytics does not fit on b: intel.com/qat 1: no node has it free" in err
    found = {each["metadata"]["name"]: each for each in yaml.safe_load_all(out)}
    for each in found.values():
        kubernetes_validate.validate(each, "1.31", strict=True)
    resources = {name: each["spec"]["template"]["spec"]["containers"][0]["resources"] for name, each in found.items()}
    core = {"cpu": "4", "memory": "1G", "nvidia.com/gpu": "1"}
    assert resources == {
        "core-fwall": {"requests": core, "limits": core},
        "api-server": {"requests": {"cpu": "1", "memory": "200M"}, "limits": {"cpu": "2"}},
        "ai-model": {"requests": {"cpu": "2"}},
        "logger": {"requests": {"intel.com/qat": "1"}, "limits": {"intel.com/qat": "1"}},
    }
    code, out, _ = ran(capsys, "apply", "-f", "intents.yaml", "-m", *files, "--cluster", "a", "--nodes", "a.yaml")
    assert "nvidia.com/gpu" not in out and code == 0


def test_emcos_own_example_is_accepted(capsys: pytest.CaptureFixture[str], real: Path) -> None:
    text = (real / "emco_hpa_test_simple.yaml").read_text()
    for placeholder in ("ProjectName", "VfwGenericPlacementIntent", "VfwHpaActionIntent", "VfwHpaPlacementIntent",
                        "ClusterProvider", "ClusterLabel1", "ClusterLabel2"):  # fmt: skip
        text = text.replace("{{.%s}}" % placeholder, placeholder.lower())  # noqa: UP031
    Path("emco.yaml").write_text(text)
    labels = {"feature.node.kubernetes.io/intel_qat": "true"}
    written("a.yaml", node("a1", labels, cpu="4", memory="8G"), node("a2", labels, cpu="4", memory="8G"))
    written("b.yaml", node("b1", labels, cpu="7", memory="8G"))
    clusters = ["--cluster", "a", "--nodes", "a.yaml", "--cluster", "b", "--nodes", "b.yaml"]
    code, out, err = ran(capsys, "place", "-f", "emco.yaml", *clusters)
    assert (code, yaml.safe_load(out)) == (0, {"http-client": {"replication-count": 1, "allow": ["a"]}})
    assert "generic-placement-intents: 1 document of no hardware intent" in err


def test_who_fits_nowhere_is_told_why(capsys: pytest.CaptureFixture[str]) -> None:
    written("intents.yaml", *intents(allocatable("cpu", 2), label("fast", "yes")))
    written("a.yaml", node("a1", cpu="1"))
    code, out, _ = ran(capsys, "place", "-f", "intents.yaml", "--cluster", "A", "--nodes", "a.yaml", "-o", "json")
    assert code == 1
    assert json.loads(out)["unsatisfied"][0] == {
        "app": "web", "consumer": "c1", "requirement": "r0", "clusters": ["A"],
        "message": "cpu 2: no node has it free",
    }  # fmt: skip


def test_pods_in_the_nodes_file_use_them(capsys: pytest.CaptureFixture[str]) -> None:
    written("intents.yaml", *intents(allocatable("cpu", 2)))
    container = {"name": "c", "resources": {"requests": {"cpu": "1500m"}}}
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "a1", "containers": [container]}}
    items = {"kind": "List", "items": [node("a1", cpu="3"), pod]}
    Path("a.json").write_text(json.dumps(items))
    assert ran(capsys, "place", "-f", "intents.yaml", "--cluster", "A", "--nodes", "a.json")[0] == 1
    pod["status"] = {"phase": "Succeeded"}
    Path("a.json").write_text(json.dumps(items))
    assert ran(capsys, "place", "-f", "intents.yaml", "--cluster", "A", "--nodes", "a.json")[0] == 0


def test_what_is_not_changed_keeps_its_words_and_a_second_time_its_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    written("intents.yaml", *intents(allocatable("cpu", 4, 4), label("fast", "yes")))
    written("web.yaml", WEB)
    arguments = ("--cluster", "A", "-f", "intents.yaml")
    code, once, _ = ran(capsys, "apply", *arguments, "-m", "web.yaml")
    assert code == 0
    assert (
        once
        == WEB.replace("100m   # measured", '"4"    # measured').replace(
            "        - name: side", '            limits:\n              cpu: "4"\n        - name: side'
        )
        + '      nodeSelector:\n        fast: "yes"\n'
    )
    written("once.yaml", once)
    assert ran(capsys, "apply", *arguments, "-m", "once.yaml")[1] == once


def test_aliases_of_yaml_carry_nothing_to_other_containers(capsys: pytest.CaptureFixture[str]) -> None:
    written("intents.yaml", *intents(allocatable("cpu", 4)))
    shared = WEB.replace("          resources:\n", "          resources: &r\n")
    written("web.yaml", shared.replace("          image: y\n", "          image: y\n          resources: *r\n"))
    code, out, _ = ran(capsys, "apply", "-f", "intents.yaml", "-m", "web.yaml", "--cluster", "A")
    assert code == 0
    containers = yaml.safe_load(out)["spec"]["template"]["spec"]["containers"]
    assert [each["resources"]["requests"]["cpu"] for each in containers] == ["4", "100m"]


def test_several_files_are_taken_after_one_option(capsys: pytest.CaptureFixture[str]) -> None:
    first, *others = intents(allocatable("cpu", 4))
    written("i.yaml", first)
    written("others.yaml", *others)
    written("web.yaml", WEB)
    service = written("service.yaml", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}})
    code, out, _ = ran(capsys, "apply", "-f", "others.yaml", "i.yaml", "-m", service, "web.yaml", "--cluster", "A")
    assert code == 0
    assert [each["kind"] for each in yaml.safe_load_all(out)] == ["Service", "Deployment"]
    code, out, _ = ran(
        capsys, "apply", "-f", "others.yaml", "-f", "i.yaml", "-m", "web.yaml", "--cluster", "A", "-o", "json"
    )
    assert json.loads(out)["spec"]["template"]["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "4"}}


def test_manifests_in_json_are_read_too(capsys: pytest.CaptureFixture[str]) -> None:
    written("intents.yaml", *intents(allocatable("cpu", 4, 4)))
    manifest = yaml.safe_load(WEB.replace("100m", "'1'"))
    Path("web.json").write_text(json.dumps(manifest))
    code, out, _ = ran(capsys, "apply", "-f", "intents.yaml", "-m", "web.json", "--cluster", "A")
    four = {"cpu": "4"}
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": four, "limits": four}
    assert (code, yaml.safe_load(out)) == (0, manifest)


def test_a_conflict_prints_its_reason_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    written("intents.yaml", *intents(allocatable("cpu", 4), **{"container-name": "mian"}))
    written("web.yaml", WEB)
    code, out, err = ran(capsys, "apply", "-f", "intents.yaml", "-m", "web.yaml", "--cluster", "A")
    assert (code, out) == (1, "")
    assert "Deployment web: no container 'mian'; there are main, side" in err


def test_an_exclusive_core_that_is_not_granted_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    written("intents.yaml", *intents(allocatable("cpu", 4, 4), allocatable("memory", 1000, 1000)))
    written("web.yaml", WEB)
    code, _, err = ran(capsys, "apply", "-f", "intents.yaml", "-m", "web.yaml", "--cluster", "A")
    assert code == 0
    assert "warning: Deployment web: container main: exclusive cores not granted" in err


INTENT = {"path": f"{PATH}/hpa-intents", **meta("i1", appName="web")}


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ([{"metadata": {"name": "i1"}}], "path: missing"),
        ([{**INTENT, "spec": {}}], "spec.appName: missing"),
        ([INTENT, INTENT], "stands in"),
        (intents(allocatable("cpu", 4))[1:], "hpa-intents/i1 does not exist"),
        (intents(allocatable("cpu", True)), "document 3: spec.requests"),
        (intents(allocatable("cpu", 1), **{"container-name": None}), "container-name"),
        (["- just\n- a list\n"], "expected an object"),
        (["a: b: c"], "not YAML or JSON"),
        ([{"path": "projects/p/nothing", "metadata": {"name": "x"}}], "no hardware intent in it"),
    ],
)
def test_wrong_intents_are_one_line_that_names_the_file(
    capsys: pytest.CaptureFixture[str], documents: list[Any], said: str
) -> None:
    written("intents.yaml", *documents)
    written("a.yaml", node("a1", cpu="3"))
    code, out, err = ran(capsys, "place", "-f", "intents.yaml", "--cluster", "A", "--nodes", "a.yaml")
    assert (code, out) == (2, "")
    assert "intents.yaml" in err and said in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ("a: b: c", "web.yaml, line 1: not YAML or JSON"),
        (WEB.replace("100m", "16g"), "Deployment web: pod /: spec.containers[main].resources.requests.cpu"),
        (WEB.replace("      containers:", "      nodeSelector: [a]\n      containers:"), "nodeSelector"),
        (WEB + "kind: Twice\n", "not YAML or JSON"),
    ],
)
def test_wrong_manifests_are_one_line_that_names_the_file(
    capsys: pytest.CaptureFixture[str], manifest: str, said: str
) -> None:
    written("intents.yaml", *intents(allocatable("cpu", 4)))
    written("web.yaml", manifest)
    code, out, err = ran(capsys, "apply", "-f", "intents.yaml", "-m", "web.yaml", "--cluster", "A")
    assert (code, out) == (2, "")
    assert "web.yaml" in err.splitlines()[-1] and said in err.splitlines()[-1]


def test_each_nodes_file_is_of_one_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    written("intents.yaml", INTENT)
    written("a.yaml", node("a1", cpu="3"))
    code, _, err = ran(capsys, "place", "-f", "intents.yaml", "--nodes", "a.yaml")
    assert code == 2 and "--nodes: 1 files for 0 times --cluster" in err
    written("b.yaml", {"kind": "Service", "metadata": {"name": "s"}})
    code, _, err = ran(capsys, "place", "-f", "intents.yaml", "--nodes", "b.yaml", "--cluster", "A")
    assert code == 2 and "b.yaml: kind 'Service': neither a Node nor a Pod" in err


def test_the_usage_examples_paths_are_those_of_the_interface() -> None:
    assert all(GROUP.removeprefix("/v2/") in text for text in example_documents())
