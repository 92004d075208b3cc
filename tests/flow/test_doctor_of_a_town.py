"""`colocate doctor` against a whole cluster of stand-ins: what it finds well, what it finds wrong, and what to do."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jobs import config, doctor, permissions
from jobs.config import DiskSettings, HostsSettings, RegionsSettings
from jobs.finding import Finding
from tests.support.kube_server import status
from tests.support.prometheus import needs_prometheus, start_prometheus
from tests.support.town import Town, node, town
from tests.support.web import Reply


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Town]:
    with town(tmp_path) as made:
        yield made


def examined(place: Town, off: timedelta = timedelta(0), **groups: object) -> dict[tuple[str, str], Finding]:
    """Examine with *groups* of settings replaced, by a clock that is *off* so much."""
    settings = config.load(place.home / "colocate.toml").model_copy(update=groups)
    store = settings.store.model_copy(
        update={"path": place.database, "snapshot": place.home / "s.snapshot", "spool": place.home / "spool"}
    )
    found = doctor.examine(
        settings.model_copy(update={"store": store}), datetime.now(UTC), lambda: datetime.now(UTC) + off
    )
    return {(each.source, each.check): each for each in found}


def test_a_healthy_cluster_has_no_failure_and_says_what_it_has(place: Town) -> None:
    found = examined(place)
    assert {each.verdict for each in found.values()} == {"ok", "warning"}
    assert found["kubernetes", "list nodes"].said == "2 found"
    assert found["kubernetes", "list pods"].said == "6 found"
    assert found["kubernetes", "function labels"].said == "6 of 6 pods"
    assert found["kubernetes", "disk_type"].said == "known of 2 of 2 nodes"
    assert found["kubernetes", "network_bytes_per_s"].verdict == "warning", "no node carries the label"
    assert found["prometheus", "node.cpu_cores"].said == "of 2 nodes"
    assert found["prometheus", "pod.memory_bytes"].said == "of 6 pods"
    assert found["openwhisk", "namespace guest"].said == "500 activations in the last hour"
    assert all(each.fix for each in found.values() if each.verdict == "warning" and each.source != "store")


@pytest.mark.parametrize(("minutes", "way"), [(-5, "ahead of"), (5, "behind")])
def test_a_clock_that_is_off_is_told_for_every_source(place: Town, minutes: int, way: str) -> None:
    found = examined(place, timedelta(minutes=minutes))
    for source in ("kubernetes", "prometheus", "openwhisk"):
        clock = found[source, "clock"]
        assert clock.verdict == "warning"
        assert way in clock.said
        assert "NTP" in clock.fix


def test_clocks_that_agree_are_well(place: Town) -> None:
    found = examined(place)
    assert {found[each, "clock"].verdict for each in ("kubernetes", "prometheus", "openwhisk")} == {"ok"}


def test_each_right_that_is_missing_is_named_with_its_remedy(place: Town) -> None:
    place.kube.denied = {("", "pods", "watch"), ("streams.ibm.com", "streamscrs", "list")}
    found = examined(place)
    pods, regions = (found["kubernetes", f"permissions: {each}"] for each in ("answering", "regions"))
    assert (pods.verdict, pods.said) == ("failed", "may not watch pods")
    assert "role" in pods.fix
    assert (regions.verdict, regions.said) == ("failed", "may not list streamscrs.streams.ibm.com")
    assert "regions.follow" in regions.fix


def test_rights_are_asked_for_what_is_switched_on_alone(place: Town) -> None:
    on = examined(
        place,
        disks=DiskSettings(live=True, reserve=True, namespace="storage"),
        hosts=HostsSettings(change_nodes=True),
        regions=RegionsSettings(manage=True, image="example"),
    )
    off = examined(place, disks=DiskSettings(collect=False), regions=RegionsSettings(follow=False))
    asked = [{check for _, check in found if check.startswith("permissions: ")} for found in (on, off)]
    assert asked[0] == {f"permissions: {name}" for name in permissions.NEEDS}
    assert asked[1] == {"permissions: answering"}
    assert on["kubernetes", "permissions: lease of disk reservations"].said == "3 of 3 rights in namespace storage"


def test_a_node_autoscaler_is_told(place: Town) -> None:
    assert ("kubernetes", "node autoscaler") not in examined(place)
    scaled = node("n5")
    scaled["metadata"]["labels"] = {"karpenter.sh/nodepool": "default"}
    place.kube.put("/api/v1/nodes", [node("n0"), scaled])
    found = examined(place)["kubernetes", "node autoscaler"]
    assert found.verdict == "warning"
    assert found.said.startswith("Karpenter found")
    assert found.fix


def test_pods_without_the_labels_of_functions_are_told(place: Town) -> None:
    pods = [json.loads(each) for each in place.kube.collections["/api/v1/pods"]]
    for pod in pods:
        pod["metadata"]["labels"] = {"app": "web"}
    place.kube.put("/api/v1/pods", pods)
    finding = examined(place)["kubernetes", "function labels"]
    assert (finding.verdict, finding.said) == ("warning", "0 of 6 pods")
    assert "kubernetes.function_labels" in finding.fix


def test_an_account_that_may_not_list_pods_is_told_which_right_is_missing(place: Town) -> None:
    place.kube.script.extend([None, *[status(403, "pods is forbidden")] * 3])
    finding = examined(place)["kubernetes", "list pods"]
    assert finding.verdict == "failed"
    assert "list pods" in finding.fix


def test_another_namespaces_key_is_told_and_not_shown(tmp_path: Path) -> None:
    extra = '[[clusters.openwhisk.namespaces]]\nname = "other"\nkey = "user-of-guest:wordOfGuest"\n'
    with town(tmp_path, extra=extra) as place:
        found = examined(place)
    assert found["openwhisk", "namespace guest"].verdict == "ok"
    finding = found["openwhisk", "namespace other"]
    assert (finding.verdict, finding.fix) == ("failed", "give a key or token that may read this")
    assert "wordOfGuest" not in finding.said


def test_a_base_metric_without_series_is_a_failure_and_an_optional_one_a_hint(place: Town) -> None:
    place.usage.append(Reply('{"status":"success","data":{"resultType":"matrix","result":[]}}'))
    found = examined(place)
    assert ("prometheus", "node usage") not in found, "said once, of the metric itself"
    for metric in ("node.cpu_cores", "node.memory_bytes", "pod.cpu_cores", "pod.memory_bytes"):
        told = found["prometheus", metric]
        assert (told.verdict, told.said) == ("failed", f"of 0 {metric.partition('.')[0]}s")
        assert "scraped" in told.fix and "optional" not in told.fix
    hint = found["prometheus", "node.io_pressure"]
    assert (hint.verdict, hint.said) == ("warning", "of 0 nodes")
    assert hint.fix.startswith("optional")
    assert found["kubernetes", "list nodes"].verdict == "ok", "one dead source costs only itself"


def test_a_namespace_that_carries_a_mode_is_told_where_modes_of_namespaces_stand(place: Town) -> None:
    key = "colocation.internal/mode"
    place.kube.put("/api/v1/namespaces", [
        {"metadata": {"name": "guest", "annotations": {key: "prefer"}}},
        {"metadata": {"name": "shop", "labels": {key: "require"}}},
        {"metadata": {"name": "plain", "labels": {"team": "a"}}},
        {"metadata": 7},
    ])  # fmt: skip
    told = examined(place)["kubernetes", "modes of namespaces"]
    assert told.verdict == "warning"
    assert told.said == "guest, shop carry colocation.internal/mode, which counts on pods alone"
    assert "advice.namespaces" in told.fix


def test_workflows_that_cannot_be_read_are_named(place: Town) -> None:
    spec = {"actions": [{"name": "f", "performanceProfile": {"cpu": "huge"}}]}
    odd = [{"metadata": {"namespace": "ow", "name": f"w{number}"}, "spec": spec} for number in range(5)]
    place.kube.put("/apis/wp5.physics-faas.eu/v1alpha1/workflows", odd)
    told = examined(place)["kubernetes", "list workflows"]
    assert told.said.startswith("0 found, 5 unreadable: workflow w0: actions[0].performanceProfile.cpu: 'huge'")
    assert all(f"workflow w{number}: " in told.said for number in range(3))
    assert told.said.endswith("; and 2 more")


def test_an_odd_node_is_told_and_the_others_count(place: Town) -> None:
    odd = {**node("n7"), "status": {"allocatable": {"cpu": "16g"}}}
    place.kube.put("/api/v1/nodes", [node("n0"), odd])
    finding = examined(place)["kubernetes", "list nodes"]
    assert finding.verdict == "warning"
    assert finding.said.startswith("1 found, 1 unreadable")
    assert "16g" in finding.said


@needs_prometheus
@pytest.mark.prometheus
@pytest.mark.parametrize(("every", "verdict"), [(30, "ok"), (120, "warning")])
def test_steps_too_short_for_the_scrapes_are_told(tmp_path: Path, every: int, verdict: str) -> None:
    now = int(datetime.now(UTC).timestamp())
    lines = [f'up{{instance="a:1"}} 1 {at}' for at in range(now - 3600, now, every)]
    history = tmp_path / "history.openmetrics"
    history.write_text("\n".join(["# TYPE up gauge", *lines, "# EOF", ""]), encoding="utf-8")
    with start_prometheus(history) as url:
        file = tmp_path / "colocate.toml"
        file.write_text(f'[[clusters]]\nname = "edge"\n[clusters.prometheus]\nurl = "{url}"\n', encoding="utf-8")
        found = {each.check: each for each in doctor.examine(config.load(file), datetime.fromtimestamp(now, UTC))}
    assert found["scrapes"].verdict == verdict, found["scrapes"].said
    assert ("schedule.step" in found["scrapes"].fix) == (verdict == "warning")
