"""The worked cases of host constraints, one test each, named after the case."""

import hashlib

import pytest

from rules.hosts import keys
from tests.support.hosting import (
    APART,
    SINK,
    TOGETHER,
    host,
    hosts,
    job,
    manifests,
    own_labels,
    placed,
    refused,
    term,
)

CO, EX = "streams.ibm.com/hostcolocation.", "streams.ibm.com/hostexlocation."
ISO = f"streams.ibm.com/hostisolation.{SINK}"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ONLY_NAME = {"labels", "name", "namespace"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("together", "9034FF9E2B8F00B47A44DFAF3C2A37176C101E2A"),
        ("apart", "B76ADE163D874CC5BC0F408D70CFC165667EEC5F"),
        ("Sink", "E53E8D5300C878019A997D4CFB7201C7ED2EE003"),
        ("Main.Sink", "5F7DB60B0DFDA9BAD7BEF917494FB7532A44F339"),
        ("Comp.Sink", "3044D1EDD53EBA616F473C573E95FC158D717913"),
        ("Chan[0].Op", "FE45B89677567E5DA3EE4567F701C0608960A606"),
        ("g2", "077564FB04323D23B1F76DA35A5C35B419711FA4"),
        ("two words", "6BBD56A66FF1072A75F30DF793911CACCAEF32C8"),
    ],
)
def test_case_1_keys_and_hashes(value, expected):
    assert keys.digest(value) == expected


def test_case_1_length_of_the_part_behind_the_slash():
    lengths = [len(key("x").partition("/")[2]) for key in (keys.colocation, keys.exlocation, keys.isolation)]
    assert lengths == [55, 55, 54]


def test_case_2_host_colocation_one_pe():
    [pod] = manifests(placed(job('hostColocation("together")'), hosts("n1")))
    assert own_labels(pod) == {CO + TOGETHER: "together"}
    assert pod["spec"]["affinity"] == {"podAffinity": {REQUIRED: [term(CO + TOGETHER, "together")]}}
    assert "nodeName" not in pod["spec"]


def test_case_2_in_scope_token():
    [pod] = manifests(placed(job('hostColocation("together")', scope="token"), hosts("n1")))
    assert pod["spec"]["affinity"] == {"podAffinity": {REQUIRED: [term(CO + TOGETHER, "together", None)]}}


def test_case_3_host_exlocation_two_pes():
    pods = manifests(placed(job(*['hostExlocation("apart")'] * 2), hosts("n1", "n2")))
    for pod in pods:
        assert own_labels(pod) == {EX + APART: "apart"}
        assert pod["spec"]["affinity"] == {"podAntiAffinity": {REQUIRED: [term(EX + APART, "apart")]}}


def test_case_4_host_isolation_on_sink():
    spl = """
        stream<uint64 num> Source = Beacon() { }
        stream<uint64 num> Work = Functor(Source) { }
        () as Sink = Custom(Work) { config placement: hostIsolation; }
    """
    source, work, sink = manifests(placed(job(pes=None, spl=spl), hosts("n1", "n2")))
    for pod in (source, work):
        assert own_labels(pod) == {ISO: "Sink"}
        assert "affinity" not in pod["spec"]
    assert own_labels(sink) == {}
    assert sink["spec"]["affinity"] == {"podAntiAffinity": {REQUIRED: [term(ISO, "Sink")]}}


@pytest.mark.parametrize("value", ["two words", "x-", "a/b", "é", "a" * 64])
def test_case_7_values_that_no_label_can_have(value):
    [conflict] = refused(job(f'hostColocation("{value}")'), hosts("n1"))
    assert (conflict.conflict, conflict.operators, conflict.tokens) == ("illegal-token", ("A",), (value,))
    assert "A" in conflict.message
    assert "hostColocation" in conflict.message
    assert value in conflict.message


def test_case_7_the_empty_string_is_a_legal_label_value():
    empty = hashlib.sha1(b"").hexdigest().upper()
    [pod] = manifests(placed(job('hostColocation("")'), hosts("n1")))
    assert own_labels(pod) == {CO + empty: ""}


ADDRESSED = [host("node-a", None, "10.4.40.82"), host("node-b", None, "10.4.40.83", "node-b")]


def test_case_8_an_address_is_resolved():
    [pod] = manifests(placed(job('host("10.4.40.83")'), ADDRESSED))
    assert pod["spec"]["nodeName"] == "node-b"
    assert own_labels(pod) == {}
    assert "affinity" not in pod["spec"]


@pytest.mark.parametrize("text", ["10.4.40.99", "10.4.40.256", "010.4.40.83", "1.2.3.4/24", "fe80::1%eth0"])
def test_case_8_addresses_of_no_node_and_what_is_none(text):
    [conflict] = refused(job(f'host("{text}")'), ADDRESSED)
    assert (conflict.conflict, conflict.pes) == ("no-such-node", (0,))


def test_case_8_addresses_are_compared_by_value():
    nodes = [host("node-a"), host("node-b", None, "192.0.2.1", "2001:db8:0:0:0:0:0:1")]
    [pod] = manifests(placed(job('host("2001:db8::1")'), nodes))
    assert pod["spec"]["nodeName"] == "node-b"


