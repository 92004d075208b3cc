"""What the webhook's rule about disks advises: nodes by name where few hold the volumes, and nothing that harms."""

from dataclasses import replace
from datetime import timedelta

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.disks.layout import lay_out_of
from pipeline.disk_records import DiskPod
from pipeline.objects import disks as wire
from rules.disks.volumes import Volumes
from rules.policy import Policy
from rules.recommend import recommend
from tests.support import scheduling
from tests.support.disks import ANNOTATIONS, capacity, claim, storage_classes
from tests.support.manifests import check
from tests.support.scheduling import PREFERRED, REQUIRED
from tests.support.worlds import World, names, node, pod

SIZES = {"A": 5, "B": 50, "C": 5, "D": 60}
WORLD = World([node(name, {"zone": "z1" if name in "AB" else "z2"}) for name in SIZES])


def state(sizes=None, *more):
    """One drive of so many GiB on each node, and a class of each medium."""
    held = [capacity(f"ac-{name}", "HDD", gib, node=name) for name, gib in (sizes or SIZES).items()]
    return [*storage_classes(), *held, *more]


def mounting(*claims, spec=None, **annotations):
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    notes = {ANNOTATIONS[key]: value for key, value in annotations.items()}
    return pod(labels={"app": "web"}, annotations=notes, spec={"volumes": volumes, **(spec or {})})


def advise(manifest, objects, mode="prefer", world=WORLD, **limits):
    policy = replace(Policy(mode=mode), **limits)
    view = world.view()
    read = wire.read(manifest)
    assert isinstance(read, DiskPod)
    request = replace(world.request(manifest, policy, view), disks=Volumes(read, lay_out_of(objects)))
    return recommend(request, view, policy, decision="d1")


def node_terms(answer, strength):
    found = (answer.affinity.get("nodeAffinity") or {}).get(strength) or []
    return found["nodeSelectorTerms"] if strength == REQUIRED and found else found


def by_name(*nodes):
    return {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}]}


TEN = claim("data", "hdd", 10, namespace="ow")


def test_the_few_nodes_that_hold_the_volumes_are_preferred():
    answer = advise(mounting("data"), state(None, TEN))
    assert node_terms(answer, PREFERRED)[0] == {"weight": 100, "preference": by_name("B", "D")}
    assert node_terms(answer, REQUIRED) == []
    assert sorted(names(answer)) == ["B", "D"]
    assert "disks of 2 of 4 nodes hold the volumes" in [each.sentence for each in answer.reasons]


def test_in_mode_require_the_pod_is_held_to_them_beside_its_own_rules():
    own = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}}}  # fmt: skip
    manifest = mounting("data", spec={"affinity": own})
    answer = advise(manifest, state(None, TEN), "require")
    patched = jsonpatch.apply_patch(manifest, list(answer.patch))
    check(patched)
    [term] = node_terms(answer, REQUIRED)
    assert term["matchExpressions"] == [{"key": "zone", "operator": "Exists"}, *by_name("B", "D")["matchExpressions"]]


def test_a_label_says_it_where_one_tells_them_apart():
    answer = advise(mounting("data"), state({"A": 50, "B": 50, "C": 5, "D": 5}, TEN))
    expected = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}
    assert node_terms(answer, PREFERRED)[0] == {"weight": 100, "preference": expected}


@pytest.mark.parametrize("mode", ["prefer", "require"])
def test_nothing_is_added_where_every_node_holds_them_or_where_too_many_would_be_named(mode):
    everywhere = advise(mounting("data"), state(dict.fromkeys(SIZES, 50), TEN), mode)
    many = advise(mounting("data"), state(None, TEN), mode, named=1)
    for answer in (everywhere, many):
        assert node_terms(answer, REQUIRED) == [] and answer.satisfiable
        assert all(each["weight"] != 100 for each in node_terms(answer, PREFERRED))
    assert sorted(names(many)) == ["B", "D"], "what is not told to the scheduler is known all the same"


@pytest.mark.parametrize("mode", ["prefer", "require"])
def test_volumes_that_no_node_holds_are_told_and_bind_the_pod_to_nothing(mode):
    answer = advise(mounting("data"), state(None, claim("data", "hdd", 500, namespace="ow")), mode)
    assert node_terms(answer, REQUIRED) == node_terms(answer, PREFERRED) == []
    assert not answer.satisfiable and answer.disks["status"] == "REJECTED"
    [said] = [each.sentence for each in answer.reasons if each.rule == "disks"]
    assert said.startswith(
        "disks of 0 of 4 nodes hold the volumes; No available capacity found on the node A: capacity"
    )


