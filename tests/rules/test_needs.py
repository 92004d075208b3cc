"""What extra resources mean on nodes, and the expressions that say so."""

import jsonpatch
import numpy as np
import pytest
from msgspec import structs

from rules.affinity.describe import describe
from tests.support import scheduling
from tests.support.scheduling import REQUIRED
from tests.support.worlds import GIB, World, flow, names, node, of_workflow

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


#: SHA-256 of the key "no such key!" and of the value "no value / at all", as `sha256sum` prints it, cut at 40.
KEY, VALUE = "h-e041211a9d33c36ec40741ecbafc44250b568adf", "h-af266bf5fa1080539ac0ca4c568208591e60539e"


@pytest.mark.parametrize(
    ("extra", "label", "value"),
    [
        ({"no such key!": True}, f"colocation.internal/{KEY}", "true"),
        ({"disktype": "no value / at all"}, "disktype", VALUE),
        ({"no such key!": "no value / at all"}, f"colocation.internal/{KEY}", VALUE),
    ],
)
def test_what_no_label_can_say_is_asked_for_by_its_digest_and_never_dropped(extra, label, value):
    _, answer = ask(extra)
    assert not answer.satisfiable
    [term] = answer.affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert term == {"matchExpressions": [{"key": label, "operator": "In", "values": [value]}]}
    world, answer = ask(extra, [*NODES, node("labelled", {label: value})])
    assert names(answer) == ["labelled"]
    assert by_terms(world, answer) == {"labelled"}


@pytest.mark.parametrize(
    ("extra", "have"),
    [
        ({"gpu": "2"}, {"two"}),
        ({"gpu": 2.0}, {"two"}),
        ({"gpu": "3"}, set()),
        ({"gpu": 0}, {"none", "zero"}),
        ({"gpu": "0"}, {"none", "zero"}),
        ({"memory": "32Gi"}, {"two"}),
        ({"memory": 32768}, {"two"}),  # MB, as everywhere in a workflow
        ({"memory": 32769}, set()),
        ({"cpu": "8500m"}, {"one"}),
        ({"cpu": 8}, {"one", "two", "none", "zero"}),
        ({"hugepages-2Mi": "1Gi"}, {"zero"}),
    ],
)
def test_an_amount_may_be_any_quantity(extra, have):
    nodes = [
        node("one", cpu=9, **{"nvidia.com/gpu": 1.0}),
        node("two", memory=32 * GIB, **{"nvidia.com/gpu": 2.0}),
        node("none"),
        node("zero", **{"nvidia.com/gpu": 0.0, "hugepages-2Mi": GIB}),
    ]
    world, answer = ask(extra, nodes)
    assert set(names(answer)) == have
    assert by_terms(world, answer) == have


def test_a_label_that_says_zero_is_asked_for_by_its_value():
    _, answer = ask({"numa": 0}, [node("A", {"numa": "0"}), node("B", {"numa": "1"})])
    assert names(answer) == ["A"]


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


def many(having, of, **more):
    """So many nodes, the first *having* of which have a GPU that no label tells."""
    return [node(f"n{each:03d}", **{"nvidia.com/gpu": float(each < having)}, **more) for each in range(of)]


def named(answer):
    """The names in the one expression of the required node affinity."""
    [term] = answer.affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    [expression] = term["matchExpressions"]
    assert (expression["key"], expression["operator"]) == ("kubernetes.io/hostname", "In")
    return expression["values"]


def loaded(nodes, extra, light=range(100, 150), **action):
    """A world in which a few nodes are lightly loaded, and so the best."""
    return World(
        nodes, known=("f",), workflows=[flow({"name": "f", "extraResources": extra, **action})],
        load={each.name: 0.1 if number in light else 0.9 for number, each in enumerate(nodes)},
    )  # fmt: skip


def test_a_need_that_no_label_tells_names_all_nodes_that_have_it_while_they_are_few():
    world, answer = ask({"gpu": True}, many(200, 300))
    assert named(answer) == [each.name for each in world.nodes[:200]]


