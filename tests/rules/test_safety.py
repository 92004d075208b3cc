"""What must hold of every answer, tried on random small worlds against an oracle of the scheduler."""

from dataclasses import replace

import jsonpatch
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.policy import MODES
from tests.support import scheduling
from tests.support.manifests import check
from tests.support.worlds import World, critical, flow, node, of_workflow, running

FUNCTIONS = ("hello", "batch", "guest/crunch", "world")
LABELS = st.dictionaries(st.sampled_from(("disktype", "gpu", "zone")), st.sampled_from(("ssd", "yes", "z")))
EXTRA = st.dictionaries(st.sampled_from(("gpu", "disktype")), st.sampled_from((True, False, "ssd")), max_size=2)


@st.composite
def worlds(draw):
    nodes = [
        node(
            f"n{number}",
            draw(LABELS),
            kind=draw(st.sampled_from(("t1", "t2"))),
            cpu=draw(st.sampled_from((1.0, 4.0))),
            ready=draw(st.integers(0, 9)) > 0,
        )
        for number in range(draw(st.integers(1, 5)))
    ]
    where = st.tuples(st.sampled_from(FUNCTIONS), st.sampled_from([each.name for each in nodes]))
    pods = [
        running(function, place, number) for number, (function, place) in enumerate(draw(st.lists(where, max_size=6)))
    ]
    slowdowns = draw(
        st.dictionaries(
            st.tuples(st.sampled_from(FUNCTIONS), st.sampled_from(FUNCTIONS)),
            st.sampled_from((0.0, 0.1, 0.8)),
            max_size=6,
        )
    )
    extra = draw(EXTRA)
    relation = draw(st.sampled_from(({}, {"together": "should"}, {"apart": "should"})))
    workflow = flow(critical("hello", extraResources=extra), {"name": "batch"}, **relation)
    load = {each.name: draw(st.sampled_from((0.1, 0.5, 0.9))) for each in nodes}
    return World(nodes, pods=pods, slowdowns=slowdowns, workflows=[workflow], load=load), extra


def open_to(world, manifest):
    """The nodes that are Ready, large enough for the pod's two cores, and allowed by its required terms."""
    room = [each for each in world.nodes if each.ready and each.allocatable["cpu"] >= 2]
    return {each.name for each in room if scheduling.may_run(manifest, each, world.nodes, world.pods)}


SELECTOR = st.sampled_from(
    ({}, {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]})
)


@settings(max_examples=80, deadline=None)
@given(worlds(), st.sampled_from(MODES), SELECTOR, st.sampled_from(("kubernetes.io/hostname", "zone")))
def test_what_could_be_scheduled_still_can_unless_a_stated_need_forbids(made, mode, own, topology):
    world, extra = made
    spec = {"affinity": {"nodeAffinity": {scheduling.REQUIRED: own}}} if own else {}
    manifest = of_workflow("hello", requests={"cpu": "2"}, spec=spec)
    answer = world.advise(manifest, mode, topology_key=topology)
    patched = jsonpatch.apply_patch(manifest, list(answer.patch))
    check(patched)
    before, after = open_to(world, manifest), open_to(world, patched)
    assert after <= before
    if mode == "observe":
        assert patched == manifest
        return
    assert bool(after) is answer.satisfiable
    assert {each.name for each in answer.nodes} <= after
    if not extra:
        assert bool(after) == bool(before)
    if mode == "prefer" and not extra:
        assert after == before
    again = world.advise(patched, mode, topology_key=topology)
    assert again.patch == ()


@settings(max_examples=60, deadline=None)
@given(worlds(), st.randoms(use_true_random=False), st.sampled_from(("prefer", "require")))
def test_the_order_of_nodes_and_pods_does_not_matter(made, shuffler, mode):
    world, _ = made
    nodes, pods = list(world.nodes), list(world.pods)
    shuffler.shuffle(nodes)
    shuffler.shuffle(pods)
    manifest = of_workflow("hello", requests={"cpu": "2"})
    one, other = world.advise(manifest, mode), replace(world, nodes=nodes, pods=pods).advise(manifest, mode)
    assert {each.name: each.score for each in one.nodes} == {each.name: each.score for each in other.nodes}
    assert one.patch == other.patch
