"""Pods out of manifest files, the real ones among them."""

from pathlib import Path

import pytest

from jobs.manifests import pods
from pipeline.errors import BadInput

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  template:
    spec:
      containers: [{name: c, image: i}]
"""


def read(text: str) -> list[tuple[str, str, str]]:
    return [(each.kind, each.namespace, each.name) for each in pods(Path("given.yaml"), text)]


def test_a_template_without_metadata_has_its_workloads_name_and_namespace() -> None:
    assert read(DEPLOYMENT) == [("Deployment", "shop", "web")]


def test_every_document_and_every_item_of_a_list_is_read() -> None:
    pod = "{kind: Pod, metadata: {name: NAME}, spec: {containers: []}}"
    text = f"{DEPLOYMENT}\n---\nkind: List\nitems: [{pod.replace('NAME', 'a')}, {pod.replace('NAME', 'b')}]\n"
    assert read(text) == [("Deployment", "shop", "web"), ("Pod", "default", "a"), ("Pod", "default", "b")]


def test_the_pods_of_a_daemonset_are_owned_by_it() -> None:
    [found] = pods(Path("given.yaml"), DEPLOYMENT.replace("Deployment", "DaemonSet"))
    assert found.pod["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("- a\n- b\n", "a list"),
        ("kind: Service\n", "Service"),
        ("kind: Pod\nmetadata: {name: a}\n", "spec"),
        ("kind: Pod\nmetadata: a\nspec: {}\n", "metadata"),
        ("kind: Deployment\nspec: {}\n", "spec.template"),
        ("kind: Pod\n  metadata: {\n", "line 2"),
        ("a: &a [*a]\nkind: *b\n", "not YAML"),
    ],
)
def test_what_is_no_pod_is_one_line_that_names_the_file(text: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        list(pods(Path("given.yaml"), text))
    assert "given.yaml" in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_real_cronjob_without_template_metadata_is_a_pod(real: Path) -> None:
    [found] = pods(real / "cronjob_no_template_metadata.yaml")
    assert found.kind == "CronJob"
    assert found.path == ("spec", "jobTemplate", "spec", "template")
    assert found.name


def test_every_real_file_is_read_or_refused_in_one_line(real: Path) -> None:
    kinds = {}
    for file in sorted(real.iterdir()):
        try:
            kinds[file.name] = [found.kind for found in pods(file)]
        except BadInput as error:
            assert "\n" not in str(error)
            assert file.name in str(error)
    assert kinds["admission_v1_pod_named.json"] == ["Pod"]
    assert kinds["pod_static_mirror_etcd.json"] == ["Pod"]
    assert kinds["pod_aks_daemonset_matchfields.json"] == ["Pod"]
    assert kinds["statefulset_nginx_csi_baremetal.yaml"] == ["StatefulSet"]
    assert kinds["ow_action_pod_reconstructed.yaml"] == ["Pod", "Pod", "Pod"]
    assert "node_aks_malformed_ruby_hash.txt" not in kinds
