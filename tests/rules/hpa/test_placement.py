"""Placement over clusters, against the worked cases; nodes are stated as what is free on them."""

from collections.abc import Iterable
from typing import Any

import pytest

from pipeline.objects import pod_of
from pipeline.records import Node, Pod, Taint
from rules.advice import Advice
from rules.candidates import Candidates
from rules.hpa.fleet import Fleet, of_records
from rules.hpa.model import Consumer
from rules.hpa.placement import Placed, place
from rules.partitions import Company
from tests.support.fleets import G, fleet, intents, node
from tests.support.intents import allocatable, consumer, label


def allowed(placed: Placed, app: str = "app") -> list[str]:
    """The clusters that are left to *app*, best first, whichever form they are told in."""
    assert not placed.unsatisfied, placed.unsatisfied
    told = placed.candidates()[app]
    if "allow" in told:
        return list(told["allow"])
    return [name for name in placed.fleet.clusters if name not in told["deny"]]


def placed(clusters: Fleet, *specs: dict[str, Any], **more: Any) -> list[str]:
    return allowed(place(intents(consumer(*specs, **more)), clusters))


def refused(found: Placed) -> dict[str, set[str]]:
    """The clusters that every app was refused."""
    told: dict[str, set[str]] = {}
    for each in found.unsatisfied:
        told.setdefault(each.app, set()).update(each.clusters)
    return told


GPU = {"mandatory": False, "weight": 9, "allocatable": True, "name": "nvidia.com/gpu", "limits": 1}
FWALL = (allocatable("cpu", 4, 4), allocatable("memory", 1000, 1000, units="MB"), GPU)


def test_case_1_a_wish_ranks_and_a_need_filters() -> None:
    clusters = fleet(
        A=[node("n1", cpu=6, mem=8 * G)],
        B=[node("n1", cpu=6, mem=8 * G, gpu=1)],
        C=[node("n1", cpu=3, mem=8 * G, gpu=2)],
    )
    found = place(intents(consumer(*FWALL, app="fwall"), any_of=["C", "B", "A"]), clusters)
    assert found.candidates() == {"fwall": {"replication-count": 1, "allow": ["B", "A"]}}
    assert found.scores() == {"fwall": {"B": 9, "A": 0}}
    assert [r.name for _, r in found.chosen("B")["fwall"]] == ["r2"]
    assert found.chosen("A")["fwall"] == []


def test_case_2_the_total_of_a_cluster_is_not_enough() -> None:
    clusters = fleet(A=[node("n1", cpu=3), node("n2", cpu=3)], B=[node("n1", cpu=1), node("n2", cpu=5)])
    assert placed(clusters, allocatable("cpu", 4)) == ["B"]


@pytest.mark.parametrize("given", ["500m", 0.5])
def test_case_4_a_fraction_of_a_core(given: object) -> None:
    assert placed(fleet(A=[node("n1", cpu=0.6)], B=[node("n1", cpu=0.4)]), allocatable("cpu", given)) == ["A"]


@pytest.mark.parametrize(("units", "found"), [("MB", ["A", "C"]), (None, ["A", "C"]), ("Mi", ["C"])])
def test_case_5_units_of_memory(units: str | None, found: list[str]) -> None:
    sizes = {"A": 1_000_000_000, "B": 999_999_999, "C": 1_048_576_000}
    clusters = fleet(**{name: [node("n1", mem=size)] for name, size in sizes.items()})
    assert placed(clusters, allocatable("memory", 1000, **({"units": units} if units else {}))) == found


def test_case_6_limits_stand_for_requests() -> None:
    assert placed(fleet(A=[node("n1", cpu=1)], B=[node("n1", cpu=2)]), allocatable("cpu", limits=2)) == ["B"]


