"""What extra resources mean on nodes, and the expressions that say so."""

import numpy as np
import pytest

from rules.affinity.describe import describe
from tests.support import scheduling
from tests.support.scheduling import REQUIRED
from tests.support.worlds import World, flow, names, node, of_workflow

NODES = [
    node("yes", {"gpu": "yes"}),
    node("true", {"GPU": "true"}),
    node("present", {"gpu": "present"}),
    node("no", {"gpu": "no", "dms/KeyDB": "true"}),
    node("amount", {"pool": "accelerated"}, **{"nvidia.com/gpu": 2.0}),
    node("zero", **{"nvidia.com/gpu": 0.0}),
    node("none"),
]


def ask(extra, nodes=NODES):
    world = World(nodes, workflows=[flow({"name": "f", "extraResources": extra})])
    return world, world.advise(of_workflow("f"))


def by_terms(world, answer):
    """The nodes that the emitted rule admits, by an independent reading of it."""
    return {each.name for each in world.nodes if scheduling.admits(answer.affinity, each)}


@pytest.mark.parametrize(
    ("extra", "have"),
    [
        ({"gpu": True}, {"yes", "true", "present", "amount"}),
        ({"gpu": "true"}, {"yes", "true", "present", "amount"}),
        ({"gpu": "yes"}, {"yes", "true", "present", "amount"}),
        ({"gpu": False}, {"no", "zero", "none"}),
        ({"gpu": 2}, {"amount"}),
        ({"gpu": 3}, set()),
        ({"nvidia.com/gpu": 1}, {"amount"}),
        ({"Pool": "ACCELERATED"}, {"amount"}),
        ({"DMS/keydb": "true"}, {"no"}),
        ({"dms/keydb": False}, {"yes", "true", "present", "amount", "zero", "none"}),
        ({"gpu": True, "pool": "accelerated"}, {"amount"}),
        ({"pool": "accelerated", "gpu": False}, set()),
    ],
)
def test_who_has_it(extra, have):
    world, answer = ask(extra)
    assert set(names(answer)) == have
    assert by_terms(world, answer) == have
    assert answer.satisfiable is bool(have)


def test_the_key_is_spelled_as_nodes_spell_it():
    _, answer = ask({"diskType": "SSD"}, [node("A", {"disktype": "ssd"}), node("B", {"disktype": "hdd"})])
    [term] = answer.affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "disktype", "operator": "In", "values": ["ssd"]}]


def test_a_number_may_be_a_label():
    _, answer = ask({"generation": 7}, [node("A", {"generation": "7"}), node("B", {"generation": "8"})])
    assert names(answer) == ["A"]


@pytest.mark.parametrize("extra", [{"no such key!": True}, {"disktype": "no value / at all"}])
def test_what_no_label_can_say_is_said_and_not_emitted(extra):
    _, answer = ask(extra)
    assert not answer.satisfiable
    assert REQUIRED not in answer.affinity.get("nodeAffinity", {})
    assert any("no label" in reason.sentence for reason in answer.reasons)


def test_wished_for_hardware_is_preferred_only():
    nodes = [node("A", {"disktype": "hdd"}), node("B", {"disktype": "ssd"})]
    world = World(
        nodes, known=("f",), workflows=[flow({"name": "f", "preferredResources": {"diskType": "ssd"}})],
        load={"A": 0.1, "B": 0.9},
    )  # fmt: skip
    answer = world.advise(of_workflow("f"))
    assert names(answer) == ["B", "A"]
    assert by_terms(world, answer) == {"A", "B"}
    weights = [scheduling.node_weight(answer.affinity, each) for each in nodes]
    assert weights[1] > weights[0]


# -- describing a set of nodes


def described(nodes, wanted, *, care=None, limit=50, deny=True):
    columned = World(nodes).view().nodes
    everyone = np.ones(len(nodes), dtype=bool)
    chosen = np.array([each.name in wanted for each in nodes])
    caring = everyone if care is None else np.array([each.name in care for each in nodes])
    found = describe(columned, chosen, caring, limit, deny=deny)
    return None if found is None else [(each.key, each.operator, each.values) for each in found]


