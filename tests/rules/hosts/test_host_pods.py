"""What pods get: sanitised names, one label for groups of several tokens, guards of named nodes, the template."""

import re

import kubernetes_validate
import pytest

from rules.hosts import keys
from rules.labels import legal_value
from tests.support.hosting import host, hosts, job, manifests, own_labels, placed
from tests.support.placements import placements, schedulable

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Sink", "Sink"),
        ("Op[3]", "Op-3-d"),
        ("Chan[0].Op", "Chan-0-.Op"),
        ("com::example::Op", "com.example.Op"),
        ("_Op_", "u_Op_u"),
        (".Op", "d.Op"),
        ("Op.", "Op.d"),
        ("two words/é", "two-words--d"),
        ("a" * 64, "a" * 63),
        ("a" * 62 + "[3]", "a" * 62 + "d"),
        ("_" + "a" * 70, "u_" + "a" * 61),
        ("_" * 80, "u" + "_" * 61 + "u"),
    ],
)
def test_names_of_isolated_operators_become_label_values(name, expected):
    assert keys.sanitised(name) == expected
    assert legal_value(expected)


def test_selector_and_label_of_an_isolated_operator_agree():
    given = job(pes=[
        {"id": 0, "operators": [{"name": "Op[3]", "placement": "hostIsolation"}]},
        {"id": 1, "operators": [{"name": "B"}]},
    ])  # fmt: skip
    alone, other = manifests(placed(given, hosts("n1", "n2")))
    [term] = alone["spec"]["affinity"]["podAntiAffinity"][REQUIRED]
    expression = term["labelSelector"]["matchExpressions"][0]
    assert own_labels(other) == {expression["key"]: "Op-3-d"}
    assert expression["values"] == ["Op-3-d"]


def test_two_isolated_operators_of_one_pe_and_an_isolated_pe_beside_it():
    given = job(pes=[
        {"id": 0, "operators": [{"name": name, "placement": "hostIsolation"} for name in ("A", "B")]},
        {"id": 1, "operators": [{"name": "C", "placement": "hostIsolation"}]},
    ])  # fmt: skip
    both, one = manifests(placed(given, hosts("n1", "n2")))
    assert own_labels(both) == {keys.isolation("C"): "C"}
    assert own_labels(one) == {keys.isolation("A"): "A", keys.isolation("B"): "B"}
    assert len(both["spec"]["affinity"]["podAntiAffinity"][REQUIRED]) == 2


def test_a_group_in_which_a_pe_has_two_tokens_gets_one_label_and_its_term_alone():
    given = job('hostColocation("a")', 'hostColocation("a"), hostColocation("b")', 'hostColocation("b")', "")
    *members, alone = manifests(placed(given, hosts("n1")))
    group = keys.group(("a", "b"))
    assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", group.partition("/")[2])
    for pod, tokens in zip(members, ("a", "ab", "b"), strict=True):
        [term] = pod["spec"]["affinity"]["podAffinity"][REQUIRED]
        expression, of_job = term["labelSelector"]["matchExpressions"]
        assert expression["key"] == group
        assert own_labels(pod) == {group: "a", **{keys.colocation(token): token for token in tokens}}
        assert of_job == {"key": "streams.ibm.com/job", "operator": "In", "values": ["ex"]}
    assert own_labels(alone) == {}


def test_a_group_of_single_tokens_keeps_them():
    pods = manifests(placed(job(*['hostColocation("a")'] * 2), hosts("n1")))
    for pod in pods:
        assert own_labels(pod) == {keys.colocation("a"): "a"}


def _fields(pod):
    [term] = pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return term["matchFields"]


def test_who_shares_a_group_with_a_named_node_goes_there_and_who_must_be_apart_stays_away():
    given = job(
        'host("n1"), hostColocation("t"), hostExlocation("x")',
        'hostColocation("t")',
        'hostExlocation("x")',
        "hostIsolation",
    )
    named, beside, apart, alone = manifests(placed(given, hosts("n1", "n2", "n3")))
    assert named["spec"]["nodeName"] == "n1"
    assert "nodeAffinity" not in named["spec"]["affinity"]
    assert _fields(beside) == [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
    for pod in (apart, alone):
        assert _fields(pod) == [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]


def test_who_may_go_to_a_named_node_by_its_pool_stays_away_too():
    given = job('host("n1"), hostExlocation("x")', 'host(P), hostExlocation("x")', hostPools={"P": ["n1", "n2"]})
    there = hosts("n1", "n2")
    pods = manifests(placed(given, there))
    assert schedulable(pods, there) == {("n1", "n2")} == set(placements(given, there, {}))


def test_a_literal_pool_is_one_term_a_name():
    given = job("host(P)", hostPools={"P": ["n2", "10.0.0.1"]})
    [pod] = manifests(placed(given, [host("n1", None, "10.0.0.1"), *hosts("n2", "n3")]))
    terms = pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert terms == [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in ("n2", "n1")
    ]


def test_the_template_keeps_what_it_says_itself():
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    mine = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}
    template = {
        "metadata": {"name": "mine", "labels": {"app": "mine", "x": "y"}, "annotations": {"note": "kept"}},
        "spec": {
            "containers": [{"name": "pe", "image": "example", "resources": {"requests": {"cpu": "1"}}}],
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "affinity": {
                "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
                "podAntiAffinity": {REQUIRED: [mine]},
            },
        },
    }
    given = job(
        'host(P), hostExlocation("apart")', template=template, hostPools={"P": "createPool({size=1u}, Sys.Exclusive)"}
    )
    [pod] = manifests(placed(given, [host("n0"), host("n1", {"zone": "a"})]))
    kubernetes_validate.validate(pod, "1.37", strict=True)
    assert pod["metadata"]["name"] == "mine"
    assert pod["metadata"]["annotations"] == {"note": "kept"}
    assert pod["metadata"]["labels"].items() >= {"app": "mine", "x": "y", "streams.ibm.com/pe": "ex-0"}.items()
    assert pod["spec"]["tolerations"][0] == {"key": "gpu", "operator": "Exists"}
    assert len(pod["spec"]["tolerations"]) == 2
    [term] = pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert term["matchExpressions"][0] == zone
    assert len(term["matchExpressions"]) == 2, "ours beside the user's, in the same term"
    assert pod["spec"]["affinity"]["podAntiAffinity"][REQUIRED][0] == mine
    assert len(pod["spec"]["affinity"]["podAntiAffinity"][REQUIRED]) == 2


def test_every_alternative_of_the_user_meets_every_name_of_a_literal_pool():
    expressions = [{"key": "zone", "operator": "In", "values": [zone]} for zone in ("a", "b")]
    terms = [{"matchExpressions": [each]} for each in expressions]
    template = {"spec": {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}}
    given = job("host(P)", template=template, hostPools={"P": ["n1", "n2"]})
    [pod] = manifests(placed(given, [host("n1", {"zone": "a"}), host("n2", {"zone": "b"})]))
    assert pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [
        {"matchExpressions": [each], "matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
        for each in expressions
        for name in ("n1", "n2")
    ]


def test_pods_that_have_the_fewest_nodes_to_go_to_come_first():
    given = job("", 'hostExlocation("x")', "hostIsolation", 'host("n1")', "host(P)", hostPools={"P": ["n2"]})
    assert placed(given, hosts("n1", "n2", "n3", "n4")).order == [3, 2, 4, 1, 0]


def test_names_of_pods():
    assert keys.pod_name("ex", 0) == "ex-0"
    assert keys.pod_name("My_Job", "Pe.1") == "my-job-pe.1"