@pytest.mark.parametrize("mode", ["prefer", "require"])
def test_of_more_nodes_than_one_pod_names_the_best_that_have_it_are_required(mode):
    """Of 401 nodes 201 have it; never one that has not, whatever joins the cluster."""
    nodes = many(201, 401)
    world = loaded(nodes, {"gpu": True}, light=[*range(100, 150), *range(300, 350)])
    manifest = of_workflow("f")
    answer = world.advise(manifest, mode)
    assert answer.satisfiable
    assert named(answer) == [f"n{each}" for each in range(100, 150)]
    [told] = [reason.sentence for reason in answer.reasons if reason.rule == "hardware"]
    assert told == "f needs gpu: 201 of 401 nodes have it; no label tells which: the best 50 are named at most"
    # A second run over the result leaves it, though the best may be others by then.
    result = jsonpatch.apply_patch(manifest, list(answer.patch))
    again = loaded(nodes, {"gpu": True}, light=range(50)).advise(result, mode)
    assert again.affinity["nodeAffinity"][REQUIRED] == answer.affinity["nodeAffinity"][REQUIRED]
    assert loaded(nodes, {"gpu": True}, light=[*range(100, 150), *range(300, 350)]).advise(result, mode).patch == ()


def test_the_named_nodes_are_those_that_the_pods_own_rules_and_its_workflow_leave():
    nodes = [
        node(f"n{each:03d}", {"zone": "a" if each < 300 else "b"}, **{"nvidia.com/gpu": float(each % 2)})
        for each in range(600)
    ]
    world = loaded(nodes, {"gpu": True, "zone": "b"}, light=range(301, 400))
    answer = world.advise(of_workflow("f"))
    [term] = answer.affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert {"key": "zone", "operator": "In", "values": ["b"]} in term["matchExpressions"]
    assert by_terms(world, answer) == {f"n{each}" for each in range(301, 400, 2)}
    # Where no node has room now, the pod waits for nodes that it may ever run on.
    full = loaded([structs.replace(each, ready=False) for each in nodes], {"gpu": True, "zone": "b"})
    answer = full.advise(of_workflow("f"))
    assert not answer.satisfiable
    waits_for = by_terms(full, answer)
    assert len(waits_for) == 50
    assert waits_for <= {f"n{each}" for each in range(301, 600, 2)}


def test_labels_that_admit_only_such_nodes_now_do_not_stand_for_the_need():
    """Every node of zone a has it, and a node without it may join the zone; names of the pod's own would do."""
    nodes = [
        node(f"n{each:03d}", {"zone": "a" if each < 150 else f"z{each}"}, **{"nvidia.com/gpu": float(each < 250)})
        for each in range(500)
    ]
    world = loaded(nodes, {"gpu": True})
    zoned, by_name = (
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]}}}
        for key, values in (("zone", ["a"]), ("kubernetes.io/hostname", ["n007", "n008"]))
    )  # fmt: skip
    answer = world.advise(of_workflow("f", spec={"affinity": zoned}))
    newcomer = node("new", {"zone": "a"})
    assert not scheduling.admits(answer.affinity, newcomer)
    assert by_terms(world, answer) == {f"n{each}" for each in range(100, 150)}
    answer = world.advise(of_workflow("f", spec={"affinity": by_name}))
    assert answer.affinity["nodeAffinity"][REQUIRED] == by_name["nodeAffinity"][REQUIRED]


@pytest.mark.parametrize("count", [6, 7, 40])
def test_terms_that_would_be_too_many_multiplied_out_are_the_names_of_the_best(count):
    """Each need has two alternatives, since half of the nodes spell its label otherwise."""
    keys = [f"need{each}" for each in range(count)]
    nodes = [
        node(f"n{each:03d}", {key.upper() if each % 2 else key: "yes" for key in keys} if each < 100 else {})
        for each in range(200)
    ]
    world = loaded(nodes, dict.fromkeys(keys, True), light=[*range(40), *range(100, 140)])
    answer = world.advise(of_workflow("f"))
    terms = answer.affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    if count <= 6:
        assert len(terms) == 2**count
        assert by_terms(world, answer) == {each.name for each in nodes[:100]}
    else:
        assert named(answer) == sorted(each.name for each in nodes[:50])
    # Nobody meets all of them: the pod waits, by as few terms.
    apart = [structs.replace(each, labels={**each.labels, keys[0]: "no", keys[0].upper(): "no"}) for each in nodes]
    answer = loaded([*apart, node("other", {keys[0]: "yes"})], dict.fromkeys(keys, True)).advise(of_workflow("f"))
    assert not answer.satisfiable
    assert len(answer.affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]) <= 64