def test_case_7_a_label_is_an_exact_text() -> None:
    key = "feature.node.kubernetes.io/cpu-cpuid.AVX512F"
    said = {"A": {key: "true"}, "B": {key: "false"}, "C": {}, "D": {key: "True"}}
    clusters = fleet(**{name: [node("n1", labels, cpu=1)] for name, labels in said.items()})
    assert placed(clusters, label(key, "true"), container=None) == ["A"]


@pytest.mark.parametrize("order", [1, -1])
def test_case_11_the_order_of_requirements_is_nothing(order: int) -> None:
    clusters = fleet(A=[node("n1", cpu=8)], B=[node("n1", cpu=8, gpu=1)])
    needs = [allocatable("cpu", 2), allocatable("nvidia.com/gpu", 1)]
    assert placed(clusters, *needs[::order]) == ["B"]


def test_case_12_a_consumer_without_requirements_is_no_constraint() -> None:
    assert placed(fleet(A=[node("n1", cpu=8)])) == ["A"]
    written = place(intents(consumer()), fleet(A=[node("n1", cpu=8)])).candidates()
    assert written == {"app": {"replication-count": 1, "allow": ["A"]}}


def _denying(rule: str, clusters: Fleet, *names: str) -> Advice:
    numbers = (clusters.clusters.index(name) for name in names)
    return Advice(rule, Candidates.named(False, numbers, len(clusters)))


def test_case_16_controllers_are_combined() -> None:
    clusters = fleet(A=[node("n", cpu=8)], B=[node("n", cpu=8)], C=[node("n", cpu=1)])
    wanted = intents(consumer(allocatable("cpu", 2)), any_of=["C", "A", "B"])
    assert allowed(place(wanted, clusters, {"app": [_denying("latency", clusters, "B")]})) == ["A"]
    nowhere = place(wanted, clusters, {"app": [_denying("latency", clusters, "A", "B")]})
    assert any("hpa, latency" in each.message for each in nowhere.unsatisfied)


def test_case_16_all_of_is_all_or_nothing() -> None:
    clusters = fleet(A=[node("n", cpu=8)], B=[node("n", cpu=8)], C=[node("n", cpu=1)])
    [why] = place(intents(consumer(allocatable("cpu", 2)), all_of=["A", "C"]), clusters).unsatisfied
    assert (why.consumer, why.requirement, why.clusters) == ("c1", "r0", ("C",))
    both = place(intents(consumer(allocatable("cpu", 2)), all_of=["B", "A"]), clusters)
    assert allowed(both) == ["A", "B"]
    assert both.candidates()["app"]["replication-count"] == 2
    [unknown] = place(intents(consumer(allocatable("cpu", 2)), all_of=["A", "Z"]), clusters).unsatisfied
    assert unknown.clusters == ("Z",)


def test_labels_and_amounts_have_to_be_on_one_node() -> None:
    clusters = fleet(
        A=[node("n1", {"fast": "yes"}, cpu=1), node("n2", cpu=8)], B=[node("n1", {"fast": "yes"}, cpu=2)]
    )
    assert placed(clusters, label("fast", "yes"), allocatable("cpu", 2)) == ["B"]


def test_replicas_are_packed_together_with_other_consumers() -> None:
    """Three times 2 and once 3 on nodes of 4 and 6: 2+2+2 on the second, 3 on the first; of 5 and 5 not."""
    both = (consumer(allocatable("cpu", 2), replicas=3), consumer(allocatable("cpu", 3), name="c2", object="other"))
    clusters = fleet(A=[node("n1", cpu=4), node("n2", cpu=6)], B=[node("n1", cpu=4), node("n2", cpu=4)])
    assert allowed(place(intents(*both), clusters)) == ["A"]


def test_containers_of_one_pod_need_one_node() -> None:
    both = (consumer(allocatable("cpu", 2)), consumer(allocatable("cpu", 3), name="c2", container="side"))
    clusters = fleet(A=[node("n1", cpu=4), node("n2", cpu=4)], B=[node("n1", cpu=5)])
    assert allowed(place(intents(*both), clusters)) == ["B"]