def test_a_pod_that_may_run_on_none_of_them_is_not_held_to_them():
    manifest = mounting("data", spec={"nodeSelector": {"kubernetes.io/hostname": "A"}})
    answer = advise(manifest, state(None, TEN), "require")
    assert node_terms(answer, REQUIRED) == [] and "too_few" in {each.rule for each in answer.reasons}
    assert node_terms(answer, PREFERRED)[0] == {"weight": 100, "preference": by_name("B", "D")}


def test_those_that_give_up_less_are_preferred_among_them():
    """On B both volumes share the drive; on D, of two small drives, they cannot."""
    two = [claim("one", "hddlvg", 10, namespace="ow"), claim("two", "hddlvg", 10, namespace="ow")]
    held = [capacity("ac-b", "HDDLVG", 50, node="B")]
    held += [capacity(f"ac-d{i}", "HDDLVG", 12, node="D") for i in (1, 2)]
    answer = advise(mounting("one", "two", TYPES="pod-bound-preferred"), [*storage_classes(), *held, *two])
    found = node_terms(answer, PREFERRED)
    assert {"weight": 100, "preference": by_name("B", "D")} in found
    assert {"weight": 50, "preference": by_name("B")} in found
    assert answer.disks["violated"] == {"D": ("pod-bound",)}


def test_annotations_that_cannot_be_read_cost_only_this_rule():
    answer = advise(mounting("data", TYPES="pod-bond"), state(None, TEN))
    assert answer.disks == {"error": next(each.sentence for each in answer.reasons if each.rule == "disks")}
    assert "pod-bond" in answer.disks["error"]
    assert replace(answer, reasons=(), disks=None) == replace(
        WORLD.advise(mounting("data", TYPES="pod-bond")), reasons=()
    )


def test_claims_that_nobody_has_seen_are_named():
    answer = advise(mounting("later"), state())
    assert [each.sentence for each in answer.reasons if each.rule == "disks"] == [
        "nothing can be said before there are claim ow/later"
    ]
    assert node_terms(answer, PREFERRED) == [] and answer.satisfiable


def test_volumes_of_other_drivers_change_nothing():
    manifest = mounting("data")
    other = claim("data", "other", 10, namespace="ow")
    answer = advise(manifest, state(None, other))
    assert answer == WORLD.advise(manifest)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([5, 50]), min_size=4, max_size=4),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.sampled_from(["prefer", "require"]),
    st.sampled_from([{}, {"nodeSelector": {"zone": "z2"}}, {"nodeSelector": {"kubernetes.io/hostname": "A"}}]),
    st.sampled_from([1, 50]),
)
def test_a_pod_that_could_be_scheduled_with_its_volumes_still_can(sizes, ready, mode, spec, named):
    """A drive of 5 GiB does not hold 10, one of 50 does: where the disks let the pod run needs no plan."""
    world = World([replace_ready(each, is_ready) for each, is_ready in zip(WORLD.nodes, ready, strict=True)])
    manifest = mounting("data", spec=spec)
    answer = advise(manifest, state(dict(zip(SIZES, sizes, strict=True)), TEN), mode, world, named=named)
    patched = jsonpatch.apply_patch(manifest, list(answer.patch))
    room = {name for name, gib in zip(SIZES, sizes, strict=True) if gib == 50}

    def open_to(given, nodes):
        return {
            each.name for each in nodes if each.ready and scheduling.may_run(given, each, world.nodes, world.pods)
        }

    before, after = open_to(manifest, world.nodes), open_to(patched, world.nodes)
    assert after & room == before & room, "nothing that holds the volumes is lost"
    assert bool(after) == bool(before)
    if mode == "prefer":
        assert after == before
    assert {each.name for each in answer.nodes} <= after


def replace_ready(each, ready):
    return node(each.name, dict(each.labels), ready=ready)


@pytest.mark.parametrize("mode", ["prefer", "require"])
def test_of_an_old_snapshot_the_pods_own_need_stays_and_the_wish_for_disks_goes(mode):
    """The disks are today's, whatever the snapshot's age: in mode require the pod is still held to them."""
    own = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}}}  # fmt: skip
    answer = advise(
        mounting("data", spec={"affinity": own}), state(None, TEN), mode, stale_after=timedelta(seconds=-1)
    )
    assert answer.reasons and any(each.rule == "stale" for each in answer.reasons)
    assert node_terms(answer, PREFERRED) == []
    [term] = node_terms(answer, REQUIRED)
    exists = {"key": "zone", "operator": "Exists"}
    assert term["matchExpressions"] == [exists, *(by_name("B", "D")["matchExpressions"] if mode == "require" else [])]