KINDS = [
    node("a", {"type": "m", "zone": "1"}),
    node("b", {"type": "m", "zone": "2"}),
    node("c", {"type": "l", "zone": "1"}),
    node("d", {"zone": "2"}),
]


def test_a_label_describes_before_names_do():
    assert described(KINDS, {"a", "b"}) == [("type", "In", ("m",))]
    assert described(KINDS, {"a", "b", "d"}) == [("type", "NotIn", ("l",))]
    assert described(KINDS, {"a", "b", "d"}, deny=False) == [("kubernetes.io/hostname", "In", ("a", "b", "d"))]
    assert described(KINDS, {"a", "d"}) == [("kubernetes.io/hostname", "In", ("a", "d"))]
    assert described(KINDS, {"a"}, care={"a", "d"}) == [("type", "In", ("m",))]


def test_the_shorter_of_allow_and_deny_and_no_more_than_the_limit():
    nodes = [node(f"n{each}") for each in range(10)]
    assert described(nodes, {f"n{each}" for each in range(9)}) == [("kubernetes.io/hostname", "NotIn", ("n9",))]
    assert described(nodes, {f"n{each}" for each in range(5)}, limit=4) is None
    assert described(nodes, {"n1", "n2"}, limit=2) == [("kubernetes.io/hostname", "In", ("n1", "n2"))]
    assert described(nodes, set()) is None


def test_the_label_counts_where_it_differs_from_the_name():
    aliased = [node("a", {"kubernetes.io/hostname": "alias"}), node("b")]
    assert described(aliased, {"a"}) == [("kubernetes.io/hostname", "In", ("alias",))]


def test_large_clusters_get_few_short_terms():
    nodes = [node(f"n{each}", {"type": f"t{each % 4}"}, kind=f"t{each % 4}") for each in range(400)]
    world = World(
        nodes, known=("f",), medians={("f", f"t{each}"): 100.0 + 10 * each for each in range(4)},
        load={each.name: (number % 90) / 100 for number, each in enumerate(nodes)},
    )  # fmt: skip
    manifest = of_workflow("f")
    answer = world.advise(manifest)
    terms = answer.affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert 1 <= len(terms) <= 5
    for term in terms:
        for expression in term["preference"]["matchExpressions"]:
            assert len(expression.get("values", [])) <= 50
    weights = {each.name: scheduling.node_weight(answer.affinity, each) for each in nodes}
    best = max(weights.values())
    assert all(nodes[int(name[1:])].node_type == "t0" for name, weight in weights.items() if weight == best)


@pytest.mark.parametrize(("having", "named"), [(200, 200), (201, 0)])
def test_a_need_that_no_label_tells_names_few_nodes_or_none(having, named):
    """Of 300 nodes so many have the amount; none carries a label that tells it."""
    nodes = [node(f"n{each:03d}", **{"nvidia.com/gpu": float(each < having)}) for each in range(300)]
    _, answer = ask({"gpu": True}, nodes)
    assert answer.satisfiable
    assert set(names(answer)) <= {each.name for each in nodes[:having]}
    required = (answer.affinity.get("nodeAffinity") or {}).get(REQUIRED) or {"nodeSelectorTerms": []}
    values = [
        value
        for term in required["nodeSelectorTerms"]
        for each in term["matchExpressions"]
        for value in each["values"]
    ]
    assert sorted(values) == [each.name for each in nodes[:named]]
    [told] = [reason.sentence for reason in answer.reasons if reason.rule == "hardware"]
    assert f"{having} of 300 nodes have it" in told
    assert ("no label that a pod could ask for" in told) is not bool(named)


def test_a_resource_to_be_avoided_names_few_nodes_or_none():
    for lacking, named in ((200, 200), (250, 50), (40, 40)):
        nodes = [node(f"n{each:03d}", **{"nvidia.com/gpu": float(each >= lacking)}) for each in range(300)]
        world, answer = ask({"gpu": False}, nodes)
        assert set(names(answer)) <= {each.name for each in nodes[:lacking]}
        [term] = answer.affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        [expression] = term["matchExpressions"]
        assert len(expression["values"]) == min(lacking, 300 - lacking) <= named
        assert by_terms(world, answer) == {each.name for each in nodes[:lacking]}