def _cluster(nodes: Iterable[Node], *pods: Pod) -> Fleet:
    return of_records({"A": (nodes, pods)})


def _pod(phase: str, cpu: str, where: str = "n1") -> Pod:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    spec = {"nodeName": where, "containers": [container]}
    return pod_of({"metadata": {"name": f"{phase}-{cpu}"}, "spec": spec, "status": {"phase": phase}})


def test_free_is_allocatable_less_what_pods_that_have_not_ended_request() -> None:
    nodes = [node("n1", cpu=4)]
    pods = (_pod("Running", "1500m"), _pod("Succeeded", "4"), _pod("Failed", "4"), _pod("Pending", "500m"))
    assert placed(_cluster(nodes, *pods), allocatable("cpu", 2)) == ["A"]
    assert place(intents(consumer(allocatable("cpu", "2001m"))), _cluster(nodes, *pods)).unsatisfied


@pytest.mark.parametrize(
    "wrong",
    [
        {"ready": False},
        {"schedulable": False},
        {"taints": (Taint("a", "NoSchedule"),)},
        {"taints": (Taint("a", "NoExecute"),)},
    ],
)
def test_nodes_that_take_no_pods_do_not_count(wrong: dict[str, Any]) -> None:
    assert place(intents(consumer(allocatable("cpu", 1))), _cluster([node("n1", cpu=4, **wrong)])).unsatisfied
    soft = node("n1", cpu=4, taints=(Taint("a", "PreferNoSchedule"),))
    assert placed(_cluster([soft]), allocatable("cpu", 1)) == ["A"]


def test_a_full_node_takes_no_pod_though_it_has_room() -> None:
    [why] = place(intents(consumer(allocatable("cpu", 1))), _cluster([node("n1", cpu=4, pods=0)])).unsatisfied
    assert (why.requirement, why.message) == ("", "no room for another pod on its nodes")
    many = intents(consumer(allocatable("cpu", 1), replicas=3))
    [why] = place(many, fleet(A=[node("n1", cpu=4, pods=2)], B=[node("n1", cpu=2)])).unsatisfied[:1]
    assert (why.clusters, why.message) == (("A",), "no room for 3 more pods on its nodes")


def _apps(*cpus: float) -> list[Consumer]:
    return [
        consumer(allocatable("cpu", cpu), app=f"app{number}", object=f"web{number}")
        for number, cpu in enumerate(cpus)
    ]


def test_applications_that_contend_get_disjoint_clusters() -> None:
    clusters = fleet(A=[node("n", cpu=6)], B=[node("n", cpu=6)])
    found = place(intents(*_apps(4, 4)), clusters)
    assert sorted([allowed(found, "app0"), allowed(found, "app1")]) == [["A"], ["B"]]
    together = place(intents(*_apps(4, 2)), clusters)
    assert allowed(together, "app0") == allowed(together, "app1") == ["A", "B"]
    assert set(refused(place(intents(*_apps(4, 4, 4)), clusters))) == {"app0", "app1", "app2"}


def test_who_has_but_one_cluster_gets_it() -> None:
    clusters = fleet(A=[node("n", cpu=6)], B=[node("n", {"k": "v"}, cpu=6)])
    picky = consumer(allocatable("cpu", 4), label("k", "v"), app="zz", object="z")
    found = place(intents(*_apps(4), picky), clusters)
    assert (allowed(found, "app0"), allowed(found, "zz")) == (["A"], ["B"])


def test_three_that_fit_in_pairs_do_not_share_one_cluster() -> None:
    clusters = fleet(A=[node("n", cpu=6)], B=[node("n", cpu=6)], C=[node("n", cpu=6)])
    found = place(intents(*_apps(2.5, 2.5, 2.5)), clusters)
    for name in clusters.clusters:
        assert sum(name in allowed(found, f"app{n}") for n in range(3)) == 2
    assert all(allowed(found, f"app{n}") for n in range(3))


