"""`colocate doctor` asks a real API server for its rights and its time."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from jobs import permissions
from jobs.config import ClusterSettings, DiskSettings, HostsSettings, KubernetesSettings, RegionsSettings, Settings
from jobs.doctor import examine
from tests.support.cluster import Cluster

pytestmark = pytest.mark.cluster


def test_an_administrator_has_every_right_and_the_clocks_agree(
    kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Settings(
        clusters=[ClusterSettings(name="c", kubernetes=KubernetesSettings(kubeconfig=kubeconfig))],
        disks=DiskSettings(live=True, reserve=True),
        hosts=HostsSettings(change_nodes=True),
        regions=RegionsSettings(manage=True, image="example"),
    )
    found = {each.check: each for each in examine(settings, datetime.now(UTC)) if each.source == "kubernetes"}
    told = {check: each.verdict for check, each in found.items() if check.startswith("permissions")}
    assert told == {f"permissions: {name}": "ok" for name in permissions.NEEDS}
    assert found["clock"].verdict == "ok"


def test_an_account_without_roles_is_told_each_right_that_it_lacks(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    accounts, name = "/api/v1/namespaces/default/serviceaccounts", f"{cluster.prefix}-nobody"
    cluster.create(accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    _, answer = cluster.call("POST", f"{accounts}/{name}/token", asked)
    given = yaml.safe_load(cluster.kubeconfig.read_text())
    given["users"] = [{"name": name, "user": {"token": answer["status"]["token"]}}]
    for each in given["contexts"]:
        each["context"]["user"] = name
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(given))
    settings = Settings(clusters=[ClusterSettings(name="c", kubernetes=KubernetesSettings(kubeconfig=file))])
    found = {each.check: each for each in examine(settings, datetime.now(UTC))}
    answering = found["permissions: answering"]
    kinds = ("namespaces", "nodes", "pods", "services", "workflows.wp5.physics-faas.eu")
    rights = [f"{verb} {kind}" for kind in kinds for verb in ("get", "list", "watch")]
    assert (answering.verdict, answering.said) == ("failed", f"may not {', '.join(rights)}")
