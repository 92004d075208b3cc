"""Answers in words, and inputs that are refused in one line."""

import pytest

from pipeline.errors import BadInput
from rules import explain
from tests.support.scheduling import PREFERRED, REQUIRED
from tests.support.worlds import World, critical, flow, node, of_workflow, pod, running

WORLD = World(
    [node("A"), node("B")],
    pods=[running("batch", "A")],
    slowdowns={("hello", "batch"): 0.5},
    workflows=[flow(critical("hello"))],
)


def test_an_answer_is_a_headline_a_table_and_reasons():
    lines = explain.text(WORLD.advise(of_workflow("hello"))).splitlines()
    assert lines[0] == "pod ow/new gets rules (mode prefer, snapshot s1)"
    assert lines[1].split() == ["node", "score", "because"]
    assert [line.split()[:2] for line in lines[2:4]] == [["1", "B"], ["2", "A"]]
    assert "would run 50% longer beside its neighbours" in lines[3]
    assert any(line.startswith("- interference: hello runs 50% longer beside") for line in lines)


def test_an_answer_without_nodes_says_so():
    needing = World([node("A")], workflows=[flow({"name": "f", "extraResources": {"fpga": True}})])
    lines = explain.text(needing.advise(of_workflow("f"))).splitlines()
    assert lines[0].endswith("no node can take it now")
    assert any("fpga" in line for line in lines)
    left = explain.text(WORLD.advise(pod(spec={"nodeName": "A"})))
    assert left.startswith("pod ow/new is left alone")


@pytest.mark.parametrize(
    ("affinity", "field"),
    [
        ("none", "spec.affinity"),
        ({"nodeAffinity": []}, "spec.affinity.nodeAffinity"),
        ({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": {}}}}, "nodeSelectorTerms"),
        ({"podAntiAffinity": {PREFERRED: [1]}}, "podAntiAffinity"),
    ],
)  # fmt: skip
def test_an_affinity_of_another_shape_is_one_line_that_names_the_field(affinity, field):
    with pytest.raises(BadInput) as caught:
        WORLD.advise(pod("hello", spec={"affinity": affinity}))
    said = str(caught.value)
    assert "pod new" in said and field in said and "\n" not in said