def test_applications_that_are_kept_apart_share_no_cluster() -> None:
    clusters = fleet(A=[node("n", cpu=9)], B=[node("n", cpu=9)])
    company = [Company("app0", False, frozenset(["app1"]))]
    found = place(intents(*_apps(1, 1)), clusters, company=company)
    assert not set(allowed(found, "app0")) & set(allowed(found, "app1"))


def test_a_refusal_names_the_requirement_the_consumer_or_the_packing() -> None:
    clusters = fleet(A=[node("n1", cpu=8)], B=[node("n1", {"fast": "yes"}, cpu=1)])
    needs = (allocatable("cpu", 2), label("fast", "yes"))
    found = place(intents(consumer(*needs)), clusters).unsatisfied
    assert {(each.consumer, each.requirement, each.clusters) for each in found} == {
        ("c1", "r0", ("B",)), ("c1", "r1", ("A",)),
    }  # fmt: skip
    apart = fleet(A=[node("n1", cpu=8), node("n2", {"fast": "yes"}, cpu=1)])
    [found_] = place(intents(consumer(*needs)), apart).unsatisfied
    assert (found_.consumer, found_.requirement) == ("c1", "")
    assert "no single node has cpu 2, fast=yes" in found_.message
    [packed] = place(intents(*(consumer(allocatable("cpu", 3), object=n, name=n) for n in "ab")),
                     fleet(A=[node("n1", cpu=5)])).unsatisfied  # fmt: skip
    assert "do not fit together" in packed.message


def test_a_refusal_beyond_the_exact_size_is_undecided() -> None:
    """One of 3 cores fits on each node of 5: eleven are too many for ten nodes, though the sum of cores is enough."""
    things = [consumer(allocatable("cpu", 3), object=f"o{n}", name=f"c{n}") for n in range(11)]
    hopeless = fleet(A=[node(f"n{n}", cpu=5) for n in range(10)])
    [why] = place(intents(*things), hopeless).unsatisfied
    assert why.message.startswith("undecided")
    exact = place(intents(*things[:9]), fleet(A=[node(f"n{n}", cpu=5) for n in range(8)]))
    assert "do not fit together" in exact.unsatisfied[0].message


def test_the_best_combination_of_wishes_counts() -> None:
    """One GPU or one FPGA beside it, but both wishes of 5 together outweigh the 8 that shuts them out."""

    def wish(weight: int, spec: dict[str, Any]) -> dict[str, Any]:
        return {**spec, "mandatory": False, "weight": weight}

    who = consumer(wish(8, label("kind", "x")), wish(5, label("kind", "y")), wish(5, allocatable("cpu", 4)))
    clusters = fleet(
        A=[node("n1", {"kind": "x"}, cpu=1), node("n2", {"kind": "y"}, cpu=4)],
        B=[node("n1", {"kind": "x"}, cpu=1)],
        C=[node("n1", {"kind": "x"}, cpu=4)],
    )
    assert place(intents(who), clusters).scores() == {"app": {"C": 13, "A": 10, "B": 8}}


def test_nodes_and_pods_that_claim_more_than_any_number_holds_are_counted() -> None:
    boundless = node("n", cpu=1e300, gpu=1e30, mem=2.0**80)
    asked = consumer(allocatable("cpu", 1000), allocatable("memory", "1T"), allocatable("nvidia.com/gpu", 8))
    assert allowed(place(intents(asked), fleet(A=[boundless], B=[node("n", cpu=1)]))) == ["A"]
    full = _cluster([node("n1", cpu=8)], _pod("Running", "1e300"))
    assert place(intents(consumer(allocatable("cpu", 1))), full).unsatisfied


def test_the_shorter_form_is_told_where_all_rank_equal() -> None:
    clusters = fleet(**{f"c{n}": [node("n", cpu=1 if n == 3 else 4)] for n in range(6)})
    assert place(intents(consumer(allocatable("cpu", 2))), clusters).candidates() == {
        "app": {"replication-count": 1, "deny": ["c3"]}
    }