def test_beside_a_label_that_some_have_the_others_are_named():
    nodes = [node("labelled", {"gpu": "yes"}), *many(250, 500)]
    world, answer = ask({"gpu": True}, nodes)
    admitted = by_terms(world, answer)
    assert "labelled" in admitted
    assert admitted - {"labelled"} <= {each.name for each in nodes[1:251]}
    # Where none of the others has room, the label alone is asked for.
    closed = [structs.replace(each, ready=False) for each in nodes[1:]]
    world, answer = ask({"gpu": True}, [nodes[0], *closed])
    assert by_terms(world, answer) == {"labelled"}


def test_several_labels_tell_what_none_tells_alone():
    """Half of the nodes with the resource are told by their machine, half by their rack; no names are needed."""
    gpu = {"nvidia.com/gpu": 1.0}
    nodes = [
        *(node(f"a{each}", {"machine": "g4"}, **gpu) for each in range(250)),
        *(node(f"b{each}", {"machine": "m5", "rack": "r9"}, **gpu) for each in range(250)),
        *(node(f"c{each}", {"machine": "m5", "rack": "r1"}) for each in range(250)),
    ]
    world, answer = ask({"gpu": True}, nodes)
    assert answer.affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [
        {"matchExpressions": [{"key": "machine", "operator": "In", "values": ["g4"]}]},
        {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r9"]}]},
    ]
    assert by_terms(world, answer) == {each.name for each in nodes[:500]}


@pytest.mark.parametrize("having", [100, 300])
def test_what_the_pod_requests_itself_needs_no_names(having):
    """The scheduler holds the pod to nodes with room for its requests."""
    world = loaded(many(having, 600), {"gpu": 2})
    world.nodes = [
        structs.replace(
            each, allocatable={**each.allocatable, "nvidia.com/gpu": 4 * each.allocatable["nvidia.com/gpu"]}
        )
        for each in world.nodes
    ]
    enough = of_workflow("f", requests={"nvidia.com/gpu": "2"})
    answer = world.advise(enough)
    assert REQUIRED not in answer.affinity.get("nodeAffinity", {})
    assert set(names(answer)) <= {each.name for each in world.nodes[:having]}
    assert any("the pod requests it" in reason.sentence for reason in answer.reasons)
    for requests in ({"nvidia.com/gpu": "1"}, {"cpu": "2"}, {}):
        answer = world.advise(of_workflow("f", requests=requests))
        assert set(named(answer)) <= {each.name for each in world.nodes[:having]}


def test_a_label_stays_required_beside_a_request():
    nodes = [node("A", {"gpu": "yes"}, **{"nvidia.com/gpu": 1.0}), node("B", **{"nvidia.com/gpu": 0.0})]
    world = World(nodes, workflows=[flow({"name": "f", "extraResources": {"gpu": True}})])
    answer = world.advise(of_workflow("f", requests={"nvidia.com/gpu": "1"}))
    assert by_terms(world, answer) == {"A"}


def test_nodes_without_a_label_of_their_name_are_named_in_fields():
    nodes = [structs.replace(each, labels={}) for each in many(3, 6)]
    world, answer = ask({"gpu": True}, nodes)
    assert answer.affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [each.name]}]} for each in nodes[:3]
    ]
    assert by_terms(world, answer) == {"n000", "n001", "n002"}


@pytest.mark.parametrize("lacking", [250, 350])
def test_a_resource_to_be_avoided_by_many_names_the_best_without_it(lacking):
    nodes = [node(f"n{each:03d}", **{"nvidia.com/gpu": float(each >= lacking)}) for each in range(600)]
    world = loaded(nodes, {"gpu": False}, light=[*range(100, 150), *range(500, 550)])
    answer = world.advise(of_workflow("f"))
    assert by_terms(world, answer) == {f"n{each}" for each in range(100, 150)}


def test_a_resource_to_be_avoided_names_few_nodes_or_none():
    for lacking, named in ((200, 200), (250, 50), (40, 40)):
        nodes = [node(f"n{each:03d}", **{"nvidia.com/gpu": float(each >= lacking)}) for each in range(300)]
        world, answer = ask({"gpu": False}, nodes)
        assert set(names(answer)) <= {each.name for each in nodes[:lacking]}
        [term] = answer.affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        [expression] = term["matchExpressions"]
        assert len(expression["values"]) == min(lacking, 300 - lacking) <= named
        assert by_terms(world, answer) == {each.name for each in nodes[:lacking]}