def test_case_9_a_name_is_the_node_name():
    [pod] = manifests(placed(job('host("foo.watson.ibm.com")'), hosts("n1", "foo.watson.ibm.com")))
    assert pod["spec"]["nodeName"] == "foo.watson.ibm.com"
    [conflict] = refused(job('host("foo.watson.ibm.com")'), hosts("n1", "foo"))
    assert conflict.conflict == "no-such-node"


def test_case_10_a_tagged_pool():
    pools = {"MyPool": 'createPool({tags=["source"]}, Sys.Shared)'}
    nodes = [host("n1"), host("n2", {"streams.ibm.com/hostpool": "source"})]
    [pod] = manifests(placed(job("host(MyPool)", hostPools=pools), nodes))
    wanted = [{"matchExpressions": [{"key": "streams.ibm.com/hostpool", "operator": "In", "values": ["source"]}]}]
    assert pod["spec"]["affinity"] == {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": wanted}}}
    assert own_labels(pod) == {}


def test_case_10_the_default_pool_gives_no_affinity():
    [pod] = manifests(placed(job("host($default)"), hosts("n1")))
    assert "affinity" not in pod["spec"]


def test_case_10_two_tags_mean_both():
    pools = {"MyPool": 'createPool({tags=["ib","blue"]}, Sys.Shared)'}
    both = {"streams.ibm.com/hostpool.ib": "", "streams.ibm.com/hostpool.blue": ""}
    nodes = [host("n1", {"streams.ibm.com/hostpool.ib": ""}), host("n2", both)]
    [pod] = manifests(placed(job("host(MyPool)", hostPools=pools), nodes))
    [node_term] = pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert node_term == {
        "matchExpressions": [
            {"key": "streams.ibm.com/hostpool.ib", "operator": "Exists"},
            {"key": "streams.ibm.com/hostpool.blue", "operator": "Exists"},
        ]
    }
    [conflict] = refused(job("host(MyPool)", hostPools=pools), nodes[:1])
    assert conflict.conflict == "no-such-node"


def test_case_12_combined():
    placement = 'host("node-b"), hostColocation("together"), hostColocation("g2"), hostExlocation("apart")'
    [pod] = manifests(placed(job(placement), hosts("node-a", "node-b")))
    g2 = "077564FB04323D23B1F76DA35A5C35B419711FA4"
    assert pod["spec"]["nodeName"] == "node-b"
    assert own_labels(pod) == {CO + TOGETHER: "together", CO + g2: "g2", EX + APART: "apart"}
    assert pod["spec"]["affinity"] == {
        "podAffinity": {REQUIRED: [term(CO + TOGETHER, "together"), term(CO + g2, "g2")]},
        "podAntiAffinity": {REQUIRED: [term(EX + APART, "apart")]},
    }


def test_case_13a_colocated_and_exlocated():
    both = 'hostColocation("t"), hostExlocation("x")'
    [conflict] = refused(job(both, both), hosts("n1", "n2"))
    assert (conflict.conflict, conflict.pes, conflict.operators) == ("colocated-and-exlocated", (0, 1), ("A", "B"))
    assert set(conflict.tokens) == {"t", "x"}


def test_case_13c_two_hosts_for_one_group():
    found = job('host("node-a"), hostColocation("t")', 'host("node-b"), hostColocation("t")')
    [conflict] = refused(found, hosts("node-a", "node-b"))
    assert (conflict.conflict, conflict.pes, conflict.tokens) == ("several-hosts", (0, 1), ("t",))


def test_case_13e_isolation_against_colocation():
    [conflict] = refused(job('hostIsolation, hostColocation("t")', 'hostColocation("t")'), hosts("n1", "n2"))
    assert (conflict.conflict, conflict.pes, conflict.tokens) == ("isolation-and-colocation", (0, 1), ("t",))


def _one_pe(*placements, **fields):
    operators = [{"name": f"Op{at}", "placement": placement} for at, placement in enumerate(placements)]
    return job(pes=[{"id": 0, "operators": operators}], **fields)


@pytest.mark.parametrize("named", [('host("node-a")', 'host("node-b")'), ("host(P[0])", "host(P[1])")])
def test_case_13g_two_hosts_for_one_pe(named):
    found = _one_pe(*named, hostPools={"P": "createPool({size=2u}, Sys.Shared)"})
    [conflict] = refused(found, hosts("node-a", "node-b"))
    assert (conflict.conflict, conflict.pes, conflict.operators) == ("several-hosts", (0,), ("Op0", "Op1"))


def test_case_13_no_failure_of_one_host_said_twice():
    [pod] = manifests(placed(_one_pe('host("node-a")', 'host("node-a")'), hosts("node-a", "node-b")))
    assert pod["spec"]["nodeName"] == "node-a"


def test_case_13_no_failure_of_isolation_with_a_token_of_its_own():
    pods = manifests(placed(job('hostIsolation, hostColocation("t")', ""), hosts("n1", "n2")))
    assert len(pods) == 2
